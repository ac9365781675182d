"""cases are found by the beginning of their id or group"""

import sqlalchemy as sa
from alembic import op

revision = '0012'
down_revision = '0011'
branch_labels = None
depends_on = None

GROUPED = sa.text('group_name IS NOT NULL')


def upgrade() -> None:
    op.create_index('ix_cases_external_id', 'cases', ['external_id'], unique=False, postgresql_ops={'external_id': 'text_pattern_ops'})
    op.create_index('ix_cases_group', 'cases', ['group_name'], unique=False, postgresql_ops={'group_name': 'text_pattern_ops'}, sqlite_where=GROUPED, postgresql_where=GROUPED)


def downgrade() -> None:
    op.drop_index('ix_cases_group', table_name='cases')
    op.drop_index('ix_cases_external_id', table_name='cases')
