"""How a file is read: which column holds what, what its labels mean, and how its conversations are read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.auth import check_before
from pages.ui.labels import literal
from pages.ui.widgets import unique_labels
from screening.datasets.mapping import (
    ColumnMapping,
    ConversationReading,
    FileMapping,
    Shape,
    mapping_json,
    propose_mapping,
    propose_turns,
    read_mapping,
    rivals,
    speakers_said,
)
from screening.datasets.reader import Table
from screening.datasets.sources import FileRefused
from screening.labels import Label
from screening.review.policy import Action
from screening.text.conversation import CONTEXT_TOKENS, Judged, Question, Role
from screening.text.display import visible
from screening.words import count_of

NOT_USED = "(not used)"
ROLES: Mapping[str, str] = {
    "id": "ID",
    "label": "Original label",
    "reply": "Reply",
    "title": "Title (prepended)",
    "group": "Group",
    "where": "Contact or location",
}
READ_AS = ("safe", "unsafe", "ignored")
LABELS_NAMED = 4
_LARGEST_MAPPING = 1_000_000

Labels = Mapping[str, Label | None]


def chosen_sheet(token: str, sheets: Sequence[str]) -> None:
    """Which sheet of a workbook is read; it is asked for where there are several."""
    if len(sheets) > 1:
        shown = unique_labels({one: visible(one) for one in sheets})
        st.selectbox("Sheet", sheets, format_func=shown.__getitem__, key=sheet_key(token))


def sheet_key(token: str) -> str:
    """Under which the sheet chosen for an upload is remembered."""
    return f"sheet_{token}"


def kept_mapping(token: str) -> tuple[FileMapping | None, str]:
    """A mapping from a file, where one was given for this upload, and a suffix for the keys of what it fills in."""
    name = f"mapping_{token}"
    given = st.file_uploader("Load column mapping (JSON)", type="json", key=f"{name}_file")
    if given is not None and st.button("Use this mapping", key=f"{name}_use"):
        try:
            content = given.getvalue()[:_LARGEST_MAPPING]
            number = st.session_state.get(name, (None, 0))[1] + 1
            st.session_state[name] = read_mapping(content), number
            st.rerun()
        except FileRefused as refusal:
            st.error(literal(str(refusal)))
    found, number = st.session_state.get(name, (None, 0))
    return found, f"_{number}" if number else ""


def offer_mapping(mapping: FileMapping) -> None:
    """The mapping as a file, for the command line and for the next file of this kind."""
    st.download_button(
        "Save column mapping",
        check_before(Action.CREATE_BATCH, lambda: mapping_json(mapping)),  # a file held ready is gone after a rerun
        "mapping.json",
        "application/json",
        on_click="ignore",
        icon=":material/download:",
        help="For another file of this kind, here or with `--mapping` on the command line.",
    )


def first_choice(columns: tuple[str, ...], proposed: ColumnMapping | None) -> Mapping[str, str | None]:
    """What each role begins with; nothing where several columns could fill it, and a person must say which."""
    mapping = proposed or propose_mapping(columns)
    unclear = {} if proposed else rivals(columns)
    roles = ("text", *ROLES)
    return {role: None if mapping is None or role in unclear else getattr(mapping, role) for role in roles}


def confirm_columns(
    columns: tuple[str, ...], proposed: ColumnMapping | None, more: DeltaGenerator, suffix: str = ""
) -> ColumnMapping | None:
    """Which column is what; None until the text's is chosen. Several columns of text are joined in their order. What
    few files have is asked for under ``more``.
    """
    st.markdown("**Confirm columns**")
    known = propose_mapping(columns)
    shown = unique_labels({one: visible(one) for one in (NOT_USED, *columns)})
    first = first_choice(columns, proposed)
    begun = [first["text"], *(proposed.joined if proposed else ())]
    usual = st.columns([1.4, 1, 1, 1])
    texts = usual[0].multiselect(
        "Text column(s)",
        columns,
        default=[one for one in begun if one is not None],
        format_func=shown.__getitem__,
        key=f"column_text{suffix}",
        help="Several are joined in this order.",
    )
    with more:
        places = dict(zip(ROLES, (*usual[1:], *st.columns(3)), strict=True))
    chosen = {role: _one(place, role, columns, first[role], shown, suffix) for role, place in places.items()}
    with more:
        begun_with = proposed or known
        conversation = choose_conversation(columns, begun_with.conversation if begun_with else None, suffix)
        rest = [one for one in columns if one not in {*texts, *chosen.values()}]
        unread = st.multiselect(
            "Columns that stay unread",
            rest,
            default=[one for one in proposed.unread if one in rest] if proposed else [],
            format_func=shown.__getitem__,
            key=f"column_unread{suffix}",
            help="Nobody is shown them, and the AI is not asked about them.",
        )
        lists = conversation is None and st.toggle(
            "Join texts that are lists of strings",
            value=bool(proposed and proposed.lists),
            key=f"column_lists{suffix}",
            help="Strings are joined with an empty line between.",
        )
    if not texts:
        st.caption("Choose the column that holds the text.")
        return None
    if conversation is not None and conversation.shape is Shape.ROWS and chosen["id"] is None:
        chosen["id"] = known.id if known else None  # several rows share it, so that it is the group of texts
    if (wanting := wants(conversation, chosen["id"])) is not None:
        st.caption(wanting)
        return None
    return ColumnMapping(
        text=texts[0],
        joined=tuple(texts[1:]),
        lists=lists,
        conversation=conversation,
        unread=tuple(unread),
        **chosen,
    )


def _one(
    place: DeltaGenerator,
    role: str,
    columns: tuple[str, ...],
    before: str | None,
    shown: Mapping[str, str],
    suffix: str,
) -> str | None:
    options = [NOT_USED, *columns]
    at = options.index(before) if before in options else 0
    key = f"column_{role}{suffix}"
    picked = place.selectbox(ROLES[role], options, index=at, format_func=shown.__getitem__, key=key)
    return None if picked == NOT_USED else str(picked)


def confirm_labels(table: Table, kept: Labels, suffix: str = "") -> Labels:
    """What each value of the label column stands for, ``kept`` first; unmapped ones are shown and give none."""
    report = table.report
    values = {value: count for value, count in report.label_values.items() if value.strip()}
    if report.mapping.label is None or not values:
        why = "No column of original labels" if report.mapping.label is None else "The label column is empty"
        st.caption(f"{why}: there will be no confusion matrix.")
        return {}
    known = {value: label.value for value, label in {**report.labels, **kept}.items() if label is not None}
    said = [known.get(value, READ_AS[2]) for value in values]
    unmapped = [value for value in report.unmapped if value not in kept]
    if unmapped:
        st.warning(
            f"{count_of(len(unmapped), 'label value is', 'label values are')} not recognized: {_some(unmapped)}. "
            "Map them to safe or unsafe, or leave them to be ignored."
        )
    pairs = zip(values.items(), said, strict=True)
    words = [f"{literal(value)} ({count:,}) → {read_as}" for (value, count), read_as in list(pairs)[:LABELS_NAMED]]
    more = f" and {len(values) - LABELS_NAMED:,} more" if len(values) > LABELS_NAMED else ""
    with st.expander(f"Labels: {' · '.join(words)}{more}", expanded=bool(unmapped)):
        rows = pd.DataFrame(
            {
                "Value": [visible(value) for value in values],  # a broken byte is no text that can be sent
                "Rows": list(values.values()),
                "Read as": said,
            }
        )
        edited = st.data_editor(
            rows,
            key=f"labels_{report.mapping.label!a}{suffix}",
            disabled=["Value", "Rows"],
            hide_index=True,
            column_config={"Read as": st.column_config.SelectboxColumn(options=list(READ_AS), required=True)},
            height=min(250, 40 + 35 * len(rows)),
        )
    return {
        value: None if read_as == READ_AS[2] else Label(read_as)
        for value, read_as in zip(values, edited["Read as"], strict=True)
    }


def _some(values: Sequence[str]) -> str:
    named = ", ".join(literal(value) for value in values[:LABELS_NAMED])
    return f"{named}, …" if len(values) > LABELS_NAMED else named


TEXTS = "texts"
FILE_ORDER = "(the order of the file)"
NO_ROLE = "(not used)"
SHAPES: Mapping[str, str] = {
    TEXTS: "one text per row",
    Shape.MESSAGES: "one conversation per row, as a list of messages",
    Shape.ROWS: "one turn of a conversation per row",
    Shape.TRANSCRIPT: "one conversation per row, as a transcript (Name: text)",
}
JUDGED: Mapping[Judged, str] = {
    Judged.LAST_USER: "the user's last turn, in its context",
    Judged.EACH_USER: "each turn of the user, in its context",
    Judged.WHOLE: "the whole conversation",
}
ASKED: Mapping[tuple[Question, ...], str] = {
    (Question.TEXT,): "the user's risk",
    (Question.REPLY,): "what the chatbot did",
    (Question.TEXT, Question.REPLY): "both: two cases a conversation, each with its own label",
}
TURN_COLUMNS: Mapping[str, str] = {
    "role": "Who speaks",
    "order": "Order of the turns",
    "time": "Time",
    "turn_id": "Turn id",
}


def choose_conversation(
    columns: tuple[str, ...], kept: ConversationReading | None, suffix: str
) -> ConversationReading | None:
    """The choice; None for a file of texts."""
    options = list(SHAPES)
    shape = st.selectbox(
        "File format",
        options,
        index=options.index(kept.shape if kept else TEXTS),
        format_func=SHAPES.__getitem__,
        key=f"conversation_shape{suffix}",
    )
    if shape == TEXTS:
        return None
    begun = kept if kept and kept.shape == shape else ConversationReading(shape=Shape(shape))
    judged, asked, context = st.columns([2, 2, 1])
    every, questions = list(JUDGED), list(ASKED)
    reading = replace(
        begun,
        judged=judged.selectbox(
            "What to judge",
            every,
            index=every.index(begun.judged),
            format_func=JUDGED.__getitem__,
            key=f"conversation_judged{suffix}",
        ),
        questions=asked.selectbox(
            "Question",
            questions,
            index=questions.index(begun.questions) if begun.questions in ASKED else 0,
            format_func=ASKED.__getitem__,
            key=f"conversation_asked{suffix}",
        ),
        context_tokens=context.number_input(
            "Context, tokens",
            min_value=0,
            max_value=1_000_000,
            value=begun.context_tokens or CONTEXT_TOKENS,
            key=f"conversation_tokens{suffix}",
            help="Of turns that are not judged themselves; the oldest are left out first. Clinicians see all turns.",
        ),
    )
    return _with_columns(_with_speakers(reading, suffix), columns, suffix)


def wants(reading: ConversationReading | None, id_column: str | None) -> str | None:
    """What has still to be said of the columns; None for nothing."""
    if reading is None or reading.shape is not Shape.ROWS:
        return None
    if id_column is None:
        return "Choose the column that names the conversation, as the id."
    return "Choose the column that says who speaks." if reading.role is None else None


def speakers_of(words: str) -> tuple[tuple[str, Role | None], ...] | None:
    """Who is what, from ``Anna=user, Ben=assistant``; None for what is not understood.

    >>> speakers_of("Anna = user, Ben=none"), speakers_of("Ben=helper")
    ((('Anna', <Role.USER: 'user'>), ('Ben', None)), None)
    """
    try:
        return speakers_said(words)
    except ValueError:
        return None


def _with_speakers(reading: ConversationReading, suffix: str) -> ConversationReading:
    known = ", ".join(f"{name}={role or 'none'}" for name, role in reading.speakers)
    words = st.text_input(
        "Speaker names",
        known,
        placeholder="Anna=user, Ben=assistant",
        key=f"conversation_speakers{suffix}",
        help="Where they are not user and assistant: NAME=user, assistant, system or tool, with commas between.",
    )
    found = speakers_of(words)
    if found is None:
        st.caption("Not every name is understood: write NAME=user or NAME=assistant, with commas between.")
    return replace(reading, speakers=found or ())


def _with_columns(reading: ConversationReading, columns: tuple[str, ...], suffix: str) -> ConversationReading:
    """The columns that only conversations have."""
    picked: dict[str, str | None] = {}
    proposed = propose_turns(columns)
    asked = dict(TURN_COLUMNS) if reading.shape is Shape.ROWS else {}
    if len(reading.questions) > 1:
        asked["reply_label"] = "Original label of the chatbot"
    for place, (part, words) in zip(st.columns(max(1, len(asked))), asked.items(), strict=False):
        nothing = FILE_ORDER if part == "order" else NO_ROLE
        options = [nothing, *columns]
        before = getattr(reading, part) or proposed.get(part)
        shown = unique_labels({one: visible(one) for one in options})
        found = place.selectbox(
            words,
            options,
            index=options.index(before) if before in options else 0,
            format_func=shown.__getitem__,
            key=f"conversation_{part}{suffix}",
        )
        picked[part] = None if found == nothing else found
    return replace(reading, **picked) if picked else reading  # type: ignore[arg-type]
