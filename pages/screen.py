"""Screen one text or conversation and watch the agents' labels being eliminated."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime

import streamlit as st

from jobs.agents import reads_off
from jobs.intake import open_batch, receiver
from pages.batches import file_check, pipelines
from pages.ui import auth, context, html
from pages.ui.engine_view import evidence_sentence, live_html, node_views, way_html
from pages.ui.words import (
    DELTA_MEANING,
    FLAG_WORDS,
    OUTCOME_ICONS,
    OUTCOME_WORDS,
    REASON_WORDS,
    STATE_WORDS,
    error_words,
    local_time,
    money,
)
from screening.datasets.conversations import TurnsRefused, read_case
from screening.datasets.mapping import ASKED, JUDGED, ConversationReading, Shape
from screening.datasets.rows import FileRefused, NewCase
from screening.datasets.text_files import decode
from screening.labels import Label, Outcome
from screening.pipeline.config import PipelineConfig, most_calls
from screening.pipeline.engine import Reason
from screening.pipeline.files import NO_LABEL
from screening.review.policy import Action, Forbidden, is_allowed, require
from screening.text.conversation import MOST_TURNS, Judged, Question
from screening.text.display import visible
from screening.text.flags import REFUSES_SAFE, SECOND_LOOK, STATED, Flag
from storage.batches import batches, configurations, single_texts
from storage.batches.batch_state import BatchState
from storage.batches.batches import NewBatch
from storage.batches.single_texts import SingleText, UnknownText
from storage.site.health import Fault, find_lasting, workers_answer

NAME = "Single text"
EXAMPLE = "Finished the history essay at two in the morning. Some days I wonder what all of this is for."
PATIENCE_S = 4
"""Seconds without a start after which the page says that it waits for the worker."""
ANSWERS_WITHIN_S = 10
"""Seconds without any answer after which the page says since when none has come."""
SAME_PRESS_S = 3.0
"""The same words handed in again within so many seconds are the same press: keys repeat, and servers are slow."""
COLORS = {Outcome.SAFE: "safe", Outcome.UNSAFE: "unsafe", Outcome.HUMAN_REVIEW: "escalate"}
TEXT, CONVERSATION = "A text", "A conversation"
MISSING = {TEXT: "Write or paste a text first.", CONVERSATION: "Paste a conversation first."}
EMPTY: Mapping[str, str] = {"raw": "", "reply": "", "conversation": "", "speakers": ""}
Typed = tuple[str, str, ConversationReading | None]
"""What was typed: a text, the reply to it (white space alone is none, as in a file), and with a reading of it as a
conversation that the text is one.
"""

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
        context.remember_refusal(refused, st.query_params.pop("case"))
    return None


def text_form(running: bool) -> None:
    """Ctrl+Enter is the form's own, in its boxes: a shortcut of the button beside it would press twice."""
    kind = st.segmented_control(
        "What to screen", [TEXT, CONVERSATION], default=TEXT, key="handed_in", label_visibility="collapsed",
        width="stretch", required=True,
    ) or TEXT  # fmt: skip
    with st.form("text", border=False):
        typed = typed_fields(kind)
        handed_in = st.form_submit_button(
            "Screen", type="primary", disabled=running, width="stretch", icon=":material/play_arrow:"
        )
        with st.expander("Advanced: pipeline, error bound, limits"):
            chosen = pipelines.choose(settings, configurations.active_version(db), "screen")
    if not handed_in or running:
        return
    if not typed[0].strip():
        st.error(MISSING[kind], icon=":material/edit:")
    elif (pipeline := pipelines.decide_or_refuse(chosen)) is not None:
        start(typed, pipeline)


def typed_fields(kind: str) -> Typed:
    if kind == CONVERSATION:
        return conversation_fields()
    raw = st.text_area("Text", height=190, key="raw", help="Shown to the agents as it is. Ctrl+Enter submits it.")
    with st.expander("Chatbot reply (optional)", expanded=bool(st.session_state.get("reply"))):  # none goes out unseen
        st.caption("The agents are shown both and judge them together.")
        return raw, st.text_area("Chatbot reply", height=110, key="reply", label_visibility="collapsed"), None


def conversation_fields() -> Typed:
    """The boxes for one conversation, or its file, and what is judged of it. A file comes before what is pasted."""
    pasted = st.text_area(
        "Conversation", height=190, key="conversation",
        placeholder="User: I cannot sleep.\nAssistant: What keeps you awake?\nUser: …",
        help=f"Lines of Name: text, or messages in JSON as files have them; {MOST_TURNS:,} turns at most.",
    )  # fmt: skip
    file = conversation_file()
    judged = st.selectbox(
        "What to judge", (Judged.LAST_USER, Judged.WHOLE), format_func=JUDGED.__getitem__, key="judged"
    )
    asked = st.selectbox("Question", ((Question.TEXT,), (Question.REPLY,)), format_func=ASKED.__getitem__, key="asked")
    names = st.text_input("Speaker names", key="speakers", placeholder="Anna=user, Ben=assistant")
    reading = ConversationReading(
        shape=Shape.TRANSCRIPT, judged=judged, questions=asked, speakers=file_check.speakers_of(names) or ()
    )
    return pasted if file is None else file, "", reading


