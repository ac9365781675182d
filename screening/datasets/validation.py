"""Two passes over a file: what it holds and which rows repeat an id; then each row accepted, or rejected with why."""

import hashlib
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from screening.datasets.conversations import ConversationCell, RefusedTurns
from screening.datasets.mapping import (
    ColumnMapping,
    Shape,
    agreed_value,
    holds_turns,
    is_derived,
    join_list,
    label_of,
    map_label,
    names_a_rating,
    normalised_name,
    of_a_person,
    parts_of,
    propose_mapping,
    rivals,
)
from screening.datasets.rows import (
    COLUMN_LIMIT,
    STRUCTURAL,
    BlankLine,
    Fields,
    Formula,
    NestedValue,
    NewCase,
    Reason,
    Receive,
    Record,
    RejectedRow,
    is_cut,
    is_placeholder,
    single,
)
from screening.datasets.sources import ColumnsUnclear, FileRefused
from screening.labels import Label
from screening.text.conversation import CONTEXT_TOKENS, Thread, receive_conversation
from screening.text.flags import STATED, Flag
from screening.text.received import ReceivedText
from screening.text.risk_statements import risk_flags
from screening.words import count_of

LABELS_SHOWN = 100
"""Different label values that are counted; more than that is no label column."""

EXCEL_CELL = 32_767
"""Most characters an Excel cell holds."""
_NEAR_EXCEL_CELL = 32_700

_DIGEST = 8

LOOKED_AT = 20_000
"""Characters of an unread cell that are looked through."""
SENTENCES_COUNTED = 200
FEW_VALUES = 10
"""Most different values of a column that may be an unknown label."""
_SAY_CUT = ("truncated", "is_truncated", "text_truncated")
_BETWEEN_PARTS = re.compile("[,;|/]")
_ROUNDED = re.compile(r"\d(?:[.,]\d+)?E\+\d{1,3}", re.IGNORECASE)
_LONGEST_NAME, _NAMES_SHOWN = 40, 30

