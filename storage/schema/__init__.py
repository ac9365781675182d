"""The tables. Rows are facts that are inserted and never edited; what can be derived is not stored.

A case is pending while it has no row in ``screenings``; it is open in the inbox while it has a row in
``inbox_entries`` that is not closed. Only leases, drafts, live runs, sessions and settings change in place,
and two indexes made of rows, in the same transaction as the facts they follow: ``pending_cases``, ``batch_tallies``.
A reading that its reader takes back at once is moved to ``readings_taken_back``, with what it brought about undone.
``inbox_entries`` that is not closed. Only leases, drafts, live runs, sessions, settings, heartbeats and messages on
their way out change in place, and two indexes made of rows, in the same transaction as the facts they follow:
``pending_cases``, ``batch_tallies``.
"""

from storage.schema import triggers  # noqa: F401 - made with the tables
from storage.schema.columns import BigId, Id, Moment, StorableText, metadata
from storage.schema.comparisons import comparison_outcomes, comparisons
from storage.schema.engine import (
    case_errors,
    case_starts,
    live_runs,
    node_runs,
    preflights,
    screenings,
)
from storage.schema.erasure import erased_cases, erasure_requests
from storage.schema.intake import (
    batch_tallies,
    batches,
    cases,
    configurations,
    kind_tallies,
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
from storage.schema.overnight import message_batches, message_copies, message_requests
from storage.schema.pipelines import pipeline_activations, pipeline_versions
from storage.schema.programs import program_texts, programs
from storage.schema.research import case_remarks, case_tags
from storage.schema.review import (
    acknowledgements,
    adjudications,
    case_notes,
    drafts,
    follow_ups,
    inbox_entries,
    ratings,
    readings_taken_back,
    second_reading_requests,
    skips,
    unblindings,
)
from storage.schema.site import (
    accounts,
    audit_events,
    call_limits,
    preferences,
    sessions,
    settings_versions,
)

__all__ = [
    "BigId",
    "Id",
    "Moment",
    "StorableText",
    "accounts",
    "acknowledgements",
    "adjudications",
    "audit_events",
    "batch_tallies",
    "batches",
    "call_limits",
    "case_errors",
    "case_notes",
    "case_notices",
    "case_remarks",
    "case_starts",
    "case_tags",
    "cases",
    "comparison_outcomes",
    "comparisons",
    "configurations",
    "drafts",
    "duties",
    "erased_cases",
    "erasure_requests",
    "follow_ups",
    "inbox_entries",
    "kind_tallies",
    "live_runs",
    "message_batches",
    "message_copies",
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
    "ratings",
    "readings_taken_back",
    "rejected_rows",
    "screenings",
    "second_reading_requests",
    "sessions",
    "settings_versions",
    "site_faults",
    "skips",
    "unblindings",
]
