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

from jobs.intake import Upload, receiver
from pages.ui import auth, context, widgets
from pages.ui.words import literal, words_of
from screening.datasets import mapping as reading
from screening.datasets.mapping import OPTIONS, ColumnMapping, FileMapping, Shape
from screening.datasets.reader import Table, read_table
from screening.datasets.rows import ColumnsUnclear, FileRefused, NewCase, Reason, Row, map_label
from screening.labels import Label
from screening.pipeline.engine import guard_for
from screening.review.policy import Action
from screening.text.conversation import Role
from screening.text.display import visible
from screening.text.received import Receive
from screening.words import count_of

NOT_USED, FILE_ORDER, TEXTS = "(not used)", "(the order of the file)", "texts"
READ_AS = ("safe", "unsafe", "ignored")
LABELS_NAMED = 4
_LARGEST_MAPPING = 1_000_000

Labels = Mapping[str, Label | None]


def show_refusal(refusal: FileRefused) -> None:
    st.error(f"**Not read as it is.** {literal(str(refusal))}", icon=":material/error:")


def ask_columns(
    upload: Upload, fields: DeltaGenerator, more: DeltaGenerator
) -> tuple[ColumnMapping | None, Labels, str]:
    """The confirmed columns, the kept mapping's labels, and the suffix of the widgets' keys. FileRefused."""
    found = profile(upload.path, upload.name, upload.sheet)
    sheets = found.sheets if isinstance(found, FileRefused) else found.layout.sheets
    with fields:
        if len(sheets) > 1:
            shown = widgets.unique_labels({one: visible(one) for one in sheets})
            st.selectbox("Sheet", sheets, format_func=shown.__getitem__, key=sheet_key(upload.token))
    with more:
        kept, suffix = _kept_mapping(upload.token)
    if upload.sheet in sheets[1:]:
        suffix += f"_{sheets.index(upload.sheet)}"  # the columns of another sheet are others
    if isinstance(found, FileRefused) and not isinstance(found, ColumnsUnclear):
        raise found
    columns = found.columns if isinstance(found, ColumnsUnclear) else found.layout.columns
    proposed = found.mapping if isinstance(found, Table) else None
    with fields:
        if kept is not None and kept.columns is not None:
            if missing := sorted(kept.columns.columns() - set(columns)):
                said = f"The file has no column {', '.join(missing)}, which the column mapping names."
                show_refusal(FileRefused(said))
            else:
                proposed = kept.columns
        problem = st.container()
        mapping = _confirm_columns(columns, proposed, more, suffix)
        unclear = mapping is None or any(getattr(mapping, role) is None for role in reading.rivals(columns))
        if isinstance(found, ColumnsUnclear) and kept is None and unclear:
            with problem:
                show_refusal(found)
    return mapping, kept.labels if kept else {}, suffix


def sheet_key(token: str) -> str:
    """Under which the sheet chosen for an upload is remembered."""
    return f"sheet_{token}"


def _kept_mapping(token: str) -> tuple[FileMapping | None, str]:
    """A mapping from a file, where one was given for this upload, and a suffix for the keys of what it fills in."""
    name = f"mapping_{token}"
    found, number = st.session_state.get(name, (None, 0))
    given = st.file_uploader("Load column mapping (JSON)", type="json", key=f"{name}_file")
    if given is not None and st.button("Use this mapping", key=f"{name}_use"):
        try:
            st.session_state[name] = reading.read_mapping(given.getvalue()[:_LARGEST_MAPPING]), number + 1
            st.rerun()
        except FileRefused as refusal:
            st.error(literal(str(refusal)))
    return found, f"_{number}" if number else ""


def offer_mapping(mapping: FileMapping) -> None:
    """The mapping as a file; made when it is asked for, as one held ready is gone after a rerun."""
    st.download_button(
        "Save column mapping",
        auth.check_before(Action.CREATE_BATCH, lambda: reading.mapping_json(mapping)),
        "mapping.json",
        "application/json",
        on_click="ignore",
        icon=":material/download:",
        help="For another file of this kind, here or with `--mapping` on the command line.",
    )


