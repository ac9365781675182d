"""The tables. Rows are facts that are inserted and never edited; what can be derived is not stored.

A case is pending while it has no row in ``screenings``; it is open in the inbox while it has a row in
``inbox_entries`` and none in ``adjudications``. Only leases, drafts, live runs, sessions and settings change in place.
"""

from storage.schema.columns import BigId, Id, Moment, metadata
from storage.schema.engine import case_errors, case_starts, live_runs, node_runs, screenings
from storage.schema.intake import batch_events, batches, cases, configurations, rejected_rows
from storage.schema.review import adjudications, drafts, inbox_entries, ratings, reveals, second_reading_requests, skips
from storage.schema.site import accounts, audit_events, sessions, settings_versions

__all__ = [
    "BigId",
    "Id",
    "Moment",
    "accounts",
    "adjudications",
    "audit_events",
    "batch_events",
    "batches",
    "case_errors",
    "case_starts",
    "cases",
    "configurations",
    "drafts",
    "inbox_entries",
    "live_runs",
    "metadata",
    "node_runs",
    "ratings",
    "rejected_rows",
    "reveals",
    "screenings",
    "second_reading_requests",
    "sessions",
    "settings_versions",
    "skips",
]
