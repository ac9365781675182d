"""What came in: configurations, batches, their rows and their cases."""

from sqlalchemy import DDL, JSON, BigInteger, Column, Float, ForeignKey, Integer, String, UniqueConstraint, event

from storage.schema.columns import Id, Moment, StorableText, case_id, erased_as, flag, index, metadata, table

configurations = table(
    "configurations",
    Column("version", String(64), primary_key=True),  # hash of the body
    Column("body", JSON, nullable=False),  # pipeline, sampler description, prompt hashes, text limits
    Column("created_at", Moment, nullable=False),
)

batches = table(
    "batches",
    Column("id", Id, primary_key=True),
    Column("name", StorableText, nullable=False),  # the file's name: only ever a label
    Column("kind", String(16), nullable=False),  # batch | interactive
    Column("configuration", String(64), ForeignKey("configurations.version"), nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("audit_rate", Float, nullable=False, default=0.0),
    Column("reach", String(8), nullable=False, default="read", server_default="count"),  # of what is labeled unsafe
    Column("max_calls", BigInteger),  # caps; None is no cap
    Column("max_cost_usd", Float),
    # declared: nobody who wrote these texts is alive, so they are reviewed at random and none comes first
    flag("research_order"),
    flag("overnight"),  # by message batches
    Column("intake", JSON, nullable=False),  # encoding, separator, mapping, label provenance, as announced
    Column("created_by", String(64), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("submission", String(64)),  # the key of the press that began it: a second press begins nothing
    # What happened to it since: written by `storage.batches.batch_state.change` alone.
    Column("changed_at", Moment),  # the last thing done to it, not to its file; None: nothing since it began
    Column("closed_at", Moment),  # all rows are in
    Column("cancelled_at", Moment),
    flag("paused"),
    Column("paused_why", String(40)),  # None: a person paused it
    Column("rows_missing", String(40)),  # why no more rows are taken in of a file that has more
    Column("rows_missing_since", Moment),
    UniqueConstraint("created_by", "kind", "submission"),
)
index(batches, "ix_batches_rows_missing", "rows_missing_since", where=batches.c.rows_missing.is_not(None))

rejected_rows = table(
    "rejected_rows",
    Column("batch_id", Id, ForeignKey("batches.id"), primary_key=True),
    Column("row", BigInteger, primary_key=True),
    Column("line", BigInteger),
    Column("external_id", StorableText),
    Column("reason", String(40), nullable=False),
    Column("detail", StorableText, nullable=False),
    Column("original_json", StorableText),
)

cases = table(
    "cases",
    Column("id", Id, primary_key=True),
    Column("batch_id", Id, ForeignKey("batches.id"), nullable=False),
    Column("row", BigInteger, nullable=False),
    Column("external_id", StorableText, nullable=False, info=erased_as()),
    # as received, escaped where a database cannot hold it; beside it then the exact text
    Column("text", StorableText, nullable=False, info=erased_as()),
    Column("text_original_json", StorableText, info=erased_as(None)),
    Column("text_sha256", String(64), nullable=False),
    Column("model_text", StorableText, info=erased_as(None)),  # the normalised copy, None where equal to text
    Column("reply", StorableText, info=erased_as(None)),
    Column("reply_original_json", StorableText, info=erased_as(None)),
    Column("reply_sha256", String(64)),
    Column("model_reply", StorableText, info=erased_as(None)),
    Column("flags", JSON, nullable=False),
    Column("reference", String(16)),  # safe | unsafe | NULL
    Column("reference_value", StorableText, info=erased_as(None)),  # as given in the file
    Column("group_name", StorableText, info=erased_as(None)),
    # of a conversation: where its turns stand in the text, who is judged
    Column("turns", JSON(none_as_null=True), info=erased_as(None)),
    # why the row would be rejected if it did not state a risk: people see it
    Column("not_screened", StorableText, info=erased_as(None)),
    Column("where_to_act", StorableText, info=erased_as(None)),  # a link or contact reference of the site's own system
    Column("audit_probability", Float, nullable=False, default=0.0),
    Column("created_at", Moment, nullable=False),
    Column("erased_at", Moment),
    Column("erasure_request", Id),  # None: its time had come
    UniqueConstraint("batch_id", "row"),
)

# found by the beginning of what names them; those of a group in the order of their batch
index(cases, "ix_cases_named", "batch_id", "external_id", postgresql_ops={"external_id": "text_pattern_ops"})
index(cases, "ix_cases_reference", "batch_id", "reference", "row")
index(cases, "ix_cases_external_id", "external_id", postgresql_ops={"external_id": "text_pattern_ops"})
index(cases, "ix_cases_erased", "erased_at", where=cases.c.erased_at.is_not(None))
_grouped = cases.c.group_name.is_not(None)
index(
    cases,
    "ix_cases_group",
    "group_name",
    "batch_id",
    "row",
    postgresql_ops={"group_name": "text_pattern_ops"},
    where=_grouped,
)

# Exactly the cases without a row in screenings, so that taking the next one is an index lookup in a batch of any
# size: written with the case, deleted in the transaction that commits its outcome.
pending_cases = table(
    "pending_cases",
    case_id(primary_key=True),
    Column("batch_id", Id, nullable=False),
    Column("row", BigInteger, nullable=False),
    Column("ready_at", Moment),  # their order, never a time to wait for; None: failed, waits for a retry request
    Column("not_before", Moment),  # after a fault that passes; None: at once
    Column("worker", String(64)),  # who began it last; None: nobody has
    # begun, and not ended in an orderly way: the worker died, or works at it
    Column("starts", Integer, nullable=False, default=0, server_default="0"),
)
# What failed stays out of the index that a poll walks: it may wait for ever for a person, as abandoned texts do.
_ready, _failed = pending_cases.c.ready_at.is_not(None), pending_cases.c.ready_at.is_(None)
index(pending_cases, "ix_pending_cases_ready", "batch_id", "ready_at", "row", where=_ready)
index(pending_cases, "ix_pending_cases_row", "batch_id", "row")
index(pending_cases, "ix_pending_cases_failed", "batch_id", where=_failed)

# How many rows of a batch are of each kind, refused and pending ones too, and what they cost: added to in the
# transaction that inserts the fact; in several shards so that workers on one batch do not wait for one row. What was
# spent stands beside the kind that its case had while it was screened.
batch_counts = table(
    "batch_counts",
    Column("batch_id", Id, ForeignKey("batches.id"), primary_key=True),
    Column("shard", Integer, primary_key=True),
    Column("kind", String(100), primary_key=True),
    Column("cases", BigInteger, nullable=False),
    Column("calls", BigInteger, nullable=False, default=0),  # whose draws counted
    Column("lost_calls", BigInteger, nullable=False, default=0),  # made, but their draws did not count
    Column("unpriced_calls", BigInteger, nullable=False, default=0),  # of calls: cost unknown
    Column("cost_usd", Float, nullable=False, default=0.0),
    Column("last_completed_at", Moment),
)

NEW_WORK = "second_look_work"
"""What PostgreSQL tells by triggers, which are made with the tables: a case became ready, or something was done to a
batch that may let its cases go on.
"""
_POSTGRESQL = (
    f"""CREATE FUNCTION second_look_tell_work() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_notify('{NEW_WORK}', '');
  RETURN NULL;
END $$""",
    "CREATE TRIGGER tell_ready AFTER INSERT OR UPDATE OF ready_at ON pending_cases "
    "FOR EACH STATEMENT EXECUTE FUNCTION second_look_tell_work()",
    "CREATE TRIGGER tell_batch AFTER UPDATE ON batches FOR EACH STATEMENT EXECUTE FUNCTION second_look_tell_work()",
)

for _statement in _POSTGRESQL:
    made = DDL(_statement).execute_if(dialect="postgresql")  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", made)
