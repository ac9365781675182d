"""calls of a run whose answers never came, though it ended well"""

import sqlalchemy as sa
from alembic import op

revision = '0033'
down_revision = '0032'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('node_runs', sa.Column('lost_calls', sa.Integer(), server_default='0', nullable=False))


def downgrade() -> None:
    op.drop_column('node_runs', 'lost_calls')
