"""The first page: what this is for, what is urgent and whether anybody is told, and the ways in."""

from collections.abc import Callable

import streamlit as st

from pages.batches.new_batch import sample_button
from pages.batches.progress import batch_line, find_hold, status_lines
from pages.research.reports import Figure, agreement_figure, first_look_figure, is_awaited, missed_figure
from pages.review.inbox_words import PRIORITY_WORDS, late_words, number_words, read_words
from pages.ui import auth, context
from pages.ui.shell import FOLDER
from pages.ui.words import duration, last_midnight, literal
from screening.review.policy import Action, is_allowed
from screening.review.triage import Priority
from screening.words import count_of
from storage.batches.batches import list_batches
from storage.review import follow_ups, queue, reports
from storage.site.outbox import told_of_urgent

POLL_S, CLAIMS_S = 5.0, 30.0
SHOWN_BATCHES = 3
URGENCY = {"red": (Priority.P0,), "orange": (Priority.P1,), "gray": (Priority.P2, Priority.P3)}

db, person = context.database(), context.actor()


def review_door() -> None:
    st.header("Cases to review")
    st.fragment(auth.poll_session(urgent), run_every=POLL_S)()
    with st.container(key="main_door"):
        st.page_link(FOLDER / "inbox.py", label="Open the queue", icon=":material/inbox:")


def urgent() -> None:
    """How many are open by priority, and what is overdue; updates by itself."""
    now = context.now()
    found = queue.counts(db, person.at(now))
    due = found.first_due_by_priority
    if not found.open:
        st.write("No cases to review.")
    else:
        for place, (color, priorities) in zip(st.columns(len(URGENCY)), URGENCY.items(), strict=True):
            number = sum(found.open_by_priority[priority] for priority in priorities)
            first = min((due[priority] for priority in priorities if priority in due), default=None)
            late = sum(found.late_by_priority[priority] for priority in priorities)
            words = ", ".join(PRIORITY_WORDS[priority] for priority in priorities)
            place.markdown(f"### :{color if number else 'gray'}[{number_words(number)}]\n{words}")
            if first is not None and first <= now:
                place.markdown(f":red[**{late_words(max(late, 1))}, oldest by {duration(now - first, least=60)}**]")
            elif first is not None:
                place.caption(f"first due in {duration(first - now, least=60)}")
    if is_allowed(person, Action.FOLLOW_UP, person.id):
        to_do = follow_ups.count_open(db, person.at(now))
        overdue = f", {late_words(to_do.open_overdue)}" if to_do.open_overdue else ""
        words = f":{'red' if overdue else 'orange'}[**{count_of(to_do.open, 'follow-up')} open{overdue}**]"
        if to_do.open:
            st.page_link(FOLDER / "inbox.py", label=words, query_params={"follow_ups": "1"})
    if is_allowed(person, Action.CLAIM_NEXT):
        st.caption(f"{read_words(reports.count_cases_read(db, person, last_midnight(now)))}.")


def nobody_told() -> None:
    """Said in red where no message about urgent cases goes out, or none has got through."""
    told = told_of_urgent(db)
    if any(one.problem is None for one in told):
        return
    why = "Messages to everyone who should be told have failed" if told else "No one is notified of urgent cases"
    st.error(
        f"**{why}.** They are seen only by people who have this page or the queue open.",
        icon=":material/notifications_off:",
    )
    if is_allowed(person, Action.CHANGE_SETTINGS):
        st.page_link(FOLDER / "settings.py", label="Set up notifications", icon=":material/settings:")


def screen_door() -> None:
    st.header("Screen one text")
    st.write("Paste a text or chat and see how the AI decides.")
    st.page_link(FOLDER / "screen.py", label="Screen a text", icon=":material/vital_signs:")
    st.page_link(
        FOLDER / "screen.py", label="Load an example", icon=":material/lightbulb:", query_params={"example": "1"}
    )


def upload_door() -> None:
    st.header("Screen a file")
    st.write("CSV, Excel, JSON Lines or Parquet. You see a check and a cost estimate before it runs.")
    st.page_link(FOLDER / "batch_list.py", label="Choose a file", icon=":material/upload_file:")
    sample_button()


def activity() -> None:
    now = context.now()
    st.header("System status")
    for well, words in status_lines(db, now):
        st.markdown(f":green[●] {literal(words)}" if well else f":red[**▲ {literal(words)}**]")
    found, held = list_batches(db, person, SHOWN_BATCHES, now=now), find_hold(db, now)
    for one in found:
        st.page_link(FOLDER / "batch_list.py", label=batch_line(one, held=held), query_params={"batch": one.id})
    if not found:
        st.caption("No file uploaded yet.")


def claims_told() -> list[Figure]:
    """Each figure for those alone who may open the page that it comes from."""
    told: list[Figure] = []
    if is_allowed(person, Action.VIEW_RESULTS):
        told.append(missed_figure(person))
    if is_allowed(person, Action.VIEW_COUNTS):
        told.append(first_look_figure(person.at(context.now())))
    if is_allowed(person, Action.VIEW_AGREEMENT):
        told.append(agreement_figure(person))
    return told


def claims(told: list[Figure]) -> None:
    """The figures, now and then anew: soon while one is computed, and less often from when it has come."""
    first, awaited = iter([told]), is_awaited(told)

    def look() -> None:
        now = next(first, None) or claims_told()
        st.header("Evidence so far")
        for place, (name, value, rests) in zip(st.columns(max(1, len(now))), now, strict=False):
            place.markdown(f"{name}\n### {literal(value)}")
            place.caption(literal(rests))
        if awaited and not is_awaited(now):
            st.rerun()

    st.fragment(auth.poll_session(look), run_every=POLL_S if awaited else CLAIMS_S)()


def doors() -> list[Callable[[], None]]:
    """The doors that are open to this person: for those who review the queue comes first, for others a file."""
    reads = is_allowed(person, Action.CLAIM_NEXT)
    every = (
        (reads, review_door, is_allowed(person, Action.VIEW_COUNTS)),
        (not reads and is_allowed(person, Action.VIEW_RESULTS), upload_door, is_allowed(person, Action.CREATE_BATCH)),
        (False, screen_door, is_allowed(person, Action.SCREEN_TEXT)),
    )
    return [door for _first, door, opened in sorted(every, key=lambda one: not one[0]) if opened]


st.title("Second Look")
st.markdown(
    "Second Look screens texts for signs of self-harm or suicide risk: AI agents label each text. What they cannot "
    "decide goes to a clinician, and so does what they label unsafe unless an upload is set otherwise. Clinicians' "
    "labels correct the data and measure what the AI misses."
)
if is_allowed(person, Action.VIEW_COUNTS):
    st.fragment(auth.poll_session(nobody_told), run_every=CLAIMS_S)()
if open_doors := doors():
    for number, (place, door) in enumerate(zip(st.columns([3, 2, 2][: len(open_doors)]), open_doors, strict=True)):
        with place, st.container(border=True, height="stretch", key="first_door" if number == 0 else f"door_{number}"):
            door()
below = st.columns(2)
if is_allowed(person, Action.VIEW_BATCHES):
    with below[0], st.container(border=True, height="stretch", key="door_status"):
        st.fragment(auth.poll_session(activity), run_every=POLL_S)()
with below[1], st.container(border=True, height="stretch", key="door_evidence"):
    claims(claims_told())
