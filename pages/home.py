"""The first page: what this is, and three doors; what a person's role is for stands first."""

from collections.abc import Callable

import streamlit as st

from jobs import uploads
from pages.components import resources
from pages.components.navigation import FOLDER
from pages.components.sign_in import poll_session
from pages.research.claims_today import Figure, agreement_figure, claims_html, is_awaited, missed_figure
from pages.review.inbox_words import last_midnight, read_words
from pages.review.shift_view import first_look_figure
from pages.review.waiting_door import waiting_html
from pages.site.doors import SAMPLE, activity_html, agents_words
from screening.review.policy import Action, is_allowed
from storage.batches.batches import list_batches
from storage.review.exposure import count_cases_read
from storage.review.queue import counts
from storage.review.tallies import first_due_by_tier
from storage.site.at_work import at_work

POLL_S, CLAIMS_S = 5.0, 30.0
SHOWN_BATCHES = 3

db, person = resources.database(), resources.actor()


def read_door() -> None:
    """What waits in the inbox, and the way to it."""
    st.html('<h2 class="sl-door">Read what waits</h2>')
    st.fragment(poll_session(waits), run_every=POLL_S)()
    with st.container(key="main_door"):
        st.page_link(FOLDER / "inbox.py", label="Open the inbox", icon=":material/inbox:")


def waits() -> None:
    """The counts, which update by themselves."""
    now = resources.now()
    st.html(waiting_html(counts(db, person.at(now)), first_due_by_tier(db, person), now))
    if is_allowed(person, Action.CLAIM_NEXT):
        st.caption(f"{read_words(count_cases_read(db, person, last_midnight(now)))}.")


def screen_door() -> None:
    """One text, or an example of one."""
    st.html('<h2 class="sl-door">Screen a text</h2><p>One text or a conversation; watch the agents decide.</p>')
    st.page_link(FOLDER / "screen.py", label="Open", icon=":material/vital_signs:")
    st.page_link(
        FOLDER / "screen.py", label="Try an example", icon=":material/lightbulb:", query_params={"example": "1"}
    )


def upload_door() -> None:
    """A file, or the sample that comes with the program."""
    st.html(
        '<h2 class="sl-door">Upload a file</h2><p>CSV, Excel, JSON lines, Parquet. Checked before anything is asked or '
        "paid.</p>"
    )
    st.page_link(FOLDER / "batch_list.py", label="Choose a file", icon=":material/upload_file:")
    if SAMPLE.exists() and st.button("Use the sample", icon=":material/table_view:"):
        folder = resources.settings().data_directory / uploads.BY_PEOPLE
        with SAMPLE.open("rb") as sample:
            kept = uploads.keep(folder, SAMPLE.name, sample, person.id)
        st.switch_page(FOLDER / "batch_list.py", query_params={"upload": kept.token})


def activity() -> None:
    """Which workers live, and how far the newest batches are; updates by itself."""
    now = resources.now()
    found = list_batches(db, person, SHOWN_BATCHES, now=now)
    st.html(activity_html(found, at_work(db, now), agents_words(resources.settings_now(), resources.own_pipeline())))


def claims_told() -> list[Figure]:
    """Each figure for those alone who may open the page that it comes from."""
    told: list[Figure] = []
    if is_allowed(person, Action.VIEW_RESULTS):
        told.append(missed_figure(person))
    if is_allowed(person, Action.VIEW_COUNTS):
        told.append(first_look_figure(person.at(resources.now())))
    if is_allowed(person, Action.VIEW_AGREEMENT):
        told.append(agreement_figure(person))
    return told


def claims(told: list[Figure]) -> None:
    """The figures, now and then anew: soon while one is computed, and less often from when it has come."""
    first, awaited = iter([told]), is_awaited(told)

    def look() -> None:
        now = next(first, None) or claims_told()
        st.html(claims_html(now))
        if awaited and not is_awaited(now):
            st.rerun()

    st.fragment(poll_session(look), run_every=POLL_S if awaited else CLAIMS_S)()


def doors() -> list[Callable[[], None]]:
    """The doors that are open to this person: for those who read the inbox comes first, for others a file."""
    reads = is_allowed(person, Action.CLAIM_NEXT)
    every = (
        (reads, read_door, is_allowed(person, Action.VIEW_COUNTS)),
        (not reads and is_allowed(person, Action.VIEW_RESULTS), upload_door, is_allowed(person, Action.CREATE_BATCH)),
        (False, screen_door, is_allowed(person, Action.SCREEN_TEXT)),
    )
    return [door for _first, door, opened in sorted(every, key=lambda one: not one[0]) if opened]


st.html(
    '<h1 class="sl-home">Second Look</h1><p class="sl-lead">Agents read each text several times and settle '
    "what the statistics allow. What they cannot settle, and what they call unsafe where the site reads it, goes to a "
    "clinician, and the readings show what may be claimed.</p>"
)
open_doors = doors()
if open_doors:
    for number, (place, door) in enumerate(zip(st.columns(len(open_doors)), open_doors, strict=True)):
        with place, st.container(border=True, height="stretch", key="first_door" if number == 0 else f"door_{number}"):
            door()
if is_allowed(person, Action.VIEW_BATCHES):
    with st.container(border=True):
        st.fragment(poll_session(activity), run_every=POLL_S)()
with st.container(border=True):
    claims(claims_told())
