"""pending cases: what is ready and what failed apart, so that looking for work does not pass what waits for a person"""

import sqlalchemy as sa
from alembic import op

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None

READY, FAILED = sa.text('ready_at IS NOT NULL'), sa.text('ready_at IS NULL')


def upgrade() -> None:
    op.create_index('ix_pending_cases_ready', 'pending_cases', ['batch_id', 'ready_at', 'row'], unique=False, sqlite_where=READY, postgresql_where=READY)
    op.create_index('ix_pending_cases_failed', 'pending_cases', ['batch_id'], unique=False, sqlite_where=FAILED, postgresql_where=FAILED)
    op.drop_index('ix_pending_cases_order', table_name='pending_cases')


def downgrade() -> None:
    op.create_index('ix_pending_cases_order', 'pending_cases', ['batch_id', 'ready_at', 'row'], unique=False)
    op.drop_index('ix_pending_cases_failed', table_name='pending_cases')
    op.drop_index('ix_pending_cases_ready', table_name='pending_cases')
