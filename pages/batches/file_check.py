"""An uploaded file before the first call: which column holds what, what its labels mean, how its conversations go;
what it holds, read once for its columns and once for its rows, however often its page is drawn; which rows are out.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from jobs.intake import receiver, told
from pages.ui import auth, context, widgets
from pages.ui.words import literal
from screening.datasets import mapping as reading
from screening.datasets.mapping import ColumnMapping
from screening.datasets.reader import Table, read_table
from screening.datasets.rows import NewCase, Reason, Receive, Row, map_label
from screening.datasets.sources import FileRefused
from screening.labels import Label
from screening.pipeline.engine import guard_for
from screening.review.policy import Action
from screening.text.conversation import Role
from screening.text.display import visible
from screening.text.received import ReceivedText
from screening.words import count_of

NOT_USED = "(not used)"
READ_AS = ("safe", "unsafe", "ignored")
LABELS_NAMED = 4
_LARGEST_MAPPING = 1_000_000

Labels = Mapping[str, Label | None]


def chosen_sheet(token: str, sheets: Sequence[str]) -> None:
    if len(sheets) > 1:
        shown = widgets.unique_labels({one: visible(one) for one in sheets})
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
        auth.check_before(
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
    shown = widgets.unique_labels({one: visible(one) for one in columns})
    before, key = [one for one in first if one in columns], f"column_{name}{suffix}"
    found: list[str] = place.multiselect(label, columns, before, shown.__getitem__, key=key, help=said)
    return found


def _one(
    place: DeltaGenerator, name: str, columns: Sequence[str], first: str | None, suffix: str, nothing: str = NOT_USED
) -> str | None:
    shown = widgets.unique_labels({one: visible(one) for one in (nothing, *columns)})
    found: str = _choice(place, name, shown, first, f"column_{name}{suffix}")
    return None if found == nothing else found


def _choice(place: DeltaGenerator, name: str, shown: Mapping[Any, str], first: object, key: str) -> Any:
    label, said = reading.OPTIONS[name]
    options = list(shown)
    at = options.index(first) if first in options else 0
    return place.selectbox(label, options, at, shown.__getitem__, key=key, help=said or None)


def confirm_labels(table: Table, kept: Labels, suffix: str = "") -> Labels:
    """What each value of the label column stands for, ``kept`` first; unmapped ones are shown and give none."""
    found = table.profile
    values = {value: count for value, count in found.label_values.items() if value.strip()}
    if found.mapping.label is None or not values:
        why = "No column of original labels" if found.mapping.label is None else "The label column is empty"
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
            key=f"labels_{found.mapping.label!a}{suffix}",
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


FIRST, SHOWN = 6, 160
"""Rows that are shown before anything starts, and how many characters of each text."""

CHECKS_KEPT, REDRAWN_S = 8, 0.3
DRAWN_FROM = 100
"""From so many rows on a bar is drawn before the first one: reading the lists takes a second."""

REASON_WORDS: Mapping[Reason, str] = {
    Reason.EXTRA_CELLS: "more cells than columns",
    Reason.MISSING_CELLS: "fewer cells than columns",
    Reason.ROWS_MERGED: "several rows run into one",
    Reason.HEADER_REPEATED: "the header again",
    Reason.DESCRIBES_COLUMNS: "a line that describes the columns",
    Reason.NOT_JSON: "not JSON",
    Reason.NOT_AN_OBJECT: "not an object with named values",
    Reason.REPEATED_KEY: "a name twice in one row",
    Reason.NO_TEXT: "no text",
    Reason.NOT_A_TEXT: "a list or an object instead of a text",
    Reason.EMPTY_TEXT: "an empty text",
    Reason.PLACEHOLDER: "a placeholder such as [deleted]",
    Reason.NO_ID: "no id",
    Reason.UNUSABLE_ID: "an id that cannot be kept",
    Reason.DUPLICATE: "repeats an earlier row",
    Reason.NOT_A_CONVERSATION: "no list of turns",
    Reason.TURN_WITHOUT_ROLE: "a turn without a known role",
    Reason.TURN_WITHOUT_ORDER: "turns without an order",
    Reason.TOO_MANY_TURNS: "more turns than are read",
    Reason.NO_JUDGED_TURN: "no turn that could be judged",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The rows of a file after reading them all; accepted + all of rejected = rows in. ``values`` counts the accepted
    rows by the value of their label column, ``first`` are the file's first rows. ``referenced`` have an original label
    that is known, ``unsafe`` of them an unsafe one. ``looked_at_twice`` need a second look before they are labeled
    safe.
    """

    accepted: int
    rejected: Mapping[Reason, int]
    referenced: int = 0
    unsafe: int = 0
    without_call: int
    characters: int
    not_screened: int = 0
    values: Mapping[str, int] = field(default_factory=dict)
    first: tuple[Row, ...] = ()
    looked_at_twice: int = 0

    def with_labels(self, labels: Mapping[str, Label | None]) -> "Check":
        known = {value: map_label(value, labels) for value in self.values}
        referenced = sum(count for value, count in self.values.items() if known[value] is not None)
        unsafe = sum(count for value, count in self.values.items() if known[value] is Label.UNSAFE)
        return replace(self, referenced=referenced, unsafe=unsafe)

    @property
    def rows_in(self) -> int:
        return self.accepted + sum(self.rejected.values())


