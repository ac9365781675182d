"""One banner while texts cannot be screened: what broke, since when, how many wait, who can fix it, what to press."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape

from pages.components.shared_look import SharedLook
from pages.components.singletons import singleton
from pages.components.words import error_words
from screening.words import count_of
from storage.batches.batch_state import CAP_REACHED, BatchState
from storage.batches.unscreened import NO_PROGRESS, NO_WORKER, Standstill, files_halted_since, standstills
from storage.database import Database
from storage.settings_store import SiteSettings, current

LOOK_EVERY = timedelta(seconds=3)
_ACCOUNT = ("authentication", "permission", "billing", "spend_cap", "unknown_model", "unknown_server", "redirected")
FIRST_STEPS = dict.fromkeys(_ACCOUNT, "An administrator fixes it in the account or the settings of the model") | {
    "preflight_failed": "An administrator can allow the model in writing, in Settings",
    "no_usable_answer": "Whoever runs the server looks at what the model's service answers",
    "configuration_changed": "Whoever runs the server restores the settings that it began with",
    "internal_error": "Whoever runs the server looks at the worker's log",
}
"""What has to be done before a press helps."""


@singleton
def standstill_words() -> SharedLook[tuple[str, ...]]:
    """The banner's paragraphs; empty while all that waits is on its way."""
    return SharedLook(
        lambda db, now: (*banner_lines(standstills(db, now), current(db).settings, now), *file_lines(db, now)),
        LOOK_EVERY,
    )


def banner_html(lines: Sequence[str]) -> str:
    """The paragraphs as HTML for `st.html`; empty without any."""
    said = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return f'<div class="sl-standstill" role="status">{said}</div>' if said else ""


def banner_lines(found: Sequence[Standstill], site: SiteSettings, now: datetime) -> tuple[str, ...]:
    """One paragraph a cause, and what becomes of the texts meanwhile."""
    if not found:
        return ()
    causes = list(dict.fromkeys(one.cause for one in found))
    said = [_cause([one for one in found if one.cause == cause], now) for cause in causes]
    meanwhile = (
        f"A text that waits {site.unscreened_minutes:g} minutes enters the inbox as not screened, unless its batch is "
        "an overnight one or only lists or counts what is called unsafe. None is taken for safe."
    )
    return (*said, meanwhile)


def file_lines(db: Database, now: datetime) -> tuple[str, ...]:
    """A paragraph on files that are not taken in any further: nothing waits of what nobody has."""
    found = files_halted_since(db)
    if not found:
        return ()
    first, where = ("", "The batch's page") if len(found) == 1 else ("the first ", "The page of each batch")
    return (
        f"▲ Rows of {count_of(len(found), 'file')} are missing and nobody takes them in, {first}since "
        f"{_when(found[0], now)} UTC: no agent and no person reads what stands in them. {where} says why.",
    )


def _cause(same: Sequence[Standstill], now: datetime) -> str:
    """All that stands still for one cause; where not all of it is mended alike, each way with its number of texts."""
    waiting, since = sum(one.waiting for one in same), min(one.since for one in same)
    what = error_words(same[0].cause)
    texts = count_of(waiting, "text waits", "texts wait")
    them, first = ("it", "") if waiting == 1 else ("them", "the first ")
    ways: dict[str, int] = {}
    for one in same:
        ways[_mend(one)] = ways.get(_mend(one), 0) + one.waiting
    mend = " ".join(ways) if len(ways) == 1 else " ".join(f"For {n:,} of them: {way}" for way, n in ways.items())
    since_when = f"{first}since {_when(since, now)} UTC"
    return f"▲ {what[0].upper()}{what[1:]}. {texts} undecided and nothing comes of {them}, {since_when}. {mend}"


def _when(moment: datetime, now: datetime) -> str:
    return f"{moment:%H:%M}" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M}"


def _mend(one: Standstill) -> str:
    """Who can fix it and what they press."""
    if one.cause == NO_WORKER:
        return "Whoever runs the server can fix it: start the worker. Nothing needs to be pressed here."
    if one.cause == NO_PROGRESS:
        return "Whoever runs the server can fix it: look at the worker's log, and restart the worker."
    who = "Whoever began the batch, or an administrator,"
    if one.cause in CAP_REACHED and one.state is not None:
        return f"{who} can fix it: Go on without a cap, on the batch's page."
    if one.cause in FIRST_STEPS:
        who = f"{FIRST_STEPS[one.cause]}; then whoever began the batch"
    if one.state is BatchState.PAUSED:
        return f"{who} presses Resume on the batch's page."
    if one.state is None:
        return f"{who} presses Retry on the batch's page, or Try again under a single text."
    return "It goes on by itself once that is over; whoever runs the server can look at the model's service."
