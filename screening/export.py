"""Files that leave: CSV without formulas for spreadsheets, and JSON lines that lose nothing. Both stream."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

PREFIX = "'"
"""Put before a cell that a spreadsheet could run; `original_cell` takes it away again."""

_STARTERS = frozenset("=+-@\t\r\n" + "＝＋－＠" + "−﹢﹣﹦﹫⁺⁻₊₋⁼₌")
_SKIPPED = " \"'`´‘’“”\x00\x0b\x0c\u00a0\u00ad\u2000\u2001\u2002\u2003\u2009\u200b\u200e\u202f\u2060\u3000\ufeff"


def neutralise(cell: str) -> str:
    """The cell, with an apostrophe before it where a spreadsheet could take it for a formula.

    That is when its first character, spaces, quotes and invisible ones aside, starts a formula (= + - @, tab,
    carriage return, their full-width and small forms). A cell that begins with an apostrophe gets another one,
    so the change can always be undone: the round trip is ``original_cell(neutralise(cell)) == cell``.

    >>> neutralise("=1+1"), neutralise("'=1"), neutralise("fine - really")
    ("'=1+1", "''=1", 'fine - really')
    """
    first = cell.lstrip(_SKIPPED)[:1]
    return PREFIX + cell if first in _STARTERS or cell.startswith(PREFIX) else cell


def original_cell(cell: str) -> str:
    """The cell before `neutralise`.

    >>> original_cell("'=1+1"), original_cell("fine")
    ('=1+1', 'fine')
    """
    return cell.removeprefix(PREFIX)


def csv_lines(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, byte_order_mark: bool = True
) -> Iterator[str]:
    """The rows as CSV, one string per row, CRLF at the end; Excel needs the byte order mark, programs do not.

    Texts are neutralised, numbers are not; None is an empty cell. A character that UTF-8 cannot hold becomes
    U+FFFD: the JSON lines keep it.
    """
    yield ("\ufeff" if byte_order_mark else "") + _csv_line([neutralise(name) for name in header])
    for row in rows:
        yield _csv_line([_cell(value) for value in row])


def jsonl_lines(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """The rows as JSON lines in ASCII, so that every string comes back exactly, lone surrogates included."""
    for row in rows:
        yield json.dumps(dict(row), ensure_ascii=True, allow_nan=False) + "\n"


def _csv_line(cells: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerow(cells)
    return buffer.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return neutralise(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return str(value)
