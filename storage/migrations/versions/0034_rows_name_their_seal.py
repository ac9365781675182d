"""outcomes, readings and adjudications name the event that sealed them; those sealed by a span of time name none"""

import json

import sqlalchemy as sa
from alembic import op

revision = '0034'
down_revision = '0033'
branch_labels = None
depends_on = None

MOMENTS = {'screenings': 'completed_at', 'ratings': 'at', 'adjudications': 'at'}


def upgrade() -> None:
    for table, moment in MOMENTS.items():
        op.add_column(table, sa.Column('sealed', sa.BigInteger(), nullable=True))
        if (until := _sealed_until(table)) is not None:
            op.execute(sa.text(f'UPDATE {table} SET sealed = 0 WHERE {moment} < :until').bindparams(until=until))
        op.create_index(f'ix_{table}_sealed', table, ['sealed', moment])


def _sealed_until(table: str) -> int | None:
    """Where the last seal of an earlier version ended, in microseconds."""
    last = sa.text(
        "SELECT details FROM audit_events WHERE action = 'sealed' AND subject = :table ORDER BY seq DESC LIMIT 1"
    ).bindparams(table=table)
    details = op.get_bind().execute(last).scalar()
    return None if details is None else int(json.loads(details)['until'])


def downgrade() -> None:
    for table in MOMENTS:
        op.drop_index(f'ix_{table}_sealed', table_name=table)
        op.drop_column(table, 'sealed')
