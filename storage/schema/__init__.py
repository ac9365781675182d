"""The tables. Rows are facts that are inserted and never edited; what can be derived is not stored.

A case is pending while it has no row in ``screenings``; it is open in the inbox while it has a row in
``inbox_entries`` that is not closed. Only leases, drafts, live runs, sessions, settings, heartbeats and messages on
their way out change in place, and two indexes made of rows, in the same transaction as the facts they follow:
``pending_cases``, ``batch_counts``.
A review that its reviewer takes back at once is moved to ``undone_reviews``, with what it brought about undone.
"""

from storage.schema.columns import ERASED, BigId, Id, Moment, StorableText, metadata
from storage.schema.engine import (
    case_errors,
    comparison_outcomes,
    comparisons,
    live_runs,
    message_batches,
    message_requests,
    node_runs,
    pipeline_activations,
    pipeline_versions,
    preflights,
    screenings,
)
from storage.schema.intake import (
    batch_counts,
    batches,
    cases,
    configurations,
    pending_cases,
    rejected_rows,
)
from storage.schema.notifications import (
    case_notices,
    duties,
    notification_recipients,
    notifications,
    process_heartbeats,
    site_faults,
)
from storage.schema.review import (
    acknowledgements,
    adjudications,
    case_notes,
    case_remarks,
    case_tags,
    drafts,
    erasure_requests,
    follow_ups,
    inbox_entries,
    reviews,
    second_review_requests,
    skips,
    unblindings,
    undone_reviews,
)
from storage.schema.site import (
    accounts,
    audit_events,
    call_limits,
    preferences,
    program_texts,
    programs,
    sessions,
    settings_versions,
)

__all__ = [
    "ERASED",
    "BigId",
    "Id",
    "Moment",
    "StorableText",
    "accounts",
    "acknowledgements",
    "adjudications",
    "audit_events",
    "batch_counts",
    "batches",
    "call_limits",
    "case_errors",
    "case_notes",
    "case_notices",
    "case_remarks",
    "case_tags",
    "cases",
    "comparison_outcomes",
    "comparisons",
    "configurations",
    "drafts",
    "duties",
    "erasure_requests",
    "follow_ups",
    "inbox_entries",
    "live_runs",
    "message_batches",
    "message_requests",
    "metadata",
    "node_runs",
    "notification_recipients",
    "notifications",
    "pending_cases",
    "pipeline_activations",
    "pipeline_versions",
    "preferences",
    "preflights",
    "process_heartbeats",
    "program_texts",
    "programs",
    "rejected_rows",
    "reviews",
    "screenings",
    "second_review_requests",
    "sessions",
    "settings_versions",
    "site_faults",
    "skips",
    "unblindings",
    "undone_reviews",
]
