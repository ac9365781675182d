"""Delimited text read strictly: a quote that never closes refuses the file, a cell too many the row."""

import csv
import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from screening.datasets.mapping import is_known, unique_names
from screening.datasets.rows import CELL_LIMIT, SEPARATORS, FileLayout, FileRow, Reason, Rows, require_few_columns
from screening.datasets.sources import Encoding, FileFormat, FileRefused, Source, open_text

_SEP_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_SAMPLED_LINES = 200
_LONE_RETURN = "\ud800\udc0d"
"""Stands for a carriage return inside a line that is parsed: outside quotes the parser allows none. No text holds it:
UTF-16 makes one character of the two halves, and bytes that are not UTF-8 become others."""


class _Cells(NamedTuple):
    line: int
    last_line: int
    cells: list[str]

    @property
    def blank(self) -> bool:
        return not self.cells or (len(self.cells) == 1 and not self.cells[0].strip())


def find_delimited(source: Source, encoding: Encoding) -> FileLayout:
    """The separator (a ``sep=`` line, else the best fit) and the header. FileRefused without a usable header."""
    announced = _announced(source, encoding)
    found, refusals = list[tuple[str, tuple[str, ...]]](), list[FileRefused]()
    for separator in announced or SEPARATORS:
        try:
            found.append((separator, _header(source, encoding, separator)))
        except FileRefused as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    separator, columns = max(found, key=lambda one: _fit(source, encoding, *one))
    require_few_columns(columns)
    return FileLayout(
        source=source,
        format=FileFormat.DELIMITED,
        read=partial(_read, source, encoding, separator, columns),
        columns=columns,
        encoding=encoding,
        separator=separator,
    )


def _announced(source: Source, encoding: Encoding) -> str:
    """The separator that the first line says; empty where it says none."""
    with open_text(source, encoding) as text:
        said = _SEP_LINE.fullmatch(text.readline(100))
    return said[1] if said else ""


def _header(source: Source, encoding: Encoding, separator: str) -> tuple[str, ...]:
    for cells in _records(source, encoding, separator):
        if not cells.blank:
            return unique_names(cells.cells)
    raise FileRefused("The file has no rows.")


def _read(source: Source, encoding: Encoding, separator: str, columns: tuple[str, ...]) -> Rows:
    """Every data row and blank line but the header. FileRefused, with the line, at a quote that is not closed."""
    row = -1
    for cells in _records(source, encoding, separator):
        if cells.blank:
            yield None
            continue
        row += 1
        if row == 0:
            continue
        found = FileRow.of_cells(row, cells.line, columns, cells.cells)
        if found.problem is None and cells.last_line > cells.line and _swallows_rows(cells.cells, separator):
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


def _fit(source: Source, encoding: Encoding, separator: str, columns: tuple[str, ...]) -> tuple[int, float, int]:
    """How well a separator fits: recognised columns, then rows as long as the header, then its columns."""
    lengths: list[int] = []
    if len(columns) == 1:
        return is_known(columns[0]), 0.0, 1  # a lone column says nothing: the preferred separator stays
    try:
        for cells in _records(source, encoding, separator):
            if not cells.blank:
                lengths.append(len(cells.cells))
            if cells.line > _SAMPLED_LINES:
                break
    except FileRefused:
        lengths.append(0)
    same = sum(length == len(columns) for length in lengths) / max(1, len(lengths))
    return sum(map(is_known, columns)), same, len(columns)


def _records(source: Source, encoding: Encoding, separator: str) -> Iterator[_Cells]:
    csv.field_size_limit(CELL_LIMIT)  # the module's own limit of 131,072 would refuse texts that are merely long
    with open_text(source, encoding, newline=_line_end(source, encoding)) as text:
        lines = _Lines(iter(lambda: text.readline(CELL_LIMIT), ""))
        if _announced(source, encoding):
            next(lines)
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


def _line_end(source: Source, encoding: Encoding) -> str:
    """What ends a line: the line feed where one ends the first, for a carriage return is part of a cell then; else any.
    Any does too where the header alone ends in a line feed and the file in a carriage return.

    It is said as `open` takes it.
    """
    with open_text(source, encoding, newline="\n") as text:
        first, rest = text.readline(CELL_LIMIT), text.readline(CELL_LIMIT)
    header = first.removesuffix("\n").removesuffix("\r")
    return "\n" if first.endswith("\n") and "\r" not in header and not rest.endswith("\r") else ""


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
    how = ", not with a backslash before it (in Spark: .option('escape', '\"'))" if escaped else ""
    return FileRefused(
        "a quote opens here and is closed in the middle of a cell; the rows around it cannot be told apart. "
        f"A quote inside a cell is written twice{how}.",
        line=lines.first,
    )