def conversation_file() -> str | None:
    """The words of a conversation's file; None without one. Only for people who may send files."""
    if not is_allowed(person, Action.CREATE_BATCH):
        return None
    number = st.session_state.get("conversation_number", 0)
    kinds, key = ["txt", "json", "jsonl"], f"conversation_file_{number}"
    file = st.file_uploader("Or upload a file (overrides the text)", type=kinds, key=key)
    try:
        return None if file is None else decode(file.getvalue())
    except FileRefused as refusal:
        st.error(visible(str(refusal)), icon=":material/error:")
        return ""


def start(typed: Typed, pipeline: PipelineConfig) -> None:
    """Hand the text in and look at it by its address; the same words at nearly the same time are one press."""
    now, handed_in = context.now(), (typed, pipeline.version)
    before, key, at = st.session_state.get("press", (None, "", now))
    if before != handed_in or (now - at).total_seconds() >= SAME_PRESS_S:
        key = secrets.token_hex(16)
    st.session_state["press"] = handed_in, key, now
    try:
        st.query_params["case"] = submit(typed, pipeline, key, now)
    except TurnsRefused as refusal:
        st.error(f"It cannot be read as a conversation: {refusal}.", icon=":material/edit:")
        return
    st.session_state["press"] = handed_in, key, context.now()
    st.rerun()


def submit(typed: Typed, pipeline: PipelineConfig, key: str, now: datetime) -> str:
    """Submit one text or conversation; the case's id. Under one key it is one text. Raises TurnsRefused."""
    take, (text, reply, conversation) = receiver(settings), typed
    if conversation is not None:
        case = read_case(text, conversation, take)
    else:
        received = take(reply) if reply.strip() else None
        case = NewCase(row=1, external_id="text", text=take(text), reply=received)
    new = NewBatch(name=NAME, kind="interactive", submission=key)
    batch_id = open_batch(db, person, pipeline, new, context.settings_now(), lambda: now)
    return single_texts.submit(db, person.at(now), batch_id, case)


def buttons(single: SingleText | None, running: bool) -> None:
    stop, new = st.columns(2)
    if stop.button("Stop", icon=":material/stop_circle:", shortcut="esc", disabled=not running, width="stretch"):
        if single is not None and running:
            single_texts.stop(db, person.at(context.now()), single.case_id)
        st.rerun()
    new.button("New text", icon=":material/note_add:", disabled=running, width="stretch", on_click=clear)


def clear() -> None:
    """Empty boxes for the next text, its conversation's reading chosen anew; the one before stays where it is kept."""
    st.session_state.update(EMPTY)
    st.session_state["conversation_number"] = st.session_state.get("conversation_number", 0) + 1
    st.session_state.pop("press", None)
    st.query_params.clear()


def take_up(single: SingleText) -> None:
    by = person.at(context.now())
    single_texts.watch(db, by, single.case_id)  # first, or a worker withdraws it as unwatched
    batches.retry_failed(db, by, single.batch_id)
    st.rerun()


def show_text_now() -> None:
    """The text as it stands, each second; what has not changed in its parts is not drawn again."""
    now, found = context.now(), find_text()
    if found is not None and running and found.ended:
        st.rerun(scope="app")
    if found is not None and not found.ended:
        single_texts.watch(db, person.at(now), found.case_id)
    for part in empty_html(context.usual_pipeline()) if found is None else view_html(found, now):
        st.html(part)
    st.caption(DELTA_MEANING)


def empty_html(pipeline: PipelineConfig) -> tuple[str, str, str]:
    """Status, what is spent and the agents, before anything is asked."""
    cards, said = html.macros("cards"), ["Each AI agent is queried repeatedly until one answer clearly leads."]
    views = node_views(pipeline, {}, ended=False)
    most, at_worst = (most_calls(pipeline, flagged=of, read_off=reads_off(settings, pipeline)) for of in (False, True))
    more = f" ({at_worst} where a rule flags the text)" if at_worst > most else ""
    return (
        cards.status("○ Ready", "quiet", said),
        cards.budget(0, most, more, money(0.0)),
        way_html(pipeline, {}, ended=False) + live_html(views, ended=False),
    )


