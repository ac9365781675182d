"""A file as a table: described once, then read row by row, each row accepted or rejected with a reason."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from screening.datasets.columnar import find_columnar
from screening.datasets.conversations import is_transcript, join_turns
from screening.datasets.json_rows import decided, find_inspect_log, find_json
from screening.datasets.mapping import TRANSCRIPT, ColumnMapping, chosen_mapping
from screening.datasets.profile import EXCEL_CELL, FileProfile, UnreadColumns, survey
from screening.datasets.rows import (
    CELL_LIMIT,
    PATTERNS,
    WRONG_CELLS,
    ColumnsUnclear,
    Encoding,
    FileFormat,
    FileLayout,
    FileRefused,
    FileRow,
    NewCase,
    Reason,
    RejectedRow,
    Row,
    Rows,
    Source,
    is_cut,
    is_placeholder,
    label_of,
    limited,
    map_label,
    most_characters,
    require_few_columns,
)
from screening.datasets.text_files import detect_encoding, find_delimited, open_text, require_text
from screening.datasets.workbook import find_workbook
from screening.labels import Label
from screening.text.conversation import Role
from screening.text.flags import STATED, Flag
from screening.text.received import Receive, receive
from screening.words import count_of

ID_LIMIT = 200
"""Longest id, in characters."""

WHERE_LIMIT = 500
"""Most characters of a link or contact reference."""

_NOBODYS_WORDS = frozenset({Reason.HEADER_REPEATED, Reason.DESCRIBES_COLUMNS, Reason.DUPLICATE})
"""Of a row that is a header, or that is another row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A described file; ``said`` are the values of the label column as they were proposed, or as a person said."""

    name: str
    layout: FileLayout = field(repr=False)
    profile: FileProfile = field(repr=False)
    said: Mapping[str, Label | None]

    @property
    def labels(self) -> dict[str, Label]:
        """Which values of the label column are read as what."""
        return {value: label for value, label in self.said.items() if label is not None}

    @property
    def unmapped(self) -> tuple[str, ...]:
        """Which of them are only shown."""
        return tuple(sorted(value for value in self.profile.label_values if value.strip() and not self.said.get(value)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What should be known before rows are read."""
        return tuple(_warnings(self.layout, self.profile))

    @property
    def unread_words(self) -> str:
        """Which columns are not read; empty where all are."""
        unread = self.profile.unread
        names = ", ".join(unread[:20]) + (" …" if len(unread) > 20 else "")
        return f"{count_of(len(unread), 'column is', 'columns are')} not read: {names}." if names else ""

    def rows(self, receive_text: Receive = receive, *, after: int = 0) -> Iterator[Row]:
        """Every data row in the order of the file, accepted or rejected. The file is read again, in constant memory;
        rows up to ``after`` are passed over, and nothing is looked for in their texts. May be asked for any number of
        times.
        """
        for row in _joined(rows_of(self.layout), self.layout, self.profile.mapping):
            if row is not None and row.row > after:
                yield self._judged(row, receive_text)

    def _judged(self, row: FileRow, receive_text: Receive) -> Row:
        """The row as an accepted one, or as a rejected one with the first reason that applies."""
        mapping, fields, talk = self.profile.mapping, row.fields or {}, row.talk
        text, identity = mapping.text_of(fields), mapping.id_of(row)
        if (problem := self._problem(row, text, identity)) is not None:
            return self._rejected(row, text, identity, *problem, receive_text)
        received, thread = talk.received(receive_text) if talk else (receive_text(text or ""), None)
        if Flag.EMPTY in received.flags:
            detail = "nothing but spaces or invisible characters"
            return self._rejected(row, text, identity, Reason.EMPTY_TEXT, detail, receive_text)
        cells = [fields.get(name) or "" for name in mapping.text_columns()]
        says_cut = row.single(self.profile.cut_column) or ""
        if says_cut.strip().casefold() in ("true", "1", "yes") or is_cut(text or "") or EXCEL_CELL in map(len, cells):
            received = replace(received, flags=received.flags | {Flag.UNREADABLE})  # a part of it is missing
        value = self.profile.reviews.get(row.row) or label_of(fields.get(mapping.label) if mapping.label else None)
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
        if row.problem is not None or row.fields is None:
            return row.problem or Reason.NOT_AN_OBJECT, row.detail
        mapping, same = self.profile.mapping, self.profile.same
        if (nested := mapping.nested_in(row.fields)) is not None:
            said = f"a list or an object stands in the column {nested}, where a text was expected"
            return Reason.NOT_A_TEXT, said
        for name in mapping.text_columns():
            if (cell := row.fields.get(name)) and is_placeholder(cell):
                return Reason.PLACEHOLDER, f"what stood in the column {name} was removed before the file was made"
        if row.talk is None and text is None:
            return Reason.NO_TEXT, "the text is missing"
        if row.talk is None and not (text or "").strip():
            return Reason.EMPTY_TEXT, "the text is empty"
        if identity is None or not identity.strip():
            return Reason.NO_ID, "the id is missing"
        if not is_usable_id(identity):
            return Reason.UNUSABLE_ID, f"the id is longer than {ID_LIMIT} characters or holds control characters"
        return (Reason.DUPLICATE, f"the same id and text as row {same[row.row]}") if row.row in same else None

    def _rejected(
        self, row: FileRow, text: str | None, identity: str | None, reason: Reason, detail: str, receive_text: Receive
    ) -> Row:
        """The rejected row or, where its words state a risk outright, a case that no agent is asked about: it is
        escalated, with the reason. Of a row whose cells do not fit the id is known where that is the first column.
        """
        original: str | tuple[str, ...] | None = text
        if row.fields is None:
            named = reason in WRONG_CELLS and bool(row.cells) and self.profile.mapping.id == self.profile.columns[0]
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

    def with_labels(self, label_values: Mapping[str, Label | None]) -> "Table":
        """The same with values of the label column read as a person said. ValueError for neither safe nor unsafe."""
        said = {value: None if label is None else Label(label) for value, label in label_values.items()}
        if Label.ESCALATE in said.values():
            raise ValueError("a reference label is safe or unsafe")
        known = {value: map_label(value) for value in sorted(self.profile.label_values)}
        return replace(self, said={value: label for value, label in known.items() if label is not None} | said)


