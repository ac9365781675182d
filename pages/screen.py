"""Screen one text and watch the agents' labels being eliminated."""

import streamlit as st

from pages.batches.pipelines import choose, decided_or_said, least_calls
from pages.batches.single_text import Typed, empty_html, hand_in, status_html, view_html
from pages.components import resources
from pages.components.sign_in import polled
from pages.components.untrusted_text import show_text
from screening.engine.pipeline import PipelineConfig
from screening.review.policy import Action, Forbidden, require
from storage.batches import batches, single_texts
from storage.batches.pipelines import active_version
from storage.batches.single_texts import SingleText, UnknownText

POLL_S = 0.5
PATIENCE_S = 4
"""Seconds without a draw after which the page says that it waits for the worker."""

db, person, settings = resources.database(), resources.actor(), resources.settings()
require(person, Action.SCREEN_TEXT)


def found() -> SingleText | None:
    """The text named in the address, None where there is none of this person's."""
    try:
        return single_texts.look(db, person, st.query_params["case"]) if "case" in st.query_params else None
    except (UnknownText, Forbidden):
        del st.query_params["case"]
        return None


def text_form(running: bool) -> None:
    """The inputs; a press while a text is being screened does nothing."""
    with st.form("text", border=False):
        raw = st.text_area("Text", height=190, key="raw", help="Shown to the agents as it is.")
        reply = reply_field()
        choice = choose(settings, active_version(db), "screen")
        pressed = st.form_submit_button(
            "Screen",
            type="primary",
            shortcut="ctrl+enter",
            disabled=running,
            width="stretch",
            icon=":material/play_arrow:",
        )
    if not pressed or running:
        return
    if not raw.strip():
        st.error("Write or paste a text first.", icon=":material/edit:")
    elif (pipeline := decided_or_said(choice)) is not None:
        start(Typed(text=raw, reply=reply), pipeline)


def reply_field() -> str:
    """For the reply to the text; out of the way, but open where one was written, so that none goes out unseen."""
    with st.expander("Reply of a chatbot (optional)", expanded=bool(st.session_state.get("reply"))):
        st.caption("The agents are shown both and judge them together.")
        return st.text_area("Reply of a chatbot", height=110, key="reply", label_visibility="collapsed")


def start(typed: Typed, pipeline: PipelineConfig) -> None:
    """Hand the text in and look at it by its address from now on."""
    now = resources.now()
    st.query_params["case"] = hand_in(db, person, typed, resources.configuration(pipeline), settings, now)
    st.rerun()


def stop_button(single: SingleText | None, running: bool) -> None:
    """Always in its place. Outside the fragment: a press during a tick must not be lost."""
    if st.button("Stop", icon=":material/stop_circle:", shortcut="esc", disabled=not running, width="stretch"):
        if single is not None and running:
            single_texts.stop(db, person, single.case_id, resources.now())
        st.rerun()


def live(case_id: str) -> None:
    """One tick: say that somebody watches, show what there is, and give the page back when it has ended."""
    single = single_texts.look(db, person, case_id)
    now = resources.now()
    if single.ended:
        st.rerun(scope="app")
    single_texts.watch(db, person, case_id, now)
    waiting = not single.draws and (now - single.submitted_at).total_seconds() > PATIENCE_S
    st.html(status_html(single, waiting=waiting))
    st.html(view_html(single, now))


def settled(single: SingleText) -> None:
    """What came of it; what failed can be taken up again."""
    st.html(status_html(single, waiting=False))
    if single.outcome is not None and single.outcome != "safe":
        st.text(f"If you are worried about somebody: {resources.site().help_text}")  # a site's own words
    if (
        single.error is not None
        and single.state != "cancelled"
        and st.button("Try again", icon=":material/replay:", key=f"retry_{single.case_id}")
    ):
        single_texts.watch(db, person, single.case_id, resources.now())  # first, or a worker finds it unwatched
        batches.retry_failed(db, person, single.batch_id, resources.now())
        st.rerun()
    st.html(view_html(single, resources.now()))


single = found()
running = single is not None and not single.ended
left, right = st.columns([1, 2.5], gap="medium")
with left:
    st.title("Screen a text")
    text_form(running)
    stop_button(single, running)
    if single is not None and not st.session_state.get("raw"):
        show_text(single.text, label="The text that was screened")
        if single.reply is not None:
            show_text(single.reply, label="The reply to it")
    st.caption(
        "What you enter goes to the configured agents and into this site's database, never into a log. "
        + least_calls(single.configuration.pipeline if single else resources.usual_pipeline())
    )
with right:
    if single is None:
        st.html(empty_html(resources.usual_pipeline()))
    elif running:
        st.fragment(polled(live), run_every=POLL_S)(single.case_id)
    else:
        settled(single)
