"""One submitted text on the page: handing it in, its live view, and what came of it in words that claim no more."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import streamlit as st

from jobs.intake import receiver
from pages.batches.mapping import speakers_of
from pages.ui import context
from pages.ui.charts import way_html
from pages.ui.engine_view import evidence_sentence, live_html, node_views
from pages.ui.format import local_time, money
from pages.ui.html import macros
from pages.ui.labels import (
    FLAG_WORDS,
    OUTCOME_ICONS,
    OUTCOME_WORDS,
    REASON_WORDS,
    STATE_WORDS,
    error_words,
)
from pages.ui.texts import flagged_phrases
from screening.datasets.conversations import read_case
from screening.datasets.mapping import ASKED, JUDGED, ConversationReading, Shape
from screening.datasets.rows import NewCase, Receive
from screening.datasets.sources import FileRefused
from screening.datasets.turns import SUFFIXES, decode, detect_shape
from screening.labels import Label, Outcome
from screening.pipeline.config import PipelineConfig, most_calls
from screening.pipeline.engine import Reason
from screening.pipeline.errors import NO_LABEL
from screening.review.actors import Acting
from screening.review.policy import Action, is_allowed
from screening.settings import Settings
from screening.text.conversation import MOST_TURNS, Judged, Question
from screening.text.display import visible
from screening.text.flags import REFUSES_SAFE, SECOND_LOOK, STATED, Flag
from storage.batches.batch_state import BatchState
from storage.batches.batches import NewBatch
from storage.batches.configurations import Configuration, save_configuration
from storage.batches.single_texts import SingleText, submit
from storage.database import Database
from storage.site.faults import Lasting
from storage.site.processes import Silence

NAME = "Single text"
PATIENCE_S = 4
"""Seconds without a start after which the page says that it waits for the worker."""
ANSWERS_WITHIN_S = 10
"""Seconds without any answer after which the page says since when none has come."""
SAME_PRESS_S = 3.0
"""The same words handed in again within so many seconds are the same press: keys repeat, and servers are slow."""

_COLOURS = {Outcome.SAFE: "safe", Outcome.UNSAFE: "unsafe", Outcome.HUMAN_REVIEW: "escalate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What was typed; a ``reply`` of white space alone is none, as in a file. With a reading of
    it as a ``conversation`` the text is one.
    """

    text: str
    reply: str = ""
    conversation: ConversationReading | None = None


Press = tuple[object, str, datetime]
"""What was last handed in on a page, under which key, and when."""


def press_of(last: Press | None, handed_in: object, now: datetime) -> Press:
    """The press that this is: the last one again, where it says the same at nearly the same time, else a new one."""
    again = last is not None and last[0] == handed_in and (now - last[2]).total_seconds() < SAME_PRESS_S
    return (handed_in, last[1], now) if last is not None and again else (handed_in, secrets.token_hex(16), now)


def hand_in(db: Database, by: Acting, typed: Typed, key: str, configuration: Configuration, settings: Settings) -> str:
    """Submit one text or conversation, and the reply to it where there is one, under this configuration; the case's
    id. Under the ``key`` of one press it is one text.

    Raises Forbidden, and TurnsRefused for what cannot be read as a conversation.
    """
    case = _case(typed, receiver(settings))
    new = NewBatch(
        name=NAME,
        kind="interactive",
        configuration_version=save_configuration(db, configuration, by.now),
        seed=settings.seed,
        audit_rate=settings.audit_rate,
        submission=key,
    )
    return submit(db, by, case, new)


def _case(typed: Typed, take: Receive) -> NewCase:
    if typed.conversation is not None:
        shape, cell = detect_shape(typed.text)
        return read_case(cell, replace(typed.conversation, shape=shape), take)
    reply = take(typed.reply) if typed.reply.strip() else None
    return NewCase(row=1, external_id="text", text=take(typed.text), reply=reply)


def empty_html(pipeline: PipelineConfig) -> tuple[str, str, str]:
    """Status, what is spent and the agents, before anything is asked."""
    cards, said = macros("cards"), ["Each AI agent is queried repeatedly until one answer clearly leads."]
    views = node_views(pipeline, {}, ended=False)
    return (
        cards.status("○ Ready", "quiet", said),
        cards.budget(0, most_calls(pipeline, flagged=True), "", money(0.0)),
        way_html(pipeline, {}, ended=False) + live_html(views, ended=False),
    )


def view_html(
    single: SingleText,
    now: datetime,
    help_text: str,
    *,
    may_read: bool,
    silence: Silence | None = None,
    fault: Lasting | None = None,
) -> tuple[str, str, str]:
    """What is going on or came of it, in the largest words of the page; what is spent, which each second changes; and
    the agents as they stand, which their answers change.

    The site's ``help_text`` is said unless the text was labeled safe; ``may_read``: the inbox is open to this person;
    ``silence``: no worker answers, ``fault``: the model does not, which matters to a text that is still pending.
    """
    cards, (title, color, sentences) = macros("cards"), _status(single, now, silence, fault)
    worried = single.outcome is not None and single.outcome is not Outcome.SAFE
    more = [f"Worried about someone? {help_text}"] if worried else []
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
        cards.status(title, color, [*sentences, *more], given=True, waits=single.in_inbox, linked=may_read),
        cards.budget(single.calls, most, "" if seconds is None else f" · {seconds:.0f} s", money(cost)),
        way + live_html(views, ended=single.ended),
    )


