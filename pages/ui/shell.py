"""What stands around every page: navigation, notices, the banner of what has stalled, faults, the pause button."""

import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui import auth, context
from pages.ui.context import SharedLook, singleton
from pages.ui.words import error_words, literal, local_time, sentence, words_of
from screening.pipeline.files import error_kind
from screening.review.policy import Action, Actor, is_allowed
from screening.settings import SIMULATED_NOTICE
from screening.text.display import visible
from screening.words import count_of
from storage import settings_store
from storage.batches.batch_state import CAP_REACHED, BatchState
from storage.batches.configurations import UnreadableConfiguration, UnreadablePipeline
from storage.batches.entries import NO_PROGRESS, NO_WORKER, StalledBatch, files_halted_since, stalled_batches
from storage.database import Database, Fault, passing_fault
from storage.settings_store import SiteSettings, current

FOLDER = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Entry:
    """One page: its file in `pages/`, what it is called, its group and icon, the actions any of which makes it worth
    showing, and its help; ``address`` in the browser where it is not the file's name.
    """

    file: str
    title: str
    group: str
    icon: str
    actions: tuple[Action, ...]
    help: str
    address: str = ""


ENTRIES = (
    Entry("home", "Home", "", "home", (Action.STOP,),  # what everybody may who signs in
          "Your queue and where to start."),
    Entry("inbox", "Queue", "Review", "inbox", (Action.CLAIM_NEXT, Action.BROWSE_QUEUE),
          "Cases to review: what the AI labels unsafe or cannot decide, and quality checks."),
    Entry("shift", "Shift report", "Review", "schedule", (Action.CLAIM_NEXT, Action.BROWSE_QUEUE),
          "What arrived, was reviewed, transferred and overdue in a period."),
    Entry("screen", "Single text", "Screen", "vital_signs", (Action.SCREEN_TEXT,),
          "Paste a text or a chat and see how the AI decides."),
    Entry("batch_list", "File uploads", "Screen", "upload_file", (Action.VIEW_BATCHES,),
          "Check a file and its cost, screen it, follow the progress, export the results.", address="batches"),
    Entry("results", "Results", "Screen", "table_rows", (Action.VIEW_BATCHES,),
          "All cases of an upload: search, filter, open."),
    Entry("errors", "Misclassified", "Research", "rule", (Action.VIEW_RESULTS,),
          "Confusion matrix against the original labels; a cell lists its cases."),
    Entry("evaluation", "Evaluation", "Research", "table_chart", (Action.VIEW_RESULTS,),
          "The paper's methods and ours on recorded responses."),
    Entry("label_noise", "Label errors", "Research", "label_important", (Action.VIEW_RESULTS,),
          "Possible label errors, and the corrected data set."),
    Entry("reliability", "Reliability", "Research", "monitoring", (Action.VIEW_RESULTS,),
          "Evidence so far on missed cases, and what it takes to say more."),
    Entry("agreement", "Inter-rater agreement", "Research", "group", (Action.VIEW_AGREEMENT,),
          "How far reviewers agree with one another."),
    Entry("theory", "Methods", "Research", "functions", (Action.VIEW_BATCHES,),
          "Guarantees, cost and differences from the paper."),
    Entry("pipelines", "Pipelines", "Admin", "account_tree", (Action.VIEW_SETTINGS,),
          "The agents and their paths: drawn, edited, versioned, activated."),
    Entry("settings", "Settings", "Admin", "settings", (Action.VIEW_SETTINGS,),
          "The AI model, limits, accounts, notifications, retention."),
    Entry("audit", "Audit log", "Admin", "history", (Action.VIEW_AUDIT,),
          "Who saw, reviewed, exported and changed what."),
    Entry("case", "Case", "", "article", (),  # in no menu: it is empty without a case
          "One case with its text, reviews and history."),
)  # fmt: skip

GROUPS = ("", "Review", "Screen", "Research", "Admin")


def pages_for(actor: Actor | None) -> Mapping[str, Sequence[st.Page]]:
    """The pages that exist, by group, hidden where this person could do nothing on them.

    The first one is the home of everybody, so that every other page has one address for all. A hidden page stands in
    no group: a group is shown for what can be done in it.
    """
    grouped: dict[str, list[st.Page]] = {group: [] for group in GROUPS}
    for entry in ENTRIES:
        shown = actor is not None and any(  # on anything at all, their own things included
            is_allowed(actor, action) or is_allowed(actor, action, owner=actor.id) for action in entry.actions
        )
        home = entry is ENTRIES[0]
        page = st.Page(
            FOLDER / f"{entry.file}.py",
            title=entry.title,
            icon=f":material/{entry.icon}:",
            help=entry.help,
            url_path=None if home else entry.address or entry.file,
            default=home,
            visibility="visible" if shown else "hidden",
        )
        grouped[entry.group if shown else ""].append(page)
    return {group: pages for group, pages in grouped.items() if pages}