def read_table(
    source: Source,
    name: str = "",
    *,
    mapping: ColumnMapping | None = None,
    label_values: Mapping[str, Label | None] | None = None,
    sheet: str | None = None,
    id_confirmed: bool = True,
) -> Table:
    """Describe a file after one pass over all of it. ``name`` is only ever a label, never a path.

    ``mapping``, ``label_values`` and ``sheet`` are what a person confirmed; without them all are proposed, and so is
    the id of a mapping where ``id_confirmed`` is false. FileRefused when it cannot be read without risking a wrong row;
    its subclass ColumnsUnclear when only the columns are in doubt.
    """
    layout = file_layout(source, sheet)
    columns = columns_of(layout)
    if not columns:
        why = (f": in line {one.line} {one.detail}" for one in rows_of(layout) if one is not None and one.detail)
        raise FileRefused(f"The file has no rows with named values{next(why, '')}.")
    try:
        chosen = chosen_mapping(columns, mapping)
        unread = UnreadColumns(columns, chosen)
        rows = _joined(unread.watch(rows_of(layout)), layout, chosen)
        found = survey(rows, unread, proposed=mapping is None or not id_confirmed)
    except ColumnsUnclear as unclear:
        unclear.columns, unclear.sheets = columns, layout.sheets
        raise
    return Table(name=name, layout=layout, profile=found, said={}).with_labels(label_values or {})


def rows_of(layout: FileLayout) -> Rows:
    """The rows from the start. FileRefused where they are more, or longer, than is read."""
    for one in _without_descriptions(limited(layout.read(), most_characters(layout.source))):
        if one is not None and one.fields is not None and one.fields.get("answer") is not None:
            yield one.with_fields(decided(one.fields))
        else:
            yield one


