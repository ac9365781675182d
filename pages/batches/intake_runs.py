"""Taking files in beside the pages, so that closing the page stops nothing."""

from jobs.process import system_clock
from jobs.uploads import BY_PEOPLE, IntakeRuns
from pages.ui import context
from pages.ui.context import singleton


@singleton
def intake_runs() -> IntakeRuns:
    """The files being taken in; made once per process, when it goes on with what an earlier one left."""
    settings = context.settings()
    runs = IntakeRuns(context.database(), settings, settings.data_directory / BY_PEOPLE, system_clock)
    runs.resume()
    return runs