NOT_A_CRISIS_SERVICE = "Screens text. Does not assess a person's risk. Not a crisis service."
STOPPED = "AI decisions paused: every new text is escalated to a clinician."


def say_notice(place: DeltaGenerator, site: SiteSettings, *, simulated: bool) -> None:
    """Every page's notice, which stays until a run writes it anew, so that nothing below it moves."""
    parts = [f":orange-badge[⚠ {literal(SIMULATED_NOTICE)}]"] if simulated else []
    parts += [f":small[{NOT_A_CRISIS_SERVICE}]"]
    parts += [f":small[In crisis? {literal(site.help_text)}]"] if site.help_text.strip() else []
    place.markdown(" ".join(parts))  # a caption is too faint for the badge
    if site.stopped:
        place.error(STOPPED, icon=":material/pause_circle:")
    st.session_state[NOTICED] = True


def mount(name: str, data: Mapping[str, Any], key: str) -> None:
    """Place a component of the browser's: all that it asks of the page is to ``run`` again."""
    _component(name)(data=[data], key=key, on_run_change=lambda: None)


@lru_cache
def _component(name: str) -> Callable[..., object]:
    """Registered once a process: Streamlit reads its files to do so."""
    css, component = None if name == "typed" else f"{name}.css", st.components.v2.component
    return component(f"second-look-browser.{name}", js=f"{name}.js", css=css, isolate_styles=name != "inbox")


LOOK_EVERY = timedelta(seconds=3)


@singleton
def stalled() -> SharedLook[tuple[Sequence[StalledBatch], SiteSettings, Sequence[datetime]]]:
    """What keeps texts from being screened, the site's settings, and since when files are not taken in any further."""
    return SharedLook(
        lambda db, now: (stalled_batches(db, now), current(db).settings, files_halted_since(db)), LOOK_EVERY
    )


def stalled_lines(db: Database, now: datetime) -> tuple[str, ...]:
    """The banner's paragraphs; empty while all that waits is on its way."""
    found, site, halted = stalled().at(db, now)
    lines = banner_lines(found, site, now)
    if not halted:
        return lines
    first, where = ("", "The upload's page") if len(halted) == 1 else ("the first ", "The page of each upload")
    return (
        *lines,
        f"▲ Part of {count_of(len(halted), 'file')} was not imported, {first}since {local_time(halted[0], now)}: those "
        f"texts are not screened or reviewed. {where} says why.",
    )


def banner_lines(found: Sequence[StalledBatch], site: SiteSettings, now: datetime) -> tuple[str, ...]:
    """One paragraph a cause, where not all of it is mended alike with each way and its number of texts; and what
    becomes of the texts meanwhile.
    """
    said = list[str]()
    for cause in dict.fromkeys(one.cause for one in found):
        same, ways = [one for one in found if one.cause == cause], Counter[str]()
        for one in same:
            ways[_mend(one)] += one.waiting
        waiting, what = ways.total(), error_words(cause)
        mend = " ".join(ways) if len(ways) == 1 else " ".join(f"For {n:,} of them: {way}" for way, n in ways.items())
        since = f"{'' if waiting == 1 else 'the first '}since {local_time(min(one.since for one in same), now)}"
        texts = count_of(waiting, "text is", "texts are")
        said.append(f"▲ {what[0].upper()}{what[1:]}. {texts} not screened, {since}. {mend}")
    meanwhile = (
        f"After {site.unscreened_minutes:g} minutes such a text enters the review queue as not screened, unless its "
        "upload is an overnight one or only lists or counts unsafe texts. None is taken for safe."
    )
    return (*said, meanwhile) if said else ()