def _joined(rows: Rows, layout: FileLayout, mapping: ColumnMapping) -> Rows:
    """The rows with their conversations put together, each time they are asked about counted anew."""
    return limited(join_turns(rows, mapping), most_characters(layout.source), longest=None)


def _without_descriptions(records: Rows) -> Rows:
    """The records, of which the first ones are no rows where they say what the columns are, as survey tools write."""
    first, described = list(islice(records, 2)), 0
    cells = [[(cell or "").strip() for cell in (one.fields or {}).values()] if one else [] for one in first]
    said = [[cell for cell in of_one if cell] for of_one in cells]
    if len(first) == 2 and said[1] and all(cell.startswith('{"ImportId":') for cell in said[1]):
        described = 2  # Qualtrics says which question each column is
    elif first and said[0]:
        # SurveyMonkey says of each question, and of nobody, how it is answered; others what a column is measured in
        kinds = {"Response", "Open-Ended Response"}
        of_nobody = not cells[0][0] or kinds | {"Other (please specify)"} >= set(said[0])
        units = len(said[0]) > 1 and all(map(PATTERNS["unit"].fullmatch, said[0]))
        described = int(units or (of_nobody and not kinds.isdisjoint(said[0])))
    for place, one in enumerate(first):
        if one is None or one.fields is None or place >= described:
            yield one
        else:
            words, why = tuple(cell or "" for cell in one.fields.values()), "it describes the columns"
            yield replace(one, fields=None, problem=Reason.DESCRIBES_COLUMNS, detail=why, cells=words)
    yield from records


def file_layout(source: Source, sheet: str | None = None) -> FileLayout:
    """What kind of file it is and how its rows are found. FileRefused for what is not read."""
    layout = next(layout for reader in READERS if (layout := reader(source, sheet)) is not None)
    if sheet is not None and not layout.sheets:
        raise FileRefused(f"This is {layout.format}, not a workbook: it has no sheet {sheet!r}.")
    return layout


def _find_text(source: Source, _sheet: str | None) -> FileLayout:
    require_text(source)
    encoding = detect_encoding(source)
    with open_text(source, encoding) as text:
        if is_transcript(next((line for line in iter(lambda: text.readline(CELL_LIMIT), "") if line.strip()), "")):
            read = partial(_read_transcript, source, encoding)
            return FileLayout(source=source, format=FileFormat.TRANSCRIPT, read=read, encoding=encoding)
    return find_json(source, encoding) or find_delimited(source, encoding)


def _read_transcript(source: Source, encoding: Encoding) -> Rows:
    with open_text(source, encoding) as text:
        yield FileRow(1, 1, {TRANSCRIPT: text.read(CELL_LIMIT + 1)})


READERS: list[Callable[[Source, str | None], FileLayout | None]] = [
    find_columnar,
    find_inspect_log,
    find_workbook,
    _find_text,
]
"""Each finds how the rows of a file, or of this sheet, are read; None for another kind. The last one reads any text."""


def columns_of(layout: FileLayout) -> tuple[str, ...]:
    """The file's columns: those of its header or, where it has none, all names that its rows use."""
    if layout.columns:
        return layout.columns
    names: dict[str, None] = {}
    for one in rows_of(layout):
        if one is not None and one.fields is not None:
            names.update(dict.fromkeys(one.fields))
            require_few_columns(tuple(names))
    return tuple(names)


