"""Who may act, what was done, and how the site is set."""

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, String, Table, Text

from storage.schema.columns import BigId, Moment, StorableText, metadata

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
    Column("key_id", String(16), nullable=False),  # which key the hash is under
)
Index("ix_audit_events_actor", audit_events.c.actor, audit_events.c.at)
Index("ix_audit_events_subject", audit_events.c.subject)

accounts = Table(
    "accounts",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("subject", String(255), unique=True),  # the institution's identifier; None for the local user
    Column("display_name", StorableText, nullable=False),
    Column("roles", JSON, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("created_at", Moment, nullable=False),
)

# What a person chose for themselves, on every machine and in every tab
preferences = Table(
    "preferences",
    metadata,
    Column("account", String(64), primary_key=True),
    Column("hide_in_review", Boolean, nullable=False),  # outcomes of cases in review
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

# One row a limit that all workers share; times are seconds of the database's own clock.
call_limits = Table(
    "call_limits",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("next_at", Float, nullable=False),  # when the next call is due at an even pace
    Column("holders", JSON, nullable=False),  # {worker: [places it holds, until when]}
)