def _confirm_columns(
    columns: tuple[str, ...], proposed: ColumnMapping | None, more: DeltaGenerator, suffix: str
) -> ColumnMapping | None:
    """Which column is what; None until the text's is chosen, whose columns are joined in their order."""
    st.markdown("**Confirm columns**")
    known = reading.propose_mapping(columns)
    begun = proposed or known
    unclear = {} if proposed else reading.rivals(columns)  # several columns could fill it, and a person must say which
    first = {role: getattr(begun, role) if begun and role not in unclear else None for role in ("text", *reading.ROLES)}
    usual = st.columns([1.4, 1, 1, 1])
    texts = _several(usual[0], "text", columns, (first["text"], *(proposed.joined if proposed else ())), suffix)
    with more:
        places = dict(zip(reading.ROLES, (*usual[1:], *st.columns(3)), strict=True))
    chosen = {role: _one(place, role, columns, first[role], suffix) for role, place in places.items()}
    with more:
        conversation = _choose_conversation(columns, begun.conversation if begun else None, suffix)
        rest = [one for one in columns if one not in {*texts, *chosen.values()}]
        unread = _several(st, "unread", rest, proposed.unread if proposed else (), suffix)
        label, said = OPTIONS["lists"]
        joins = bool(proposed and proposed.lists)
        lists = conversation is None and st.toggle(label, joins, key=f"column_lists{suffix}", help=said)
    if not texts:
        st.caption("Choose the column that holds the text.")
        return None
    if conversation is not None and conversation.shape is Shape.ROWS:
        if chosen["id"] is None:
            chosen["id"] = known.id if known else None  # several rows share it, so that it is the group of texts
        if None in (chosen["id"], conversation.role):
            st.caption("Choose the columns that name the conversation (as the id) and who speaks.")
            return None
    joined, left_out = tuple(texts[1:]), tuple(unread)
    return ColumnMapping(
        text=texts[0], joined=joined, lists=lists, conversation=conversation, unread=left_out, **chosen
    )


def _several(place: Any, name: str, columns: Sequence[str], first: Sequence[str | None], suffix: str) -> list[str]:
    label, said = OPTIONS[name]
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


def _choice(place: Any, name: str, shown: Mapping[Any, str], first: object, key: str) -> Any:
    label, said = OPTIONS[name]
    return widgets.select(place, label, shown, first, key, said or None)


def _choose_conversation(
    columns: tuple[str, ...], kept: reading.ConversationReading | None, suffix: str
) -> reading.ConversationReading | None:
    """How the file keeps conversations; None for a file of texts."""
    shapes: dict[str, str] = {TEXTS: "one text per row", **{str(one): words for one, words in reading.SHAPES.items()}}
    shape = _choice(st, "shape", shapes, kept.shape if kept else TEXTS, f"conversation_shape{suffix}")
    if shape == TEXTS:
        return None
    begun = reading.begun_reading(kept, Shape(shape), columns)
    left, middle, right = st.columns([2, 2, 1])
    judged = _choice(left, "judged", reading.JUDGED, begun.judged, f"conversation_judged{suffix}")
    questions = _choice(middle, "questions", reading.ASKED, begun.questions, f"conversation_asked{suffix}")
    label, said = OPTIONS["context_tokens"]
    key = f"conversation_tokens{suffix}"
    tokens = right.number_input(label, 0, 1_000_000, begun.context_tokens, key=key, help=said)
    label, said = OPTIONS["speakers"]
    known = ", ".join(f"{name}={role or 'none'}" for name, role in begun.speakers)
    hint, key = "Anna=user, Ben=assistant", f"conversation_speakers{suffix}"
    speakers = speakers_of(st.text_input(label, known, placeholder=hint, key=key, help=said))
    if speakers is None:
        st.caption("Not every name is understood: write NAME=user or NAME=assistant, with commas between.")
    asked = [*(reading.OF_A_TURN if shape == Shape.ROWS else ()), *(["reply_label"] if len(questions) > 1 else [])]
    said_so: dict[str, Any] = {"judged": judged, "questions": questions, "context_tokens": tokens}
    for place, part in zip(st.columns(max(1, len(asked))), asked, strict=False):
        nothing = FILE_ORDER if part == "order" else NOT_USED
        said_so[part] = _one(place, part, columns, getattr(begun, part), suffix, nothing)
    return replace(begun, speakers=speakers or (), **said_so)


def speakers_of(words: str) -> tuple[tuple[str, Role | None], ...] | None:
    """Who is what, from ``Anna=user, Ben=assistant``; None for what is not understood.

    >>> speakers_of("Anna = user, Ben=none"), speakers_of("Ben=helper")
    ((('Anna', <Role.USER: 'user'>), ('Ben', None)), None)
    """
    try:
        return reading.speakers_said(words)
    except ValueError:
        return None


def confirm_labels(table: Table, kept: Labels, suffix: str) -> Labels:
    """What each value of the label column stands for, ``kept`` first; unmapped ones are shown and give none."""
    column, counted = table.mapping.label, table.label_values
    values = {value: count for value, count in counted.items() if value.strip()}
    if column is None or not values:
        why = "No column of original labels" if column is None else "The label column is empty"
        st.caption(f"{why}: there will be no confusion matrix.")
        return {}
    known = {value: label.value for value, label in {**table.labels, **kept}.items() if label is not None}
    read_as = [known.get(value, READ_AS[2]) for value in values]
    unmapped = [value for value in table.unmapped if value not in kept]
    if unmapped:
        some = ", ".join([*map(literal, unmapped[:LABELS_NAMED]), *["…"] * (len(unmapped) > LABELS_NAMED)])
        st.warning(
            f"{count_of(len(unmapped), 'label value is', 'label values are')} not recognized: {some}. "
            "Map them to safe or unsafe, or leave them to be ignored."
        )
    pairs = list(zip(values.items(), read_as, strict=True))[:LABELS_NAMED]
    words = " · ".join(f"{literal(value)} ({count:,}) → {said}" for (value, count), said in pairs)
    more = f" and {len(values) - LABELS_NAMED:,} more" if len(values) > LABELS_NAMED else ""
    shown = [visible(value) for value in values]  # a broken byte is no text that can be sent
    with st.expander(f"Labels: {words}{more}", expanded=bool(unmapped)):
        edited = st.data_editor(
            pd.DataFrame({"Value": shown, "Rows": list(values.values()), "Read as": read_as}),
            key=f"labels_{column!a}{suffix}",
            disabled=["Value", "Rows"],
            hide_index=True,
            column_config={"Read as": st.column_config.SelectboxColumn(options=list(READ_AS), required=True)},
            height=min(250, 40 + 35 * len(values)),
        )
    pairs_edited = zip(values, edited["Read as"], strict=True)
    return {value: None if said == READ_AS[2] else Label(said) for value, said in pairs_edited}


