"""A file as a table: described after one pass, then read row by row, each accepted or rejected with a reason."""

import json
import re
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from screening.datasets.formats import file_layout, rows_of
from screening.datasets.mapping import DERIVED, OF_A_PERSON, ColumnMapping, chosen_mapping, known_as
from screening.datasets.rows import (
    PATTERNS,
    ColumnsUnclear,
    FileLayout,
    FileRefused,
    FileRow,
    Formula,
    Nested,
    NewCase,
    Reason,
    RejectedRow,
    Row,
    Source,
    agreed_value,
    is_cut,
    is_placeholder,
    label_of,
    map_label,
    normalised_name,
    parsed_list,
)
from screening.labels import Label
from screening.text.conversation import Role
from screening.text.flags import STATED, Flag
from screening.text.received import Receive, receive
from screening.text.risk_statements import risk_flags
from screening.words import count_of

ID_LIMIT = 200
"""Longest id, in characters."""

WHERE_LIMIT = 500
"""Most characters of a link or contact reference."""

LABELS_SHOWN = 100
"""Different label values that are counted; more than that is no label column."""

EXCEL_CELL = 32_767
"""Most characters an Excel cell holds."""
_NEAR_EXCEL_CELL = 32_700

LOOKED_AT = 20_000
"""Characters of an unread cell that are looked through."""
SENTENCES_COUNTED = 200
FEW_VALUES = 10
"""Most different values of a column that may be an unknown label."""

