"""A sheet of an Excel workbook, read cell by cell; of a formula what was saved as its value."""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from screening.datasets.columns import normalised_name, unique_names
from screening.datasets.records import COLUMN_LIMIT, BlankLine, Fields, Formula, Reason, Record
from screening.datasets.refused import FileRefused
from screening.datasets.source import Source, open_source

EXACT_NUMBER = 10**15
"""Excel keeps 15 digits; a longer number was already rounded when the file was saved."""

MOST_CELLS = 50_000_000
"""Most cells read of a workbook, empty ones in front of the last of a row included: a few bytes may claim thousands."""

_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Where the rows of a workbook are, its columns, and its header's row. ``names`` are all sheets, hidden last."""

    name: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    header_line: int


def find_sheet(source: Source, wanted: str | None = None) -> Sheet:
    """The sheet of that name, else the first that is not hidden, and its header. FileRefused when the workbook is
    damaged, the sheet has no rows, or there is none of that name.
    """
    with open_source(source) as stream:
        workbook = _load(stream)
        sheets = sorted(workbook.worksheets, key=lambda one: bool(one.sheet_state != "visible"))
        names = tuple(one.title for one in sheets)
        if wanted is not None and wanted not in names:
            raise FileRefused(f"The workbook has no sheet {wanted!r}.")
        name = wanted or names[0]
        for line, cells in _lines(workbook, name, source):
            if any(cells):
                columns = _columns(cells)
                return Sheet(name=name, names=names, columns=columns, header_line=line)
    raise FileRefused("The sheet of the workbook that is read has no rows.", sheets=names)


def read_workbook(source: Source, sheet: Sheet) -> Iterator[Record | BlankLine]:
    """Every row below the header; the line is the row number Excel shows."""
    row, width = 0, len(sheet.columns)
    header = [normalised_name(column) for column in sheet.columns]
    with open_source(source) as stream:
        for line, cells in _lines(_load(stream), sheet.name, source):
            if line == sheet.header_line:
                continue
            if not any(cells):
                yield BlankLine(line)
                continue
            row += 1
            cells = [*cells, *[""] * (width - len(cells))]
            yield _record(row, line, cells, sheet.columns, header)


def _record(row: int, line: int, cells: list[str], columns: tuple[str, ...], header: list[str]) -> Record:
    width = len(columns)
    if any(cells[width:]):
        return Record(
            row, line, None, Reason.EXTRA_CELLS, f"a value to the right of the header's {width} columns", tuple(cells)
        )
    if [normalised_name(cell) for cell in cells[:width]] == header:
        return Record(row, line, None, Reason.HEADER_REPEATED, "the header again", tuple(cells))
    fields: Fields = dict(zip(columns, cells[:width], strict=True))
    return Record(row, line, fields)


def _columns(cells: list[str]) -> tuple[str, ...]:
    while cells and not cells[-1].strip():
        cells = cells[:-1]
    if len(cells) > COLUMN_LIMIT:
        raise FileRefused(f"The header has {len(cells):,} columns; at most {COLUMN_LIMIT:,} are read.")
    return unique_names(cells)


def _load(stream: Any, *, values: bool = False) -> Any:
    from openpyxl import load_workbook

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns of styles and extensions that hold no text
            workbook = load_workbook(stream, read_only=True, data_only=values, keep_links=False)
    except Exception:  # openpyxl meets damage with whatever its zip, XML and type checks happen to raise
        raise FileRefused("This Excel workbook is damaged.") from None
    if not workbook.worksheets:
        raise FileRefused("The workbook has no sheet.")
    return workbook


def _lines(workbook: Any, name: str, source: Source) -> Iterator[tuple[int, list[str]]]:
    cells = 0
    try:
        with open_source(source) as stream:
            saved = _saved_rows(stream, name)
            for line, row in enumerate(_sheet(workbook, name).iter_rows(), start=1):
                cells += max(1, len(row))
                if cells > MOST_CELLS:
                    raise FileRefused(f"The sheet has more than {MOST_CELLS:,} cells. Send it as CSV.")
                yield line, _texts(line, row, saved)
    except FileRefused:
        raise
    except Exception:  # as above: zlib, zipfile, XML and number errors alike
        raise FileRefused("This Excel workbook is damaged.") from None


def _sheet(workbook: Any, name: str) -> Any:
    sheet = next(one for one in workbook.worksheets if one.title == name)
    sheet.reset_dimensions()  # a wrong dimension in the file would hide rows
    return sheet


def _saved_rows(stream: Any, name: str) -> Iterator[tuple[int, Sequence[Any]]]:
    """The rows with what was saved of each formula; nothing is read before the first is asked for."""
    yield from enumerate(_sheet(_load(stream, values=True), name).iter_rows(), start=1)


def _texts(line: int, row: Sequence[Any], saved: Iterator[tuple[int, Sequence[Any]]]) -> list[str]:
    if all(cell.data_type != "f" for cell in row):
        return [_text(cell.value) for cell in row]
    values = next(values for at, values in saved if at == line)
    pairs = zip(row, values, strict=True)
    return [_formula_text(one, value) if one.data_type == "f" else _text(one.value) for one, value in pairs]


def _formula_text(formula: Any, saved: Any) -> str:
    """What the formula came to; as it is written where nothing was saved (0, in some programs) or an error was: that is
    how programs keep a text that begins with an equals sign.
    """
    if saved.value is None and saved.data_type == "str":
        return ""
    known = saved.data_type != "e" and (isinstance(saved.value, bool) or saved.value not in (None, 0))
    return _text(saved.value) if known else Formula(_text(formula.value))


def _text(value: object) -> str:
    """The cell as text; whole numbers without a decimal point, as Excel shows them."""
    if value is None:
        return ""
    if isinstance(value, str):
        return _ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_NUMBER:
        return str(int(value))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    return str(getattr(value, "text", value))
