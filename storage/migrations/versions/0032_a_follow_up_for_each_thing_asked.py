"""a case has one open follow-up for each thing that was asked for, no longer one in all"""

import sqlalchemy as sa
from alembic import op

revision = '0032'
down_revision = '0031'
branch_labels = None
depends_on = None

UNDONE = sa.text('closed_at IS NULL')


def upgrade() -> None:
    _index('case_id', 'disposition')


def downgrade() -> None:
    _index('case_id')


def _index(*columns: str) -> None:
    name = 'ix_follow_ups_open'
    op.drop_index(name, table_name='follow_ups')
    op.create_index(
        name, 'follow_ups', list(columns), unique=True, sqlite_where=UNDONE, postgresql_where=UNDONE
    )
