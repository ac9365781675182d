"""Whether a worker answers: looked at every two seconds for all who watch a text, not with every question of theirs."""

import threading
from datetime import datetime, timedelta

from pages.components.singletons import singleton
from storage.database import Database
from storage.site.heartbeats import Silence, workers_silence

LOOK_EVERY = timedelta(seconds=2)


class WorkerLook:
    """The last look of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at: datetime | None = None
        self._silence: Silence | None = None

    def silence(self, db: Database, now: datetime) -> Silence | None:
        """That no worker answers as of now, or two seconds ago; None where one does."""
        with self._lock:
            if self._at is None or not timedelta() <= now - self._at < LOOK_EVERY:
                self._silence, self._at = workers_silence(db, now), now
            return self._silence


@singleton
def worker_look() -> WorkerLook:
    """That of this process."""
    return WorkerLook()
