"""JSON read row by row: an array of objects, one object per line, or an object that holds such an array."""

import json
from collections.abc import Iterator
from io import TextIOWrapper

from screening.datasets.annotated import flatten
from screening.datasets.class_names import class_name, class_names
from screening.datasets.columns import propose_mapping
from screening.datasets.encoding import Encoding, open_text
from screening.datasets.records import CELL_LIMIT, BlankLine, Fields, Reason, Record, cell_of
from screening.datasets.refused import FileRefused
from screening.datasets.source import FileFormat, Source
from screening.text.unique_keys import RepeatedKey, unique_keys

ROW_KEYS: tuple[str, ...] = ("data", "rows", "items", "records", "examples", "samples")
"""Keys under which an object may hold its rows."""

_OBJECT_LIMIT = 2 * CELL_LIMIT
"""Characters of an object that is read at once; of a longer one the rows go by one after the other."""
_CHUNK = 1 << 16
_SPACE = " \t\r\n"


def json_format(source: Source, encoding: Encoding) -> FileFormat | None:
    """Which kind of JSON it is by its start, or None when it does not begin like JSON rows."""
    with open_text(source, encoding, newline="\n") as text:
        first = _first_line(text)
        if first.startswith("["):
            return FileFormat.JSON_ARRAY
        if not first.startswith("{"):
            return None
        begun = _first_value(first)
        if isinstance(begun, dict) and _rows_key(begun) is None:
            return FileFormat.JSON_LINES
        if isinstance(_first_value(_first_line(text)), dict):
            return FileFormat.JSON_LINES  # the first line is damaged, the second is not
    return FileFormat.JSON_OBJECT


def read_json(source: Source, encoding: Encoding, kind: FileFormat) -> Iterator[Record | BlankLine]:
    """Every row of a JSON file. FileRefused where the document itself is damaged."""
    if kind is FileFormat.JSON_LINES:
        return _read_lines(source, encoding)
    if kind is FileFormat.JSON_ARRAY:
        return _read_array(source, encoding)
    return _read_object(source, encoding)


def _decoder() -> json.JSONDecoder:
    """Numbers stay as written (1e5, 007 as text is text), a bare NaN is a missing value."""
    return json.JSONDecoder(
        object_pairs_hook=unique_keys, parse_int=str, parse_float=str, parse_constant=lambda _: None, strict=False
    )


def _read_lines(source: Source, encoding: Encoding) -> Iterator[Record | BlankLine]:
    decoder, row = _decoder(), 0
    with open_text(source, encoding, newline="\n") as text:
        for number, line in enumerate(iter(lambda: text.readline(CELL_LIMIT), ""), start=1):
            if len(line) >= CELL_LIMIT:
                raise FileRefused(f"longer than {CELL_LIMIT:,} characters.", line=number)
            if not line.strip(_SPACE + "\ufeff\x1e"):
                yield BlankLine(number)
                continue
            row += 1
            yield _line_record(decoder, row, number, line.strip(_SPACE + "\ufeff\x1e"))


def _line_record(decoder: json.JSONDecoder, row: int, number: int, line: str) -> Record:
    try:
        value, end = decoder.raw_decode(line)
    except RepeatedKey:
        return Record(row, number, None, Reason.REPEATED_KEY, "the object names the same key twice", (line,))
    except (json.JSONDecodeError, RecursionError):
        return Record(row, number, None, Reason.NOT_JSON, "the line is not a complete JSON object", (line,))
    if line[end:].strip(_SPACE):
        return Record(
            row,
            number,
            None,
            Reason.NOT_JSON,
            "more follows the JSON object on its line (a comma, or another object)",
            (line,),
        )
    return _record(row, number, value)


def _read_array(source: Source, encoding: Encoding) -> Iterator[Record | BlankLine]:
    with open_text(source, encoding, newline="\n") as text:
        window = _Window(text)
        yield from window.records()
        if window.peek():
            raise FileRefused("more text follows the end of the JSON array.", line=window.line)


