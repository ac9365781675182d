"""Taking files in beside the pages: a thread per file, so that closing the page stops nothing."""

import logging
import threading

from jobs import uploads
from jobs.process import system_clock
from jobs.uploads import Upload
from pages.ui import context
from pages.ui.context import singleton
from pages.ui.labels import error_words
from screening.datasets.reader import Table
from screening.datasets.sources import FileRefused
from screening.settings import Settings
from storage.database import Database

log = logging.getLogger(__name__)


class IntakeRuns:
    """The files this process takes in at the moment. What was interrupted goes on where it was."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._running: dict[str, threading.Thread] = {}
        self._stopped: dict[str, tuple[Upload, str]] = {}
        self._lock = threading.Lock()

    def start(self, upload: Upload, table: Table | None = None) -> None:
        """Take this file in, unless that is going on already; ``table`` is what is known of it, to spare a profile."""
        with self._lock:
            known = self._running.get(upload.token)
            if known is None or not known.is_alive():
                self._stopped.pop(str(upload.batch_id), None)
                thread = threading.Thread(target=self._fill, args=(upload, table), daemon=True)
                self._running[upload.token] = thread
                thread.start()

    def resume(self) -> None:
        """Go on with every file that an earlier process left unfinished."""
        for upload in uploads.unfinished_uploads(self._settings.data_directory / uploads.BY_PEOPLE):
            self.start(upload)

    def stopped(self, batch_id: str) -> tuple[Upload, str] | None:
        """This batch's file where it is not taken in any further until somebody asks for it, and why, in words for a
        person; None where it is, or was.
        """
        return self._stopped.get(batch_id)

    def wait(self) -> None:
        """Wait until all files are taken in."""
        for thread in list(self._running.values()):
            thread.join()

    def _fill(self, upload: Upload, table: Table | None) -> None:
        batch_id = str(upload.batch_id)
        try:
            uploads.take_in(self._db, upload, table, self._settings, system_clock)
        except Exception as error:  # the file stays, for whoever presses the button or for the next start
            log.error("taking in a file failed: %s", type(error).__name__)
            self._stopped[batch_id] = upload, _why(error)
            return
        uploads.discard(upload)


@singleton
def intake_runs() -> IntakeRuns:
    """The files being taken in; made once per process, when it goes on with what an earlier one left."""
    runs = IntakeRuns(context.database(), context.settings())
    runs.resume()
    return runs


def _why(error: Exception) -> str:
    """A refusal is written for people; of anything else only its kind is told, for it may quote a text."""
    if isinstance(error, FileRefused):
        return str(error)
    return f"{error_words('internal_error').capitalize()} ({type(error).__name__})."