def check(table: Table, receive: Receive, tell: Callable[[int], None] = lambda row: None) -> Check:
    """Read every row once, in constant memory; no reference is counted yet, for labels may still be changed. ``tell``
    is called with the number of each row.
    """
    counts: Counter[str] = Counter()
    rejected: Counter[Reason] = Counter()
    values: Counter[str] = Counter()
    first: list[Row] = []
    for row in told(table.rows(receive), tell):
        if len(first) < FIRST:
            first.append(_beginning(row))
        if not isinstance(row, NewCase):
            rejected[Reason(row.reason)] += 1
            continue
        values[row.reference_value or ""] += 1
        counts["accepted"] += 1
        counts["not_screened"] += row.not_screened is not None
        counts["without_call"] += row.text.refuses_screening
        guard = guard_for((*row.text.flags, *(row.reply.flags if row.reply else ())))
        counts["looked_at_twice"] += guard.second_look and guard.refuse_screening is None and guard.refuse_safe is None
        counts["characters"] += len(row.text.model_text) + (len(row.reply.model_text) if row.reply else 0)
    return Check(
        accepted=counts["accepted"],
        rejected=dict(rejected.most_common()),
        without_call=counts["without_call"],
        characters=counts["characters"],
        not_screened=counts["not_screened"],
        values=values,
        first=tuple(first),
        looked_at_twice=counts["looked_at_twice"],
    )


def _beginning(row: Row) -> Row:
    """The row with as much of its texts as is shown: checks are kept a while, and texts may be long."""
    if not isinstance(row, NewCase):
        return replace(row, original_json=None)

    def begun(text: ReceivedText) -> ReceivedText:
        return replace(text, stored=text.stored[: SHOWN + 1], model_text="", original_json=None)

    return replace(row, text=begun(row.text), reply=row.reply and begun(row.reply))


def preview_rows(found: Check, labels: Mapping[str, Label | None]) -> list[dict[str, object]]:
    return [_preview(row, labels) for row in found.first]


def _preview(row: Row, labels: Mapping[str, Label | None]) -> dict[str, object]:
    if not isinstance(row, NewCase):
        said = f"rejected: {REASON_WORDS[Reason(row.reason)]}"
        return {"Row": row.row, "ID": visible(row.external_id or ""), "Text": "", "Status": said}

    def start(text: str) -> str:
        return visible(text[:SHOWN]) + ("…" if len(text) > SHOWN else "")

    label = map_label(row.reference_value, labels)
    known = {
        "Row": row.row,
        "ID": visible(row.external_id),
        "Text": start(row.text.stored),
        "Reply": start(row.reply.stored) if row.reply else None,
        "Status": "accepted" if row.not_screened is None else f"not screened: {visible(row.not_screened)}",
        "Original label": label.value if label else row.reference_value and f"ignored: {visible(row.reference_value)}",
        "Group": None if row.group is None else visible(row.group),
        "Turns": None if row.thread is None else len(row.thread.turns),
        "Contact or location": None if row.where is None else visible(row.where),
    }
    return {name: value for name, value in known.items() if value is not None}


def format_words(table: Table) -> str:
    """How the file was read, in words: kind, encoding, separator."""
    layout = table.layout
    encoding = layout.encoding and f"{layout.encoding.name}{' (a guess)' if layout.encoding.guessed else ''}"
    return ", ".join(part for part in (str(layout.format), encoding, layout.separated_by) if part)


@st.cache_resource(
    max_entries=16,
    ttl=3600,
    show_spinner="Reading the file …",
    hash_funcs={str: lambda words: words.encode(errors="surrogatepass")},  # a broken byte in a label or column's name
)
def profile(path: Path, name: str, sheet: str | None, mapping: ColumnMapping | None = None) -> Table | FileRefused:
    """What the file holds by these columns, or by the proposed ones; or why a person must say more."""
    try:
        return read_table(path, name, mapping=mapping, sheet=sheet)
    except FileRefused as refusal:
        refusal.__context__ = None  # it is kept, and would keep all that was in memory where it arose
        return refusal.with_traceback(None)


def read_mapped(path: Path, name: str, sheet: str | None, mapping: ColumnMapping) -> Table:
    """The file by the columns that a person confirmed: the profile itself where they are the proposed ones.

    Raises FileRefused.
    """
    found = profile(path, name, sheet)
    if isinstance(found, FileRefused) or found.profile.mapping != mapping:
        found = profile(path, name, sheet, mapping)
    if isinstance(found, FileRefused):
        raise found
    return found


def check_rows(path: Path, name: str, sheet: str | None, mapping: ColumnMapping) -> Check:
    """Every row, with a bar that shows how far it is; kept for the session. Raises FileRefused."""
    checks: dict[object, Check] = st.session_state.setdefault("file_checks", {})
    if (place := (path, sheet, mapping)) not in checks:
        table = read_mapped(path, name, sheet, mapping)
        if len(checks) >= CHECKS_KEPT:
            checks.clear()
        rows, drawn = max(table.profile.rows, 1), monotonic() - (REDRAWN_S if table.profile.rows > DRAWN_FROM else 0)

        def tell(row: int) -> None:
            nonlocal drawn
            if monotonic() - drawn > REDRAWN_S:
                drawn = monotonic()
                st.progress(min(row / rows, 1.0), text=f"Checking the texts: {row:,} of {rows:,}")

        with st.empty():
            tell(0)
            checks[place] = check(table, receiver(context.settings()), tell)
            st.write("")
    return checks[place]
