"""The tables. Rows are facts that are inserted and never edited; what can be derived is not stored.

A case is pending while it has no row in ``screenings``; it is open in the inbox while it has a row in
``inbox_entries`` and none in ``adjudications``. Only leases, drafts, live runs, sessions and settings change in place.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Moment(TypeDecorator[datetime]):
    """An aware UTC datetime, kept as whole microseconds so that both databases order and return it alike."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else round(value.timestamp() * 1_000_000)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromtimestamp(value / 1_000_000, tz=UTC)


Id = String(32)
BigId = BigInteger().with_variant(Integer, "sqlite")


def _case_id(**options: Any) -> Column[str]:
    return Column("case_id", Id, ForeignKey("cases.id"), nullable=False, **options)


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

node_runs = Table(
    "node_runs",
    metadata,
    _case_id(primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("node", String(32), nullable=False),
    Column("variant", String(16), nullable=False),
    Column("draws", Text, nullable=False),  # one code per draw in request order
    Column("unusable", JSON, nullable=False),  # {draw number: raw text of an answer that was no label}
    Column("label", String(16)),
    Column("ended", String(16), nullable=False),
    Column("calls", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cache_read_tokens", BigInteger, nullable=False),
    Column("cache_write_tokens", BigInteger, nullable=False),
    Column("cost_usd", Float),  # None is unknown, not free
    Column("started_at", Moment, nullable=False),
    Column("ended_at", Moment, nullable=False),
)

screenings = Table(
    "screenings",
    metadata,
    _case_id(primary_key=True),
    Column("configuration", String(64), ForeignKey("configurations.version"), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("node", String(32)),
    Column("reason", String(32), nullable=False),
    Column("calls", Integer, nullable=False),
    Column("cost_usd", Float),
    Column("delta", Float),
    Column("completed_at", Moment, nullable=False),
)

case_starts = Table(
    "case_starts",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    _case_id(index=True),
    Column("worker", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)

case_errors = Table(
    "case_errors",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    _case_id(index=True),
    Column("kind", String(40), nullable=False),
    Column("message", Text, nullable=False),  # never message text
    Column("calls", Integer, nullable=False, default=0),  # calls made whose draws did not count
    Column("at", Moment, nullable=False),
)

live_runs = Table(
    "live_runs",
    metadata,
    _case_id(primary_key=True),
    Column("node", String(32)),
    Column("draws", JSON, nullable=False),  # {"node/variant": codes so far}
    Column("updated_at", Moment, nullable=False),
    Column("viewer_seen_at", Moment, nullable=False),
)

inbox_entries = Table(
    "inbox_entries",
    metadata,
    _case_id(primary_key=True),
    Column("tier", Integer, nullable=False),  # 0 .. 3
    Column("why", String(40), nullable=False),
    Column("entered_at", Moment, nullable=False),
    Column("due_at", Moment, nullable=False),
    # the lease, changed in place by one conditional UPDATE; all None or in the past: free
    Column("holder", String(64)),
    Column("token", String(64)),
    Column("lease_expires_at", Moment),
    Column("held_note", Text),  # set aside until somebody takes it up again
    Column("handed_to", String(64)),
    Column("closed_at", Moment),  # set in the transaction that adjudicates: keeps the claim query flat
)
Index("ix_inbox_open", inbox_entries.c.closed_at, inbox_entries.c.tier, inbox_entries.c.due_at)

skips = Table(
    "skips",
    metadata,
    _case_id(primary_key=True),
    Column("reviewer", String(64), primary_key=True),
    Column("reason", String(24), nullable=False),  # skip | not_me
    Column("at", Moment, nullable=False),
)

drafts = Table(
    "drafts",
    metadata,
    _case_id(primary_key=True),
    Column("reviewer", String(64), primary_key=True),
    Column("body", JSON, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

ratings = Table(
    "ratings",
    metadata,
    Column("id", Id, primary_key=True),
    _case_id(index=True),
    Column("reviewer", String(64), nullable=False),
    Column("version", Integer, nullable=False),  # 1 is the first reading, later ones are revisions
    Column("blind", Boolean, nullable=False),  # read before the model's fields were served
    Column("reading", String(12), nullable=False),  # first | second | third
    Column("label", String(24), nullable=False),  # safe | unsafe | insufficient_information
    Column("certainty", Integer, nullable=False),
    Column("fields", JSON, nullable=False),
    Column("reason", Text),  # of a revision
    Column("at", Moment, nullable=False),
    UniqueConstraint("case_id", "reviewer", "version"),
)

reveals = Table(
    "reveals",
    metadata,
    _case_id(primary_key=True),
    Column("reviewer", String(64), primary_key=True),
    Column("before_rating", Boolean, nullable=False),  # P0 opened at once: the rating is not blind
    Column("at", Moment, nullable=False),
)

second_reading_requests = Table(
    "second_reading_requests",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    _case_id(index=True),
    Column("why", String(24), nullable=False),  # asked | sampled | rule | disagreement
    Column("asked_by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)

adjudications = Table(
    "adjudications",
    metadata,
    _case_id(primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("label", String(24), nullable=False),
    Column("method", String(24), nullable=False),  # single | agreement | senior | discussion | amendment
    Column("by", String(64), nullable=False),
    Column("reason", Text),
    Column("rating_ids", JSON, nullable=False),
    Column("at", Moment, nullable=False),
)

audit_events = Table(
    "audit_events",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at", Moment, nullable=False),
    Column("actor", String(64), nullable=False),
    Column("action", String(40), nullable=False),
    Column("subject", String(64)),
    Column("details", Text, nullable=False),  # canonical JSON, never message text
    Column("previous_hash", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
)

accounts = Table(
    "accounts",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("subject", String(255), unique=True),  # the institution's identifier; None for the local user
    Column("display_name", Text, nullable=False),
    Column("roles", JSON, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("created_at", Moment, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("account_id", String(64), ForeignKey("accounts.id"), nullable=False, index=True),
    Column("started_at", Moment, nullable=False),
    Column("seen_at", Moment, nullable=False),
    Column("ended_at", Moment),
)

settings_versions = Table(
    "settings_versions",
    metadata,
    Column("version", BigId, primary_key=True, autoincrement=True),
    Column("body", JSON, nullable=False),
    Column("by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)
