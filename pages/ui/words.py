"""What codes mean, and every number on pages and in commands; times are shown in the viewer's zone, kept in UTC."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from screening.evaluation.metrics import Difference, Proportion
from screening.labels import Outcome
from screening.pipeline.engine import Reason
from screening.pipeline.files import error_kind
from screening.review.review_form import Disposition
from screening.text.display import visible
from screening.text.flags import Flag
from storage.batches.batch_state import BatchState

NOT_YET = "not yet"

_OF_A_SEAT = ContextVar[str | None]("zone", default=None)

E = TypeVar("E", bound=Enum)
WORDS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("words.toml").read_text(encoding="utf-8")
)


def words_of(kind: Callable[[str], E], table: str) -> dict[E, str]:
    """What each code of this kind means, by a table of `words.toml`. ValueError for a code that is none of the kind."""
    return {kind(code): said for code, said in WORDS[table].items()}


OUTCOME_WORDS: Mapping[Outcome, str] = words_of(Outcome, "outcome")

OUTCOME_ICONS: Mapping[Outcome, str] = {Outcome.SAFE: "✓", Outcome.UNSAFE: "▲", Outcome.HUMAN_REVIEW: "→"}

REASON_WORDS: Mapping[Reason, str] = words_of(Reason, "reason")
FLAG_WORDS: Mapping[Flag, str] = words_of(Flag, "flag")
DISPOSITION_WORDS: Mapping[Disposition, str] = words_of(Disposition, "disposition")
STATE_WORDS: Mapping[BatchState, str] = words_of(BatchState, "batch_state")
DELTA_MEANING, NOT_PRIVATE, PROBABILITIES_MEANING = (
    WORDS["meaning"][of] for of in ("delta", "not_private", "probabilities")
)


_MARKUP = "\\`*_[]<>#!|~$:&"


def literal(words: str) -> str:
    """Words that somebody typed, for a place that reads Markdown: shown as they were written, and nothing is fetched.

    >>> print(literal("a *b* ![i](http://x)"))
    a \\*b\\* \\!\\[i\\](http\\://x)
    """
    return "".join(f"\\{letter}" if letter in _MARKUP else letter for letter in visible(words))


def sentence(refusal: Exception) -> str:
    """What an exception of ours says, as a sentence of its own.

    >>> sentence(ValueError("say why"))
    'Say why.'
    """
    words = str(refusal)
    return f"{words[0].upper()}{words[1:]}."


def reason_words(reason: str | None) -> str:
    """A stored reason in words; one this version does not know is shown as it is."""
    try:
        return REASON_WORDS[Reason(reason or "")]
    except ValueError:
        return reason or "not screened yet"


def error_words(kind: str) -> str:
    """A failure's kind in words; a kind without words of its own is shown as it is."""
    return error_kind(kind).words


def percent(value: float | None) -> str:
    """What is above 0 and below 1 is never rounded to either.

    >>> percent(0.85), percent(0.9997), percent(0.0003), percent(1.0), percent(None)
    ('85.0%', 'over 99.9%', 'under 0.1%', '100.0%', 'not yet')
    """
    return NOT_YET if value is None else _in_tenths(100 * value, 100, "%")


def per_thousand(value: float | None) -> str:
    """What is above 0 and below 1,000 is never rounded to either.

    >>> per_thousand(12.34), per_thousand(0.04), per_thousand(999.97), per_thousand(None)
    ('12.3', 'under 0.1', 'over 999.9', 'not yet')
    """
    return NOT_YET if value is None else _in_tenths(value, 1000)


def _in_tenths(value: float, whole: int, unit: str = "") -> str:
    if 0 < value < 0.05:
        return f"under 0.1{unit}"
    if whole - 0.05 <= value < whole:
        return f"over {whole - 0.1:,.1f}{unit}"
    return f"{value:,.1f}{unit}"


def plain_percent(value: float) -> str:
    """A share that somebody set, to the thousandths it may have.

    >>> plain_percent(0.05), plain_percent(0.999), plain_percent(0.125)
    ('5%', '99.9%', '12.5%')
    """
    return f"{100 * value:g}%"


def interval(low: float | None, high: float | None) -> str:
    """The 95% limits, or that there are none."""
    return "no interval" if low is None or high is None else f"95% CI {percent(low)} to {percent(high)}"


def rate(found: Proportion | None) -> str:
    """A share as its counts and 95% interval; where some are unsettled, the limits that hold whatever becomes of them.

    >>> rate(Proportion(12, 15)), rate(Proportion(0, 0)), rate(None)
    ('12 of 15 (95% CI 55-93%)', 'not yet: 0 of 0', 'not yet: 0 of 0')
    >>> rate(Proportion(997, 1000)), rate(Proportion(21, 21, unsettled=173))
    ('997 of 1,000 (95% CI 99.1-99.9%)', 'not known: 173 unsettled; 7.2-100.0%')
    """
    if found is None or found.low is None or found.high is None:
        return f"{NOT_YET}: 0 of 0"
    limits = (100 * found.low, 100 * found.high)
    many = found.denominator + found.unsettled >= 100
    tenths = int(many or any(0 < limit < 0.5 or 99.5 <= limit < 100 for limit in limits))  # none looks like 0 or all
    words = f"{limits[0]:.{tenths}f}-{limits[1]:.{tenths}f}%"
    if found.value is None:
        return f"not known: {found.unsettled:,} unsettled; {words}"
    return f"{found.numerator:,} of {found.denominator:,} (95% CI {words})"


def difference(found: Difference, *, share: bool) -> str:
    """A signed difference with its 95% interval and n; a ``share`` in percentage points.

    >>> made = Difference(n=200, first=0.8, second=0.815, value=0.015, low=-0.01, high=0.04, confidence=0.95)
    >>> difference(made, share=True), difference(made, share=False)
    ('+1.5 points (-1.0 to +4.0), n = 200', '+0.015 (-0.01 to +0.04), n = 200')
    """
    if found.value is None:
        return f"{NOT_YET}: n = 0"

    def signed(value: float) -> str:
        return f"{100 * value:+.1f}" if share else f"{value:+.3g}"

    words = signed(found.value) + (" points" if share else "")
    if found.low is not None and found.high is not None:
        words += f" ({signed(found.low)} to {signed(found.high)})"
    return f"{words}, n = {found.n:,}"


def money(cost_usd: float | None) -> str:
    """An amount in US dollars; unknown is not free.

    >>> money(None), money(0.0), money(0.00042), money(12.345)
    ('cost unknown', 'no cost', '$0.0004', '$12.35')
    """
    if cost_usd is None:
        return "cost unknown"
    if cost_usd == 0:
        return "no cost"
    return f"${cost_usd:,.2f}" if cost_usd >= 1 else f"${cost_usd:.4f}"


def duration(span: timedelta | float, *, least: int = 1) -> str:
    """A length of time (a number is of seconds) in its two largest units, rounded down; seconds count below ten
    minutes. ``least`` is 60 where it goes on while it is shown: whole minutes then.

    >>> duration(40), duration(95), duration(600), duration(9_000), duration(timedelta(days=3, minutes=1))
    ('40 s', '1 min 35 s', '10 min', '2 h 30 min', '3 d')
    >>> [duration(seconds, least=60) for seconds in (59, 95, 3_660)]
    ['<1 min', '1 min', '1 h 1 min']
    """
    seconds = int(span.total_seconds() if isinstance(span, timedelta) else span)
    if seconds < least:
        return "<1 min" if least > 1 else "0 s"
    if least > 1 or seconds >= 600:
        seconds -= seconds % 60
    parts = ((seconds // 86_400, "d"), (seconds // 3_600 % 24, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s"))
    first = next(place for place, (number, _) in enumerate(parts) if number)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number)


def zone_name() -> str | None:
    """The viewer's zone; None where no browser says one."""
    import streamlit as st  # here: a command that only shows numbers starts without it
    from streamlit.runtime.scriptrunner import get_script_run_ctx

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


def time_column(label: str, *, seconds: bool = False) -> Any:
    """A column of moments in a table, sorted as moments and shown in the viewer's zone."""
    import streamlit as st

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
