"""The app's part in telling people what waits: it goes on when no worker lives, and then reports that."""

from functools import cache

from jobs.notifications import Notifier
from jobs.port import system_clock, worker_name
from pages.ui import context


@cache
def notifier() -> Notifier:
    """The notifier of this process."""
    return Notifier(
        db=context.database(),
        settings=context.settings(),
        name=worker_name("app-"),
        kind="app",
        clock=system_clock,
    )
