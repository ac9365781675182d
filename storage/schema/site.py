"""Who may act, what was done, how the site is set, who is told what, and which processes live."""

import hashlib

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, ForeignKey, Integer, String, Text, UniqueConstraint

from storage.schema.columns import BigId, Id, Moment, StorableText, case_id, erased_as, index, table

audit_events = table(
    "audit_events",
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
index(audit_events, "ix_audit_events_actor", "actor", "at")
index(audit_events, "ix_audit_events_subject", "subject")

accounts = table(
    "accounts",
    Column("id", String(64), primary_key=True),
    Column("subject", String(255), unique=True),  # the institution's identifier; None for the local user
    Column("display_name", StorableText, nullable=False),
    Column("roles", JSON, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("created_at", Moment, nullable=False),
)

# What a person chose for themselves, on every machine and in every tab
preferences = table(
    "preferences",
    Column("account", String(64), primary_key=True),
    Column("hide_in_review", Boolean, nullable=False),  # outcomes of cases in review
)

sessions = table(
    "sessions",
    Column("id", String(64), primary_key=True),
    Column("account_id", String(64), ForeignKey("accounts.id"), nullable=False, index=True),
    Column("started_at", Moment, nullable=False),
    Column("seen_at", Moment, nullable=False),
    Column("ended_at", Moment),
)


settings_versions = table(
    "settings_versions",
    Column("version", BigId, primary_key=True, autoincrement=True),
    Column("body", JSON, nullable=False),
    Column("by", String(64), nullable=False),
    Column("at", Moment, nullable=False),
)

# One row a limit that all workers share; times are seconds of the database's own clock.
call_limits = table(
    "call_limits",
    Column("name", String(64), primary_key=True),
    Column("next_at", Float, nullable=False),  # when the next call is due at an even pace
    Column("holders", JSON, nullable=False),  # {worker: [places it holds, until when]}
)


def hash_of_key(key: str) -> str:
    """What stands in the place of a key once its text is erased: no key that a program sends looks like it."""
    return f"sha256={hashlib.sha256(key.encode()).hexdigest()}"


programs = table(
    "programs",
    Column("id", Id, primary_key=True),
    Column("name", StorableText, nullable=False),
    Column("token_sha256", String(64), nullable=False, unique=True),  # the token itself is shown once and not kept
    Column("scopes", JSON, nullable=False),
    Column("per_minute", Integer, nullable=False),
    Column("webhook", StorableText),  # where it is told that a case is settled
    Column("webhook_secret", String(64)),  # signs what it is told
    Column("created_by", String(64), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("revoked_at", Moment),
)

# One row a text of a program. ``tell_at`` is when to look whether it is settled and to tell so; None: told, or nobody
# is to be told.
program_texts = table(
    "program_texts",
    case_id(primary_key=True),
    Column("program_id", Id, ForeignKey("programs.id"), nullable=False),
    Column("key", String(100), nullable=False, info=erased_as(hash_of_key)),  # the idempotency key: it may be a name
    Column("content_sha256", String(64), nullable=False),
    Column("tell_at", Moment),
    Column("tries", Integer, nullable=False, default=0, server_default="0"),
    UniqueConstraint("program_id", "key"),
)
index(program_texts, "ix_program_texts_program_id", "program_id", "case_id")
_untold = program_texts.c.tell_at.is_not(None)
index(program_texts, "ix_program_texts_tell_at", "tell_at", where=_untold)

process_heartbeats = table(
    "process_heartbeats",
    Column("name", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),  # worker | app
    Column("started_at", Moment, nullable=False),
    Column("seen_at", Moment, nullable=False),
)

# What one process at a time does, whoever of them holds the lease.
duties = table(
    "duties",
    Column("name", String(32), primary_key=True),
    Column("holder", String(64), nullable=False),
    Column("until", Moment, nullable=False),
)

notification_recipients = table(
    "notification_recipients",
    Column("id", Id, primary_key=True),
    Column("name", StorableText, nullable=False),
    Column("kind", String(16), nullable=False),  # service | webhook | monitor
    Column("target", Text, nullable=False),  # holds passwords and tokens: read by the sender alone
    Column("shown", StorableText, nullable=False),  # the target without its secrets
    Column("secret", Text),  # what a webhook is signed with
    Column("step", Integer, nullable=False),  # place in the on-call order
    Column("events", JSON, nullable=False),
    Column("quiet_from", Integer),  # minutes of the site's day
    Column("quiet_to", Integer),
    Column("active", Boolean, nullable=False),
    Column("problem", String(120)),  # why the last try failed; None after a good one
    Column("tried_at", Moment),
)

notifications = table(
    "notifications",
    Column("id", Id, primary_key=True),
    Column("recipient_id", Id, ForeignKey("notification_recipients.id"), nullable=False),
    Column("event", String(16), nullable=False),  # arrived | overdue | follow_up | fault | test
    Column("priority", Integer),
    Column("what", String(24)),  # which fault
    Column("count", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("not_before", Moment, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("taken_until", Moment),  # by the process that sends it just now
    Column("sent_at", Moment),
    Column("given_up_at", Moment),
    Column("error", String(120)),
)
TO_SEND = notifications.c.sent_at.is_(None) & notifications.c.given_up_at.is_(None)
"""The condition that a message has still to go out."""
index(notifications, "ix_notifications_waiting", "not_before", where=TO_SEND)
index(notifications, "ix_notifications_recipient", "recipient_id", "event", "created_at")

# How far the recipients were told of a case: as which priority, and down to which place of the on-call order.
case_notices = table(
    "case_notices",
    case_id(primary_key=True),
    Column("event", String(16), primary_key=True),  # arrived | overdue | follow_up
    Column("priority", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("at", Moment, nullable=False),
)

site_faults = table(
    "site_faults",
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("name", String(24), nullable=False),  # workers | model | anchor
    Column("began_at", Moment, nullable=False),
    Column("ended_at", Moment),
    Column("cause", String(40)),  # the kind of error that told of it last, where one did
)
_LASTS = site_faults.c.ended_at.is_(None)
index(site_faults, "ix_site_faults_lasting", "name", unique=True, where=_LASTS)
