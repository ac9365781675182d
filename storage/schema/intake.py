"""What came in: configurations, batches, their rows and their cases."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from storage.schema.columns import BigId, Id, Moment, metadata

configurations = Table(
    "configurations",
    metadata,
    Column("version", String(64), primary_key=True),  # hash of the body
    Column("body", JSON, nullable=False),  # pipeline, sampler description, prompt hashes, text limits
    Column("created_at", Moment, nullable=False),
)

batches = Table(
    "batches",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False),  # the file's name: only ever a label
    Column("kind", String(16), nullable=False),  # batch | interactive
    Column("configuration", String(64), ForeignKey("configurations.version"), nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("audit_rate", Float, nullable=False, default=0.0),
    Column("max_calls", BigInteger),  # caps; None is no cap
    Column("max_cost_usd", Float),
    Column("intake", JSON, nullable=False),  # encoding, separator, mapping, label provenance, as announced
    Column("created_by", String(64), nullable=False),
    Column("created_at", Moment, nullable=False),
)

batch_events = Table(
    "batch_events",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("batch_id", Id, ForeignKey("batches.id"), nullable=False, index=True),
    Column("event", String(24), nullable=False),  # intake_closed | paused | resumed | cancelled | retried | capped
    Column("detail", JSON, nullable=False, default=dict),
    Column("actor", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)

rejected_rows = Table(
    "rejected_rows",
    metadata,
    Column("batch_id", Id, ForeignKey("batches.id"), primary_key=True),
    Column("row", BigInteger, primary_key=True),
    Column("line", BigInteger),
    Column("external_id", Text),
    Column("reason", String(40), nullable=False),
    Column("detail", Text, nullable=False),
    Column("original_json", Text),
)

cases = Table(
    "cases",
    metadata,
    Column("id", Id, primary_key=True),
    Column("batch_id", Id, ForeignKey("batches.id"), nullable=False),
    Column("row", BigInteger, nullable=False),
    Column("external_id", Text, nullable=False),
    Column("text", Text, nullable=False),  # as received, escaped where a database cannot hold it
    Column("text_original_json", Text),  # the exact text when it could not be stored as it was
    Column("text_sha256", String(64), nullable=False),
    Column("model_text", Text),  # the normalised copy, None where equal to text
    Column("reply", Text),
    Column("reply_original_json", Text),
    Column("reply_sha256", String(64)),
    Column("model_reply", Text),
    Column("flags", JSON, nullable=False),
    Column("reference", String(16)),  # safe | unsafe | NULL
    Column("reference_value", Text),  # as given in the file
    Column("group_name", Text),
    Column("priority", Integer, nullable=False),  # 0 interactive, 1 batch
    Column("audit_probability", Float, nullable=False, default=0.0),
    Column("audited", Boolean, nullable=False, default=False),  # the coin, thrown at ingest
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("batch_id", "row"),
)
Index("ix_cases_order", cases.c.priority, cases.c.batch_id, cases.c.row)
