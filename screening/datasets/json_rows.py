"""JSON read row by row, also as annotation tools and evaluation logs write it."""

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from typing import Any

from screening.datasets.conversations import words_of
from screening.datasets.mapping import propose_mapping
from screening.datasets.rows import (
    Encoding,
    Fields,
    FileFormat,
    FileLayout,
    FileRefused,
    FileRow,
    Lines,
    Reason,
    Source,
    agreed_value,
    damage_refused,
    open_source,
)
from screening.datasets.text_files import open_text
from screening.settings import FILE_LIMITS
from screening.text.unique_keys import RepeatedKey, unique_keys


def class_names(feature: object) -> Sequence[str] | None:
    """The names of a class label, also of a list of them as each release of the library writes it; None for another
    kind of column.

    >>> class_names({"feature": {"names": ["no", "yes"], "_type": "ClassLabel"}, "_type": "Sequence"})
    ['no', 'yes']
    >>> class_names([{"names": ["no", "yes"], "_type": "ClassLabel"}])
    ['no', 'yes']
    """
    if isinstance(feature, list) and len(feature) == 1:
        return class_names(feature[0])
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list):
        return [str(name) for name in feature["names"]]
    return class_names(feature.get("feature"))


def class_name(cell: object, names: Sequence[str] | None) -> object:
    """The names that class numbers stand for; -1 is no label, a number without a name stays one."""
    if names is None or cell is None:
        return cell
    if isinstance(cell, list):
        return [class_name(one, names) for one in cell]
    number = int(cell) if isinstance(cell, int | str) and str(cell).lstrip("-").isdecimal() else None
    if number is not None and 0 <= number < len(names):
        return names[number]
    return None if number == -1 else cell


_OF_A_TWEET = frozenset({"truncated", "extended_tweet", "note_tweet", "retweeted_status"})


