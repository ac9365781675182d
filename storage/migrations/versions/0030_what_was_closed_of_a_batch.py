"""of what is with clinicians, what was closed is found by batch and kind"""

import sqlalchemy as sa
from alembic import op

revision = '0030'
down_revision = '0029'
branch_labels = None
depends_on = None

CLOSED = sa.text('closed_at IS NOT NULL')


def upgrade() -> None:
    columns = ['batch_id', 'kind', 'case_id']
    op.create_index('ix_inbox_closed', 'inbox_entries', columns, sqlite_where=CLOSED, postgresql_where=CLOSED)


def downgrade() -> None:
    op.drop_index('ix_inbox_closed', table_name='inbox_entries')
