"""files that are not taken in any further are found among the events of many batches"""

import sqlalchemy as sa
from alembic import op

revision = '0031'
down_revision = '0030'
branch_labels = None
depends_on = None

STOPPED = sa.text("event = 'intake_stopped'")


def upgrade() -> None:
    op.create_index(
        'ix_batch_events_intake_stopped', 'batch_events', ['batch_id'], sqlite_where=STOPPED, postgresql_where=STOPPED
    )


def downgrade() -> None:
    op.drop_index('ix_batch_events_intake_stopped', table_name='batch_events')
