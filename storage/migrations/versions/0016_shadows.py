"""a second pipeline beside the one in force on new cases; what comparisons cost, and their caps"""

import sqlalchemy as sa
from alembic import op

revision = '0016'
down_revision = '0015'
branch_labels = None
depends_on = None

_OUTCOMES = ('comparison_id', 'case_id', 'outcome', 'node', 'reason', 'calls', 'cost_usd', 'seconds', 'draws', 'at')


def upgrade() -> None:
    # SQLite changes a column by writing the table anew, which a table that refers to it does not let happen.
    op.execute('CREATE TABLE comparison_outcomes_kept AS SELECT * FROM comparison_outcomes')
    op.drop_table('comparison_outcomes')
    with op.batch_alter_table('comparisons') as table:
        table.alter_column('batch_id', existing_type=sa.String(length=32), nullable=True)
        table.add_column(sa.Column('beside', sa.String(length=64), nullable=True))
        table.add_column(sa.Column('max_calls', sa.BigInteger(), nullable=True))
        table.add_column(sa.Column('max_cost_usd', sa.Float(), nullable=True))
        table.add_column(sa.Column('lost_calls', sa.BigInteger(), server_default='0', nullable=False))
    _create_outcomes(
        sa.Column('number', sa.Integer(), server_default='0', nullable=False),
        sa.Column('tokens', sa.BigInteger(), server_default='0', nullable=False),
    )
    op.create_index('ix_comparison_outcomes_at', 'comparison_outcomes', ['at'])
    _put_back()


def downgrade() -> None:
    op.execute('CREATE TABLE comparison_outcomes_kept AS SELECT * FROM comparison_outcomes')
    op.drop_table('comparison_outcomes')
    with op.batch_alter_table('comparisons') as table:
        for name in ('lost_calls', 'max_cost_usd', 'max_calls', 'beside'):
            table.drop_column(name)
        table.alter_column('batch_id', existing_type=sa.String(length=32), nullable=False)
    _create_outcomes()
    _put_back()


def _create_outcomes(*more: 'sa.Column[object]') -> None:
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
        *more,
        sa.ForeignKeyConstraint(['case_id'], ['cases.id'], name=op.f('fk_comparison_outcomes_case_id_cases')),
        sa.ForeignKeyConstraint(
            ['comparison_id'], ['comparisons.id'], name=op.f('fk_comparison_outcomes_comparison_id_comparisons')
        ),
        sa.PrimaryKeyConstraint('comparison_id', 'case_id', name=op.f('pk_comparison_outcomes')),
    )


def _put_back() -> None:
    names = ', '.join(_OUTCOMES)
    op.execute(f'INSERT INTO comparison_outcomes ({names}) SELECT {names} FROM comparison_outcomes_kept')
    op.execute('DROP TABLE comparison_outcomes_kept')
