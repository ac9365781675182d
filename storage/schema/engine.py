"""What the engine did: node runs with every draw, outcomes, starts, errors, live views."""

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, String, Table, Text, false

from storage.schema.columns import BigId, Id, Moment, StorableText, case_id, metadata

node_runs = Table(
    "node_runs",
    metadata,
    case_id(primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("node", String(32), nullable=False),
    Column("variant", String(16), nullable=False),
    Column("draws", Text, nullable=False),  # one code per draw in request order
    Column("unusable", JSON, nullable=False),  # {draw number: raw text of an answer that was no label}
    Column("label", String(16)),
    Column("ended", String(16), nullable=False),
    Column("calls", Integer, nullable=False),
    Column("distribution", Text),  # the server's probabilities as one code; without draws the ground of the verdict
    Column("distribution_gap", Float),  # lead of its most probable label over the second
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

Index("ix_node_runs_ended", node_runs.c.ended_at)
Index(
    "ix_node_runs_way", node_runs.c.batch_id, node_runs.c.node, node_runs.c.variant, node_runs.c.label, node_runs.c.row
)

screenings = Table(
    "screenings",
    metadata,
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
    Column("audited", Boolean, nullable=False, default=False, server_default=false()),  # the coin lay below it
    Column("completed_at", Moment, nullable=False),
    # for lists, which are flat in the rows of a batch: `storage.batches.counts`, the case's row, and how far the most
    # frequent answer of the agent that ended it lay ahead of the second, as a share of its answers
    Column("kind", String(100)),
    Column("row", BigInteger),
    Column("gap", Float),
)
Index("ix_screenings_batch", screenings.c.batch_id, screenings.c.completed_at)
# Counted and read through by configuration, without a look at the rows.
Index(
    "ix_screenings_audit",
    screenings.c.configuration,
    screenings.c.audited,
    screenings.c.outcome,
    screenings.c.audit_probability,
    screenings.c.batch_id,
)
Index(
    "ix_screenings_ends",
    screenings.c.configuration,
    screenings.c.completed_at,
    screenings.c.first_end,
    screenings.c.batch_id,
)
Index("ix_screenings_completed", screenings.c.completed_at)
Index("ix_screenings_gap", screenings.c.batch_id, screenings.c.gap)
Index("ix_screenings_kind", screenings.c.batch_id, screenings.c.kind, screenings.c.row, screenings.c.gap)

preflights = Table(
    "preflights",
    metadata,
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
Index("ix_preflights_configuration", preflights.c.configuration, preflights.c.id)

case_starts = Table(
    "case_starts",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    case_id(index=True),
    Column("worker", String(64), nullable=False),
    Column("at", Moment, nullable=False),
    Column("ended_at", Moment),  # set when it ended in an orderly way; None and no outcome: the worker died, or works
)

case_errors = Table(
    "case_errors",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    case_id(index=True),
    Column("kind", String(40), nullable=False),
    Column("message", StorableText, nullable=False),  # never message text
    Column("calls", Integer, nullable=False, default=0),  # calls made whose draws did not count
    Column("at", Moment, nullable=False),
)

live_runs = Table(
    "live_runs",
    metadata,
    case_id(primary_key=True),
    Column("node", String(32)),
    Column("draws", JSON, nullable=False),  # {"node/variant": codes so far}
    Column("updated_at", Moment, nullable=False),
    Column("viewer_seen_at", Moment, nullable=False),
)
