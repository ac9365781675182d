"""Taking files in beside the pages: a thread per file, so that closing the page stops nothing."""

import logging
import threading

from jobs.intake import fill_batch
from jobs.port import system_clock
from pages.components import uploads
from pages.components.uploads import Upload
from screening.datasets.reader import read_table
from screening.settings import Settings
from storage.actors import SYSTEM
from storage.batch_state import UnknownBatch
from storage.database import Database
from storage.intake import IntakeClosed

log = logging.getLogger(__name__)


class IntakeRuns:
    """The files this process takes in at the moment. What was interrupted goes on where it was."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._running: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def start(self, upload: Upload) -> None:
        """Take this file in, unless that is going on already."""
        with self._lock:
            known = self._running.get(upload.token)
            if known is None or not known.is_alive():
                thread = threading.Thread(target=self._fill, args=(upload,), daemon=True)
                self._running[upload.token] = thread
                thread.start()

    def resume(self) -> None:
        """Go on with every file that an earlier process left unfinished."""
        for upload in uploads.unfinished(self._settings.data_directory / "uploads"):
            self.start(upload)

    def wait(self) -> None:
        """Until all are in."""
        for thread in list(self._running.values()):
            thread.join()

    def _fill(self, upload: Upload) -> None:
        try:
            table = read_table(upload.path, upload.name, mapping=upload.mapping, label_values=upload.label_values)
            fill_batch(self._db, SYSTEM, str(upload.batch_id), table, self._settings, system_clock)
        except (IntakeClosed, UnknownBatch):
            log.info("the batch of an upload takes no more rows")
        except Exception as error:  # the file stays, and the next start goes on with it
            log.error("taking in a file failed: %s", type(error).__name__)
            return
        uploads.discard(upload)
