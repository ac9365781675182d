"""What the databases themselves keep up, by triggers: sums of open cases, and a sign of new work on PostgreSQL.

Each is made with the tables (`metadata.create_all`).
"""

from sqlalchemy import DDL, event

from storage.schema.columns import metadata

_TIERS, _READINGS = range(4), ("first", "second", "third")
_SUMS = [
    f"INSERT INTO inbox_tallies (tier, reading, open) VALUES ({tier}, '{reading}', 0)"  # noqa: S608 - constants
    for tier in _TIERS
    for reading in _READINGS
]
_SQLITE = (
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
_ADDED = """CREATE FUNCTION inbox_tally_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO inbox_tallies (tier, reading, open)
    SELECT tier, reading, count(*) FROM added WHERE closed_at IS NULL GROUP BY tier, reading;
  RETURN NULL;
END $$"""
_REMOVED = """CREATE FUNCTION inbox_tally_removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO inbox_tallies (tier, reading, open)
    SELECT tier, reading, -count(*) FROM removed WHERE closed_at IS NULL GROUP BY tier, reading;
  RETURN NULL;
END $$"""
_CHANGED = """CREATE FUNCTION inbox_tally_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF OLD.closed_at IS NULL THEN
    INSERT INTO inbox_tallies (tier, reading, open) VALUES (OLD.tier, OLD.reading, -1);
  END IF;
  IF NEW.closed_at IS NULL THEN
    INSERT INTO inbox_tallies (tier, reading, open) VALUES (NEW.tier, NEW.reading, 1);
  END IF;
  RETURN NULL;
END $$"""
# rows that another transaction is folding are left to it: nobody waits, so nobody waits in a circle
_FOLDED = """CREATE FUNCTION inbox_tally_folded() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  WITH free AS (SELECT id FROM inbox_tallies FOR UPDATE SKIP LOCKED),
       gone AS (DELETE FROM inbox_tallies USING free WHERE inbox_tallies.id = free.id
                RETURNING inbox_tallies.tier, inbox_tallies.reading, inbox_tallies.open)
  INSERT INTO inbox_tallies (tier, reading, open)
    SELECT tier, reading, sum(open) FROM gone GROUP BY tier, reading;
  RETURN NULL;
END $$"""
_NEW_WORK = """CREATE FUNCTION second_look_tell_work() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_notify('second_look_work', '');
  RETURN NULL;
END $$"""
_IS_NEW = (
    "(OLD.tier, OLD.reading, OLD.closed_at IS NULL) IS DISTINCT FROM (NEW.tier, NEW.reading, NEW.closed_at IS NULL)"
)
_POSTGRESQL = (
    _ADDED,
    "CREATE TRIGGER inbox_tally_added AFTER INSERT ON inbox_entries REFERENCING NEW TABLE AS added "
    "FOR EACH STATEMENT EXECUTE FUNCTION inbox_tally_added()",
    _REMOVED,
    "CREATE TRIGGER inbox_tally_removed AFTER DELETE ON inbox_entries REFERENCING OLD TABLE AS removed "
    "FOR EACH STATEMENT EXECUTE FUNCTION inbox_tally_removed()",
    _CHANGED,
    "CREATE TRIGGER inbox_tally_changed AFTER UPDATE OF tier, reading, closed_at ON inbox_entries "
    f"FOR EACH ROW WHEN ({_IS_NEW}) EXECUTE FUNCTION inbox_tally_changed()",
    _FOLDED,
    "CREATE TRIGGER inbox_tally_folded AFTER INSERT ON inbox_tallies "
    "FOR EACH ROW WHEN (NEW.id % 64 = 0) EXECUTE FUNCTION inbox_tally_folded()",
    _NEW_WORK,
    "CREATE TRIGGER tell_ready AFTER INSERT OR UPDATE OF ready_at ON pending_cases "
    "FOR EACH STATEMENT EXECUTE FUNCTION second_look_tell_work()",
    "CREATE TRIGGER tell_batch AFTER INSERT ON batch_events "
    "FOR EACH STATEMENT EXECUTE FUNCTION second_look_tell_work()",
)

for _dialect, _statements in (("sqlite", _SQLITE), ("postgresql", _POSTGRESQL)):
    for _statement in (*_SUMS, *_statements):
        made = DDL(_statement.replace("%", "%%")).execute_if(dialect=_dialect)  # type: ignore[no-untyped-call]
        event.listen(metadata, "after_create", made)
