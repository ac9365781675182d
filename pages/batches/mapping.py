"""How a file is read: which column holds what, what its labels mean, and how its conversations are read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.auth import check_before
from pages.ui.labels import literal
from pages.ui.widgets import unique_labels
from screening.datasets import mapping as reading
from screening.datasets.reader import Table
from screening.datasets.sources import FileRefused
from screening.labels import Label
from screening.review.policy import Action
from screening.text.conversation import Role
from screening.text.display import visible
from screening.words import count_of

NOT_USED = "(not used)"
READ_AS = ("safe", "unsafe", "ignored")
LABELS_NAMED = 4
_LARGEST_MAPPING = 1_000_000

Labels = Mapping[str, Label | None]


def chosen_sheet(token: str, sheets: Sequence[str]) -> None:
    if len(sheets) > 1:
        shown = unique_labels({one: visible(one) for one in sheets})
        st.selectbox("Sheet", sheets, format_func=shown.__getitem__, key=sheet_key(token))


def sheet_key(token: str) -> str:
    """Under which the sheet chosen for an upload is remembered."""
    return f"sheet_{token}"


def kept_mapping(token: str) -> tuple[reading.FileMapping | None, str]:
    """A mapping from a file, where one was given for this upload, and a suffix for the keys of what it fills in."""
    name = f"mapping_{token}"
    given = st.file_uploader("Load column mapping (JSON)", type="json", key=f"{name}_file")
    if given is not None and st.button("Use this mapping", key=f"{name}_use"):
        try:
            content = given.getvalue()[:_LARGEST_MAPPING]
            number = st.session_state.get(name, (None, 0))[1] + 1
            st.session_state[name] = reading.read_mapping(content), number
            st.rerun()
        except FileRefused as refusal:
            st.error(literal(str(refusal)))
    found, number = st.session_state.get(name, (None, 0))
    return found, f"_{number}" if number else ""


def offer_mapping(mapping: reading.FileMapping) -> None:
    """The mapping as a file, for the command line and for the next file of this kind."""
    st.download_button(
        "Save column mapping",
        check_before(
            Action.CREATE_BATCH, lambda: reading.mapping_json(mapping)
        ),  # a file held ready is gone after a rerun
        "mapping.json",
        "application/json",
        on_click="ignore",
        icon=":material/download:",
        help="For another file of this kind, here or with `--mapping` on the command line.",
    )


def confirm_columns(
    columns: tuple[str, ...], proposed: reading.ColumnMapping | None, more: DeltaGenerator, suffix: str = ""
) -> reading.ColumnMapping | None:
    """Which column is what; None until the text's is chosen. Several columns of text are joined in their order. What
    few files have is asked for under ``more``.
    """
    st.markdown("**Confirm columns**")
    known = reading.propose_mapping(columns)
    begun = proposed or known
    unclear = {} if proposed else reading.rivals(columns)  # several columns could fill it, and a person must say which
    first = {role: getattr(begun, role) if begun and role not in unclear else None for role in ("text", *reading.ROLES)}
    joined = proposed.joined if proposed else ()
    usual = st.columns([1.4, 1, 1, 1])
    texts = _several(usual[0], "text", columns, [one for one in (first["text"], *joined) if one is not None], suffix)
    with more:
        places = dict(zip(reading.ROLES, (*usual[1:], *st.columns(3)), strict=True))
    chosen = {role: _one(place, role, columns, first[role], suffix) for role, place in places.items()}
    with more:
        conversation = choose_conversation(columns, begun.conversation if begun else None, suffix)
        rest = [one for one in columns if one not in {*texts, *chosen.values()}]
        unread = _several(st, "unread", rest, proposed.unread if proposed else (), suffix)
        label, said = reading.OPTIONS["lists"]
        joins = bool(proposed and proposed.lists)
        lists = conversation is None and st.toggle(label, joins, key=f"column_lists{suffix}", help=said)
    if not texts:
        st.caption("Choose the column that holds the text.")
        return None
    if conversation is not None and conversation.shape is reading.Shape.ROWS and chosen["id"] is None:
        chosen["id"] = known.id if known else None  # several rows share it, so that it is the group of texts
    if (
        conversation is not None
        and conversation.shape is reading.Shape.ROWS
        and None in (chosen["id"], conversation.role)
    ):
        st.caption("Choose the columns that name the conversation (as the id) and who speaks.")
        return None
    return reading.ColumnMapping(
        text=texts[0],
        joined=tuple(texts[1:]),
        lists=lists,
        conversation=conversation,
        unread=tuple(unread),
        **chosen,
    )


def _several(place: Any, name: str, columns: Sequence[str], first: Sequence[str], suffix: str) -> list[str]:
    label, said = reading.OPTIONS[name]
    shown = unique_labels({one: visible(one) for one in columns})
    before, key = [one for one in first if one in columns], f"column_{name}{suffix}"
    found: list[str] = place.multiselect(label, columns, before, shown.__getitem__, key=key, help=said)
    return found


def _one(
    place: DeltaGenerator, name: str, columns: Sequence[str], first: str | None, suffix: str, nothing: str = NOT_USED
) -> str | None:
    shown = unique_labels({one: visible(one) for one in (nothing, *columns)})
    found: str = _choice(place, name, shown, first, f"column_{name}{suffix}")
    return None if found == nothing else found


def _choice(place: DeltaGenerator, name: str, shown: Mapping[Any, str], first: object, key: str) -> Any:
    label, said = reading.OPTIONS[name]
    options = list(shown)
    at = options.index(first) if first in options else 0
    return place.selectbox(label, options, at, shown.__getitem__, key=key, help=said or None)


def confirm_labels(table: Table, kept: Labels, suffix: str = "") -> Labels:
    """What each value of the label column stands for, ``kept`` first; unmapped ones are shown and give none."""
    profile = table.profile
    values = {value: count for value, count in profile.label_values.items() if value.strip()}
    if profile.mapping.label is None or not values:
        why = "No column of original labels" if profile.mapping.label is None else "The label column is empty"
        st.caption(f"{why}: there will be no confusion matrix.")
        return {}
    known = {value: label.value for value, label in {**table.labels, **kept}.items() if label is not None}
    said = [known.get(value, READ_AS[2]) for value in values]
    unmapped = [value for value in table.unmapped if value not in kept]
    if unmapped:
        some = ", ".join([*map(literal, unmapped[:LABELS_NAMED]), *["…"] * (len(unmapped) > LABELS_NAMED)])
        st.warning(
            f"{count_of(len(unmapped), 'label value is', 'label values are')} not recognized: {some}. "
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
            key=f"labels_{profile.mapping.label!a}{suffix}",
            disabled=["Value", "Rows"],
            hide_index=True,
            column_config={"Read as": st.column_config.SelectboxColumn(options=list(READ_AS), required=True)},
            height=min(250, 40 + 35 * len(rows)),
        )
    return {
        value: None if read_as == READ_AS[2] else Label(read_as)
        for value, read_as in zip(values, edited["Read as"], strict=True)
    }


TEXTS = "texts"
FILE_ORDER = "(the order of the file)"


def choose_conversation(
    columns: tuple[str, ...], kept: reading.ConversationReading | None, suffix: str
) -> reading.ConversationReading | None:
    """The choice; None for a file of texts."""
    shapes: dict[str, str] = {TEXTS: "one text per row", **{str(one): words for one, words in reading.SHAPES.items()}}
    shape = _choice(st.container(), "shape", shapes, kept.shape if kept else TEXTS, f"conversation_shape{suffix}")
    if shape == TEXTS:
        return None
    begun = kept if kept and kept.shape == shape else reading.ConversationReading(shape=reading.Shape(shape))
    left, middle, right = st.columns([2, 2, 1])
    judged = _choice(left, "judged", reading.JUDGED, begun.judged, f"conversation_judged{suffix}")
    questions = _choice(middle, "questions", reading.ASKED, begun.questions, f"conversation_asked{suffix}")
    label, said = reading.OPTIONS["context_tokens"]
    with right:
        context = st.number_input(
            label, 0, 1_000_000, begun.context_tokens, key=f"conversation_tokens{suffix}", help=said
        )
    label, said = reading.OPTIONS["speakers"]
    known = ", ".join(f"{name}={role or 'none'}" for name, role in begun.speakers)
    hint = "Anna=user, Ben=assistant"
    words = st.text_input(label, known, placeholder=hint, key=f"conversation_speakers{suffix}", help=said)
    speakers = speakers_of(words)
    if speakers is None:
        st.caption("Not every name is understood: write NAME=user or NAME=assistant, with commas between.")
    asked = [
        *(reading.OF_A_TURN if shape == reading.Shape.ROWS else ()),
        *(["reply_label"] if len(questions) > 1 else []),
    ]
    proposed = reading.propose_turns(columns)
    picked: dict[str, Any] = {}
    for place, part in zip(st.columns(max(1, len(asked))), asked, strict=False):
        nothing = FILE_ORDER if part == "order" else NOT_USED
        picked[part] = _one(place, part, columns, getattr(begun, part) or proposed.get(part), suffix, nothing)
    said_so: dict[str, Any] = {
        "judged": judged,
        "questions": questions,
        "context_tokens": context,
        "speakers": speakers or (),
    }
    return replace(begun, **said_so, **picked)


def speakers_of(words: str) -> tuple[tuple[str, Role | None], ...] | None:
    """Who is what, from ``Anna=user, Ben=assistant``; None for what is not understood.

    >>> speakers_of("Anna = user, Ben=none"), speakers_of("Ben=helper")
    ((('Anna', <Role.USER: 'user'>), ('Ben', None)), None)
    """
    try:
        return reading.speakers_said(words)
    except ValueError:
        return None