def flatten(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row with its texts and labels as columns of their own where it has the shape of such a tool, else itself.

    A label that all annotators gave is that label; different ones stand beside each other, which maps to no label.

    >>> task = {"id": "7", "data": {"text": "a"}, "annotations": []}
    >>> flatten(task | {"annotations": [{"result": [{"value": {"choices": ["unsafe"]}}]}]})
    {'id': '7', 'text': 'a', 'label': 'unsafe'}
    """
    if isinstance(row.get("data"), dict) and ("annotations" in row or "predictions" in row or "completions" in row):
        given = [one for one in _list(row.get("annotations") or row.get("completions")) if isinstance(one, dict)]
        answers = [_label_studio(one) for one in given if not one.get("was_cancelled")]
        return {"id": row.get("id"), **row["data"], **_labels(answers)}
    if isinstance(row.get("fields"), dict) and ("responses" in row or "suggestions" in row):
        plain = {"id": row.get("external_id") or row.get("id"), **row["fields"]}
        return {**dict(_items(row.get("metadata"))), **plain, **_labels(_argilla(row.get("responses")))}
    if not _OF_A_TWEET.isdisjoint(row):
        return _tweet(row)
    if isinstance(row.get("output"), dict) and {"id", "input", "target"} <= row.keys():
        return _inspect(row)
    return row


def _label_studio(annotation: Mapping[str, Any]) -> dict[str, str]:
    """What one annotation says to each question: its choices or rating."""
    answers: dict[str, list[str]] = {}
    for one in _list(annotation.get("result")):
        value = one.get("value") if isinstance(one, dict) else None
        if isinstance(value, dict):
            said = [*_list(value.get("choices")), *([value["rating"]] if "rating" in value else [])]
            answers.setdefault(str(one.get("from_name") or "label"), []).extend(map(str, said))
    return {question: ", ".join(said) for question, said in answers.items() if said}


def _labels(answers: Iterable[Mapping[str, str]]) -> dict[str, str | None]:
    """A column for each question that was asked: which of several is the label is for a person to say."""
    given: dict[str, list[str]] = {}
    for one in answers:
        for question, said in one.items():
            given.setdefault("label" if question == "label" else f"label (question {question})", []).append(said)
    return {name: agreed_value(said) for name, said in given.items()} or {"label": None}


def _argilla(given: object) -> Iterator[Mapping[str, str]]:
    """What each response that was not put aside says to each question: a list by question, or a list of all."""
    every: list[tuple[Any, Any]] = [(one, one.get("values")) for one in _list(given) if isinstance(one, dict)]
    every += [(one, {question: one}) for question, several in _items(given) for one in _list(several)]
    for one, values in every:
        if isinstance(one, dict) and one.get("status", "submitted") == "submitted":
            answered = ((str(name), said) for name, said in _items(values) if isinstance(said, dict))
            yield {name: _word(said["value"]) for name, said in answered if "value" in said}


def _tweet(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tweet with its whole text in place of the beginning of it."""
    whole = next((full for part in ("extended_tweet", "note_tweet") if (full := _full_text(row.get(part)))), None)
    repeated = row.get("retweeted_status")
    if whole is None and isinstance(repeated, dict) and (full := _full_text(_tweet(repeated))):
        start, colon, _ = str(row.get("text") or "").partition(": ")
        whole = f"{start}{colon}{full}" if start.startswith("RT @") else None
    if whole is None:
        return row
    return {name: value for name, value in row.items() if name not in _OF_A_TWEET} | {"text": whole}


def _full_text(part: object) -> str | None:
    texts = dict(_items(part))
    found = texts.get("full_text") or texts.get("text")
    return found if isinstance(found, str) else None


def decided(fields: Fields) -> Fields:
    """What a row of Prodigy's says of its label, whose ``answer`` is a decision about it: rejected, it is that label's
    no, and not another one's yes. Nothing for other rows.

    >>> decided({"text": "a", "label": "UNSAFE", "answer": "reject"})
    {'label': 'rejected: UNSAFE', 'answer': None}
    """
    answer, label = fields.get("answer"), next((name for name in ("accept", "label") if fields.get(name)), None)
    if answer not in ("accept", "reject", "ignore") or label is None:
        return {}
    said = {"accept": fields[label], "reject": f"rejected: {fields[label]}", "ignore": None}[answer]
    return {"label": said, "answer": None}


def _inspect(row: Mapping[str, Any]) -> dict[str, Any]:
    """A sample: the user's last message, the model's first answer, and what each scorer gave."""
    said = [one for one in _list(row["input"]) if isinstance(one, dict) and one.get("role") == "user"]
    choices = _list(row["output"].get("choices"))
    first = dict(_items(choices[0])).get("message") if choices else None
    epoch = row.get("epoch")
    return {
        "id": str(row["id"]) if epoch in (None, 1, "1") else f"{row['id']} epoch {epoch}",
        "text": words_of(said[-1].get("content")) if said else row["input"],
        "response": row["output"].get("completion")
        or (words_of(first.get("content")) if isinstance(first, dict) else None),
        "label": _word(row["target"]),
        **{f"score {name}": one.get("value") for name, one in _items(row.get("scores")) if isinstance(one, dict)},
    }


def _word(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _items(value: object) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else ()


ROW_KEYS: tuple[str, ...] = ("data", "rows", "items", "records", "examples", "samples")
"""Keys under which an object may hold its rows."""

_TWICE = "an object names the same key twice; one value would be lost."
_CHUNK = 1 << 16
_SPACE = " \t\r\n"
_BETWEEN_ROWS = _SPACE + "\ufeff\x1e"
_NO_SPACE = re.compile(f"[^{_SPACE}\ufeff]")


def find_json(source: Source, encoding: Encoding) -> FileLayout | None:
    """The JSON that this is by its start; None where it does not begin like rows of JSON."""
    kind = None
    with open_text(source, encoding, newline="\n") as text:
        lines = (
            bare for line in iter(lambda: text.readline(FILE_LIMITS.row), "") if (bare := line.strip(_BETWEEN_ROWS))
        )
        first = next(lines, "")
        if first.startswith("["):
            kind = FileFormat.JSON_ARRAY
        elif first.startswith("{"):
            begun = _first_value(first)
            # where the first line is damaged and the second is not, it is JSON lines too
            alone = isinstance(begun, dict) and not _holds_rows(begun)
            in_lines = alone or isinstance(_first_value(next(lines, "")), dict)
            kind = FileFormat.JSON_LINES if in_lines else FileFormat.JSON_OBJECT
    if kind is None:
        return None
    read = partial(_read_lines if kind is FileFormat.JSON_LINES else _read_document, source, encoding)
    return FileLayout(source=source, format=kind, read=read, encoding=encoding)


def _first_value(line: str) -> object:
    """The value at the start of the line, whatever follows it; None where there is none."""
    try:
        return _decoder().raw_decode(line)[0]
    except RepeatedKey:
        return {"": None}
    except (json.JSONDecodeError, RecursionError):
        return None


def _holds_rows(value: Mapping[str, Any]) -> bool:
    lists = (value[key] for key in ROW_KEYS if isinstance(value.get(key), list))
    holds = any(all(isinstance(one, dict) for one in rows) for rows in lists)
    return holds and not propose_mapping(key for key in value if key not in ROW_KEYS)


def _decoder() -> json.JSONDecoder:
    """Numbers stay as written (1e5, 007 as text is text), a bare NaN is a missing value."""
    return json.JSONDecoder(
        object_pairs_hook=unique_keys, parse_int=str, parse_float=str, parse_constant=lambda _: None, strict=False
    )


def _record(row: int, line: int, value: object) -> FileRow:
    if not isinstance(value, dict):
        return FileRow(row, line, {}, Reason.NOT_AN_OBJECT, "the element is not an object with named values")
    return FileRow.of_values(row, line, flatten(value))


def _read_lines(source: Source, encoding: Encoding) -> Lines:
    decoder, row = _decoder(), 0
    with open_text(source, encoding, newline="\n") as text:
        for number, line in enumerate(iter(lambda: text.readline(FILE_LIMITS.row), ""), start=1):
            if len(line) >= FILE_LIMITS.row:
                raise FileRefused(f"longer than {FILE_LIMITS.row:,} characters.", line=number)
            if not (bare := line.strip(_BETWEEN_ROWS)):
                yield None
                continue
            row += 1
            yield _line_record(decoder, row, number, bare)


def _line_record(decoder: json.JSONDecoder, row: int, number: int, line: str) -> FileRow:
    problem, detail = Reason.NOT_JSON, "the line is not a complete JSON object"
    try:
        value, end = decoder.raw_decode(line)
        if not line[end:].strip(_SPACE):
            return _record(row, number, value)
        detail = "more follows the JSON object on its line (a comma, or another object)"
    except RepeatedKey:
        problem, detail = Reason.REPEATED_KEY, "the object names the same key twice"
    except (json.JSONDecodeError, RecursionError):
        pass
    return FileRow(row, number, {}, problem, detail, (line,))


def _read_document(source: Source, encoding: Encoding) -> Lines:
    with open_text(source, encoding, newline="\n") as text:
        window = _Window(text)
        try:
            yield from window.records() if window.peek() == "[" else window.records_inside()
        except RecursionError:
            raise FileRefused("a row is nested deeper than is read.", line=window.line) from None
        if window.peek():
            raise FileRefused("more text follows the end of the JSON.", line=window.line)


class _Window:
    """A part of a JSON document that grows until the next value is complete, and forgets what was read."""

    def __init__(self, text: TextIOWrapper) -> None:
        self._text, self._decoder = text, _decoder()
        self._buffer, self._position, self._ended = "", 0, False
        self.line = 1

    def peek(self) -> str:
        """The next character that is not white space, or '' at the end."""
        while True:
            found = _NO_SPACE.search(self._buffer, self._position)
            after = found.start() if found else len(self._buffer)
            self.line += self._buffer.count("\n", self._position, after)
            self._position = after
            if found or self._ended:
                return found[0] if found else ""
            self._grow()

    def take(self, character: str) -> bool:
        """Step over the character if it is next."""
        found = self.peek() == character
        self._position += found
        return found

    def expect(self, character: str) -> None:
        """Step over the character. FileRefused when another one is next."""
        if not self.take(character):
            raise FileRefused(f"the JSON is damaged or cut off here ({character} expected).", line=self.line)

    def records(self, names: Mapping[str, Sequence[str] | None] | None = None) -> Lines:
        """The elements of an array as rows; with ``names`` unwrapped and named as the datasets server wraps them."""
        self.expect("[")
        row = 0
        while not self.take("]"):
            if row:
                self.expect(",")
            row += 1
            self.peek()
            line, value = self.line, self.next_value()
            if names and isinstance(value, dict) and isinstance(value.get("row"), dict):
                value = {name: class_name(cell, names.get(name)) for name, cell in value["row"].items()}
            yield _record(row, line, value)

    def records_inside(self) -> Lines:
        """The list of rows that an object holds under a key that is known for one; else the object, as the only row."""
        self.expect("{")
        keys, beside, found = set[str](), dict[str, object](), False
        while not self.take("}"):
            if keys:
                self.expect(",")
            key = str(self.next_value())
            self.expect(":")
            if key in keys:
                raise FileRefused(_TWICE, line=self.line)
            keys.add(key)
            if key in ROW_KEYS and not found and self.peek() == "[":
                found = True
                features = (dict(_items(one)) for one in _list(beside.get("features")))
                yield from self.records({str(one.get("name")): class_names(one.get("type")) for one in features})
            else:
                beside[key] = self.next_value()
        if propose_mapping(beside) if found else any(isinstance(one, dict | list) for one in beside.values()):
            raise FileRefused('The JSON object holds no list of rows. Send an array of objects or {"data": [...]}.')
        if not found:
            yield _record(1, 1, beside)

    def next_value(self) -> object:
        """The next value. FileRefused when it is damaged, cut off or too large."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._position)
            except RepeatedKey:
                raise FileRefused(_TWICE, line=self.line) from None
            except (json.JSONDecodeError, RecursionError):
                end = len(self._buffer)
                if self._ended:
                    raise FileRefused("the JSON is damaged or cut off here.", line=self.line) from None
            if end < len(self._buffer) or self._ended:
                self.line += self._buffer.count("\n", self._position, end)
                self._position = end
                return value
            if len(self._buffer) > FILE_LIMITS.row:
                raise FileRefused("damaged JSON, or an object that is too large, begins here.", line=self.line)
            self._grow()

    def _grow(self) -> None:
        """Forget what was read; what is left is at least doubled, so that a long value is not read too often."""
        self._buffer, self._position = self._buffer[self._position :], 0
        more = self._text.read(max(_CHUNK, len(self._buffer)))
        self._buffer, self._ended = self._buffer + more, not more


def find_inspect_log(source: Source, _sheet: str | None = None) -> FileLayout | None:
    """The log in its packed form that this is; None for any other kind of file."""
    read = partial(_read_samples, source)
    return FileLayout(source=source, format=FileFormat.INSPECT_LOG, read=read) if is_inspect_log(source) else None


def is_inspect_log(source: Source) -> bool:
    """Whether it is such an archive, by what is inside it."""
    names: list[str] = []
    damaged = zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError
    with open_source(source) as stream, suppress(*damaged):
        if stream.read(2) == b"PK":
            names = zipfile.ZipFile(stream).namelist()
    return "header.json" in names or any(name.startswith("_journal/") for name in names)


def _read_samples(source: Source) -> Lines:
    """One row a sample, in the order of their names. FileRefused for a damaged archive."""
    with damage_refused(FileFormat.INSPECT_LOG):
        for row, content in enumerate(sample_files(source), start=1):
            try:
                found = _record(row, row, json.loads(content)) if len(content) <= FILE_LIMITS.row else None
                said = "the sample is larger than is read at all"
            except (ValueError, RecursionError):
                found, said = None, "the sample is not a complete JSON object"
            yield found or FileRow(row, row, {}, Reason.NOT_JSON, said)


def sample_files(source: Source, largest: int = FILE_LIMITS.row) -> Iterator[bytes]:
    """The JSON of each sample, in the order of their names; of one larger than ``largest`` a byte more than that."""
    with open_source(source) as stream, zipfile.ZipFile(stream) as archive:
        for name in sorted(one for one in archive.namelist() if one.startswith("samples/")):
            with archive.open(name) as sample:
                yield sample.read(largest + 1)