_WRONG_CELLS = frozenset({Reason.EXTRA_CELLS, Reason.MISSING_CELLS, Reason.ROWS_MERGED})
_STRUCTURAL = _WRONG_CELLS | {Reason.NOT_JSON, Reason.NOT_AN_OBJECT, Reason.REPEATED_KEY}
"""Reasons that cast doubt on the file when most rows have them."""
_NOBODYS_WORDS = frozenset({Reason.HEADER_REPEATED, Reason.DESCRIBES_COLUMNS, Reason.DUPLICATE})
"""Of a row that is a header, or that is another row."""
_SAY_CUT = ("truncated", "is_truncated", "text_truncated")
_BETWEEN_PARTS = re.compile("[,;|/]")
_ROUNDED = re.compile(r"\d(?:[.,]\d+)?E\+\d{1,3}", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A described file. ``same`` holds for each repeated row (from 1) the row that its id and text stood in first, and
    ``reviews`` for such a first row the label that all of them give. ``cut_column`` says of a row that its text is only
    the beginning. ``said`` are the values of the label column as they were proposed, or as a person said.
    """

    name: str
    layout: FileLayout = field(repr=False)
    mapping: ColumnMapping
    unread: tuple[str, ...]
    warnings: tuple[str, ...]
    row_count: int
    label_values: Counter[str]
    same: Mapping[int, int] = field(repr=False)
    reviews: Mapping[int, str] = field(repr=False)
    cut_column: str | None
    said: Mapping[str, Label | None] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, Label]:
        """Which values of the label column are read as what."""
        return {value: label for value, label in self.said.items() if label is not None}

    @property
    def unmapped(self) -> tuple[str, ...]:
        """Which of them are only shown."""
        return tuple(sorted(value for value in self.label_values if value.strip() and not self.said.get(value)))

    @property
    def unread_words(self) -> str:
        """Which columns are not read; empty where all are."""
        names = ", ".join(self.unread[:20]) + (" …" if len(self.unread) > 20 else "")
        return f"{count_of(len(self.unread), 'column is', 'columns are')} not read: {names}." if names else ""

    def with_labels(self, label_values: Mapping[str, Label | None]) -> "Table":
        """The same with values of the label column read as a person said. ValueError for neither safe nor unsafe."""
        said = {value: None if label is None else Label(label) for value, label in label_values.items()}
        if Label.ESCALATE in said.values():
            raise ValueError("a reference label is safe or unsafe")
        known = {value: map_label(value) for value in sorted(self.label_values)}
        return replace(self, said={value: label for value, label in known.items() if label is not None} | said)

    def rows(
        self, receive_text: Receive = receive, after: int = 0, tell: Callable[[int], None] = lambda row: None
    ) -> Iterator[Row]:
        """Every data row in the order of the file, accepted or rejected. The file is read again, in constant memory;
        rows up to ``after`` are passed over, and nothing is looked for in their texts. ``tell`` is given the number of
        each that is read. May be asked for any number of times.
        """
        for row in rows_of(self.layout, self.mapping):
            if row.row > after:
                tell(row.row)
                yield self._judged(row, receive_text)

    def _judged(self, row: FileRow, receive_text: Receive) -> Row:
        """The row as an accepted one, or as a rejected one with the first reason that applies."""
        mapping, fields, talk = self.mapping, row.fields, row.talk
        text, identity = mapping.text_of(fields), mapping.id_of(row)
        if (problem := self._problem(row, text, identity)) is not None:
            return self._rejected(row, *problem, receive_text)
        received, thread = talk.received(receive_text) if talk else (receive_text(text or ""), None)
        if Flag.EMPTY in received.flags:
            return self._rejected(row, Reason.EMPTY_TEXT, "nothing but spaces or invisible characters", receive_text)
        cells = [fields.get(name) or "" for name in mapping.text_columns()]
        says_cut = row.single(self.cut_column) or ""
        if says_cut.strip().casefold() in ("true", "1", "yes") or is_cut(text or "") or EXCEL_CELL in map(len, cells):
            received = replace(received, flags=received.flags | {Flag.UNREADABLE})  # a part of it is missing
        value = self.reviews.get(row.row) or label_of(fields.get(mapping.label) if mapping.label else None)
        reply = mapping.reply_of(fields) or (talk.reply if talk else None)
        return NewCase(
            row=row.row,
            external_id=str(identity),
            text=received,
            reply=receive_text(reply) if reply is not None and reply.strip() else None,
            reference=map_label(value, self.said),
            reference_value=value,
            group=row.single(mapping.group) or None,
            where=where_of(row.single(mapping.where)),
            thread=thread,
        )

    def _problem(self, row: FileRow, text: str | None, identity: str | None) -> tuple[Reason, str] | None:
        """The first reason for which it is no case, with a sentence."""
        if row.problem is not None:
            return row.problem, row.detail
        if (nested := self.mapping.nested_in(row.fields)) is not None:
            said = f"a list or an object stands in the column {nested}, where a text was expected"
            return Reason.NOT_A_TEXT, said
        for name in self.mapping.text_columns():
            if (cell := row.fields.get(name)) and is_placeholder(cell):
                return Reason.PLACEHOLDER, f"what stood in the column {name} was removed before the file was made"
        if row.talk is None and not (text or "").strip():
            return (Reason.NO_TEXT, "the text is missing") if text is None else (Reason.EMPTY_TEXT, "the text is empty")
        if identity is None or not identity.strip():
            return Reason.NO_ID, "the id is missing"
        if not is_usable_id(identity):
            return Reason.UNUSABLE_ID, f"the id is longer than {ID_LIMIT} characters or holds control characters"
        same = self.same.get(row.row)
        return None if same is None else (Reason.DUPLICATE, f"the same id and text as row {same}")

    def _rejected(self, row: FileRow, reason: Reason, detail: str, receive_text: Receive) -> Row:
        """The rejected row or, where its words state a risk outright, a case that no agent is asked about: it is
        escalated, with the reason. Of a row whose cells do not fit the id is known where that is the first column.
        """
        identity = self.mapping.id_of(row)
        original: str | tuple[str, ...] | None = self.mapping.text_of(row.fields)
        if row.problem is not None and not row.fields:
            named = reason in _WRONG_CELLS and bool(row.cells) and self.mapping.id == self.layout.columns[0]
            identity, original = row.cells[0] if named else None, row.cells or None
        elif row.problem is not None:
            original = row.cells[0] if row.cells else None
        elif row.talk is not None:
            original = "\n\n".join(turn.text for turn in row.talk.turns)
        words = "\n".join(original) if isinstance(original, tuple) else original or ""
        if row.talk is not None and reason is Reason.EMPTY_TEXT:  # beside an empty turn the user's own words state it
            words = "\n\n".join(turn.text for turn in row.talk.turns if turn.role is Role.USER)
        if reason not in _NOBODYS_WORDS and words.strip():
            received = receive_text(words)
            if not STATED.isdisjoint(received.flags):
                usable = identity and identity.strip() and is_usable_id(identity)
                return NewCase(
                    row=row.row,
                    external_id=identity if identity and usable else f"row {row.row}",
                    text=replace(received, flags=received.flags | {Flag.ROW_REJECTED}, model_text=""),
                    not_screened=detail or str(reason),
                )
        return RejectedRow(
            row=row.row,
            line=row.line,
            external_id=identity,
            reason=reason,
            detail=detail,
            original_json=None if original is None else json.dumps(original),
        )


def where_of(cell: str | None) -> str | None:
    """Where to act, on one line and short enough to be shown; None for nothing."""
    kept = " ".join((cell or "").split())[:WHERE_LIMIT]
    return kept or None


def is_usable_id(identity: str) -> bool:
    """Whether an id can be kept as it is, and shown."""
    return len(identity) <= ID_LIMIT and identity.isprintable()


def describe_reading(table: Table) -> dict[str, Any]:
    """How the file was read, as data kept with its batch."""
    layout, mapping, reading = table.layout, table.mapping, table.mapping.conversation
    turns = {name: getattr(reading, name) for name in ("shape", "judged", "context_tokens")} if reading else {}
    return {
        "format": layout.format,
        "encoding": layout.encoding and layout.encoding.name,
        "separator": layout.separator,
        "text_column": ", ".join(mapping.text_columns()),
        **{f"{role}_column": getattr(mapping, role) for role in ("id", "reply", "label", "group")},
        "unread_columns": list(table.unread),
        "lists_joined": mapping.lists,
        **({"conversations": turns | {"questions": list(reading.questions)}} if reading else {}),
        "sheet": layout.sheet,
        "labels": {value: label.value for value, label in table.labels.items()},
        "warnings": list(table.warnings),
    }


def read_table(
    source: Source,
    name: str = "",
    *,
    mapping: ColumnMapping | None = None,
    label_values: Mapping[str, Label | None] | None = None,
    sheet: str | None = None,
    named: Collection[str] = ("id",),
) -> Table:
    """Describe a file after one pass over all of it. ``name`` is only ever a label, never a path.

    ``mapping``, ``label_values`` and ``sheet`` are what a person confirmed; without them all are proposed. ``named``
    says which of the mapping's id and group the person named: the others are proposed too. FileRefused when it cannot
    be read without risking a wrong row; its subclass ColumnsUnclear when only the columns are in doubt.
    """
    layout = file_layout(source, sheet)
    if not layout.columns:
        why = (f": in line {one.line} {one.detail}" for one in rows_of(layout) if one.detail)
        raise FileRefused(f"The file has no rows with named values{next(why, '')}.")
    try:
        survey = _Survey(layout, chosen_mapping(layout.columns, mapping, named))
        for row in rows_of(layout, survey.mapping, survey.look):
            survey.count(row)
        survey.require_readable()
        survey.require_known()
    except ColumnsUnclear as unclear:
        unclear.columns, unclear.sheets = layout.columns, layout.sheets
        raise
    return survey.table(name, named if mapping else ()).with_labels(label_values or {})


class _Survey:
    """What the first pass finds, counted while the rows go by. Of ids and contents the hashes are kept: constant work
    and 40 bytes a row.
    """

    def __init__(self, layout: FileLayout, mapping: ColumnMapping) -> None:
        self.layout, self.mapping = layout, mapping
        self.rows = self.blank_lines = self.wrong = self.nested = self.listed = self.formulas = self.conversations = 0
        self.turns = self.no_turns = self.labels_unread = self.without_id = self.rounded = self.conflicting = 0
        self.first_wrong: FileRow | None = None
        self.first_without_turns = ""
        self.label_values, self.near_limit = Counter[str](), Counter[int]()
        self.same, self.reviews = dict[int, int](), dict[int, str]()
        self._ids, self._contents, self._rows, self._spaced = array("q"), array("q"), array("q"), array("q")
        self._labels: list[str] = []
        read = mapping.columns()
        self.unread = tuple(name for name in layout.columns if name not in read)
        looked_at = (name for name in self.unread if name not in mapping.unread and known_as(name) not in DERIVED)
        talk = mapping.conversation
        labeled = mapping.label is not None or (talk is not None and talk.reply_label is not None)
        self._unread = [_UnreadColumn(name, may_be_label=not labeled) for name in looked_at]

    def look(self, line: FileRow | None) -> None:
        """At a line of the file, before conversations are put together."""
        if line is None:
            self.blank_lines += 1
            return
        for column in self._unread:
            if cell := line.fields.get(column.name):
                column.look(cell)

    def count(self, row: FileRow) -> None:
        """Count a row, and keep its id and content for later."""
        self.rows += 1
        mapping, fields = self.mapping, row.fields
        if row.problem in _STRUCTURAL:
            self.wrong += 1
            self.first_wrong = self.first_wrong or row
        self.nested += mapping.nested_in(fields) is not None
        texts = [fields.get(name) for name in mapping.text_columns()]
        self.formulas += any(isinstance(text, Formula) for text in texts)
        self.listed += mapping.conversation is None and any(map(_is_list, texts))
        self.conversations += bool(row.turns)
        self.turns += len(row.turns)
        if row.problem in (Reason.NOT_A_CONVERSATION, Reason.TURN_WITHOUT_ROLE):
            self.no_turns += 1
            self.first_without_turns = self.first_without_turns or row.detail
        label = self._count_label(fields.get(mapping.label) if mapping.label else None)
        text, identity = mapping.text_of(fields) or "", mapping.id_of(row)
        if row.problem is not None:
            return
        if identity is None or not identity.strip():
            self.without_id += 1
        elif row.talk is not None or text.strip():
            if len(text) >= _NEAR_EXCEL_CELL:
                self.near_limit[len(text)] += 1
            self.rounded += mapping.id is not None and _ROUNDED.fullmatch(identity.strip()) is not None
            self._ids.append(hash(identity))
            self._contents.append(hash((row.talk or text, mapping.reply_of(fields))))
            self._rows.append(row.row)
            self._labels.append(sys.intern(str(label or "")))  # a formula is no plain string
            if identity != identity.strip():
                self._spaced.append(hash(identity.strip()))

    def _count_label(self, written: str | None) -> str | None:
        label = label_of(written)
        self.labels_unread += label is None and bool((written or "").strip("[]{} \t"))
        if label is not None and (label in self.label_values or len(self.label_values) <= LABELS_SHOWN):
            self.label_values[label] += 1
        return label

    def require_readable(self) -> None:
        """FileRefused where most rows do not fit, ColumnsUnclear where a person must say what the text is."""
        if self.rows == 0:
            raise FileRefused("The file has a header but no rows.")
        if self.first_wrong is not None and 2 * self.wrong > self.rows:
            raise FileRefused(
                f"{self.wrong:,} of {self.rows:,} rows do not fit: {self.first_wrong.detail}. Nothing was read, so "
                "that no cell slides into another column.",
                line=self.first_wrong.line,
            )
        if 2 * self.no_turns > self.rows:
            of_rows = f"In {self.no_turns:,} of {self.rows:,} rows no conversation can be read so"
            raise ColumnsUnclear(f"{of_rows}; {self.first_without_turns}.")
        if 2 * self.nested > self.rows:
            said = "or an object, not a text."
            if self.listed:
                said = "of strings or turns. Join it, read it as conversations, or choose another column."
            raise ColumnsUnclear(f"In {self.nested:,} of {self.rows:,} rows the text is a list {said}")

    def require_known(self) -> None:
        """ColumnsUnclear where an unread column holds sentences or an outright statement of risk, or looks like the
        label.
        """
        sentences = [column.name for column in self._unread if column.states_risk or column.holds_sentences()]
        labels = [column.name for column in self._unread if column.looks_like_label()]
        if sentences:
            what = f"{'A column' if len(sentences) == 1 else 'Columns'} of sentences would not be read"
            do = "Join it to the text, or say that it stays unread."
        elif labels:
            what = f"{count_of(len(labels), 'column')} could be the label, and would not be read"
            do = "Say which is the label (--label-column), or that it stays unread."
        else:
            return
        names = sentences or labels
        raise ColumnsUnclear(f"{what}: {', '.join(names)}. {do}", option="unread", name=names[0])

    def table(self, name: str, named: Collection[str]) -> Table:
        """The file by what was found. An id that rows with different texts share is none: it becomes the group. So does
        a person's or conversation's id that nobody ``named`` and that is not every row's own.
        """
        self._compare()
        shared, mapping, spaced = None, self.mapping, int(np.isin(np.array(self._spaced), np.array(self._ids)).sum())
        person = "id" not in named and mapping.id is not None and known_as(mapping.id) in OF_A_PERSON
        several = bool(self.same or self.without_id) and mapping.conversation is None
        if mapping.id is not None and (self.conflicting or (person and several)):
            shared, spaced, self.same, self.reviews = mapping.id, 0, {}, {}
            mapping = replace(mapping, id=None)
            if not (self.rounded or "group" in named):
                instead = "id" not in named and self.conflicting
                mapping = replace(mapping, group=shared if instead else mapping.group or shared)
        cut = None
        if not any(word in normalised_name(mapping.text) for word in ("full", "extended")):
            cut = next((column for column in self.layout.columns if normalised_name(column) in _SAY_CUT), None)
        return Table(
            name=name,
            layout=self.layout,
            mapping=mapping,
            unread=self.unread,
            warnings=(*self._warnings(), *self._warnings_of_rows(), *self._warnings_of_ids(mapping, shared, spaced)),
            row_count=self.rows,
            label_values=self.label_values,
            same=self.same,
            reviews=self.reviews,
            cut_column=cut,
        )

    def _compare(self) -> None:
        """Find the rows that repeat an id, with the same text or another, and the labels that such rows give."""
        order = np.argsort(np.array(self._ids), kind="stable")
        for _, of_one in groupby(order, key=self._ids.__getitem__):
            if len(places := list(of_one)) == 1:
                continue
            if len({self._contents[at] for at in places}) > 1:
                self.conflicting += len(places)
                continue
            first, *others = (self._rows[at] for at in places)
            self.same.update(dict.fromkeys(others, first))
            labels = [self._labels[at] for at in places]
            if len(set(labels)) > 1 and (together := agreed_value(filter(None, labels))):
                self.reviews[first] = together
                self.label_values.subtract(labels)
                self.label_values[together] += 1
        self.label_values = +self.label_values

    def _warnings(self) -> Iterator[str]:
        encoding, sheets = self.layout.encoding, self.layout.sheets
        if encoding and encoding.guessed:
            yield f"The file is not UTF-8; it was read as {encoding.name}, which is a guess. Look at a few accents."
        if encoding and encoding.unreadable_bytes:
            bytes_ = count_of(encoding.unreadable_bytes, "byte is", "bytes are")
            yield f"{bytes_} not UTF-8; the texts with such bytes are marked unreadable."
        if self.layout.sheet is not None and len(sheets) > 1:
            yield f"Only sheet {sheets.index(self.layout.sheet) + 1} of {len(sheets)} is read."

    def _warnings_of_rows(self) -> Iterator[str]:
        if self.listed and not self.mapping.lists:
            rows = count_of(self.listed, "row")
            yield f"In {rows} the text is a list of strings or turns, screened as it stands in the file."
        if self.formulas:
            texts = count_of(self.formulas, "text is a formula", "texts are formulas")
            yield f"{texts} without a value in the file, and read as written there."
        if self.mapping.conversation is not None:
            turns, rows = f"with {count_of(self.turns, 'turn')}", count_of(self.rows, "row")
            read = count_of(self.conversations, f"conversation {turns} was read", f"conversations {turns} were read")
            yield f"{read}. What is asked of them, and what was rejected, is {rows}, counted anew."
        if self.blank_lines:
            lines = count_of(self.blank_lines, "blank line was", "blank lines were")
            yield f"{lines} passed over, not counted as rows."
        if self.labels_unread:
            rows = count_of(self.labels_unread, "row")
            yield f"In {rows} the label is a list of parts or an object, and read as none."
        if numbers := sorted(value for value in self.label_values if value.strip().lstrip("-").isdecimal()):
            yield f"What the numbers in the label column ({', '.join(numbers[:10])}) stand for is for you to say."
        longest = max(self.near_limit, default=0)
        if 0 < longest <= EXCEL_CELL:  # where others are longer, nothing cut them
            texts = count_of(self.near_limit[longest], "text ends", "texts end")
            yield f"{texts} near Excel's limit of 32,767 characters and may have been cut there."

    def _warnings_of_ids(self, mapping: ColumnMapping, shared: str | None, spaced: int) -> Iterator[str]:
        if self.rounded:
            ids = count_of(self.rounded, "id was", "ids were")
            yield f"{ids} rounded by a spreadsheet, as 4.58305E+17 is: digits are lost. Export them as text."
        if shared is not None:
            several = f"{self.conflicting:,} rows share one with another text" if self.conflicting else "rows share one"
            group = " It is read as the group (the person)." if mapping.group == shared else ""
            yield f"The column {shared} is no id: {several}, or have none. The row number is the id.{group}"
        if self.same:
            rows = count_of(len(self.same), "row repeats", "rows repeat")
            yield f"{rows} an earlier row with the same id and text; each is kept once."
        if self.reviews:
            texts = count_of(len(self.reviews), "text has", "texts have")
            yield f"{texts} several labels, of several reviewers: they stand beside each other, and are one value."
        if spaced:
            ids = count_of(spaced, "id differs", "ids differ")
            yield f"{ids} from another id only in spaces around it; they are kept apart."


class _UnreadColumn:
    """A column that nobody reads, looked at while the rows go by."""

    def __init__(self, name: str, *, may_be_label: bool) -> None:
        self.name, self.states_risk, self._may_be_label = name, False, may_be_label
        self._filled, self._sentences, self._values = 0, Counter[int](), set[str]()

    def look(self, cell: str) -> None:
        self._filled += 1
        if self._may_be_label and len(self._values) <= FEW_VALUES:
            self._values.add((label_of(cell) or "").strip().casefold())
        words, seen = len(cell.split(maxsplit=2)), self._sentences
        if words > 1 and not isinstance(cell, Nested) and len(seen) < SENTENCES_COUNTED and is_sentence(cell):
            seen[hash(cell)] += 1
        if words > 2 and not self.states_risk:
            self.states_risk = bool(risk_flags(cell[:LOOKED_AT]))

    def holds_sentences(self) -> bool:
        """Whether a fifth of its cells are sentences, and they are not the same few over and over."""
        different, found = len(self._sentences), self._sentences.total()
        return different >= SENTENCES_COUNTED or (5 * found >= self._filled > 0 < found <= 3 * different)

    def looks_like_label(self) -> bool:
        """Whether all that stands in it is safe or unsafe, or its name says that it rates and its values are few."""
        filled = self._values - {""}
        if not filled or len(self._values) > FEW_VALUES:
            return False
        return all(map_label(one) for one in filled) or PATTERNS["rating"].search(known_as(self.name)) is not None


def _is_list(cell: str | None) -> bool:
    """Whether it is a list of strings, or of objects, as conversations are written."""
    found = parsed_list(cell or "")
    return found is not None and any(all(isinstance(one, kind) for one in found) for kind in (str, dict))


def is_sentence(cell: str) -> bool:
    """Whether a cell reads like something that somebody said.

    >>> is_sentence("I do not want to be here"), is_sentence("Fraud, Suicide and Self Harm"), is_sentence("Not today.")
    (True, False, True)
    """
    parts = [part.split() for part in _BETWEEN_PARTS.split(cell)]
    words = max(sum(any(letter.isalpha() for letter in word) for word in part) for part in parts)
    return words >= 5 or (words >= 2 and cell.strip()[-1:] in ".!?…")