def _warnings(layout: FileLayout, found: FileProfile) -> Iterator[str]:
    encoding = layout.encoding
    if encoding and encoding.guessed:
        yield f"The file is not UTF-8; it was read as {encoding.name}, which is a guess. Look at a few accents."
    if encoding and encoding.unreadable_bytes:
        bytes_ = count_of(encoding.unreadable_bytes, "byte is", "bytes are")
        yield f"{bytes_} not UTF-8; the texts with such bytes are marked unreadable."
    if layout.sheet is not None and len(layout.sheets) > 1:
        yield f"Only sheet {layout.sheets.index(layout.sheet) + 1} of {len(layout.sheets)} is read."
    if found.listed and not found.mapping.lists:
        rows = count_of(found.listed, "row")
        yield f"In {rows} the text is a list of strings or turns, screened as it stands in the file."
    if found.formulas:
        texts = count_of(found.formulas, "text is a formula", "texts are formulas")
        yield f"{texts} without a value in the file, and read as written there."
    if found.mapping.conversation is not None:
        turns = f"with {count_of(found.turns, 'turn')}"
        read = count_of(found.conversations, f"conversation {turns} was read", f"conversations {turns} were read")
        yield f"{read}. What is asked of them, and what was rejected, is {count_of(found.rows, 'row')}, counted anew."
    if found.blank_lines:
        yield f"{count_of(found.blank_lines, 'blank line was', 'blank lines were')} passed over, not counted as rows."
    if found.labels_unread:
        yield f"In {count_of(found.labels_unread, 'row')} the label is a list of parts or an object, and read as none."
    if numbers := [value for value in found.label_values if value.strip().lstrip("-").isdecimal()]:
        yield f"What the numbers in the label column ({', '.join(sorted(numbers)[:10])}) stand for is for you to say."
    if found.cut_cells:
        texts = count_of(found.cut_cells, "text ends", "texts end")
        yield f"{texts} near Excel's limit of 32,767 characters and may have been cut there."
    yield from _warnings_of_ids(found)


def _warnings_of_ids(found: FileProfile) -> Iterator[str]:
    if found.rounded:
        ids = count_of(found.rounded, "id was", "ids were")
        yield f"{ids} rounded by a spreadsheet, as 4.58305E+17 is: digits are lost. Export them as text."
    if found.shared_id is not None:
        several = f"{found.conflicting:,} rows share one with another text" if found.conflicting else "rows share one"
        group = " It is read as the group (the person)." if found.mapping.group == found.shared_id else ""
        yield f"The column {found.shared_id} is no id: {several}, or have none. The row number is the id.{group}"
    if found.same:
        rows = count_of(len(found.same), "row repeats", "rows repeat")
        yield f"{rows} an earlier row with the same id and text; each is kept once."
    if found.reviews:
        texts = count_of(len(found.reviews), "text has", "texts have")
        yield f"{texts} several labels, of several reviewers: they stand beside each other, and are one value."
    if found.spaced_twins:
        ids = count_of(found.spaced_twins, "id differs", "ids differ")
        yield f"{ids} from another id only in spaces around it; they are kept apart."


def describe_reading(table: Table) -> dict[str, Any]:
    """How the file was read, as data kept with its batch."""
    layout, mapping, reading = table.layout, table.profile.mapping, table.profile.mapping.conversation
    turns: dict[str, Any] = {}
    if reading is not None:
        turns = {name: getattr(reading, name) for name in ("shape", "judged", "context_tokens")}
        turns = {"conversations": turns | {"questions": list(reading.questions)}}
    return {
        "format": layout.format,
        "encoding": layout.encoding and layout.encoding.name,
        "separator": layout.separator,
        "text_column": ", ".join(mapping.text_columns()),
        **{f"{role}_column": getattr(mapping, role) for role in ("id", "reply", "label", "group")},
        "unread_columns": list(table.profile.unread),
        "lists_joined": mapping.lists,
        **turns,
        "sheet": layout.sheet,
        "labels": {value: label.value for value, label in table.labels.items()},
        "warnings": list(table.warnings),
    }


def where_of(cell: str | None) -> str | None:
    """Where to act, on one line and short enough to be shown; None for nothing."""
    kept = " ".join((cell or "").split())[:WHERE_LIMIT]
    return kept or None


def is_usable_id(identity: str) -> bool:
    """Whether an id can be kept as it is, and shown."""
    return len(identity) <= ID_LIMIT and identity.isprintable()
