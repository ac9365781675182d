"""Researchers' tags, remarks and saved views"""

import sqlalchemy as sa
from alembic import op

revision = '0013'
down_revision = '0012'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('case_tags',
    sa.Column('case_id', sa.String(length=32), nullable=False),
    sa.Column('tag', sa.String(length=40), nullable=False),
    sa.Column('by', sa.String(length=64), nullable=False),
    sa.Column('at', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['case_id'], ['cases.id'], name=op.f('fk_case_tags_case_id_cases')),
    sa.PrimaryKeyConstraint('case_id', 'tag', name=op.f('pk_case_tags'))
    )
    op.create_index('ix_case_tags_tag', 'case_tags', ['tag', 'case_id'], unique=False)
    op.create_table('case_remarks',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('case_id', sa.String(length=32), nullable=False),
    sa.Column('author', sa.String(length=64), nullable=False),
    sa.Column('remark', sa.Text(), nullable=False),
    sa.Column('at', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['case_id'], ['cases.id'], name=op.f('fk_case_remarks_case_id_cases')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_case_remarks'))
    )
    op.create_index(op.f('ix_case_remarks_case_id'), 'case_remarks', ['case_id'], unique=False)
    op.create_table('saved_views',
    sa.Column('account', sa.String(length=64), nullable=False),
    sa.Column('name', sa.String(length=60), nullable=False),
    sa.Column('query', sa.Text(), nullable=False),
    sa.Column('at', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('account', 'name', name=op.f('pk_saved_views'))
    )


def downgrade() -> None:
    op.drop_table('saved_views')
    op.drop_index(op.f('ix_case_remarks_case_id'), table_name='case_remarks')
    op.drop_table('case_remarks')
    op.drop_index('ix_case_tags_tag', table_name='case_tags')
    op.drop_table('case_tags')
