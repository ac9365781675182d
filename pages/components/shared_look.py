"""Look-ups that are the same for everybody: one per process serves all who ask within a few seconds."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from storage.database import Database

T = TypeVar("T")


class SharedLook(Generic[T]):
    """The last result of ``look``, which is called again once that is older than ``every``, or for another database."""

    def __init__(self, look: Callable[[Database, datetime], T], every: timedelta) -> None:
        self._look, self._every, self._lock = look, every, threading.Lock()
        self._seen: tuple[Database, datetime, T] | None = None

    def at(self, db: Database, now: datetime) -> T:
        """What the look returned now, or up to ``every`` ago."""
        with self._lock:
            seen = self._seen
            if seen is None or seen[0] is not db or not timedelta() <= now - seen[1] < self._every:
                seen = self._seen = (db, now, self._look(db, now))
            return seen[2]