FIRST, SHOWN = 6, 160
"""Rows that are shown before anything starts, and how many characters of each text."""

CHECKS_KEPT, REDRAWN_S = 8, 0.3
DRAWN_FROM = 100
"""From so many rows on a bar is drawn before the first one: reading the lists takes a second."""

REASON_WORDS: Mapping[Reason, str] = words_of(Reason, "rejected_row")


@dataclass(slots=True, kw_only=True)
class Check:
    """The rows of a file after reading them all; accepted + all of rejected = rows in. ``values`` counts the accepted
    rows by the value of their label column, ``first`` shows the file's first rows. ``referenced`` have an original
    label that is known, ``unsafe`` of them an unsafe one. ``looked_at_twice`` need a second look before they are
    labeled safe.
    """

    accepted: int = 0
    rejected: Counter[Reason] = field(default_factory=Counter)
    referenced: int = 0
    unsafe: int = 0
    without_call: int = 0
    characters: int = 0
    not_screened: int = 0
    values: Counter[str] = field(default_factory=Counter)
    first: list[dict[str, Any]] = field(default_factory=list)
    looked_at_twice: int = 0

    def with_labels(self, labels: Labels) -> "Check":
        known: Counter[Label | None] = Counter()
        for value, count in self.values.items():
            known[map_label(value, labels)] += count
        return replace(self, referenced=known[Label.SAFE] + known[Label.UNSAFE], unsafe=known[Label.UNSAFE])

    @property
    def rows_in(self) -> int:
        return self.accepted + self.rejected.total()


def check(table: Table, receive: Receive, tell: Callable[[int], None] = lambda row: None) -> Check:
    """Read every row once, in constant memory; ``tell`` is called with the number of each."""
    found = Check()
    for row in table.rows(receive, tell=tell):
        if len(found.first) < FIRST:
            found.first.append(_preview(row))
        if not isinstance(row, NewCase):
            found.rejected[Reason(row.reason)] += 1
            continue
        texts = [row.text, *([row.reply] if row.reply else [])]
        guard = guard_for(flag for text in texts for flag in text.flags)
        found.accepted += 1
        found.values[row.reference_value or ""] += 1
        found.not_screened += row.not_screened is not None
        found.without_call += row.text.refuses_screening
        found.looked_at_twice += guard.second_look and guard.refuse_screening is None and guard.refuse_safe is None
        found.characters += sum(len(text.model_text) for text in texts)
    return found


def _preview(row: Row) -> dict[str, Any]:
    """The row as it is shown, its original label as it stands in the file."""
    if not isinstance(row, NewCase):
        said = f"rejected: {REASON_WORDS[Reason(row.reason)]}"
        return {"Row": row.row, "ID": visible(row.external_id or ""), "Text": "", "Status": said}

    def start(text: str) -> str:
        return visible(text[:SHOWN]) + ("…" if len(text) > SHOWN else "")

    return {
        "Row": row.row,
        "ID": visible(row.external_id),
        "Text": start(row.text.stored),
        "Reply": start(row.reply.stored) if row.reply else None,
        "Status": "accepted" if row.not_screened is None else f"not screened: {visible(row.not_screened)}",
        "Original label": row.reference_value,
        "Group": None if row.group is None else visible(row.group),
        "Turns": None if row.thread is None else len(row.thread.turns),
        "Contact or location": None if row.where is None else visible(row.where),
    }


def preview_rows(found: Check, labels: Labels) -> list[dict[str, Any]]:
    """The first rows, their original labels as they are read so."""
    rows = []
    for row in found.first:
        value = row.get("Original label")
        label = map_label(value, labels)
        read_as = label.value if label else value and f"ignored: {visible(value)}"
        rows.append({name: said for name, said in (row | {"Original label": read_as}).items() if said is not None})
    return rows


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
    """The file by the columns that a person confirmed. Raises FileRefused."""
    found = profile(path, name, sheet)
    if isinstance(found, FileRefused) or found.mapping != mapping:
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
        rows, drawn = max(table.row_count, 1), monotonic() - (REDRAWN_S if table.row_count > DRAWN_FROM else 0)

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
