"""audit probabilities by what speaks against a safe; what was settled says by itself what it was audited with"""

import sqlalchemy as sa
from alembic import op

revision = '0022'
down_revision = '0021'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('audit_allocations',
    sa.Column('version', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('probabilities', sa.JSON(), nullable=False),
    sa.Column('by', sa.String(length=64), nullable=False),
    sa.Column('at', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('version', name=op.f('pk_audit_allocations'))
    )
    op.add_column('batches', sa.Column('audit_allocation', sa.BigInteger(), nullable=True))
    op.add_column('screenings', sa.Column('first_end', sa.String(length=16), nullable=True))
    op.add_column('screenings', sa.Column('doubt', sa.String(length=16), nullable=True))
    op.add_column('screenings', sa.Column('audit_probability', sa.Float(), server_default='0', nullable=False))
    op.add_column('screenings', sa.Column('audited', sa.Boolean(), server_default=sa.false(), nullable=False))
    op.execute(
        'UPDATE screenings SET '
        'audit_probability = (SELECT c.audit_probability FROM cases c WHERE c.id = screenings.case_id), '
        'audited = (SELECT c.audited FROM cases c WHERE c.id = screenings.case_id), '
        "first_end = (SELECT CASE WHEN r.ended = 'identified' THEN r.label ELSE r.ended END FROM node_runs r "
        'WHERE r.case_id = screenings.case_id AND r.position = 0)'
    )
    op.create_index('ix_screenings_audit', 'screenings',
    ['configuration', 'audited', 'outcome', 'audit_probability', 'doubt', 'batch_id'], unique=False)
    op.create_index('ix_screenings_ends', 'screenings',
    ['configuration', 'completed_at', 'first_end', 'batch_id'], unique=False)


def downgrade() -> None:
    op.drop_index('ix_screenings_ends', table_name='screenings')
    op.drop_index('ix_screenings_audit', table_name='screenings')
    for column in ('audited', 'audit_probability', 'doubt', 'first_end'):
        op.drop_column('screenings', column)
    op.drop_column('batches', 'audit_allocation')
    op.drop_table('audit_allocations')
