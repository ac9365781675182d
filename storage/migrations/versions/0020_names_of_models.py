"""a try of a model keeps the other names under which it answered"""

import sqlalchemy as sa
from alembic import op

revision = '0020'
down_revision = '0019'
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table('preflights', schema=None) as batch_op:
        batch_op.add_column(sa.Column('other_names', sa.JSON(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table('preflights', schema=None) as batch_op:
        batch_op.drop_column('other_names')
