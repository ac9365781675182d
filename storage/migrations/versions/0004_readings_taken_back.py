"""readings taken back within half a minute have a table of their own"""

import sqlalchemy as sa
from alembic import op

from storage.schema import Moment

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'readings_taken_back',
        sa.Column('rating_id', sa.String(length=32), nullable=False),
        sa.Column('case_id', sa.String(length=32), nullable=False),
        sa.Column('reviewer', sa.String(length=64), nullable=False),
        sa.Column('reading', sa.String(length=12), nullable=False),
        sa.Column('label', sa.String(length=24), nullable=False),
        sa.Column('certainty', sa.Integer(), nullable=False),
        sa.Column('blind', sa.Boolean(), nullable=False),
        sa.Column('fields', sa.JSON(), nullable=False),
        sa.Column('rated_at', Moment(), nullable=False),
        sa.Column('at', Moment(), nullable=False),
        sa.ForeignKeyConstraint(['case_id'], ['cases.id'], name=op.f('fk_readings_taken_back_case_id_cases')),
        sa.PrimaryKeyConstraint('rating_id', name=op.f('pk_readings_taken_back')),
    )
    op.create_index(op.f('ix_readings_taken_back_case_id'), 'readings_taken_back', ['case_id'], unique=False)


def downgrade() -> None:
    op.drop_index(op.f('ix_readings_taken_back_case_id'), table_name='readings_taken_back')
    op.drop_table('readings_taken_back')
