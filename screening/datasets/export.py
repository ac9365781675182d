"""Files that leave: CSV without formulas for spreadsheets, JSON lines that lose nothing, Parquet. All stream."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

from screening.datasets.rows import RejectedRow

PREFIX = "'"
"""Put before what a spreadsheet could run; `original_cell` takes it away again."""

_FORMULA = "=+\\-@＝＋－＠−﹢﹣﹦﹫⁺⁻₊₋⁼₌"
_SKIPPED = (  # quotes, control characters, spaces and what is not seen; as ranges of a pattern
    r"\"'`´‘’“”\x00-\x08\x0b\x0c\x0e-\x20\x7f-\xa0\xad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
)
_BREAK = ";\t\r\n"
_AT_START = re.compile(rf"(?=[{_SKIPPED}]*[{_FORMULA}\t\r\n]|{PREFIX})")
_INSIDE = re.compile(rf"[{_BREAK}](?=[{_SKIPPED}]*[{_FORMULA}]|{PREFIX})")
_UNDONE = re.compile(rf"([{_BREAK}]){PREFIX}")


def neutralise(cell: str) -> str:
    """The cell, with an apostrophe before whatever a spreadsheet could take for a formula.

    That is at the start, and after each semicolon, tab and line end: many spreadsheets split a file at semicolons or
    tabs, quoted for commas or not. There it stands where the first character, spaces, quotes and invisible ones
    aside, starts a formula (= + - @, their full-width and small forms; at the start also a tab or a line end), and
    where an apostrophe stands already, so that the round trip is exact: ``original_cell(neutralise(cell)) == cell``.

    >>> neutralise("=1+1"), neutralise("'=1"), neutralise("fine - really"), neutralise("hi;=1+1; bye")
    ("'=1+1", "''=1", 'fine - really', "hi;'=1+1; bye")
    """
    before = PREFIX if _AT_START.match(cell) else ""
    return before + _INSIDE.sub(rf"\g<0>{PREFIX}", cell)


def original_cell(cell: str) -> str:
    """The cell before `neutralise`.

    >>> original_cell("'=1+1"), original_cell("hi;'=1+1"), original_cell("fine")
    ('=1+1', 'hi;=1+1', 'fine')
    """
    return _UNDONE.sub(r"\1", cell.removeprefix(PREFIX))


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


def json_array_lines(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """The rows as one JSON array in ASCII, a row a line.

    >>> "".join(json_array_lines([{"a": 1}, {"a": None}]))
    '[\\n{"a": 1},\\n{"a": null}\\n]\\n'
    """
    before = "[\n"
    for line in jsonl_lines(rows):
        yield before + line.rstrip("\n")
        before = ",\n"
    yield "\n]\n" if before == ",\n" else "[]\n"


def label_studio_task(
    number: int, data: Mapping[str, object], readings: Mapping[str, str], predicted: str | None
) -> dict[str, object]:
    """A task as Label Studio reads it: ``readings`` are labels by reviewer, ``predicted`` is what the AI ended with.

    >>> label_studio_task(1, {"id": "a"}, {"R1": "safe"}, None)["annotations"][0]["result"][0]["value"]
    {'choices': ['safe']}
    """

    def said(label: str) -> list[dict[str, object]]:
        return [{"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": [label]}}]

    given = [{"result": said(label), "meta": {"reader": reader}} for reader, label in readings.items()]
    predictions = [{"model_version": "second look", "result": said(predicted)}] if predicted else []
    return {"id": number, "data": dict(data), "annotations": given, "predictions": predictions}


def _csv_line(cells: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerow(cells)
    return buffer.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return neutralise(_held(value)) if isinstance(value, str) else str(value)


def _held(text: str) -> str:
    """The text as UTF-8 can hold it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


Kind = Literal["text", "int", "float", "bool"]

_ROWS = 2_000
_CHARACTERS = 8_000_000


class _Parts(io.BytesIO):
    """What was written and not yet taken."""

    taken = 0

    def tell(self) -> int:
        return self.taken + super().tell()

    def take(self) -> bytes:
        """All of it; it is forgotten here."""
        part = self.getvalue()
        self.taken += len(part)
        self.seek(0)
        self.truncate()
        return part


def parquet_parts(columns: Mapping[str, Kind], rows: Iterable[Mapping[str, object]]) -> Iterator[bytes]:
    """The rows as the parts of one Parquet file, its columns in the order given; None is a missing value. A character
    that UTF-8 cannot hold becomes U+FFFD: the JSON lines keep it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    sink, remaining = _Parts(), iter(rows)
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema, compression="zstd") as writer:
        while part := _part(remaining):
            cells = {name: [row.get(name) for row in part] for name in columns}
            values = {name: [_held(one) if isinstance(one, str) else one for one in cells[name]] for name in columns}
            writer.write_table(pa.table(values, schema=schema))
            yield sink.take()
    yield sink.take()


def _part(rows: Iterator[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The next rows: fewer where their texts are long."""
    part: list[Mapping[str, object]] = []
    characters = 0
    for row in islice(rows, _ROWS):
        part.append(row)
        characters += sum(len(value) for value in row.values() if isinstance(value, str))
        if characters >= _CHARACTERS:
            break
    return part


def rejected_csv(rows: Iterable[RejectedRow], *, byte_order_mark: bool = True) -> Iterator[str]:
    """The rejected rows as lines of a CSV file a spreadsheet can open without running anything."""
    return csv_lines(
        ("row", "line", "id", "reason", "detail", "original"),
        ((row.row, row.line, row.external_id, str(row.reason), row.detail, row.original_json) for row in rows),
        byte_order_mark=byte_order_mark,
    )
