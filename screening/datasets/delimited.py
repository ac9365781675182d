"""Delimited text read strictly: a quote that never closes refuses the file, a cell too many the row."""

import csv
import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from screening.datasets.mapping import is_known, unique_names
from screening.datasets.rows import CELL_LIMIT, FileLayout, FileRow, Reason, Rows, require_few_columns
from screening.datasets.sources import Encoding, FileFormat, FileRefused, Source, open_text

SEPARATORS: tuple[str, ...] = (",", ";", "\t", "|")
"""The separators that are looked for, in order of preference."""

_SEP_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_SAMPLED_LINES = 200
_LONE_RETURN = "\ud800\udc0d"
"""Stands for a carriage return inside a line that is parsed: outside quotes the parser allows none. No text holds it:
UTF-16 makes one character of the two halves, and bytes that are not UTF-8 become others."""


class _Layout(NamedTuple):
    """How a delimited file is laid out: its separator, its columns, and the line of its header."""

    separator: str
    columns: tuple[str, ...]
    header_line: int
    announced: bool


class _Cells(NamedTuple):
    line: int
    last_line: int
    cells: list[str]


def find_delimited(source: Source, encoding: Encoding) -> FileLayout:
    """The separator (a ``sep=`` line, else the best fit) and the header. FileRefused without a usable header."""
    layout = _find_layout(source, encoding)
    require_few_columns(layout.columns)
    return FileLayout(
        source=source,
        format=FileFormat.DELIMITED,
        read=partial(_read, source, encoding, layout),
        columns=layout.columns,
        encoding=encoding,
        separator=layout.separator,
    )


def _find_layout(source: Source, encoding: Encoding) -> _Layout:
    with open_text(source, encoding) as text:
        announced = _SEP_LINE.fullmatch(text.readline(100))
    if announced:
        return _layout(source, encoding, announced.group(1), announced=True)
    found, refusals = [], []
    for separator in SEPARATORS:
        try:
            found.append(_layout(source, encoding, separator, announced=False))
        except FileRefused as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    return max(found, key=lambda layout: _fit(source, encoding, layout))


def _read(source: Source, encoding: Encoding, layout: _Layout) -> Rows:
    """Every data row and blank line after the header. FileRefused, with the line, at a quote that is not closed."""
    row = 0
    for cells in _records(source, encoding, layout.separator, layout.announced):
        if cells.line <= layout.header_line and row == 0:
            if not _is_blank(cells.cells):
                continue
            yield None
        elif _is_blank(cells.cells):
            yield None
        else:
            row += 1
            found = FileRow.of_cells(row, cells.line, layout.columns, cells.cells)
            if found.problem is None and cells.last_line > cells.line and _swallows_rows(cells.cells, layout.separator):
                lines = f"{cells.line} to {cells.last_line}"
                detail = f"one cell spans lines {lines} and contains what looks like further rows"
                found = FileRow(row, cells.line, None, Reason.ROWS_MERGED, detail, tuple(cells.cells))
            yield found


def _swallows_rows(cells: list[str], separator: str) -> bool:
    """Whether a line inside a cell begins with the next number after the row's first cell: a stray quote."""
    first = cells[0].strip()
    if not (first.isascii() and first.isdigit() and len(first) < 18):
        return False
    following = re.compile(rf'[\r\n]\s*"?0*{int(first) + 1}"?{re.escape(separator)}')
    return any(following.search(cell) for cell in cells[1:])


def _is_blank(cells: list[str]) -> bool:
    return not cells or (len(cells) == 1 and not cells[0].strip())


def _layout(source: Source, encoding: Encoding, separator: str, *, announced: bool) -> _Layout:
    for cells in _records(source, encoding, separator, announced):
        if not _is_blank(cells.cells):
            columns = unique_names(cells.cells)
            return _Layout(separator=separator, columns=columns, header_line=cells.last_line, announced=announced)
    raise FileRefused("The file has no rows.")


def _fit(source: Source, encoding: Encoding, layout: _Layout) -> tuple[int, float, int]:
    """How well a separator fits: recognised columns, then rows as long as the header, then its columns."""
    lengths: list[int] = []
    if len(layout.columns) == 1:
        return is_known(layout.columns[0]), 0.0, 1  # a lone column says nothing: the preferred separator stays
    try:
        for cells in _records(source, encoding, layout.separator, layout.announced):
            if not _is_blank(cells.cells):
                lengths.append(len(cells.cells))
            if cells.line > _SAMPLED_LINES:
                break
    except FileRefused:
        lengths.append(0)
    same = sum(length == len(layout.columns) for length in lengths) / max(1, len(lengths))
    return sum(map(is_known, layout.columns)), same, len(layout.columns)


def _records(source: Source, encoding: Encoding, separator: str, announced: bool) -> Iterator[_Cells]:
    with open_text(source, encoding, newline=_line_end(source, encoding)) as text:
        lines = _Lines(iter(lambda: text.readline(CELL_LIMIT), ""))
        if announced:
            next(lines)
        yield from _parse(lines, separator)


def _line_end(source: Source, encoding: Encoding) -> str:
    """What ends a line: the line feed where one ends the first, for a carriage return is part of a cell then; else any.
    Any does too where the header alone ends in a line feed and the file in a carriage return.

    It is said as `open` takes it.
    """
    with open_text(source, encoding, newline="\n") as text:
        first, rest = text.readline(CELL_LIMIT), text.readline(CELL_LIMIT)
    header = first.removesuffix("\n").removesuffix("\r")
    return "\n" if first.endswith("\n") and "\r" not in header and not rest.endswith("\r") else ""


def _parse(lines: "_Lines", separator: str) -> Iterator[_Cells]:
    csv.field_size_limit(CELL_LIMIT)  # the module's own limit of 131,072 would refuse texts that are merely long
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        lines.start_record()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _refusal(lines, str(error)) from None
        yield _Cells(lines.first, lines.number, [cell.replace(_LONE_RETURN, "\r") for cell in cells])


class _Lines:
    """The lines of a file with their numbers, remembering those of the record being read."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.number = 0
        self.first = 1
        self.record: list[str] = []
        self._length = 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        if len(line) >= CELL_LIMIT:
            raise FileRefused(f"longer than {CELL_LIMIT:,} characters.", line=self.number)
        self._length += len(line)
        if self._length > CELL_LIMIT:
            raise FileRefused(
                f"a row begins here that is longer than {CELL_LIMIT:,} characters; is a quote never closed?",
                line=self.first,
            )
        if "\r" in line:
            inside = line.rstrip("\r\n")
            line = inside.replace("\r", _LONE_RETURN) + line[len(inside) :]
        self.record.append(line)
        return line

    def start_record(self) -> None:
        """The next line begins a record."""
        self.first = self.number + 1
        self.record, self._length = [], 0


def _refusal(lines: _Lines, error: str) -> FileRefused:
    if "unexpected end" in error:
        said = "a quote opens here and is never closed; the rows after it cannot be told apart."
        return FileRefused(said, line=lines.first)
    escaped = any('\\"' in one for one in lines.record)
    how = "not with a backslash before it (in Spark: .option('escape', '\"'))." if escaped else ""
    return FileRefused(
        "a quote opens here and is closed in the middle of a cell; the rows around it cannot be told apart. "
        f"A quote inside a cell is written twice{', ' + how if how else '.'}",
        line=lines.first,
    )
