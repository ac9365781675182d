"""Whether batches allow calls, asked before every node of every case and looked up a few times a second."""

import time
from collections.abc import Callable

from storage.database import Database
from storage.screenings import batch_allows

FRESH_S = 0.2
"""A pause, a cancellation or a reached cap is noticed within so long."""
MOST_KEPT = 1_000


class Allowance:
    """Remembers each batch's answer for ``fresh_s`` seconds of ``clock``. Threads may share it."""

    def __init__(self, db: Database, *, fresh_s: float = FRESH_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._fresh_s = fresh_s
        self._clock = clock
        self._found: dict[str, tuple[float, bool]] = {}

    def allows(self, batch_id: str) -> bool:
        """Whether the batch was neither paused nor cancelled nor capped a moment ago. Raises UnknownBatch."""
        now = self._clock()
        known = self._found.get(batch_id)
        if known is not None and now - known[0] < self._fresh_s:
            return known[1]
        if len(self._found) >= MOST_KEPT:
            self._found.clear()
        allowed = batch_allows(self._db, batch_id)
        self._found[batch_id] = (now, allowed)
        return allowed
