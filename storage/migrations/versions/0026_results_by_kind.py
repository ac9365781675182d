"""the results of a batch are counted and found by kind: lists, filters and matrices are flat in its rows"""

import sqlalchemy as sa
from alembic import op

revision = '0026'
down_revision = '0025'
branch_labels = None
depends_on = None

SHARE = "(length({run}.draws) - length(replace({run}.draws, '{code}', '')))"
KIND = "{outcome} || '/' || coalesce(cases.reference, '') || '/' || coalesce(screenings.node, '') || '/' || screenings.reason"


def _gap() -> str:
    """The lead of the most frequent answer over the second, as the code computes it from the draws."""
    safe, unsafe = (SHARE.format(run='r', code=code) for code in 'SU')
    counts = f"SELECT length(r.draws) AS n, {safe} AS s, {unsafe} AS u, r.distribution_gap AS d FROM node_runs r " \
        "WHERE r.case_id = screenings.case_id AND r.node = screenings.node AND r.variant = 'main'"
    most = "CASE WHEN s >= u AND s >= n - s - u THEN s WHEN u >= n - s - u THEN u ELSE n - s - u END"
    least = "CASE WHEN s <= u AND s <= n - s - u THEN s WHEN u <= n - s - u THEN u ELSE n - s - u END"
    lead = f"coalesce(CAST(2 * ({most}) + ({least}) - n AS FLOAT) / nullif(n, 0), d)"
    return f"(SELECT {lead} FROM ({counts}) AS counted)"


def upgrade() -> None:
    op.create_table(
        'kind_tallies',
        sa.Column('batch_id', sa.String(length=32), nullable=False),
        sa.Column('shard', sa.Integer(), nullable=False),
        sa.Column('kind', sa.String(length=100), nullable=False),
        sa.Column('cases', sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(['batch_id'], ['batches.id'], name=op.f('fk_kind_tallies_batch_id_batches')),
        sa.PrimaryKeyConstraint('batch_id', 'shard', 'kind', name=op.f('pk_kind_tallies')),
    )
    op.add_column('screenings', sa.Column('kind', sa.String(length=100), nullable=True))
    op.add_column('screenings', sa.Column('row', sa.BigInteger(), nullable=True))
    op.add_column('screenings', sa.Column('gap', sa.Float(), nullable=True))
    kind = KIND.format(outcome='screenings.outcome')
    op.execute(
        f'UPDATE screenings SET kind = (SELECT {kind} FROM cases WHERE cases.id = screenings.case_id), '
        f'"row" = (SELECT cases."row" FROM cases WHERE cases.id = screenings.case_id), gap = {_gap()}'
    )
    op.execute('INSERT INTO kind_tallies SELECT batch_id, 0, kind, count(*) FROM screenings GROUP BY batch_id, kind')
    op.execute(
        "INSERT INTO kind_tallies SELECT batch_id, 0, kind, count(*) FROM (SELECT cases.batch_id AS batch_id, "
        "'pending/' || coalesce(cases.reference, '') || '//' AS kind FROM cases LEFT JOIN screenings "
        "ON screenings.case_id = cases.id WHERE screenings.case_id IS NULL) AS waiting GROUP BY batch_id, kind"
    )
    op.create_index('ix_screenings_kind', 'screenings', ['batch_id', 'kind', 'row', 'gap'])
    op.create_index('ix_cases_reference', 'cases', ['batch_id', 'reference', 'row'])
    op.create_index(
        'ix_cases_named', 'cases', ['batch_id', 'external_id'], postgresql_ops={'external_id': 'text_pattern_ops'}
    )
    op.create_index('ix_pending_cases_row', 'pending_cases', ['batch_id', 'row'])


def downgrade() -> None:
    op.drop_index('ix_pending_cases_row', table_name='pending_cases')
    op.drop_index('ix_cases_named', table_name='cases')
    op.drop_index('ix_cases_reference', table_name='cases')
    op.drop_index('ix_screenings_kind', table_name='screenings')
    for column in ('gap', 'row', 'kind'):
        op.drop_column('screenings', column)
    op.drop_table('kind_tallies')
