"""a second pipeline on the same cases"""

import sqlalchemy as sa
from alembic import op

revision = '0009'
down_revision = '0008'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'comparisons',
        sa.Column('id', sa.String(length=32), nullable=False),
        sa.Column('batch_id', sa.String(length=32), nullable=False),
        sa.Column('configuration', sa.String(length=64), nullable=False),
        sa.Column('name', sa.Text(), nullable=False),
        sa.Column('most_cases', sa.Integer(), nullable=False),
        sa.Column('created_by', sa.String(length=64), nullable=False),
        sa.Column('created_at', sa.BigInteger(), nullable=False),
        sa.Column('ended_at', sa.BigInteger(), nullable=True),
        sa.Column('ended_why', sa.String(length=40), nullable=True),
        sa.ForeignKeyConstraint(['batch_id'], ['batches.id'], name=op.f('fk_comparisons_batch_id_batches')),
        sa.ForeignKeyConstraint(
            ['configuration'], ['configurations.version'], name=op.f('fk_comparisons_configuration_configurations')
        ),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_comparisons')),
    )
    op.create_table(
        'comparison_outcomes',
        sa.Column('comparison_id', sa.String(length=32), nullable=False),
        sa.Column('case_id', sa.String(length=32), nullable=False),
        sa.Column('outcome', sa.String(length=16), nullable=False),
        sa.Column('node', sa.String(length=32), nullable=True),
        sa.Column('reason', sa.String(length=32), nullable=False),
        sa.Column('calls', sa.Integer(), nullable=False),
        sa.Column('cost_usd', sa.Float(), nullable=True),
        sa.Column('seconds', sa.Float(), nullable=False),
        sa.Column('draws', sa.JSON(), nullable=False),
        sa.Column('at', sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(['case_id'], ['cases.id'], name=op.f('fk_comparison_outcomes_case_id_cases')),
        sa.ForeignKeyConstraint(
            ['comparison_id'], ['comparisons.id'], name=op.f('fk_comparison_outcomes_comparison_id_comparisons')
        ),
        sa.PrimaryKeyConstraint('comparison_id', 'case_id', name=op.f('pk_comparison_outcomes')),
    )


def downgrade() -> None:
    op.drop_table('comparison_outcomes')
    op.drop_table('comparisons')
