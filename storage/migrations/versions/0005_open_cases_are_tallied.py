"""the inbox is counted by tallies that the database keeps, and what was sent ahead is noted"""

import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None

OPEN = 'closed_at IS NULL'
INDEXES = {
    'ix_inbox_later': (['reading', 'routine', 'due_at', 'case_id'], f"{OPEN} AND reading != 'first'"),
    'ix_inbox_leased': (['lease_expires_at'], f'{OPEN} AND holder IS NOT NULL'),
    'ix_inbox_reserved': (['reserved_until'], f'{OPEN} AND reserved_until IS NOT NULL'),
    'ix_inbox_ahead': (['ahead_until'], f'{OPEN} AND ahead_until IS NOT NULL'),
}
TOUCHED = f"{OPEN} AND (holder IS NOT NULL OR reserved_until IS NOT NULL OR reading != 'first')"

TIERS, READINGS = range(4), ('first', 'second', 'third')

SQLITE = (
    """CREATE TRIGGER inbox_tally_added AFTER INSERT ON inbox_entries WHEN NEW.closed_at IS NULL BEGIN
      UPDATE inbox_tallies SET open = open + 1 WHERE tier = NEW.tier AND reading = NEW.reading;
    END""",
    """CREATE TRIGGER inbox_tally_changed AFTER UPDATE OF tier, reading, closed_at ON inbox_entries BEGIN
      UPDATE inbox_tallies SET open = open - 1
        WHERE OLD.closed_at IS NULL AND tier = OLD.tier AND reading = OLD.reading;
      UPDATE inbox_tallies SET open = open + 1
        WHERE NEW.closed_at IS NULL AND tier = NEW.tier AND reading = NEW.reading;
    END""",
    """CREATE TRIGGER inbox_tally_removed AFTER DELETE ON inbox_entries WHEN OLD.closed_at IS NULL BEGIN
      UPDATE inbox_tallies SET open = open - 1 WHERE tier = OLD.tier AND reading = OLD.reading;
    END""",
)
ADDED = """CREATE FUNCTION inbox_tally_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO inbox_tallies (tier, reading, open)
    SELECT tier, reading, count(*) FROM added WHERE closed_at IS NULL GROUP BY tier, reading;
  RETURN NULL;
END $$"""
REMOVED = """CREATE FUNCTION inbox_tally_removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO inbox_tallies (tier, reading, open)
    SELECT tier, reading, -count(*) FROM removed WHERE closed_at IS NULL GROUP BY tier, reading;
  RETURN NULL;
END $$"""
CHANGED = """CREATE FUNCTION inbox_tally_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF OLD.closed_at IS NULL THEN
    INSERT INTO inbox_tallies (tier, reading, open) VALUES (OLD.tier, OLD.reading, -1);
  END IF;
  IF NEW.closed_at IS NULL THEN
    INSERT INTO inbox_tallies (tier, reading, open) VALUES (NEW.tier, NEW.reading, 1);
  END IF;
  RETURN NULL;
END $$"""
# rows that another transaction is folding are left to it: nobody waits, so nobody waits in a circle
FOLDED = """CREATE FUNCTION inbox_tally_folded() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  WITH free AS (SELECT id FROM inbox_tallies FOR UPDATE SKIP LOCKED),
       gone AS (DELETE FROM inbox_tallies USING free WHERE inbox_tallies.id = free.id
                RETURNING inbox_tallies.tier, inbox_tallies.reading, inbox_tallies.open)
  INSERT INTO inbox_tallies (tier, reading, open)
    SELECT tier, reading, sum(open) FROM gone GROUP BY tier, reading;
  RETURN NULL;
END $$"""
IS_NEW = '(OLD.tier, OLD.reading, OLD.closed_at IS NULL) IS DISTINCT FROM (NEW.tier, NEW.reading, NEW.closed_at IS NULL)'
POSTGRESQL = (
    ADDED,
    'CREATE TRIGGER inbox_tally_added AFTER INSERT ON inbox_entries REFERENCING NEW TABLE AS added '
    'FOR EACH STATEMENT EXECUTE FUNCTION inbox_tally_added()',
    REMOVED,
    'CREATE TRIGGER inbox_tally_removed AFTER DELETE ON inbox_entries REFERENCING OLD TABLE AS removed '
    'FOR EACH STATEMENT EXECUTE FUNCTION inbox_tally_removed()',
    CHANGED,
    'CREATE TRIGGER inbox_tally_changed AFTER UPDATE OF tier, reading, closed_at ON inbox_entries '
    f'FOR EACH ROW WHEN ({IS_NEW}) EXECUTE FUNCTION inbox_tally_changed()',
    FOLDED,
    'CREATE TRIGGER inbox_tally_folded AFTER INSERT ON inbox_tallies '
    'FOR EACH ROW WHEN (NEW.id % 64 = 0) EXECUTE FUNCTION inbox_tally_folded()',
)


def _dialect() -> str:
    return op.get_bind().dialect.name


def upgrade() -> None:
    op.add_column('inbox_entries', sa.Column('ahead_for', sa.String(length=64), nullable=True))
    op.add_column('inbox_entries', sa.Column('ahead_until', sa.BigInteger(), nullable=True))
    for name, (columns, where) in INDEXES.items():
        op.create_index(name, 'inbox_entries', columns, unique=False, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
    op.drop_index('ix_inbox_touched', table_name='inbox_entries')
    op.create_table('inbox_tallies',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('tier', sa.Integer(), nullable=False),
    sa.Column('reading', sa.String(length=12), nullable=False),
    sa.Column('open', sa.Integer(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_inbox_tallies'))
    )
    for tier in TIERS:
        for reading in READINGS:
            op.execute(
                'INSERT INTO inbox_tallies (tier, reading, open) '
                f"SELECT {tier}, '{reading}', count(*) FROM inbox_entries "
                f"WHERE closed_at IS NULL AND tier = {tier} AND reading = '{reading}'"
            )
    for statement in POSTGRESQL if _dialect() == 'postgresql' else SQLITE:
        op.execute(statement)


def downgrade() -> None:
    for name in ('added', 'changed', 'removed'):
        op.execute(f'DROP TRIGGER inbox_tally_{name}' + (' ON inbox_entries' if _dialect() == 'postgresql' else ''))
    op.drop_table('inbox_tallies')
    if _dialect() == 'postgresql':
        for name in ('added', 'changed', 'removed', 'folded'):
            op.execute(f'DROP FUNCTION inbox_tally_{name}()')
    op.create_index('ix_inbox_touched', 'inbox_entries', ['holder'], unique=False, sqlite_where=sa.text(TOUCHED), postgresql_where=sa.text(TOUCHED))
    for name in INDEXES:
        op.drop_index(name, table_name='inbox_entries')
    op.drop_column('inbox_entries', 'ahead_until')
    op.drop_column('inbox_entries', 'ahead_for')
