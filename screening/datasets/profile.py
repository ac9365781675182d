"""The first pass over a file: what it holds, which rows repeat an id, and what a person must say before it is read."""

import re
import sys
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from screening.datasets.mapping import DERIVED, HOW_TO_SAY, OF_A_PERSON, ColumnMapping, known_as
from screening.datasets.rows import (
    PATTERNS,
    STRUCTURAL,
    ColumnsUnclear,
    Fields,
    FileRefused,
    FileRow,
    Formula,
    Nested,
    Reason,
    Rows,
    agreed_value,
    label_of,
    map_label,
    normalised_name,
    parsed_list,
)
from screening.text.risk_statements import risk_flags
from screening.words import count_of

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
_SAY_CUT = ("truncated", "is_truncated", "text_truncated")
_BETWEEN_PARTS = re.compile("[,;|/]")
_ROUNDED = re.compile(r"\d(?:[.,]\d+)?E\+\d{1,3}", re.IGNORECASE)


@dataclass(slots=True, kw_only=True)
class FileProfile:
    """What the first pass found, counted while the rows go by.
    ``same`` holds for each repeated row (from 1) the row that its id and text stood in first, and ``reviews`` for such
    a first row the label that all of them give. ``shared_id`` is an id column that several rows share: it is none, and
    became the group. ``conflicting`` of them share one with another text. ``cut_column`` says of a row that its text
    is only the beginning; there is none where the whole is read.
    """

    columns: tuple[str, ...]
    mapping: ColumnMapping
    unread: tuple[str, ...]
    cut_column: str | None = field(init=False, default=None)
    rows: int = 0
    blank_lines: int = 0
    wrong: int = 0
    first_wrong: FileRow | None = None
    nested: int = 0
    listed: int = 0
    formulas: int = 0
    conversations: int = 0
    turns: int = 0
    no_turns: int = 0
    first_without_turns: str = ""
    label_values: Counter[str] = field(default_factory=Counter)
    labels_unread: int = 0
    without_id: int = 0
    rounded: int = 0
    near_limit: Counter[int] = field(default_factory=Counter)
    same: dict[int, int] = field(default_factory=dict)
    reviews: dict[int, str] = field(default_factory=dict)
    conflicting: int = 0
    spaced_twins: int = 0
    shared_id: str | None = None

    def __post_init__(self) -> None:
        if not any(word in normalised_name(self.mapping.text) for word in ("full", "extended")):
            self.cut_column = next((name for name in self.columns if normalised_name(name) in _SAY_CUT), None)

    @property
    def cut_cells(self) -> int:
        """Texts that end where Excel cuts one; none where others are longer."""
        longest = max(self.near_limit, default=0)
        return self.near_limit[longest] if longest <= EXCEL_CELL else 0

    def count(self, row: FileRow, ids: "_Ids") -> None:
        """Count a row, and keep its id and content for later."""
        self.rows += 1
        mapping, fields = self.mapping, row.fields
        if row.problem in STRUCTURAL:
            self.wrong += 1
            self.first_wrong = self.first_wrong or row
        if fields is None:
            return
        self.nested += mapping.nested_in(fields) is not None
        texts = [fields.get(name) for name in mapping.text_columns()]
        self.formulas += any(isinstance(text, Formula) for text in texts)
        self.listed += mapping.conversation is None and any(map(_is_list, texts))
        self.conversations += bool(row.turns)
        self.turns += row.turns
        if row.problem in (Reason.NOT_A_CONVERSATION, Reason.TURN_WITHOUT_ROLE):
            self.no_turns += 1
            self.first_without_turns = self.first_without_turns or row.detail
        label = self._count_label(fields)
        text, identity = mapping.text_of(fields) or "", mapping.id_of(row)
        if row.problem is not None:
            return
        if identity is None or not identity.strip():
            self.without_id += 1
        elif row.talk is not None or text.strip():
            if len(text) >= _NEAR_EXCEL_CELL:
                self.near_limit[len(text)] += 1
            self.rounded += mapping.id is not None and _ROUNDED.fullmatch(identity.strip()) is not None
            ids.add(row.row, identity, (row.talk or text, mapping.reply_of(fields)), label or "")

    def _count_label(self, fields: Fields) -> str | None:
        written = fields.get(self.mapping.label) if self.mapping.label else None
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
            found = f"In {self.nested:,} of {self.rows:,} rows the text is a list {said}"
            raise ColumnsUnclear(found)

    def compare(self, ids: "_Ids") -> None:
        """Find the rows that repeat an id, with the same text or another, and the labels that such rows give."""
        for rows, contents, labels in ids.shared():
            if len(set(contents)) > 1:
                self.conflicting += len(rows)
                continue
            self.same.update(dict.fromkeys(rows[1:], rows[0]))
            if len(set(labels)) > 1 and (together := agreed_value(filter(None, labels))):
                self.reviews[rows[0]] = together
                self.label_values.subtract(labels)
                self.label_values[together] += 1
        self.label_values = +self.label_values
        self.spaced_twins = ids.twins()


def _is_list(cell: str | None) -> bool:
    """Whether it is a list of strings, or of objects, as conversations are written."""
    found = parsed_list(cell or "")
    return found is not None and any(all(isinstance(one, kind) for one in found) for kind in (str, dict))


