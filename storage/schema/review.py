"""What clinicians did: inbox entries with their leases, ratings, adjudications."""

from sqlalchemy import JSON, Boolean, Column, Index, Integer, String, Table, Text, UniqueConstraint

from storage.schema.columns import BigId, Id, Moment, case_id, metadata

inbox_entries = Table(
    "inbox_entries",
    metadata,
    case_id(primary_key=True),
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
    case_id(primary_key=True),
    Column("reviewer", String(64), primary_key=True),
    Column("reason", String(24), nullable=False),  # skip | not_me
    Column("at", Moment, nullable=False),
)

drafts = Table(
    "drafts",
    metadata,
    case_id(primary_key=True),
    Column("reviewer", String(64), primary_key=True),
    Column("body", JSON, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

ratings = Table(
    "ratings",
    metadata,
    Column("id", Id, primary_key=True),
    case_id(index=True),
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
    case_id(primary_key=True),
    Column("reviewer", String(64), primary_key=True),
    Column("before_rating", Boolean, nullable=False),  # P0 opened at once: the rating is not blind
    Column("at", Moment, nullable=False),
)

second_reading_requests = Table(
    "second_reading_requests",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    case_id(index=True),
    Column("why", String(24), nullable=False),  # asked | sampled | rule | disagreement
    Column("asked_by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)

adjudications = Table(
    "adjudications",
    metadata,
    case_id(primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("label", String(24), nullable=False),
    Column("method", String(24), nullable=False),  # single | agreement | senior | discussion | amendment
    Column("by", String(64), nullable=False),
    Column("reason", Text),
    Column("rating_ids", JSON, nullable=False),
    Column("at", Moment, nullable=False),
)
