"""tries of a configuration on the probes, and their overrides"""

import sqlalchemy as sa
from alembic import op

import storage.schema.columns

revision = '0014'
down_revision = '0013'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('preflights',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('configuration', sa.String(length=64), nullable=False),
    sa.Column('passed', sa.Integer(), nullable=False),
    sa.Column('message', sa.Text(), nullable=False),
    sa.Column('ends', sa.JSON(), nullable=False),
    sa.Column('at', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_preflights'))
    )
    op.create_index('ix_preflights_configuration', 'preflights', ['configuration', 'id'], unique=False)
    op.create_table('preflight_overrides',
    sa.Column('preflight_id', sa.BigInteger(), autoincrement=False, nullable=False),
    sa.Column('by', sa.String(length=32), nullable=False),
    sa.Column('reason', sa.Text(), nullable=False),
    sa.Column('at', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['preflight_id'], ['preflights.id'], name=op.f('fk_preflight_overrides_preflight_id_preflights')),
    sa.PrimaryKeyConstraint('preflight_id', name=op.f('pk_preflight_overrides'))
    )


def downgrade() -> None:
    op.drop_table('preflight_overrides')
    op.drop_index('ix_preflights_configuration', table_name='preflights')
    op.drop_table('preflights')
