"""a site's own pipelines"""

import sqlalchemy as sa
from alembic import op

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'pipeline_versions',
        sa.Column('name', sa.String(length=60), nullable=False),
        sa.Column('number', sa.Integer(), autoincrement=False, nullable=False),
        sa.Column('version', sa.String(length=64), nullable=False),
        sa.Column('body', sa.JSON(), nullable=False),
        sa.Column('note', sa.Text(), nullable=False),
        sa.Column('by', sa.String(length=64), nullable=False),
        sa.Column('at', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('name', 'number', name=op.f('pk_pipeline_versions')),
    )
    op.create_table(
        'pipeline_activations',
        sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
        sa.Column('name', sa.String(length=60), nullable=False),
        sa.Column('number', sa.Integer(), nullable=False),
        sa.Column('reason', sa.Text(), nullable=False),
        sa.Column('comparison', sa.JSON(), nullable=True),
        sa.Column('by', sa.String(length=64), nullable=False),
        sa.Column('at', sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ['name', 'number'],
            ['pipeline_versions.name', 'pipeline_versions.number'],
            name=op.f('fk_pipeline_activations_name_pipeline_versions'),
        ),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_pipeline_activations')),
    )


def downgrade() -> None:
    op.drop_table('pipeline_activations')
    op.drop_table('pipeline_versions')
