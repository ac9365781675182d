"""what is withheld of a batch is counted from an index: an entry of the inbox has its case's batch and outcome"""

import sqlalchemy as sa
from alembic import op

revision = '0029'
down_revision = '0028'
branch_labels = None
depends_on = None

OPEN = sa.text('closed_at IS NULL')
INDEXED = ['batch_id', 'kind', 'reading', 'case_id', 'calls', 'cost_usd']
ADDED = (
    ('batch_id', sa.String(length=32)),
    ('kind', sa.String(length=100)),
    ('calls', sa.Integer()),
    ('cost_usd', sa.Float()),
)


def _of(table: str, key: str, column: str) -> str:
    return f'{column} = (SELECT {table}.{column} FROM {table} WHERE {table}.{key} = inbox_entries.case_id)'


def upgrade() -> None:
    for name, kind in ADDED:
        op.add_column('inbox_entries', sa.Column(name, kind, nullable=True))
    ended = (_of('screenings', 'case_id', name) for name in ('kind', 'calls', 'cost_usd'))
    op.execute('UPDATE inbox_entries SET ' + ', '.join((_of('cases', 'id', 'batch_id'), *ended)))
    op.create_index('ix_inbox_of_batch', 'inbox_entries', INDEXED, sqlite_where=OPEN, postgresql_where=OPEN)


def downgrade() -> None:
    op.drop_index('ix_inbox_of_batch', table_name='inbox_entries')
    for name, _ in ADDED:
        op.drop_column('inbox_entries', name)
