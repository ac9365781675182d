"""Times as the viewer reads them: in the zone that their browser says. Stored and sorted, all times are UTC."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig
from streamlit.runtime.scriptrunner import get_script_run_ctx

_OF_A_SEAT = ContextVar[str | None]("zone", default=None)


def zone_name() -> str | None:
    """The viewer's zone; None where no browser says one."""
    return _OF_A_SEAT.get() or (st.context.timezone if get_script_run_ctx(suppress_warning=True) else None)


@contextmanager
def seen_from(zone: str | None) -> Iterator[None]:
    """For an answer outside of a page's script: times within are those of the page that asks."""
    before = _OF_A_SEAT.set(zone)
    try:
        yield
    finally:
        _OF_A_SEAT.reset(before)


def local_time(moment: datetime, now: datetime | None = None) -> str:
    """Date and time in the viewer's zone; the time alone where ``now`` is the same day there. Where the zone is not
    known it is UTC, and says so.

    >>> with seen_from("America/New_York"):
    ...     local_time(datetime(2026, 11, 25, 3, 5, tzinfo=UTC)), local_time(datetime(2026, 11, 25, tzinfo=UTC),
    ...     datetime(2026, 11, 25, 4, 59, tzinfo=UTC))
    ('2026-11-24 22:05', '19:00')
    >>> local_time(datetime(2026, 11, 25, 3, 5, tzinfo=UTC))
    '2026-11-25 03:05 UTC'
    """
    zone = viewer_zone()
    seen = moment.astimezone(zone)
    same_day = now is not None and now.astimezone(zone).date() == seen.date()
    return f"{seen:{'%H:%M' if same_day else '%Y-%m-%d %H:%M'}}{' UTC' if zone is UTC else ''}"


def last_midnight(now: datetime) -> datetime:
    """When the viewer's day began.

    >>> with seen_from("America/New_York"):
    ...     str(last_midnight(datetime(2026, 11, 25, 3, 5, tzinfo=UTC)))
    '2026-11-24 05:00:00+00:00'
    """
    return now.astimezone(viewer_zone()).replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)


def time_column(label: str, *, seconds: bool = False) -> ColumnConfig:
    """A column of moments in a table, sorted as moments and shown in the viewer's zone."""
    zone = viewer_zone()
    words = f"{label} (UTC)" if zone is UTC else label
    return st.column_config.DatetimeColumn(
        words, format=f"YYYY-MM-DD HH:mm{':ss' if seconds else ''}", timezone=str(zone)
    )


def viewer_zone() -> tzinfo:
    """The viewer's zone; UTC where it is not known."""
    name = zone_name()
    if not name or name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # whatever a browser said
        return UTC
