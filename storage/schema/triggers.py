"""A sign of new work, which PostgreSQL gives by a trigger made with the tables (`metadata.create_all`)."""

from sqlalchemy import DDL, event

from storage.schema.columns import metadata

_POSTGRESQL = (
    """CREATE FUNCTION second_look_tell_work() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_notify('second_look_work', '');
  RETURN NULL;
END $$""",
    "CREATE TRIGGER tell_ready AFTER INSERT OR UPDATE OF ready_at ON pending_cases "
    "FOR EACH STATEMENT EXECUTE FUNCTION second_look_tell_work()",
    "CREATE TRIGGER tell_batch AFTER UPDATE ON batches FOR EACH STATEMENT EXECUTE FUNCTION second_look_tell_work()",
)

for _statement in _POSTGRESQL:
    made = DDL(_statement).execute_if(dialect="postgresql")  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", made)
