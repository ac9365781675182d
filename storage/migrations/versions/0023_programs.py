"""programs that hand texts in, their tokens, and which case is whose"""

import sqlalchemy as sa
from alembic import op

revision = '0023'
down_revision = '0022'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('programs',
    sa.Column('id', sa.String(length=32), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('token_sha256', sa.String(length=64), nullable=False),
    sa.Column('scopes', sa.JSON(), nullable=False),
    sa.Column('per_minute', sa.Integer(), nullable=False),
    sa.Column('webhook', sa.Text(), nullable=True),
    sa.Column('webhook_secret', sa.String(length=64), nullable=True),
    sa.Column('created_by', sa.String(length=64), nullable=False),
    sa.Column('created_at', sa.BigInteger(), nullable=False),
    sa.Column('revoked_at', sa.BigInteger(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_programs')),
    sa.UniqueConstraint('token_sha256', name=op.f('uq_programs_token_sha256'))
    )
    op.create_table('program_texts',
    sa.Column('case_id', sa.String(length=32), nullable=False),
    sa.Column('program_id', sa.String(length=32), nullable=False),
    sa.Column('key', sa.String(length=100), nullable=False),
    sa.Column('content_sha256', sa.String(length=64), nullable=False),
    sa.Column('tell_at', sa.BigInteger(), nullable=True),
    sa.Column('tries', sa.Integer(), server_default='0', nullable=False),
    sa.ForeignKeyConstraint(['case_id'], ['cases.id'], name=op.f('fk_program_texts_case_id_cases')),
    sa.ForeignKeyConstraint(['program_id'], ['programs.id'], name=op.f('fk_program_texts_program_id_programs')),
    sa.PrimaryKeyConstraint('case_id', name=op.f('pk_program_texts')),
    sa.UniqueConstraint('program_id', 'key', name=op.f('uq_program_texts_program_id_key'))
    )
    op.create_index('ix_program_texts_program_id', 'program_texts', ['program_id', 'case_id'])
    op.create_index('ix_program_texts_tell_at', 'program_texts', ['tell_at'],
                    sqlite_where=sa.text('tell_at IS NOT NULL'), postgresql_where=sa.text('tell_at IS NOT NULL'))


def downgrade() -> None:
    op.drop_table('program_texts')
    op.drop_table('programs')
