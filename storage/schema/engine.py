"""What the engine did: node runs with every draw, outcomes, errors, live views, overnight message batches,
comparisons; and a site's own pipelines, whose versions are never overwritten.
"""

from sqlalchemy import JSON, BigInteger, Column, Float, ForeignKey, ForeignKeyConstraint, Integer, String, Text

from storage.schema.columns import ERASED_WHOLE, BigId, Id, Moment, StorableText, case_id, erased_as, flag, index, table

node_runs = table(
    "node_runs",
    case_id(primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("node", String(32), nullable=False),
    Column("variant", String(16), nullable=False),
    Column("draws", Text, nullable=False),  # one code per draw in request order
    # {draw number: raw text of an answer that was no label}
    Column("unusable", JSON, nullable=False, info=erased_as({})),
    Column("label", String(16)),
    Column("ended", String(16), nullable=False),
    Column("calls", Integer, nullable=False),
    Column("distribution", Text),  # the server's probabilities as one code; without draws the ground of the verdict
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cache_read_tokens", BigInteger, nullable=False),
    Column("cache_write_tokens", BigInteger, nullable=False),
    Column("cost_usd", Float),  # None is unknown, not free
    Column("started_at", Moment, nullable=False),
    Column("ended_at", Moment, nullable=False),
    Column("batch_id", Id),  # of the case, as its row is: lists are read by the way taken, in the file's order
    Column("row", BigInteger),
    Column("lost_calls", Integer, nullable=False, default=0, server_default="0"),  # beside ``calls``: no answer counted
)

index(node_runs, "ix_node_runs_ended", "ended_at")
index(node_runs, "ix_node_runs_way", "batch_id", "node", "variant", "label", "row")

screenings = table(
    "screenings",
    case_id(primary_key=True),
    Column("batch_id", Id, ForeignKey("batches.id"), nullable=False),
    Column("configuration", String(64), ForeignKey("configurations.version"), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("node", String(32)),
    Column("reason", String(32), nullable=False),
    Column("calls", Integer, nullable=False),
    Column("cost_usd", Float),
    Column("delta", Float),
    Column("first_end", String(16)),  # of the first agent: its label, else how it ended; None where none was asked
    Column("audit_probability", Float, nullable=False, default=0.0, server_default="0"),  # what the coin was held to
    flag("audited"),  # the coin lay below it
    Column("completed_at", Moment, nullable=False),
    # for lists, which are flat in the rows of a batch: `storage.batches.counts`, the case's row, and how far the most
    # frequent answer of the agent that ended it lay ahead of the second, as a share of its answers
    Column("kind", String(100)),
    Column("row", BigInteger),
    Column("gap", Float),
)
index(screenings, "ix_screenings_batch", "batch_id", "completed_at")
# Counted and read through by configuration, without a look at the rows.
index(screenings, "ix_screenings_audit", "configuration", "audited", "outcome", "audit_probability", "batch_id")
index(screenings, "ix_screenings_ends", "configuration", "completed_at", "first_end", "outcome", "batch_id")
index(screenings, "ix_screenings_completed", "completed_at")
index(screenings, "ix_screenings_gap", "batch_id", "gap")
index(screenings, "ix_screenings_kind", "batch_id", "kind", "row", "gap")

preflights = table(
    "preflights",
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("configuration", String(64), nullable=False),  # a version; it may have been tried before any batch had it
    Column("passed", Integer, nullable=False),
    Column("message", Text, nullable=False),
    Column("ends", JSON, nullable=False),  # {probe: [outcome, reason]}
    Column("other_names", JSON),  # under which answers came that did not count; None: tried before this was kept
    Column("at", Moment, nullable=False),
    Column("overridden_by", Id),  # an administrator, who allowed it in writing although it failed
    Column("reason", Text),
    Column("overridden_at", Moment),
)
index(preflights, "ix_preflights_configuration", "configuration", "id")

case_errors = table(
    "case_errors",
    Column("id", BigId, primary_key=True, autoincrement=True),
    case_id(index=True),
    Column("kind", String(40), nullable=False),
    Column("message", StorableText, nullable=False, info=erased_as("")),  # never message text
    Column("calls", Integer, nullable=False, default=0),  # calls made whose draws did not count
    Column("at", Moment, nullable=False),
)

index(case_errors, "ix_case_errors_kind", "kind")

live_runs = table(
    "live_runs",
    case_id(primary_key=True),
    Column("node", String(32)),
    Column("draws", JSON, nullable=False),  # {"node/variant": codes so far}
    Column("updated_at", Moment, nullable=False),
    Column("viewer_seen_at", Moment, nullable=False),
    info=ERASED_WHOLE,
)

pipeline_versions = table(
    "pipeline_versions",
    Column("name", String(60), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),  # from 1, by name
    Column("version", String(64), nullable=False),  # hash of the body, as every screening names it
    Column("body", JSON, nullable=False),
    Column("note", StorableText, nullable=False),
    Column("by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)

pipeline_activations = table(
    "pipeline_activations",
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("name", String(60), nullable=False),
    Column("number", Integer, nullable=False),
    Column("reason", StorableText, nullable=False),
    Column("comparison", JSON),  # the figures it was decided on; None: the reason says why there are none
    Column("by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
    ForeignKeyConstraint(["name", "number"], ["pipeline_versions.name", "pipeline_versions.number"]),
)

message_batches = table(
    "message_batches",
    Column("id", Id, primary_key=True),  # begins the custom id of each of its requests
    Column("batch_id", Id, ForeignKey("batches.id"), nullable=False),
    Column("round", Integer, nullable=False),
    Column("seed", String(32), nullable=False),  # from which random numbers and code words come
    Column("requests", Integer, nullable=False),
    Column("service_id", Text),  # None: not known to have been sent
    Column("processed", Integer, nullable=False, default=0),
    Column("created_at", Moment, nullable=False),
    Column("ended_at", Moment),  # every request has its answer or its failure
)
index(message_batches, "ix_message_batches_batch", "batch_id")

message_requests = table(
    "message_requests",
    Column("custom_id", String(64), primary_key=True),
    Column("message_batch", Id, ForeignKey("message_batches.id"), nullable=False, index=True),
    case_id(index=True),
    Column("node", String(32), nullable=False),
    Column("variant", String(16), nullable=False),
    Column("number", Integer, nullable=False),  # of the draw, from 0
    Column("code", String(1)),  # the draw
    Column("raw", StorableText, info=erased_as(None)),  # of an answer that was no label
    Column("reply_id", StorableText, info=erased_as(None)),
    Column("error", String(40)),
    Column("input_tokens", BigInteger, nullable=False, default=0),
    Column("output_tokens", BigInteger, nullable=False, default=0),
    Column("cache_read_tokens", BigInteger, nullable=False, default=0),
    Column("cache_write_tokens", BigInteger, nullable=False, default=0),
)

comparisons = table(
    "comparisons",
    Column("id", Id, primary_key=True),
    Column("batch_id", Id, ForeignKey("batches.id"), nullable=False),  # whose decided cases are screened again
    Column("configuration", String(64), ForeignKey("configurations.version"), nullable=False),
    Column("name", StorableText, nullable=False),
    Column("most_cases", Integer, nullable=False),
    Column("max_calls", BigInteger),  # caps; None is no cap
    Column("max_cost_usd", Float),
    Column("lost_calls", BigInteger, nullable=False, default=0, server_default="0"),  # made, but of no outcome
    Column("created_by", String(64), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("ended_at", Moment),  # stopped by a person, or given up
    Column("ended_why", String(40)),
)

comparison_outcomes = table(
    "comparison_outcomes",
    Column("comparison_id", Id, ForeignKey("comparisons.id"), primary_key=True),
    case_id(primary_key=True),
    Column("outcome", String(16), nullable=False),
    Column("node", String(32)),
    Column("reason", String(32), nullable=False),
    Column("calls", Integer, nullable=False),
    Column("tokens", BigInteger, nullable=False, default=0, server_default="0"),
    Column("cost_usd", Float),
    Column("seconds", Float, nullable=False),
    Column("draws", JSON, nullable=False),  # {"node/variant": one code per draw in request order}
    Column("at", Moment, nullable=False),
)
index(comparison_outcomes, "ix_comparison_outcomes_at", "at")