class _Ids:
    """Ids and contents of rows by their hashes: constant work and 40 bytes a row."""

    def __init__(self) -> None:
        self._ids, self._contents, self._rows, self._spaced = array("q"), array("q"), array("q"), array("q")
        self._labels: list[str] = []

    def add(self, row: int, identity: str, content: tuple[object, ...], label: str) -> None:
        self._ids.append(hash(identity))
        self._contents.append(hash(content))
        self._rows.append(row)
        self._labels.append(sys.intern(str(label)))  # a formula is no plain string
        if identity != identity.strip():
            self._spaced.append(hash(identity.strip()))

    def shared(self) -> Iterator[tuple[list[int], list[int], list[str]]]:
        """Of each id that several rows share those rows in order, what they hold, and their labels."""
        order = np.argsort(np.array(self._ids), kind="stable")
        for _, several in groupby(order, key=self._ids.__getitem__):
            if len(places := list(several)) > 1:
                rows, contents = ([of_row[at] for at in places] for of_row in (self._rows, self._contents))
                yield rows, contents, [self._labels[at] for at in places]

    def twins(self) -> int:
        """How many ids with spaces around them differ from another id in those spaces only."""
        return int(np.isin(np.array(self._spaced), np.array(self._ids)).sum())


class UnreadColumns:
    """What stands in the columns that nobody reads, looked at while the rows go by."""

    def __init__(self, columns: tuple[str, ...], mapping: ColumnMapping) -> None:
        self.columns, self.mapping = columns, mapping
        read = mapping.columns()
        self.names = tuple(name for name in columns if name not in read)
        looked_at = [name for name in self.names if name not in mapping.unread and known_as(name) not in DERIVED]
        self._filled: Counter[str] = Counter()
        self._sentences: dict[str, Counter[int]] = {name: Counter() for name in looked_at}
        self._stated: set[str] = set()
        reading = mapping.conversation
        labeled = mapping.label is not None or (reading is not None and reading.reply_label is not None)
        self._values: dict[str, set[str]] = {} if labeled else {name: set() for name in looked_at}

    def watch(self, rows: Rows) -> Rows:
        """The same rows."""
        for one in rows:
            if one is not None and one.fields is not None:
                for name in self._sentences:
                    if cell := one.fields.get(name):
                        self._look(name, cell)
            yield one

    def _look(self, name: str, cell: str) -> None:
        self._filled[name] += 1
        if (values := self._values.get(name)) is not None and len(values) <= FEW_VALUES:
            values.add((label_of(cell) or "").strip().casefold())
        seen, words = self._sentences[name], len(cell.split(maxsplit=2))
        if words > 1 and not isinstance(cell, Nested) and len(seen) < SENTENCES_COUNTED and is_sentence(cell):
            seen[hash(cell)] += 1
        if words > 2 and name not in self._stated and risk_flags(cell[:LOOKED_AT]):
            self._stated.add(name)

    def require_known(self) -> None:
        """ColumnsUnclear where one holds sentences or an outright statement of risk, or looks like the label."""
        if asked := [name for name in self._sentences if name in self._stated or self._holds_sentences(name)]:
            named = ", ".join(asked)
            self._ask(
                f"{'A column' if len(asked) == 1 else 'Columns'} of sentences would not be read: {named}. Join it to "
                "the text, or say that it stays unread.",
                asked[0],
            )
        if labels := [name for name, values in self._values.items() if _looks_like_label(name, values)]:
            self._ask(
                f"{count_of(len(labels), 'column')} could be the label, and would not be read: {', '.join(labels)}. "
                "Say which is the label (--label-column), or that it stays unread.",
                labels[0],
            )

    def _ask(self, sentence: str, name: str) -> None:
        raise ColumnsUnclear(f"{sentence} {HOW_TO_SAY.format(option='unread', name=name)}")

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
    return all(map_label(one) for one in filled) or PATTERNS["rating"].search(known_as(name)) is not None


def is_sentence(cell: str) -> bool:
    """Whether a cell reads like something that somebody said.

    >>> is_sentence("I do not want to be here"), is_sentence("Fraud, Suicide and Self Harm"), is_sentence("Not today.")
    (True, False, True)
    """
    parts = [part.split() for part in _BETWEEN_PARTS.split(cell)]
    words = max(sum(any(letter.isalpha() for letter in word) for word in part) for part in parts)
    return words >= 5 or (words >= 2 and cell.strip()[-1:] in ".!?…")


def survey(rows: Rows, unread: UnreadColumns, *, proposed: bool = False) -> FileProfile:
    """One pass over the rows. FileRefused when most of them do not fit, ColumnsUnclear where a column of sentences
    would not be read. An id that rows with different texts share is none: it becomes the group. Of a mapping that
    nobody has confirmed, so does a person's or conversation's id that is not every row's own.
    """
    mapping, ids = unread.mapping, _Ids()
    found = FileProfile(columns=unread.columns, mapping=mapping, unread=unread.names)
    for one in rows:
        if one is None:
            found.blank_lines += 1
        else:
            found.count(one, ids)
    found.require_readable()
    unread.require_known()
    found.compare(ids)
    person = proposed and mapping.id is not None and known_as(mapping.id) in OF_A_PERSON
    several = bool(found.same or found.without_id) and mapping.conversation is None
    if mapping.id is not None and (found.conflicting or (person and several)):
        group = mapping.id if proposed and found.conflicting else mapping.group or mapping.id
        found.mapping = replace(mapping, id=None, group=mapping.group if found.rounded else group)
        found.same, found.reviews, found.spaced_twins, found.shared_id = {}, {}, 0, mapping.id
    return found
