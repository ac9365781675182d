"""Who is told what outside the pages, which processes live, and which of them does what only one may do."""

from sqlalchemy import JSON, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text, and_

from storage.schema.columns import BigId, Id, Moment, StorableText, case_id, metadata, partial_index

process_heartbeats = Table(
    "process_heartbeats",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),  # worker | app
    Column("started_at", Moment, nullable=False),
    Column("seen_at", Moment, nullable=False),
)

# What one process at a time does, whoever of them holds the lease.
duties = Table(
    "duties",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("holder", String(64), nullable=False),
    Column("until", Moment, nullable=False),
)

notification_recipients = Table(
    "notification_recipients",
    metadata,
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

notifications = Table(
    "notifications",
    metadata,
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
_WAITING = and_(notifications.c.sent_at.is_(None), notifications.c.given_up_at.is_(None))
partial_index("ix_notifications_waiting", notifications.c.not_before, where=_WAITING)
Index("ix_notifications_recipient", notifications.c.recipient_id, notifications.c.event, notifications.c.created_at)

# How far the recipients were told of a case: as which priority, and down to which place of the on-call order.
case_notices = Table(
    "case_notices",
    metadata,
    case_id(primary_key=True),
    Column("event", String(16), primary_key=True),  # arrived | overdue | follow_up
    Column("priority", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("at", Moment, nullable=False),
)

site_faults = Table(
    "site_faults",
    metadata,
    Column("id", BigId, primary_key=True, autoincrement=True),
    Column("name", String(24), nullable=False),  # workers | model | anchor
    Column("began_at", Moment, nullable=False),
    Column("ended_at", Moment),
    Column("cause", String(40)),  # the kind of error that told of it last, where one did
)
_LASTS = site_faults.c.ended_at.is_(None)
partial_index("ix_site_faults_lasting", site_faults.c.name, unique=True, where=_LASTS)
