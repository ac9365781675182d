"""Screen one text or conversation and watch the agents' labels being eliminated."""

from dataclasses import replace
from datetime import datetime

import streamlit as st

from pages.batches.pipelines import choose, decide_or_refuse, least_calls
from pages.batches.single_text import Typed, empty_html, hand_in, press_of, status_html, view_html
from pages.batches.what_to_screen import MISSING, choose_kind, clear_fields, typed_fields
from pages.components import resources
from pages.components.refusals import remember_refusal
from pages.components.sign_in import poll_session
from pages.components.thread import texts_html
from screening.datasets.turns import TurnsRefused
from screening.engine.pipeline import PipelineConfig
from screening.review.policy import Action, Forbidden, is_allowed, require
from storage.batches import batches, single_texts
from storage.batches.pipelines import active_version
from storage.batches.single_texts import SingleText, UnknownText

POLL_S = 0.5
SEEN_EVERY_S = 2.0
"""Seconds after which it is written down anew that somebody watches; a worker gives up after ten without."""
EXAMPLE = "Finished the history essay at two in the morning. Some days I wonder what all of this is for."

db, person, settings = resources.database(), resources.actor(), resources.settings()
require(person, Action.SCREEN_TEXT)


def find_text() -> SingleText | None:
    """The text named in the address, None where there is none of this person's."""
    try:
        return single_texts.look(db, person, st.query_params["case"]) if "case" in st.query_params else None
    except UnknownText:
        del st.query_params["case"]
    except Forbidden as refused:
        remember_refusal(refused, st.query_params.pop("case"))
    return None


def text_form(running: bool) -> None:
    """The inputs; a press while a text is being screened does nothing. Ctrl+Enter is the form's own, in its boxes: a
    shortcut of the button beside it would press twice.
    """
    kind = choose_kind()
    with st.form("text", border=False):
        typed = typed_fields(kind)
        choice = choose(settings, active_version(db), "screen")
        handed_in = st.form_submit_button(
            "Screen", type="primary", disabled=running, width="stretch", icon=":material/play_arrow:"
        )
    if not handed_in or running:
        return
    if not typed.text.strip():
        st.error(MISSING[kind], icon=":material/edit:")
    elif (pipeline := decide_or_refuse(choice, "screen")) is not None:
        start(typed, pipeline)


def start(typed: Typed, pipeline: PipelineConfig) -> None:
    """Hand the text in, once a press, and look at it by its address from now on."""
    now = resources.now()
    press = press_of(st.session_state.get("press"), typed, pipeline, now)
    given, st.session_state["press"] = replace(typed, key=press.key), press
    try:
        st.query_params["case"] = hand_in(db, person, given, resources.configuration(pipeline), settings, now)
    except TurnsRefused as refusal:
        st.error(f"It cannot be read as a conversation: {refusal}.", icon=":material/edit:")
        return
    st.session_state["press"] = replace(press, at=resources.now())
    st.rerun()


def buttons(single: SingleText | None, running: bool) -> None:
    """Always in their places. Outside the fragment: a press during a tick must not be lost."""
    stop, new = st.columns(2)
    if stop.button("Stop", icon=":material/stop_circle:", shortcut="esc", disabled=not running, width="stretch"):
        if single is not None and running:
            single_texts.stop(db, person, single.case_id, resources.now())
        st.rerun()
    new.button("New text", icon=":material/note_add:", disabled=running, width="stretch", on_click=clear)


def clear() -> None:
    """An empty page for the next text; the one before stays where it is kept."""
    clear_fields()
    st.session_state.pop("press", None)
    st.query_params.clear()


def view(case_id: str, shown_running: bool) -> None:
    """One tick, in the same two places from the first draw to the verdict: nothing moves when it ends."""
    single, now = single_texts.look(db, person, case_id), resources.now()
    if shown_running and single.ended:
        st.rerun(scope="app")
    if not single.ended:
        keep_watched(case_id, now)
    may_read = any(is_allowed(person, action) for action in (Action.CLAIM_NEXT, Action.BROWSE_QUEUE))
    help_text = resources.site().help_text if single.ended else ""  # said beside an outcome alone
    st.html(status_html(single, now, help_text, may_read=may_read))
    st.html(view_html(single, now))


def keep_watched(case_id: str, now: datetime) -> None:
    """Let the worker know that somebody watches: not with every tick, each of which would be a write."""
    seen, at = st.session_state.get("watched", ("", now))
    if seen != case_id or (now - at).total_seconds() >= SEEN_EVERY_S:
        single_texts.watch(db, person, case_id, now)
        st.session_state["watched"] = (case_id, now)


def retry_button(single: SingleText) -> None:
    """What failed can be taken up again."""
    if single.error is None or single.state == "cancelled":
        return
    if st.button("Try again", icon=":material/replay:", key=f"retry_{single.case_id}"):
        single_texts.watch(db, person, single.case_id, resources.now())  # first, or a worker finds it unwatched
        batches.retry_failed(db, person, single.batch_id, resources.now())
        st.rerun()


if st.query_params.pop("example", None) and not st.session_state.get("raw"):
    st.session_state["raw"] = EXAMPLE
single = find_text()
running = single is not None and not single.ended
left, right = st.columns([1, 2.5], gap="medium")
with left:
    st.title("Screen a text")
    text_form(running)
    buttons(single, running)
    if single is not None and (single.thread is not None or not st.session_state.get("raw")):
        words = "conversation" if single.thread else "text"
        st.html(texts_html(single.text, single.thread, single.reply, label=f"The {words} that was screened"))
    st.caption(
        "What you enter goes to the configured agents and into this site's database, never into a log. "
        + least_calls(single.pipeline if single else resources.usual_pipeline())
    )
with right:
    if single is None:
        for part in empty_html(resources.usual_pipeline()):
            st.html(part)
    else:
        st.fragment(poll_session(view), run_every=POLL_S if running else None)(single.case_id, running)
        retry_button(single)
