"""One banner while texts cannot be screened: what broke, since when, how many wait, who can fix it, what to press."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape

from pages.components.shared_look import SharedLook
from pages.components.singletons import singleton
from pages.components.times import local_time
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
def standing_still() -> SharedLook[tuple[Sequence[Standstill], SiteSettings, Sequence[datetime]]]:
    """What keeps texts from being screened, the site's settings, and since when files are not taken in any further."""
    return SharedLook(lambda db, now: (standstills(db, now), current(db).settings, files_halted_since(db)), LOOK_EVERY)


def standstill_lines(db: Database, now: datetime) -> tuple[str, ...]:
    """The banner's paragraphs; empty while all that waits is on its way."""
    found, site, halted = standing_still().at(db, now)
    return (*banner_lines(found, site, now), *file_lines(halted, now))


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
        f"After {site.unscreened_minutes:g} minutes such a text enters the review queue as not screened, unless its "
        "upload is an overnight one or only lists or counts unsafe texts. None is taken for safe."
    )
    return (*said, meanwhile)


def file_lines(halted: Sequence[datetime], now: datetime) -> tuple[str, ...]:
    """A paragraph on files that are not taken in any further: nothing waits of what nobody has."""
    if not halted:
        return ()
    first, where = ("", "The upload's page") if len(halted) == 1 else ("the first ", "The page of each upload")
    return (
        f"▲ Part of {count_of(len(halted), 'file')} was not imported, {first}since {local_time(halted[0], now)}: those "
        f"texts are not screened or reviewed. {where} says why.",
    )


def _cause(same: Sequence[Standstill], now: datetime) -> str:
    """All that stands still for one cause; where not all of it is mended alike, each way with its number of texts."""
    waiting, since = sum(one.waiting for one in same), min(one.since for one in same)
    what = error_words(same[0].cause)
    texts = count_of(waiting, "text is", "texts are")
    first = "" if waiting == 1 else "the first "
    ways: dict[str, int] = {}
    for one in same:
        ways[_mend(one)] = ways.get(_mend(one), 0) + one.waiting
    mend = " ".join(ways) if len(ways) == 1 else " ".join(f"For {n:,} of them: {way}" for way, n in ways.items())
    since_when = f"{first}since {local_time(since, now)}"
    return f"▲ {what[0].upper()}{what[1:]}. {texts} not screened, {since_when}. {mend}"


def _mend(one: Standstill) -> str:
    """Who can fix it and what they press."""
    if one.cause == NO_WORKER:
        return "Whoever runs the server can fix it: start the worker. Nothing needs to be pressed here."
    if one.cause == NO_PROGRESS:
        return "Whoever runs the server can fix it: look at the worker's log, and restart the worker."
    who = "Whoever began the upload, or an administrator,"
    if one.cause in CAP_REACHED and one.state is not None:
        return f"{who} can fix it: Continue without a limit, on the upload's page."
    if one.cause in FIRST_STEPS:
        who = f"{FIRST_STEPS[one.cause]}; then whoever began the upload"
    if one.state is BatchState.PAUSED:
        return f"{who} presses Resume on the upload's page."
    if one.state is None:
        return f"{who} presses Retry on the upload's page, or Try again under a single text."
    return "It goes on by itself once that is over; whoever runs the server can look at the model's service."