def view_html(single: SingleText, now: datetime) -> tuple[str, str, str]:
    """What is going on or came of it, what is spent, and the agents; where to find help unless it is safe."""
    cards, (title, color, sentences) = html.macros("cards"), status(single, now)
    worried = single.outcome is not None and single.outcome is not Outcome.SAFE
    more = [f"Worried about someone? {context.site().help_text}"] if worried else []
    may_read = any(is_allowed(person, action) for action in (Action.CLAIM_NEXT, Action.BROWSE_QUEUE))
    case = single.case_id if may_read else ""
    until = single.completed_at or (None if single.ended else now)
    seconds = max((until - single.submitted_at).total_seconds(), 0.0) if until else None  # by two machines' clocks
    sampler, nodes = single.configuration.sampler, single.pipeline.nodes
    simulated = sampler.get("sampler") == "simulated"
    cost = single.cost_usd if single.completed_at else 0.0 if simulated else None
    # an agent may have been asked for its probabilities: what a named server speaks, the settings say
    read_off = "most_unknown" in sampler or any(node.server or node.protocol == "logprobs" for node in nodes)
    flagged = any(found & SECOND_LOOK for found in single.flags.values())
    most = most_calls(single.pipeline, flagged=flagged, read_off=read_off)
    views = node_views(single.pipeline, single.draws, ended=single.ended)
    way = way_html(single.pipeline, single.draws, ended=single.ended, outcome=single.outcome)
    return (
        cards.status(title, color, [*sentences, *more], given=True, waits=single.in_inbox, case=case),
        cards.budget(single.calls, most, "" if seconds is None else f" · {seconds:.0f} s", money(cost)),
        way + live_html(views, ended=single.ended),
    )


def status(single: SingleText, now: datetime) -> tuple[str, str, Sequence[str]]:
    if single.outcome is not None:
        title = f"{OUTCOME_ICONS[single.outcome]} {OUTCOME_WORDS[single.outcome]}"
        found = found_sentences(single)
        if not found and single.reason is Reason.IDENTIFIED:
            found = ["No phrase of the risk list was found in it: the label rests on the agents' answers alone."]
        return title, COLORS[single.outcome], [*outcome_sentences(single), *found]
    if single.state is BatchState.CANCELLED:
        return "■ Stopped", "quiet", ["Nothing was decided. The text is kept as undecided, never as safe."]
    if single.error is not None:
        kept = f"It is kept, undecided: {error_words(single.error)}."
        return "! Not decided", "escalate", [kept, *found_sentences(single)]
    if single.state is BatchState.PAUSED:
        return STATE_WORDS[single.state], "quiet", ["Somebody paused it; it goes on when it is resumed."]
    answers, heard = workers_answer(db, now)
    if not answers:
        known = heard and f"No response since {local_time(heard, heard)}."
        saved = "Your text is saved and will be screened when service resumes."
        down = f"{known or 'No background service is running.'} {saved}"
        return "○ Screening is down", "quiet", [down, *found_sentences(single)]
    if (fault := find_lasting(db, Fault.MODEL)) is not None:
        since = local_time(fault.began_at, now)
        saved = f"Since {since}. Your text is saved and will be screened when the model answers again."
        title = error_words(fault.cause or NO_LABEL).capitalize()
        return f"! {title}", "escalate", [saved, *found_sentences(single)]
    if not single.started and (now - single.submitted_at).total_seconds() > PATIENCE_S:
        return "○ Waiting to start", "quiet", ["It starts as soon as the background service is free."]
    unheard = []
    if single.heard_at is not None and (now - single.heard_at).total_seconds() >= ANSWERS_WITHIN_S:
        since = local_time(single.heard_at, single.heard_at)  # the moment stays the same, so that it is read out once
        unheard = [f"No answer has come since {since}; the agents are asked again by themselves."]
    return "● Asking the agents", "open", [*unheard, *found_sentences(single)]


def outcome_sentences(single: SingleText) -> list[str]:
    reason = single.reason or Reason.UNREADABLE
    if reason is Reason.IDENTIFIED:
        label = Label(single.outcome or Outcome.HUMAN_REVIEW)
        node = single.pipeline.node(single.node or "")
        return [f"{node.title}: {evidence_sentence(single.draws[f'{node.name}/main'], label)}"]
    at = f"{single.pipeline.node(single.node).title}: " if single.node else ""
    words = REASON_WORDS[reason]
    return [f"{at}{words if at else words[0].upper() + words[1:]}."]


def found_sentences(single: SingleText) -> list[str]:
    """What was found in the text and the reply; of what is stated, the phrase itself."""
    parts = (("text", single.text, single.thread), ("reply", single.reply or "", None))
    stated = {part: html.flagged_phrases(words, thread) for part, words, thread in parts if single.flags[part] & STATED}
    told = {part: found - STATED if stated.get(part) else found for part, found in single.flags.items()}
    weighty = [flag for flag in Flag if flag in REFUSES_SAFE | SECOND_LOOK]
    found = [f"{phrase.words}." for phrases in stated.values() for phrase in phrases]
    return found + [
        f"Found in the {part}: {FLAG_WORDS[flag]}." for part in told for flag in weighty if flag in told[part]
    ]


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
    if parked and st.button("Try again", icon=":material/replay:", key=f"retry_{parked.case_id}"):
        take_up(parked)
    if single is not None and (single.thread is not None or not st.session_state.get("raw")):
        words = "conversation" if single.thread else "text"
        st.html(html.texts_html(single.text, single.thread, single.reply, label=f"The {words} that was screened"))
    where = "" if context.settings().simulated else "sent to the AI and "
    st.caption(
        f"Your text is {where}stored in the database. Do not paste protected health information (PHI) unless your site "
        "allows it."
    )
with right, st.container(key="live_text"):
    st.fragment(auth.poll_session(show_text_now), run_every=1.0 if running else None)()
