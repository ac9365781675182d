"""What is typed on the Screen page: a text with or without a reply, or one conversation with what is judged of it."""

from collections.abc import Mapping

import streamlit as st

from pages.batches.conversation_choice import ASKED, JUDGED, speakers_of
from pages.batches.single_text import Typed
from pages.ui import context
from screening.datasets.columns import ConversationReading, Shape
from screening.datasets.one_conversation import SUFFIXES, decode
from screening.datasets.refused import FileRefused
from screening.review.policy import Action, is_allowed
from screening.text.conversation import MOST_TURNS, Judged, Question
from screening.text.display import visible

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
    return _conversation_fields() if kind == CONVERSATION else _text_fields()


def _text_fields() -> Typed:
    raw = st.text_area("Text", height=190, key="raw", help="Shown to the agents as it is. Ctrl+Enter hands it in.")
    return Typed(text=raw, reply=_reply_field())


def _reply_field() -> str:
    """For the reply to the text; out of the way, but open where one was written, so that none goes out unseen."""
    with st.expander("Chatbot reply (optional)", expanded=bool(st.session_state.get("reply"))):
        st.caption("The agents are shown both and judge them together.")
        return st.text_area("Chatbot reply", height=110, key="reply", label_visibility="collapsed")


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