class _Window:
    """A part of a JSON document that grows until the next value is complete, and forgets what was read."""

    def __init__(self, text: TextIOWrapper) -> None:
        self._text, self._decoder = text, _decoder()
        self._buffer, self._position, self._ended = "", 0, False
        self.line = 1

    def peek(self) -> str:
        """The next character that is not white space, or '' at the end."""
        while True:
            while self._position < len(self._buffer):
                character = self._buffer[self._position]
                if character not in _SPACE + "\ufeff":
                    return character
                self.line += character == "\n"
                self._position += 1
            if self._ended:
                return ""
            self._grow(_CHUNK)

    def take(self, character: str) -> bool:
        """Step over the character if it is next."""
        if self.peek() != character:
            return False
        self._position += 1
        return True

    def expect(self, character: str) -> None:
        """Step over the character. FileRefused when another one is next."""
        if not self.take(character):
            raise FileRefused(f"the JSON array is damaged or cut off here ({character} expected).", line=self.line)

    def records(self) -> Iterator[Record]:
        """The elements of an array as rows."""
        self.expect("[")
        row = 0
        while not self.take("]"):
            if row:
                self.expect(",")
            row += 1
            self.peek()
            line = self.line
            yield _record(row, line, self.next_value())

    def next_value(self) -> object:
        """The next value. FileRefused when it is damaged, cut off or too large."""
        self.peek()
        line, chunk = self.line, _CHUNK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._position)
            except RepeatedKey:
                raise FileRefused("an object names the same key twice; one value would be lost.", line=line) from None
            except (json.JSONDecodeError, RecursionError):
                end = len(self._buffer)
                if self._ended:
                    raise FileRefused("the JSON array is damaged or cut off here.", line=line) from None
            if end < len(self._buffer) or self._ended:
                return self._step(value, end)
            if len(self._buffer) > CELL_LIMIT:
                raise FileRefused("damaged JSON, or an object that is too large, begins here.", line=line)
            self._grow(chunk)
            chunk *= 2

    def _step(self, value: object, end: int) -> object:
        self.line += self._buffer.count("\n", self._position, end)
        self._position = end
        return value

    def _grow(self, size: int) -> None:
        more = self._text.read(size)
        self._ended = not more
        self._buffer, self._position = self._buffer[self._position :] + more, 0


def _read_object(source: Source, encoding: Encoding) -> Iterator[Record | BlankLine]:
    with open_text(source, encoding, newline="\n") as text:
        document = text.read(_OBJECT_LIMIT)
        if text.read(1):
            return _read_long_object(source, encoding)
    return _rows_of_object(document)


def _read_long_object(source: Source, encoding: Encoding) -> Iterator[Record]:
    """The list of rows that a long object holds under the first key that is known for one; the rest is stepped over."""
    with open_text(source, encoding, newline="\n") as text:
        window = _Window(text)
        window.expect("{")
        while not window.take("}"):
            key = window.next_value()
            window.expect(":")
            if key in ROW_KEYS and window.peek() == "[":
                yield from window.records()
                return
            window.next_value()
            window.take(",")
    raise FileRefused("A JSON object of this size holds no list of rows. Send its rows as JSON lines.")


def _rows_of_object(document: str) -> Iterator[Record]:
    try:
        value = _decoder().decode(document.strip("\ufeff"))
    except RepeatedKey:
        raise FileRefused("An object in the file names the same key twice; one value would be lost.") from None
    except (json.JSONDecodeError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        raise FileRefused("the JSON is damaged or cut off here.", line=line) from None
    if isinstance(value, dict) and isinstance(value.get("features"), list):
        value = _named_rows(value)
    key = _rows_key(value)
    rows = [value] if key is None and _is_row(value) else value.get(key) if key is not None else None
    if rows is None:
        raise FileRefused('The JSON object holds no list of rows. Send an array of objects or {"data": [...]}.')
    for row, one in enumerate(rows, start=1):
        yield _record(row, row, one)


def _named_rows(value: dict[str, object]) -> dict[str, object]:
    """The rows as the datasets server wraps them, with the names that the numbers of their labels stand for."""
    rows, features = value.get("rows"), value["features"]
    if not isinstance(rows, list) or not isinstance(features, list):
        return value
    names = {one["name"]: class_names(one.get("type")) for one in features if isinstance(one, dict) and "name" in one}
    unwrapped = [one["row"] if isinstance(one, dict) and isinstance(one.get("row"), dict) else one for one in rows]
    named = [
        {name: class_name(cell, names.get(name)) for name, cell in row.items()} if isinstance(row, dict) else row
        for row in unwrapped
    ]
    return {"rows": named}


def _is_row(value: object) -> bool:
    return isinstance(value, dict) and bool(value) and not any(isinstance(one, dict | list) for one in value.values())


def _rows_key(value: object) -> str | None:
    if not isinstance(value, dict) or propose_mapping(key for key in value if key not in ROW_KEYS):
        return None
    return next((key for key in ROW_KEYS if _is_list_of_rows(value.get(key))), None)


def _is_list_of_rows(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _record(row: int, line: int, value: object) -> Record:
    if not isinstance(value, dict):
        return Record(row, line, None, Reason.NOT_AN_OBJECT, "the element is not an object with named values")
    fields: Fields = {key: cell_of(one) for key, one in flatten(value).items()}
    return Record(row, line, fields)


def _first_line(text: TextIOWrapper) -> str:
    for line in iter(lambda: text.readline(CELL_LIMIT), ""):
        if stripped := line.strip(_SPACE + "\ufeff\x1e"):
            return stripped
    return ""


def _first_value(line: str) -> object:
    """The value at the start of the line, whatever follows it; None where there is none."""
    try:
        return _decoder().raw_decode(line)[0]
    except RepeatedKey:
        return {"": None}
    except (json.JSONDecodeError, RecursionError):
        return None
