"""conversations, and where to act on a case"""

import sqlalchemy as sa
from alembic import op

revision = '0017'
down_revision = '0016'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('cases', sa.Column('turns', sa.JSON(), nullable=True))
    op.add_column('cases', sa.Column('where_to_act', sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column('cases', 'where_to_act')
    op.drop_column('cases', 'turns')