HOW_TO_SAY = "On the page: Confirm columns, More columns. Command line: --{option}-column {name}. API: `mapping`."
"""Where what is asked of columns is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProfile:
    """What the first pass found. ``same`` holds for each repeated row (from 1) the row that its id and text stood in
    first, and ``reviews`` for such a first row the label that all of them give. ``shared_id`` is an id column that
    several rows share: it is none, and became the group. ``conflicting`` of them share one with another text.
    """

    rows: int
    blank_lines: int
    structural: Counter[Reason]
    unread: tuple[str, ...]
    columns: tuple[str, ...]
    mapping: ColumnMapping
    label_values: Counter[str]
    same: Mapping[int, int]
    reviews: Mapping[int, str]
    conflicting: int
    spaced_twins: int
    cut_cells: int
    listed: int = 0
    formulas: int = 0
    conversations: int = 0
    turns: int = 0
    shared_id: str | None = None
    rounded: int = 0
    labels_unread: int = 0

    @property
    def cut_column(self) -> str | None:
        """The column that says of a row that its text is only the beginning; None where the whole is read."""
        whole = any(word in normalised_name(self.mapping.text) for word in ("full", "extended"))
        names = (name for name in self.columns if normalised_name(name) in _SAY_CUT)
        return None if whole else next(names, None)


class _Tally:
    """What grows while the rows go by."""

    def __init__(self) -> None:
        self.rows = self.blank = self.longest = self.at_longest = self.without_id = 0
        self.nested = self.listed = self.formulas = self.rounded = self.labels_unread = 0
        self.conversations = self.turns = self.no_turns = 0
        self.first_refused: str | None = None
        self.structural: Counter[Reason] = Counter()
        self.first_structural: Record | None = None
        self.labels: Counter[str] = Counter()
        self.ids, self.contents, self.numbers = bytearray(), bytearray(), bytearray()
        self.spaced = bytearray()
        self.codes, self.values = array("I"), dict[str | None, int]()


class UnreadColumns:
    """What stands in the columns that nobody reads, looked at while the rows go by."""

    def __init__(self, columns: Iterable[str], mapping: ColumnMapping) -> None:
        read = mapping.columns()
        self.names = tuple(name for name in columns if name not in read)
        left_out = {*mapping.unread, *(name for name in self.names if is_derived(name))}
        self._looked_at = [name for name in self.names if name not in left_out]
        self._filled: Counter[str] = Counter()
        self._sentences: dict[str, Counter[int]] = {name: Counter() for name in self._looked_at}
        self._stated: set[str] = set()
        reading = mapping.conversation
        labeled = mapping.label is not None or (reading is not None and reading.reply_label is not None)
        self._values: dict[str, set[str]] = {} if labeled else {name: set() for name in self._looked_at}

    def watch(self, records: Iterable[Record | BlankLine]) -> Iterator[Record | BlankLine]:
        """The same records."""
        for one in records:
            if self._looked_at and isinstance(one, Record) and one.fields is not None:
                for name in self._looked_at:
                    if cell := one.fields.get(name):
                        self._look(name, cell)
            yield one

    def _look(self, name: str, cell: str) -> None:
        self._filled[name] += 1
        if (values := self._values.get(name)) is not None and len(values) <= FEW_VALUES:
            values.add((label_of(cell) or "").strip().casefold())
        seen = self._sentences[name]
        if not isinstance(cell, NestedValue) and len(seen) < SENTENCES_COUNTED and is_sentence(cell):
            seen[hash(cell)] += 1
        if name not in self._stated and len(cell.split(maxsplit=2)) > 2 and risk_flags(cell[:LOOKED_AT]):
            self._stated.add(name)

    def require_known(self, columns: tuple[str, ...]) -> None:
        """ColumnsUnclear where one holds sentences or an outright statement of risk, or looks like the label."""
        asked = [name for name in self._looked_at if name in self._stated or self._holds_sentences(name)]
        if asked:
            named = ", ".join(asked)
            raise ColumnsUnclear(
                f"{'A column' if len(asked) == 1 else 'Columns'} of sentences would not be read: {named}. Join it to "
                f"the text, or say that it stays unread. {HOW_TO_SAY.format(option='unread', name=asked[0])}",
                columns=columns,
            )

        if labels := [name for name, values in self._values.items() if _looks_like_label(name, values)]:
            raise ColumnsUnclear(
                f"{count_of(len(labels), 'column')} could be the label, and would not be read: {', '.join(labels)}. "
                f"Say which is the label (--label-column), or that it stays unread. "
                f"{HOW_TO_SAY.format(option='unread', name=labels[0])}",
                columns=columns,
            )

    def _holds_sentences(self, name: str) -> bool:
        """Whether a fifth of its cells are sentences, and they are not the same few over and over."""
        seen = self._sentences[name]
        found = seen.total()
        return len(seen) >= SENTENCES_COUNTED or (5 * found >= self._filled[name] > 0 < found <= 3 * len(seen))


def _looks_like_label(name: str, values: set[str]) -> bool:
    """Whether all that stands in it is safe or unsafe, or its name says that it rates and its values are few."""
    filled = values - {""}
    if not filled or len(values) > FEW_VALUES:
        return False
    return all(map_label(one) for one in filled) or names_a_rating(name)


def is_sentence(cell: str) -> bool:
    """Whether a cell reads like something that somebody said.

    >>> is_sentence("I do not want to be here"), is_sentence("Fraud, Suicide and Self Harm"), is_sentence("Not today.")
    (True, False, True)
    """
    parts = [part.split() for part in _BETWEEN_PARTS.split(cell)]
    words = max(sum(any(letter.isalpha() for letter in word) for word in part) for part in parts)
    return words >= 5 or (words >= 2 and cell.strip()[-1:] in ".!?…")


def survey(
    records: Iterable[Record | BlankLine],
    columns: tuple[str, ...],
    mapping: ColumnMapping,
    unread: UnreadColumns,
    *,
    proposed: bool = False,
) -> FileProfile:
    """One pass over the rows. FileRefused when most of them do not fit, ColumnsUnclear where a column of sentences
    would not be read. An id that rows with different texts share is none: it becomes the group. Of a mapping that
    nobody has confirmed, so does a person's or conversation's id that is not every row's own.
    """
    tally = _Tally()
    for one in records:
        if isinstance(one, BlankLine):
            tally.blank += 1
            continue
        _count(tally, one, mapping)
    _check(tally)
    if 2 * tally.no_turns > tally.rows and tally.first_refused is not None:
        of_rows = f"In {tally.no_turns:,} of {tally.rows:,} rows no conversation can be read so"
        raise ColumnsUnclear(f"{of_rows}; {tally.first_refused}.", columns=columns)
    if 2 * tally.nested > tally.rows:
        raise ColumnsUnclear(_nested_advice(tally), columns=columns)
    unread.require_known(columns)
    found = _result(tally, columns, mapping, unread.names)
    person = proposed and mapping.id is not None and of_a_person(mapping.id)
    several = bool(found.same or tally.without_id) and mapping.conversation is None
    if mapping.id is not None and (found.conflicting or (person and several)):
        group = mapping.group or mapping.id
        if proposed and found.conflicting:
            group = mapping.id
        own = replace(mapping, id=None, group=mapping.group if tally.rounded else group)
        return replace(found, mapping=own, same={}, reviews={}, spaced_twins=0, shared_id=mapping.id)
    return found


def _result(tally: _Tally, columns: tuple[str, ...], mapping: ColumnMapping, unread: tuple[str, ...]) -> FileProfile:
    same, reviews, conflicting, twins = _duplicates(tally)
    return FileProfile(
        rows=tally.rows,
        blank_lines=tally.blank,
        structural=tally.structural,
        unread=unread,
        columns=columns,
        mapping=mapping,
        label_values=tally.labels,
        same=same,
        reviews=reviews,
        conflicting=conflicting,
        spaced_twins=twins,
        listed=tally.listed,
        formulas=tally.formulas,
        conversations=tally.conversations,
        turns=tally.turns,
        cut_cells=tally.at_longest if _NEAR_EXCEL_CELL <= tally.longest <= EXCEL_CELL else 0,
        rounded=tally.rounded,
        labels_unread=tally.labels_unread,
    )


def keys_of(records: Iterable[Record | BlankLine]) -> tuple[str, ...]:
    """All the names that JSON objects use, in the order of their first use. FileRefused beyond the limit."""
    names: dict[str, None] = {}
    for one in records:
        if isinstance(one, Record) and one.fields is not None:
            names.update(dict.fromkeys(one.fields))
            if len(names) > COLUMN_LIMIT:
                raise FileRefused(f"The objects use more than {COLUMN_LIMIT:,} different names.")
    return tuple(names)


def chosen_mapping(columns: tuple[str, ...], mapping: ColumnMapping | None) -> ColumnMapping:
    """The mapping to read with: the given one, checked, or the proposal. ColumnsUnclear when there is none, or when
    several columns could be the same thing.
    """
    if mapping is not None and mapping.group is not None and mapping.group == mapping.label:
        mapping = replace(mapping, group=None)  # what was proposed before somebody said that it is the label
    if mapping is not None:
        missing = mapping.columns() - set(columns)  # what stays unread need not be there
        if missing:
            raise ColumnsUnclear(f"The file has no column {', '.join(sorted(missing))}.", columns=columns)
        reading = mapping.conversation
        if reading is not None and reading.shape is Shape.ROWS and None in (mapping.id, reading.role):
            raise ColumnsUnclear(
                "With a turn a row, say which columns name the conversation and who speaks.", columns=columns
            )
        return mapping
    proposal = propose_mapping(columns)
    if proposal is None:
        raise ColumnsUnclear(_no_text_column(columns), columns=columns)
    for role, names in rivals(columns).items():
        raise ColumnsUnclear(_several(role, names), columns=columns)
    return proposal


def _several(role: str, names: tuple[str, ...]) -> str:
    """Which columns a person must choose between; their names are known ones, so none is a message."""
    sentence = f"{len(names)} columns could be the {role}: {', '.join(names)}. Say which one it is"
    said = f"{sentence}, or join them." if role == "text" else f"{sentence}."
    return f"{said} {HOW_TO_SAY.format(option=role, name='NAME')}"


def text_of(fields: Fields, mapping: ColumnMapping) -> str | None:
    """The text of a row, its title first and what is joined to it last; None when all of them are missing."""
    present = [cell for name in mapping.text_columns() if (cell := _text_in(fields, name, mapping)) is not None]
    filled = [cell for cell in present if cell.strip()]
    return "\n\n".join(filled) if filled else present[-1] if present else None


def reply_of(fields: Fields, mapping: ColumnMapping) -> str | None:
    """The reply to the text; None without one."""
    return _text_in(fields, mapping.reply, mapping) if mapping.reply else None


def _text_in(fields: Fields, name: str, mapping: ColumnMapping) -> str | None:
    cell = fields.get(name)
    return join_list(cell) if cell is not None and mapping.lists else cell


def nested_column(fields: Fields, mapping: ColumnMapping) -> str | None:
    """The column of the text or of the reply that holds a list or an object that is not joined; None: neither does."""
    names = (*mapping.text_columns(), *((mapping.reply,) if mapping.reply else ()))
    cells = ((name, fields.get(name)) for name in names)
    unread = (name for name, cell in cells if isinstance(cell, NestedValue) and not (mapping.lists and _is_list(cell)))
    return next(unread, None)


def _is_list(cell: str) -> bool:
    return parts_of(cell) is not None


def _is_list_or_turns(cell: str) -> bool:
    return _is_list(cell) or holds_turns(cell)


def id_of(record: Record, fields: Fields, mapping: ColumnMapping) -> str | None:
    """The id exactly as it stands in the file, or the row number without an id column; None when missing."""
    return str(record.row) if mapping.id is None else single(fields, mapping.id)


def _nested_advice(tally: _Tally) -> str:
    """Why rows whose texts have parts are not read, and what can be done."""
    if tally.listed:
        found = f"In {tally.nested:,} of {tally.rows:,} rows the text is a list of strings or turns."
        return f"{found} Join it, read it as conversations, or choose another column."
    return f"In {tally.nested:,} of {tally.rows:,} rows the text is a list or an object, not a text."


def _no_text_column(columns: tuple[str, ...]) -> str:
    names = [name for name in columns if 0 < len(name) <= _LONGEST_NAME and len(name.split()) <= 4]
    shown = ", ".join(names[:_NAMES_SHOWN]) + (" …" if len(names) > _NAMES_SHOWN else "")
    return (
        "No column is known to hold the text. The first row must name the columns, one of them text, post, message "
        f"or the like. It names {count_of(len(columns), 'column')}{': ' + shown if shown else ''}. Say which one "
        f"holds the text. {HOW_TO_SAY.format(option='text', name='NAME')}"
    )


def _count(tally: _Tally, record: Record, mapping: ColumnMapping) -> None:
    tally.rows += 1
    if record.problem is not None:
        tally.structural[record.problem] += 1
        if tally.first_structural is None and record.problem in STRUCTURAL:
            tally.first_structural = record
    if record.fields is None:
        return
    fields = record.fields
    tally.nested += nested_column(fields, mapping) is not None
    tally.formulas += any(isinstance(fields.get(name), Formula) for name in mapping.text_columns())
    if mapping.conversation is None:
        tally.listed += any(_is_list_or_turns(fields.get(name) or "") for name in mapping.text_columns())
    else:
        _count_turns(tally, fields.get(mapping.text))
    written = fields.get(mapping.label) if mapping.label else None
    label = label_of(written)
    tally.labels_unread += label is None and bool((written or "").strip("[]{} \t"))
    if label is not None and (label in tally.labels or len(tally.labels) <= LABELS_SHOWN):
        tally.labels[label] += 1
    text, identity = text_of(fields, mapping), id_of(record, fields, mapping)
    if isinstance(fields.get(mapping.text), RefusedTurns):
        return
    if identity is None or not identity.strip():
        tally.without_id += 1
        return
    if text is None or not text.strip():
        return
    _measure(tally, len(text))
    tally.rounded += mapping.id is not None and _ROUNDED.fullmatch(identity.strip()) is not None
    _remember(tally, record.row, identity, (text, reply_of(fields, mapping)))
    tally.codes.append(tally.values.setdefault(label or None, len(tally.values)))


def _count_turns(tally: _Tally, cell: str | None) -> None:
    if isinstance(cell, ConversationCell | RefusedTurns):
        tally.conversations += bool(cell.read)
        tally.turns += cell.read
    if isinstance(cell, RefusedTurns) and cell.reason in (Reason.NOT_A_CONVERSATION, Reason.TURN_WITHOUT_ROLE):
        tally.no_turns += 1
        tally.first_refused = tally.first_refused or str(cell)


def _measure(tally: _Tally, length: int) -> None:
    if length > tally.longest:
        tally.longest, tally.at_longest = length, 0
    tally.at_longest += length == tally.longest


def _remember(tally: _Tally, row: int, identity: str, content: tuple[str | None, ...]) -> None:
    tally.ids += _digest(identity)
    tally.contents += _digest("\x00".join("" if part is None else f"{len(part)}:{part}" for part in content))
    tally.numbers += row.to_bytes(8, "little")
    if identity != identity.strip():
        tally.spaced += _digest(identity.strip())


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=2 * _DIGEST).digest()


def _check(tally: _Tally) -> None:
    if tally.rows == 0:
        raise FileRefused("The file has a header but no rows.")
    wrong = sum(count for reason, count in tally.structural.items() if reason in STRUCTURAL)
    first = tally.first_structural
    if first is not None and 2 * wrong > tally.rows:
        raise FileRefused(
            f"{wrong:,} of {tally.rows:,} rows do not fit: {first.detail}. Nothing was read, so that no cell "
            "slides into another column.",
            line=first.line,
        )


def _duplicates(tally: _Tally) -> tuple[dict[int, int], dict[int, str], int, int]:
    """Rows that repeat an id with the same text, what such rows say of it together where their labels differ, how many
    share an id but not the text, and spaced twins.
    """
    ids = np.frombuffer(tally.ids, dtype=np.dtype([("high", "<u8"), ("low", "<u8")]))
    contents = np.frombuffer(tally.contents, dtype=ids.dtype)
    numbers = np.frombuffer(tally.numbers, dtype="<u8")
    order = np.lexsort((numbers, ids["low"], ids["high"]))
    values = list(tally.values)
    same: dict[int, int] = {}
    reviews: dict[int, str] = {}
    conflicting = 0
    for group in _groups(ids[order]):
        members = order[group]
        rows = [int(row) for row in numbers[members]]
        if len({contents[member].tobytes() for member in members}) > 1:
            conflicting += len(rows)
            continue
        same.update(dict.fromkeys(rows[1:], rows[0]))
        given = [value for member in members if (value := values[tally.codes[member]]) is not None]
        if len({values[tally.codes[member]] for member in members}) > 1 and (together := agreed_value(given)):
            reviews[rows[0]] = together
            tally.labels.subtract([*given, *[""] * (len(members) - len(given))])
            tally.labels[together] += 1
    tally.labels = +tally.labels
    return same, reviews, conflicting, _twins(ids, bytes(tally.spaced))


def _groups(ordered: npt.NDArray[np.void]) -> list[slice]:
    """Slices of two or more equal neighbours."""
    if len(ordered) < 2:
        return []
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    starts = np.concatenate(([0], changes))
    ends = np.concatenate((changes, [len(ordered)]))
    long = ends - starts > 1
    return [slice(int(start), int(end)) for start, end in zip(starts[long], ends[long], strict=True)]


def _twins(ids: npt.NDArray[np.void], spaced: bytes) -> int:
    """How many ids with spaces around them differ from another id in those spaces only."""
    return int(np.isin(np.frombuffer(spaced, dtype=f"S{2 * _DIGEST}"), ids.view(f"S{2 * _DIGEST}")).sum())


ID_LIMIT = 200
"""Longest id, in characters."""

_WRONG_CELLS = frozenset({Reason.EXTRA_CELLS, Reason.MISSING_CELLS, Reason.ROWS_MERGED})
_NOBODYS_WORDS = frozenset({Reason.HEADER_REPEATED, Reason.DESCRIBES_COLUMNS, Reason.DUPLICATE})
"""Of a row that is a header, or that is another row."""

WHERE_LIMIT = 500
"""Most characters of a link or contact reference."""

Row = NewCase | RejectedRow


def judge_row(record: Record, found: FileProfile, labels: Mapping[str, Label | None], receive_text: Receive) -> Row:
    """The record as an accepted row, or as a rejected one with the first reason that applies. A rejected one whose
    words state a risk outright is accepted as a case that no agent is asked about: a person sees it, with the reason.
    """
    row, words = _judge(record, found, labels, receive_text)
    if isinstance(row, NewCase) or row.reason in _NOBODYS_WORDS or not words.strip():
        return row
    received = receive_text(words)
    if STATED.isdisjoint(received.flags):
        return row
    flags = received.flags | {Flag.ROW_REJECTED}
    identity = row.external_id or ""
    named = identity.strip() and is_usable_id(identity)
    return NewCase(
        row=row.row,
        external_id=identity if named else f"row {row.row}",
        text=replace(received, flags=flags, model_text=""),
        not_screened=row.detail or str(row.reason),
    )


def _judge(
    record: Record, found: FileProfile, labels: Mapping[str, Label | None], receive_text: Receive
) -> tuple[Row, str]:
    """The row, and of a rejected one the words that can be read of it."""
    if record.fields is None:
        return _unfitting_row(record, found), "\n".join(record.cells)
    fields, mapping = record.fields, found.mapping
    text, identity = text_of(fields, mapping), id_of(record, fields, mapping)
    nested, cell = nested_column(fields, mapping), fields.get(mapping.text)
    if isinstance(cell, RefusedTurns):
        return _reject(record, identity, cell.words or None, cell.reason, str(cell)), cell.words
    removed = _removed_column(fields, mapping)
    if nested is not None:
        rejection: tuple[Reason, str] | None = _nested_problem(nested)
    elif removed is not None:
        rejection = Reason.PLACEHOLDER, f"what stood in the column {removed} was removed before the file was made"
    else:
        rejection = _rejection(record.row, text, identity, found)
    if rejection is not None or text is None or identity is None:
        reason, detail = rejection or (Reason.NO_TEXT, "the text is missing")
        return _reject(record, identity, text, reason, detail), text or ""
    received, thread = _receive(cell, text, mapping, receive_text)
    if Flag.EMPTY in received.flags:
        return _reject(record, identity, text, Reason.EMPTY_TEXT, "nothing but spaces or invisible characters"), ""
    if _is_cut(fields, found, text):
        received = replace(received, flags=received.flags | {Flag.UNREADABLE})
    case = _accept(record, identity, received, _reply(fields, mapping, receive_text), fields, found, labels)
    return (case if thread is None else replace(case, thread=thread)), ""


def _removed_column(fields: Fields, mapping: ColumnMapping) -> str | None:
    """The first column of the text that holds a placeholder."""
    return next((name for name in mapping.text_columns() if (cell := fields.get(name)) and is_placeholder(cell)), None)


def _is_cut(fields: Fields, found: FileProfile, text: str) -> bool:
    """Whether it is known that a part of the text is missing: the file says so, or it ends where Excel cuts."""
    said = fields.get(found.cut_column) if found.cut_column else None
    cells = (fields.get(name) or "" for name in found.mapping.text_columns())
    return (said or "").strip().casefold() in ("true", "1", "yes") or is_cut(text) or EXCEL_CELL in map(len, cells)


def _receive(
    cell: str | None, text: str, mapping: ColumnMapping, receive_text: Receive
) -> tuple[ReceivedText, Thread | None]:
    """The text, or the conversation in its place."""
    if not isinstance(cell, ConversationCell):
        return receive_text(text), None
    tokens = mapping.conversation.context_tokens if mapping.conversation else CONTEXT_TOKENS
    return receive_conversation(cell.turns, cell.judged, receive_text, question=cell.question, context_tokens=tokens)


def _unfitting_row(record: Record, found: FileProfile) -> RejectedRow:
    """A row whose cells do not fit the columns; its id is known where that is the first column."""
    reason = record.problem or Reason.NOT_AN_OBJECT
    named = reason in _WRONG_CELLS and bool(record.cells) and found.mapping.id == found.columns[0]
    return RejectedRow(
        row=record.row,
        line=record.line,
        external_id=record.cells[0] if named else None,
        reason=reason,
        detail=record.detail,
        original_json=json.dumps(record.cells) if record.cells else None,
    )


def _accept(
    record: Record,
    identity: str,
    text: ReceivedText,
    reply: ReceivedText | None,
    fields: Fields,
    found: FileProfile,
    labels: Mapping[str, Label | None],
) -> NewCase:
    mapping = found.mapping
    value = found.reviews.get(record.row) or label_of(fields.get(mapping.label) if mapping.label else None)
    return NewCase(
        row=record.row,
        external_id=identity,
        text=text,
        reply=reply,
        reference=map_label(value, labels),
        reference_value=value,
        group=single(fields, mapping.group) or None,
        where=where_of(single(fields, mapping.where)),
    )


def where_of(cell: str | None) -> str | None:
    """Where to act, on one line and short enough to be shown; None for nothing."""
    kept = " ".join((cell or "").split())[:WHERE_LIMIT]
    return kept or None


def _nested_problem(column: str) -> tuple[Reason, str]:
    return Reason.NOT_A_TEXT, f"a list or an object stands in the column {column}, where a text was expected"


def _rejection(row: int, text: str | None, identity: str | None, found: FileProfile) -> tuple[Reason, str] | None:
    if text is None:
        return Reason.NO_TEXT, "the text is missing"
    if not text.strip():
        return Reason.EMPTY_TEXT, "the text is empty"
    if identity is None or not identity.strip():
        return Reason.NO_ID, "the id is missing"
    if not is_usable_id(identity):
        return Reason.UNUSABLE_ID, f"the id is longer than {ID_LIMIT} characters or holds control characters"
    if row in found.same:
        return Reason.DUPLICATE, f"the same id and text as row {found.same[row]}"
    return None


def is_usable_id(identity: str) -> bool:
    """Whether an id can be kept as it is, and shown."""
    return len(identity) <= ID_LIMIT and identity.isprintable()


def _reject(record: Record, identity: str | None, text: str | None, reason: Reason, detail: str) -> RejectedRow:
    return RejectedRow(
        row=record.row,
        line=record.line,
        external_id=identity,
        reason=reason,
        detail=detail,
        original_json=None if text is None else json.dumps(text),
    )


def _reply(fields: Fields, mapping: ColumnMapping, receive_text: Receive) -> ReceivedText | None:
    cell = fields.get(mapping.text)
    following = cell.reply if isinstance(cell, ConversationCell) else None
    reply = reply_of(fields, mapping) or following
    return receive_text(reply) if reply is not None and reply.strip() else None