def _mend(one: StalledBatch) -> str:
    if one.cause == NO_WORKER:
        return "Whoever runs the server can fix it: start the worker. Nothing needs to be pressed here."
    if one.cause == NO_PROGRESS:
        return "Whoever runs the server can fix it: look at the worker's log, and restart the worker."
    who = "Whoever began the upload, or an administrator,"
    if one.cause in CAP_REACHED and one.state is not None:
        return f"{who} can fix it: Continue without a limit, on the upload's page."
    if first := error_kind(one.cause).mend:
        who = f"{first}; then whoever began the upload"
    if one.state is BatchState.PAUSED:
        return f"{who} presses Resume on the upload's page."
    if one.state is None:
        return f"{who} presses Retry on the upload's page, or Try again under a single text."
    return "It goes on by itself once that is over; whoever runs the server can look at the model's service."


RETRY_S = 2.0
FAULT_WORDS = words_of(lambda name: Fault[name.upper()], "database_fault")
SAVED = "Anything marked saved is saved. Your last action may not be."
NOTICED = "noticed"
log = logging.getLogger(__name__)


def passing_words(error: Exception) -> str | None:
    """What is wrong with the database where that passes by itself; None for every other error.

    >>> from sqlalchemy.exc import TimeoutError
    >>> passing_words(TimeoutError()), passing_words(ValueError())
    ('The database is busy or full.', None)
    """
    fault = passing_fault(error)
    return None if fault is None else FAULT_WORDS[fault]


@contextmanager
def run_again_while_away(notice: DeltaGenerator, place: DeltaGenerator) -> Iterator[None]:
    """Around a run of the whole page: while the database can't be used, ``place`` says so and the page runs again.
    A page that has no ``notice`` yet gets the one that every site has. What the page showed stays meanwhile, since a
    run that ends in another one clears nothing.
    """
    try:
        yield
    except Exception as error:
        if (words := passing_words(error)) is None:
            raise
        if NOTICED not in st.session_state:
            say_notice(notice, SiteSettings(), simulated=False)
        away = "What this page shows may be out of date. It tries again by itself."
        place.error(f"{words} {SAVED} {away}", icon=":material/database_off:")
        time.sleep(RETRY_S)
        st.rerun()


def say_fault(error: Exception) -> bool:
    """Say in our words that the page, or the part of it that ran alone, failed; True: the library need not say it.

    For the app's ``on_script_error``. The library has logged the error by then; the number leads to its place there.
    """
    if (words := passing_words(error)) is not None:
        st.error(f"{words} {SAVED} Try again in a moment.", icon=":material/database_off:")
    elif isinstance(error, UnreadablePipeline):
        another = "It is the active one: an administrator activates another on the page Pipelines."
        st.error(f"{literal(sentence(error))} {another}", icon=":material/account_tree:")
    elif isinstance(error, UnreadableConfiguration):
        elsewhere = "What was screened with it is in Results, Misclassified and the exports."
        st.error(f"{literal(sentence(error))} {elsewhere}", icon=":material/account_tree:")
    else:
        number = secrets.token_hex(3)
        log.error("page fault %s: %s", number, type(error).__name__)
        again = "Load the page again. If it fails again, give this number to whoever runs this site:"
        st.error(f"Something went wrong. {SAVED} {again} {number}.", icon=":material/error:")
    return True


def controls(db: Database, person: Actor, site: SiteSettings) -> None:
    """Draw them. Call it after the page's own elements have their place, so that they come last in reading order."""
    with st.container(key="controls", horizontal=True, horizontal_alignment="right"):
        if is_allowed(person, Action.STOP):  # everybody may, and fewer may start again; both ask for confirmation
            paused, running = ("AI decisions paused", "stopped_switch"), ("Pause AI decisions", "stop_switch")
            said, key = paused if site.stopped else running
            with st.popover(said, icon=":material/pause_circle:", key=key):
                stop_panel(db, person, site, key="popover")
        if context.sign_in_configured():
            with st.popover("Account", icon=":material/person:"):
                st.text(visible(person.name))
                st.caption(", ".join(sorted(person.roles)) or "no role")
                st.html(auth.SIGN_OUT_FORM)


def stop_panel(db: Database, person: Actor, site: SiteSettings, *, key: str = "panel") -> None:
    if not site.stopped:
        st.write(
            "The AI stops deciding: every new text is escalated to a clinician until you resume. Reviews continue."
        )
        if st.button("Pause now", key=f"stop_{key}", type="primary", icon=":material/pause_circle:"):
            settings_store.stop(db, person.at(context.now()))
            st.rerun()
        return
    st.write(STOPPED)
    if not is_allowed(person, Action.START):
        st.write("A senior reviewer or an administrator can resume them.")
    elif st.button("Resume AI decisions", key=f"start_{key}", icon=":material/play_arrow:"):
        settings_store.start(db, person.at(context.now()))
        st.rerun()
