"""label distributions that servers tell in one call"""

import sqlalchemy as sa
from alembic import op

revision = '0018'
down_revision = '0017'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('node_runs', sa.Column('distribution', sa.Text(), nullable=True))
    op.add_column('node_runs', sa.Column('distribution_gap', sa.Float(), nullable=True))


def downgrade() -> None:
    op.drop_column('node_runs', 'distribution_gap')
    op.drop_column('node_runs', 'distribution')
