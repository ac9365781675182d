"""cases of a pipeline with a δ schedule are counted"""

import sqlalchemy as sa
from alembic import op

revision = '0021'
down_revision = '0020'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'case_numbers',
        sa.Column('pipeline', sa.String(length=64), nullable=False),
        sa.Column('last', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('pipeline', name=op.f('pk_case_numbers')),
    )
    op.add_column('cases', sa.Column('number', sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column('cases', 'number')
    op.drop_table('case_numbers')
