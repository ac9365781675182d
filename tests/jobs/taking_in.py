"""What the app does at its start and nothing else: goes on with the files that an earlier process left unfinished."""

import sys

from jobs import uploads
from pages.batches.intake_runs import IntakeRuns
from screening.settings import Settings
from screening.text.received import receive
from storage.database import Database

receive("What is loaded once, for all processes that are forked from here.")


def take_in(settings: Settings) -> None:
    """Until all is in; the process ends with 1 where a file is left."""
    folder = settings.data_directory / uploads.BY_PEOPLE
    runs = IntakeRuns(Database(settings.database_url), settings)
    runs.resume()
    runs.wait()
    sys.exit(1 if list(uploads.unfinished_uploads(folder)) else 0)
