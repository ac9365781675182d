"""batches that are screened overnight by message batches"""

import sqlalchemy as sa
from alembic import op

revision = '0024'
down_revision = '0023'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('batches', sa.Column('overnight', sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_table('message_batches',
    sa.Column('id', sa.String(length=32), nullable=False),
    sa.Column('batch_id', sa.String(length=32), nullable=False),
    sa.Column('round', sa.Integer(), nullable=False),
    sa.Column('part', sa.Integer(), nullable=False),
    sa.Column('seed', sa.String(length=32), nullable=False),
    sa.Column('requests', sa.Integer(), nullable=False),
    sa.Column('rounds_left', sa.Integer(), nullable=True),
    sa.Column('service_id', sa.Text(), nullable=True),
    sa.Column('processed', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.BigInteger(), nullable=False),
    sa.Column('ended_at', sa.BigInteger(), nullable=True),
    sa.ForeignKeyConstraint(['batch_id'], ['batches.id'], name=op.f('fk_message_batches_batch_id_batches')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_message_batches')),
    sa.UniqueConstraint('batch_id', 'round', 'part', name=op.f('uq_message_batches_batch_id_round_part'))
    )
    op.create_table('message_requests',
    sa.Column('custom_id', sa.String(length=64), nullable=False),
    sa.Column('message_batch', sa.String(length=32), nullable=False),
    sa.Column('case_id', sa.String(length=32), nullable=False),
    sa.Column('node', sa.String(length=32), nullable=False),
    sa.Column('variant', sa.String(length=16), nullable=False),
    sa.Column('number', sa.Integer(), nullable=False),
    sa.Column('code', sa.String(length=1), nullable=True),
    sa.Column('raw', sa.Text(), nullable=True),
    sa.Column('reply_id', sa.Text(), nullable=True),
    sa.Column('error', sa.String(length=40), nullable=True),
    sa.Column('input_tokens', sa.BigInteger(), nullable=False),
    sa.Column('output_tokens', sa.BigInteger(), nullable=False),
    sa.Column('cache_read_tokens', sa.BigInteger(), nullable=False),
    sa.Column('cache_write_tokens', sa.BigInteger(), nullable=False),
    sa.ForeignKeyConstraint(['case_id'], ['cases.id'], name=op.f('fk_message_requests_case_id_cases')),
    sa.ForeignKeyConstraint(['message_batch'], ['message_batches.id'], name=op.f('fk_message_requests_message_batch_message_batches')),
    sa.PrimaryKeyConstraint('custom_id', name=op.f('pk_message_requests'))
    )
    op.create_index(op.f('ix_message_requests_case_id'), 'message_requests', ['case_id'], unique=False)
    op.create_index(op.f('ix_message_requests_message_batch'), 'message_requests', ['message_batch'], unique=False)
    op.create_table('message_copies',
    sa.Column('service_id', sa.String(length=100), nullable=False),
    sa.Column('batch_id', sa.String(length=32), nullable=True),
    sa.Column('duplicates', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['batch_id'], ['batches.id'], name=op.f('fk_message_copies_batch_id_batches')),
    sa.PrimaryKeyConstraint('service_id', name=op.f('pk_message_copies'))
    )


def downgrade() -> None:
    op.drop_table('message_copies')
    op.drop_index(op.f('ix_message_requests_message_batch'), table_name='message_requests')
    op.drop_index(op.f('ix_message_requests_case_id'), table_name='message_requests')
    op.drop_table('message_requests')
    op.drop_table('message_batches')
    op.drop_column('batches', 'overnight')
