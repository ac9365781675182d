"""cases are found by the way they took and by how close their answers were, whatever the number of a batch's rows"""

import sqlalchemy as sa
from alembic import op

revision = '0028'
down_revision = '0027'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('node_runs', sa.Column('batch_id', sa.String(length=32), nullable=True))
    op.add_column('node_runs', sa.Column('row', sa.BigInteger(), nullable=True))
    op.execute(
        'UPDATE node_runs SET batch_id = (SELECT cases.batch_id FROM cases WHERE cases.id = node_runs.case_id), '
        '"row" = (SELECT cases."row" FROM cases WHERE cases.id = node_runs.case_id)'
    )
    op.create_index('ix_node_runs_way', 'node_runs', ['batch_id', 'node', 'variant', 'label', 'row'])
    op.create_index('ix_screenings_gap', 'screenings', ['batch_id', 'gap'])


def downgrade() -> None:
    op.drop_index('ix_screenings_gap', table_name='screenings')
    op.drop_index('ix_node_runs_way', table_name='node_runs')
    op.drop_column('node_runs', 'row')
    op.drop_column('node_runs', 'batch_id')
