"""what is called unsafe, and what cannot be screened, reaches a person; a press counts once"""

import sqlalchemy as sa
from alembic import op

revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None


def upgrade() -> None:
    # batches that began before this only counted what they called unsafe, and go on as they began
    op.add_column('batches', sa.Column('reach', sa.String(length=8), server_default='count', nullable=False))
    op.add_column('inbox_entries', sa.Column('cause', sa.String(length=40), nullable=True))
    op.add_column('ratings', sa.Column('tier', sa.Integer(), nullable=True))
    op.create_table(
        'acknowledgements',
        sa.Column('case_id', sa.String(length=32), nullable=False),
        sa.Column('by', sa.String(length=64), nullable=False),
        sa.Column('at', sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(['case_id'], ['cases.id'], name=op.f('fk_acknowledgements_case_id_cases')),
        sa.PrimaryKeyConstraint('case_id', name=op.f('pk_acknowledgements')),
    )
    op.create_table(
        'submissions',
        sa.Column('id', sa.String(length=64), nullable=False),
        sa.Column('actor', sa.String(length=64), nullable=False),
        sa.Column('kind', sa.String(length=24), nullable=False),
        sa.Column('result', sa.String(length=64), nullable=False),
        sa.Column('at', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('id', 'actor', name=op.f('pk_submissions')),
    )


def downgrade() -> None:
    op.drop_table('submissions')
    op.drop_table('acknowledgements')
    op.drop_column('ratings', 'tier')
    op.drop_column('inbox_entries', 'cause')
    op.drop_column('batches', 'reach')
