"""the inbox is listed by when cases came in; lists of both kinds are kept under a name; a group in its batch's order"""

import sqlalchemy as sa
from alembic import op

revision = '0019'
down_revision = '0018'
branch_labels = None
depends_on = None

GROUPED = sa.text('group_name IS NOT NULL')
OPEN = sa.text('closed_at IS NULL')


def upgrade() -> None:
    op.create_index('ix_inbox_entered', 'inbox_entries', ['tier', 'entered_at', 'case_id'], unique=False, sqlite_where=OPEN, postgresql_where=OPEN)
    _group_index(['group_name', 'batch_id', 'row'])
    _views({'place': 'results'})


def _group_index(columns: list[str]) -> None:
    op.drop_index('ix_cases_group', table_name='cases')
    op.create_index('ix_cases_group', 'cases', columns, unique=False, postgresql_ops={'group_name': 'text_pattern_ops'}, sqlite_where=GROUPED, postgresql_where=GROUPED)


def _views(added: dict[str, str]) -> None:
    """Make the table again with another key: it holds a few rows a person."""
    kept = [dict(row) for row in op.get_bind().execute(sa.text('SELECT account, name, query, at FROM saved_views')).mappings()]
    op.drop_table('saved_views')
    places = [sa.Column('place', sa.String(length=16), nullable=False)] if added else []
    table = op.create_table('saved_views',
    sa.Column('account', sa.String(length=64), nullable=False),
    *places,
    sa.Column('name', sa.String(length=60), nullable=False),
    sa.Column('query', sa.Text(), nullable=False),
    sa.Column('at', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('account', *[column.name for column in places], 'name', name=op.f('pk_saved_views'))
    )
    if kept:
        op.bulk_insert(table, [row | added for row in kept])


def downgrade() -> None:
    op.execute("DELETE FROM saved_views WHERE place != 'results'")
    _views({})
    _group_index(['group_name'])
    op.drop_index('ix_inbox_entered', table_name='inbox_entries')