def _status(
    single: SingleText, now: datetime, silence: Silence | None, fault: Lasting | None
) -> tuple[str, str, Sequence[str]]:
    if single.outcome is not None:
        title = f"{OUTCOME_ICONS[single.outcome]} {OUTCOME_WORDS[single.outcome]}"
        return title, _COLOURS[single.outcome], [*outcome_sentences(single), *found_sentences(single)]
    if single.state is BatchState.CANCELLED:
        return "■ Stopped", "quiet", ["Nothing was decided. The text is kept as undecided, never as safe."]
    if single.error is not None:
        kept = f"It is kept, undecided: {error_words(single.error)}."
        return "! Not decided", "escalate", [kept, *found_sentences(single)]
    if single.state is BatchState.PAUSED:
        return STATE_WORDS[single.state], "quiet", ["Somebody paused it; it goes on when it is resumed."]
    if silence is not None:
        return "○ Screening is down", "quiet", [silence_sentence(silence), *found_sentences(single)]
    if fault is not None:
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


def silence_sentence(silence: Silence) -> str:
    """That nothing comes for want of a worker, and what becomes of the text.

    >>> silence_sentence(Silence(since=None))
    'No background service is running. Your text is saved and will be screened when service resumes.'
    """
    known = silence.since and f"No response since {local_time(silence.since, silence.since)}."
    known = known or "No background service is running."
    return f"{known} Your text is saved and will be screened when service resumes."


def outcome_sentences(single: SingleText) -> list[str]:
    """Why it ended so, and what the draws behind it say."""
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
    stated = {part: flagged_phrases(words, thread) for part, words, thread in parts if single.flags[part] & STATED}
    told = {part: found - STATED if stated.get(part) else found for part, found in single.flags.items()}
    return [f"{phrase.words}." for found in stated.values() for phrase in found] + flag_sentences(told)


def flag_sentences(flags: Mapping[str, frozenset[str]]) -> list[str]:
    """What was found in the text itself, or in the reply, where that changes what may be decided.

    >>> flag_sentences({"text": frozenset(), "reply": frozenset({"no_words"})})
    ['Found in the reply: has no word of two letters or more.']
    """
    weighty = [flag for flag in Flag if flag in REFUSES_SAFE | SECOND_LOOK]
    return [f"Found in the {part}: {FLAG_WORDS[flag]}." for part in flags for flag in weighty if flag in flags[part]]


TEXT, CONVERSATION = "A text", "A conversation"
MISSING = {TEXT: "Write or paste a text first.", CONVERSATION: "Paste a conversation first."}
_JUDGED = (Judged.LAST_USER, Judged.WHOLE)
_ASKED = ((Question.TEXT,), (Question.REPLY,))
EMPTY: Mapping[str, str] = {"raw": "", "reply": "", "conversation": "", "speakers": ""}
"""What the boxes hold on an empty page."""


def choose_kind() -> str:
    """Whether one text or one conversation is handed in."""
    chosen = st.segmented_control(
        "What to screen", [TEXT, CONVERSATION], default=TEXT, key="handed_in", label_visibility="collapsed",
        width="stretch", required=True,
    )  # fmt: skip
    return chosen or TEXT


def typed_fields(kind: str) -> Typed:
    """The boxes of this kind, and what they hold."""
    if kind == CONVERSATION:
        return _conversation_fields()
    raw = st.text_area("Text", height=190, key="raw", help="Shown to the agents as it is. Ctrl+Enter submits it.")
    with st.expander("Chatbot reply (optional)", expanded=bool(st.session_state.get("reply"))):  # none goes out unseen
        st.caption("The agents are shown both and judge them together.")
        return Typed(
            text=raw, reply=st.text_area("Chatbot reply", height=110, key="reply", label_visibility="collapsed")
        )


def _conversation_fields() -> Typed:
    """The boxes for one conversation, or its file, and what is judged of it. A file comes before what is pasted."""
    pasted = st.text_area(
        "Conversation", height=190, key="conversation",
        placeholder="User: I cannot sleep.\nAssistant: What keeps you awake?\nUser: …",
        help=f"Lines of Name: text, or messages in JSON as files have them; {MOST_TURNS:,} turns at most.",
    )  # fmt: skip
    file = _file()
    judged = st.selectbox("What to judge", _JUDGED, format_func=JUDGED.__getitem__, key="judged")
    asked = st.selectbox("Question", _ASKED, format_func=ASKED.__getitem__, key="asked")
    names = st.text_input("Speaker names", key="speakers", placeholder="Anna=user, Ben=assistant")
    reading = ConversationReading(
        shape=Shape.TRANSCRIPT, judged=judged, questions=asked, speakers=speakers_of(names) or ()
    )
    return Typed(text=pasted if file is None else file, conversation=reading)


def _file() -> str | None:
    """The words of a conversation's file; None without one. Only for people who may send files."""
    if not is_allowed(context.actor(), Action.CREATE_BATCH):
        return None
    number = st.session_state.get("conversation_number", 0)
    file = st.file_uploader(
        "Or upload a file (overrides the text)", type=list(SUFFIXES), key=f"conversation_file_{number}"
    )
    try:
        return None if file is None else decode(file.getvalue())
    except FileRefused as refusal:
        st.error(visible(str(refusal)), icon=":material/error:")
        return ""


def clear_fields() -> None:
    """Empty boxes for the next one; what is judged, and who speaks it, are chosen anew as well."""
    st.session_state.update(EMPTY)
    st.session_state["conversation_number"] = st.session_state.get("conversation_number", 0) + 1
