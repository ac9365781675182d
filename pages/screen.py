"""Screen one text or conversation and watch the agents' labels being eliminated."""

import streamlit as st

from pages.batches.pipelines import choose, decide_or_refuse
from pages.batches.single_text import (
    MISSING,
    Typed,
    choose_kind,
    clear_fields,
    empty_html,
    hand_in,
    press_of,
    typed_fields,
    view_html,
)
from pages.ui import context
from pages.ui.auth import poll_session
from pages.ui.context import remember_refusal
from pages.ui.labels import DELTA_MEANING
from pages.ui.texts import texts_html
from screening.datasets.turns import TurnsRefused
from screening.pipeline.config import PipelineConfig
from screening.review.policy import Action, Forbidden, is_allowed, require
from storage.batches import batches, single_texts
from storage.batches.pipelines import active_version
from storage.batches.single_texts import SingleText, UnknownText
from storage.site.faults import Fault, find_lasting
from storage.site.processes import workers_silence

EXAMPLE = "Finished the history essay at two in the morning. Some days I wonder what all of this is for."

db, person, settings = context.database(), context.actor(), context.settings()
require(person, Action.SCREEN_TEXT)


def find_text() -> SingleText | None:
    """The text named in the address, None where there is none of this person's."""
    try:
        with db.one_snapshot():  # headline, counters and agents are of one moment
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
        handed_in = st.form_submit_button(
            "Screen", type="primary", disabled=running, width="stretch", icon=":material/play_arrow:"
        )
        with st.expander("Advanced: pipeline, error bound, limits"):
            chosen = choose(settings, active_version(db), "screen")
    if not handed_in or running:
        return
    if not typed.text.strip():
        st.error(MISSING[kind], icon=":material/edit:")
    elif (pipeline := decide_or_refuse(chosen)) is not None:
        start(typed, pipeline)


def start(typed: Typed, pipeline: PipelineConfig) -> None:
    """Hand the text in, once a press, and look at it by its address from now on."""
    now = context.now()
    press = press_of(st.session_state.get("press"), (typed, pipeline.version), now)
    st.session_state["press"] = press
    try:
        configuration = context.configuration(pipeline)
        st.query_params["case"] = hand_in(db, person.at(now), typed, press[1], configuration, settings)
    except TurnsRefused as refusal:
        st.error(f"It cannot be read as a conversation: {refusal}.", icon=":material/edit:")
        return
    st.session_state["press"] = (*press[:2], context.now())
    st.rerun()


def buttons(single: SingleText | None, running: bool) -> None:
    """The buttons of the page, always in the same places."""
    stop, new = st.columns(2)
    if stop.button("Stop", icon=":material/stop_circle:", shortcut="esc", disabled=not running, width="stretch"):
        if single is not None and running:
            single_texts.stop(db, person.at(context.now()), single.case_id)
        st.rerun()
    new.button("New text", icon=":material/note_add:", disabled=running, width="stretch", on_click=clear)


def clear() -> None:
    """An empty page for the next text; the one before stays where it is kept."""
    clear_fields()
    st.session_state.pop("press", None)
    st.query_params.clear()


def retry_button(single: SingleText) -> None:
    """The button that has a failed text tried again."""
    if st.button("Try again", icon=":material/replay:", key=f"retry_{single.case_id}"):
        take_up(single)


def take_up(single: SingleText) -> None:
    """Ask the agents once more."""
    by = person.at(context.now())
    single_texts.watch(db, by, single.case_id)  # first, or a worker withdraws it as unwatched
    batches.retry_failed(db, by, single.batch_id)
    st.rerun()


def show_text_now() -> None:
    """The text as it stands, each second while it is screened; once it has ended the page runs, for its buttons."""
    now, found = context.now(), find_text()
    if found is None:
        show_parts(empty_html(context.usual_pipeline()))
        return
    if running and found.ended:
        st.rerun(scope="app")
    if not found.ended:
        single_texts.watch(db, person.at(now), found.case_id)
    may_read = any(is_allowed(person, action) for action in (Action.CLAIM_NEXT, Action.BROWSE_QUEUE))
    silence = None if found.ended else workers_silence(db, now)
    fault = None if found.ended else find_lasting(db, Fault.MODEL)
    show_parts(view_html(found, now, context.site().help_text, may_read=may_read, silence=silence, fault=fault))


def show_parts(parts: tuple[str, ...]) -> None:
    """Each in a place of its own: what has not changed is not drawn again."""
    for part in parts:
        st.html(part)
    st.caption(DELTA_MEANING)


if st.query_params.pop("example", None) and not st.session_state.get("raw"):
    st.session_state["raw"] = EXAMPLE
single = find_text()
parked = single if single and single.error and single.state != "cancelled" else None
if parked and parked.error == "unwatched":
    take_up(parked)  # it was withdrawn while nobody seemed to watch: somebody does now
running = single is not None and not single.ended
st.title("Screen a text")
left, right = st.columns([1, 2.5], gap="medium")
with left:
    text_form(running)
    buttons(single, running)
    if parked:
        retry_button(parked)
    if single is not None and (single.thread is not None or not st.session_state.get("raw")):
        words = "conversation" if single.thread else "text"
        st.html(texts_html(single.text, single.thread, single.reply, label=f"The {words} that was screened"))
    st.caption("Your text is sent to the AI and stored in the database. Do not paste PHI unless your site allows it.")
with right, st.container(key="live_text"):
    st.fragment(poll_session(show_text_now), run_every=1.0 if running else None)()
