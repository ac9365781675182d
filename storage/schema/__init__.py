"""The tables. Rows are facts that are inserted and never edited; what can be derived is not stored.

A case is pending while it has no row in ``screenings``; it is open in the inbox while it has a row in
``inbox_entries`` that is not closed. Only leases, drafts, live runs, sessions, settings, heartbeats and messages on
their way out change in place, and two indexes made of rows, in the same transaction as the facts they follow:
``pending_cases``, ``batch_counts``.
A review that its reviewer takes back at once is moved to ``undone_reviews``, with what it brought about undone.
"""

from storage.schema.columns import *  # noqa: F403
from storage.schema.engine import *  # noqa: F403
from storage.schema.intake import *  # noqa: F403
from storage.schema.review import *  # noqa: F403
from storage.schema.site import *  # noqa: F403
