"""A file and its rows: where the bytes come from, why it is refused, what its cells hold, what becomes of a row."""

import ast
import io
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Final

from screening.labels import Label
from screening.settings import FILE_LIMITS
from screening.text.conversation import Conversation, Thread, Turn
from screening.text.received import ReceivedText

Source = Path | bytes
"""A file on disk, or the whole content."""


class FileRefused(Exception):
    """The file cannot be read without risking a wrong row. The sentence is for the person who sent it, and never holds
    text from the file other than names of columns. ``line`` is the physical line (from 1) where there is one;
    ``sheets`` are those of a workbook of which another one might be read.
    """

    def __init__(self, sentence: str, *, line: int | None = None, sheets: tuple[str, ...] = ()) -> None:
        super().__init__(sentence if line is None else f"Line {line}: {sentence}")
        self.line, self.sheets = line, sheets


class ColumnsUnclear(FileRefused):
    """A person must say which column is what, or which are joined, with this ``option`` for a column of this name.
    `read_table` says which columns the file has.
    """

    columns: tuple[str, ...] = ()

    def __init__(self, sentence: str, *, option: str = "", name: str = "NAME") -> None:
        how = f" On the page: Confirm columns, More columns. Command line: --{option}-column {name}. API: `mapping`."
        super().__init__(sentence + how if option else sentence)


class FileFormat(StrEnum):
    """The kinds of file that are read."""

    DELIMITED = "delimited text"
    JSON_ARRAY = "JSON array"
    JSON_OBJECT = "JSON object with a list of rows"
    JSON_LINES = "JSON lines"
    WORKBOOK = "Excel workbook"
    PARQUET = "Parquet file"
    ARROW = "Arrow file"
    DATASET_FOLDER = "saved data set"
    INSPECT_LOG = "Inspect log"
    TRANSCRIPT = "transcript of one conversation"


class Reason(StrEnum):
    """Why a row was rejected."""

    EXTRA_CELLS = "extra_cells"
    MISSING_CELLS = "missing_cells"
    ROWS_MERGED = "rows_merged"
    HEADER_REPEATED = "header_repeated"
    DESCRIBES_COLUMNS = "describes_columns"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    REPEATED_KEY = "repeated_key"
    NO_TEXT = "no_text"
    NOT_A_TEXT = "not_a_text"
    EMPTY_TEXT = "empty_text"
    PLACEHOLDER = "placeholder"
    NO_ID = "no_id"
    UNUSABLE_ID = "unusable_id"
    DUPLICATE = "duplicate"
    NOT_A_CONVERSATION = "not_a_conversation"
    TURN_WITHOUT_ROLE = "turn_without_role"
    TURN_WITHOUT_ORDER = "turn_without_order"
    TOO_MANY_TURNS = "too_many_turns"
    NO_JUDGED_TURN = "no_judged_turn"


def open_source(source: Source) -> BinaryIO:
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


@contextmanager
def damage_refused(kind: FileFormat) -> Iterator[None]:
    """What libraries raise for a damaged file, whatever it is, as a refusal."""
    try:
        yield
    except FileRefused:
        raise
    except Exception:
        raise FileRefused(f"This {kind} is damaged or cut off.") from None


WORDS: Final[Mapping[str, Any]] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
"""What files call things."""
PATTERNS = {name: re.compile("|".join(several), re.IGNORECASE) for name, several in WORDS["patterns"].items()}
_FORMAT = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def is_placeholder(text: str) -> bool:
    """Whether it is what sites and messengers write in place of a text that was removed or is none.

    >>> [is_placeholder(one) for one in ("[deleted]", "[ Removed by Reddit ]", "\u200eimage omitted", "removed it")]
    [True, True, True, False]
    """
    return PATTERNS["removed"].fullmatch(_FORMAT.sub("", text).strip()) is not None


def is_cut(text: str) -> bool:
    """Whether it says of itself that a part of it is no text, or missing.

    >>> is_cut("see you <attached: 1.jpg>"), is_cut("and then I [truncated]"), is_cut("see you")
    (True, True, False)
    """
    return PATTERNS["lost"].search(_FORMAT.sub("", text)) is not None


class Nested(str):
    """The JSON of a list or an object, in a cell where one value was expected."""

    __slots__ = ()


class Formula(str):
    """A formula as it is written, in a cell without a value beside it."""

    __slots__ = ()


Fields = dict[str, str | None]
"""Cells by column name; None is a value the file says is missing (JSON null)."""


def cell_of(value: object) -> str | None:
    """A value as a cell: numbers as they are written, what has parts as JSON, bytes as text in UTF-8."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return Nested(json.dumps(value, ensure_ascii=False, default=_plain_text))
    return None if value != value else _plain_text(value)  # a bare NaN is a missing value


def _plain_text(value: object) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


_PLACE = re.compile(r"(.+) \((?:column \d+|question [^()]*)\)")


def normalised_name(column: str) -> str:
    """The name without a byte order mark, outer spaces and the place or question that was added, in lower case."""
    name = column.strip().strip("\ufeff").strip()
    placed = _PLACE.fullmatch(name)
    return (placed[1] if placed else name).strip().casefold()


def unique_names(header: Sequence[str]) -> tuple[str, ...]:
    """The names without spaces around them; each of several equal ones carries its place, so that none is first. A
    missing name does too, but for the first column, where programs write the row's number.

    >>> unique_names(["", "text", "Text", "", "text (column 2)"])
    ('', 'text (column 2) (column 2)', 'Text (column 3)', ' (column 4)', 'text (column 2)')
    """
    names = [cell.strip().strip("\ufeff").strip() for cell in header]
    single = {name for name, count in Counter(name.casefold() for name in names).items() if count == 1}
    taken, unique = set(single), list[str]()
    for place, name in enumerate(names, start=1):
        if (name or place > 1) and (name.casefold() not in single or not name):
            name = f"{name} (column {place})"
            while name.casefold() in taken:
                name += f" (column {place})"
            taken.add(name.casefold())
        unique.append(name)
    return tuple(unique)


@dataclass(frozen=True, slots=True)
class FileRow:
    """One data row (numbered from 1) at a physical line (from 1): its cells by column, or what is wrong with it.
    ``cells`` are those of a row that does not fit and has no ``fields``, as they stand; their columns are in doubt, the
    first one's is not. Of a conversation that cannot be read they are the words that can. One that can stands in
    ``talk``, its text's cell empty; the first of its cases has all its ``turns``.
    """

    row: int
    line: int
    fields: Fields
    problem: Reason | None = None
    detail: str = ""
    cells: tuple[str, ...] = ()
    talk: Conversation | None = None
    turns: tuple[Turn, ...] = ()

    @classmethod
    def of_values(cls, row: int, line: int, values: Mapping[str, object]) -> "FileRow":
        return cls(row, line, {name: cell_of(value) for name, value in values.items()})

    @classmethod
    def of_cells(cls, row: int, line: int, columns: Sequence[str], cells: Sequence[str]) -> "FileRow":
        """The row that these cells make below this header, or why it is none."""
        found, expected = len(cells), len(columns)
        if found != expected:
            problem = Reason.EXTRA_CELLS if found > expected else Reason.MISSING_CELLS
            return cls(row, line, {}, problem, f"{found} cells where the header has {expected}", tuple(cells))
        if all(normalised_name(cell) == normalised_name(name) for cell, name in zip(cells, columns, strict=True)):
            return cls(row, line, {}, Reason.HEADER_REPEATED, "the header again", tuple(cells))
        return cls(row, line, dict(zip(columns, cells, strict=True)))

    def single(self, name: str | None) -> str | None:
        """The one value in a column; None where there is none, or a list or an object."""
        cell = None if name is None else self.fields.get(name)
        return None if isinstance(cell, Nested) else cell

    def content(self, name: str) -> object:
        """What stands in a column: a list or an object as such."""
        cell = self.fields.get(name)
        return json.loads(cell) if isinstance(cell, Nested) else cell

    def with_fields(self, changed: Fields) -> "FileRow":
        """The same with other single values in these columns."""
        return replace(self, fields=self.fields | changed)

    def characters(self) -> int:
        """Of its cells, and the turns of its case: those of an incomplete conversation stand in each of its rows."""
        turns = self.talk.turns if self.talk else ()
        cells = (*(self.fields.values() or self.cells), *(turn.text for turn in turns))
        return sum(len(cell) for cell in cells if cell)


Rows = Iterator[FileRow]
Lines = Iterator[FileRow | None]
"""The rows of a file in their order; None is a line without cells: not a row, but counted."""

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""What is looked for between cells, in order of preference, and in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """What does not fit UTF-8 is read as lone surrogates (PEP 383): the text is flagged unreadable, and recoverable."""

    name: str
    guessed: bool = False
    unreadable_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """How to get at the rows of a file: ``read`` gives them from the start. A reader names the ``columns`` of a header;
    where there is none, `file_layout` does.
    """

    source: Source
    format: str
    read: Callable[[], Lines]
    columns: tuple[str, ...] = ()
    encoding: Encoding | None = None
    separator: str | None = None
    sheet: str | None = None
    sheets: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Its kind, encoding and separator, for a person."""
        known = self.encoding and f"{self.encoding.name}{' (a guess)' if self.encoding.guessed else ''}"
        separator = self.separator and SEPARATORS.get(self.separator, repr(self.separator))
        return ", ".join(part for part in (str(self.format), known, separator) if part)


def most_characters(source: Source) -> int:
    """Of all cells of this file together; of a folder by the size of all its files.

    >>> most_characters(b"id,text"), most_characters(b"a" * 1_000_000)
    (20000000, 100000000)
    """
    if isinstance(source, bytes):
        size = len(source)
    else:
        files = source.rglob("*") if source.is_dir() else (source,)
        size = sum(one.stat().st_size for one in files if one.is_file())
    return min(FILE_LIMITS.characters, max(FILE_LIMITS.characters_unquestioned, FILE_LIMITS.expansion * size))


def limited(rows: Rows, most: int, *, longest: int | None = FILE_LIMITS.row) -> Rows:
    """The same rows. FileRefused, with the row, where they are more or longer than is read."""
    characters = 0
    for one in rows:
        characters += (length := one.characters())
        if longest is not None and length > longest:
            raise FileRefused(f"row {one.row} holds more than {longest:,} characters.", line=one.line)
        if characters > most:
            raise FileRefused(
                f"Up to row {one.row:,} the file unpacks to more than {most:,} characters. At most "
                f"{FILE_LIMITS.characters:,} are read, and at most {FILE_LIMITS.expansion} times what the file has in "
                "bytes. Send it in parts, as CSV."
            )
        require_few_rows(one.row)
        yield one


def require_few_rows(rows: int) -> None:
    if rows > FILE_LIMITS.rows:
        raise FileRefused(f"The file has more than {FILE_LIMITS.rows:,} rows. Send it in parts.")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCase:
    """A row that becomes a case. ``row`` counts the file's rows from 1; ``reference`` is safe, unsafe or None, and
    ``reference_value`` the label as it stands there. ``thread`` says where the turns of a conversation stand in its
    text. ``not_screened`` is why the row would be rejected if it did not state a risk: it is escalated unasked.
    """

    row: int
    external_id: str
    text: ReceivedText
    reply: ReceivedText | None = None
    reference: Label | None = None
    reference_value: str | None = None
    group: str | None = None
    where: str | None = None
    thread: Thread | None = None
    not_screened: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that does not, with a fixed reason and a sentence; ``original_json`` is its text escaped as ASCII JSON."""

    row: int
    reason: str
    detail: str = ""
    line: int | None = None
    external_id: str | None = None
    original_json: str | None = None


Row = NewCase | RejectedRow

_LONGEST_LITERAL = 1_000_000


def parsed_list(cell: str) -> list[Any] | None:
    """The list that a cell holds, in JSON or as Python prints it; None for any other cell."""
    bare, found = cell.strip(), None
    if bare.startswith("[") and bare.endswith("]"):
        try:
            found = json.loads(bare)
        except (ValueError, RecursionError):
            with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                found = ast.literal_eval(bare) if len(bare) <= _LONGEST_LITERAL else None
    return found if isinstance(found, list) else None


def parts_of(cell: str) -> tuple[str, ...] | None:
    """The strings of a list; None for everything else.

    >>> parts_of('["a", "b"]'), parts_of("['a', \\"it's\\"]"), parts_of("[deleted]"), parts_of('[1, "a"]')
    (('a', 'b'), ('a', "it's"), None, None)
    """
    found = parsed_list(cell)
    return tuple(found) if found is not None and all(isinstance(one, str) for one in found) else None


_LABELS = {word: Label(label) for label, words in WORDS["labels"].items() for word in words}


def map_label(value: str | None, label_values: Mapping[str, Label | None] | None = None) -> Label | None:
    """The reference label a value stands for, None where that is not certain; first as ``label_values`` says, which a
    person confirmed for this file. What an ordinal scale ("low") or a number means only a person knows.

    >>> map_label("SAFE"), map_label("unsfae"), map_label("1")
    (<Label.SAFE: 'safe'>, None, None)
    """
    if value is None:
        return None
    if label_values is not None and value in label_values:
        return label_values[value]
    return _LABELS.get(value.strip().casefold().replace("_", "-"))


def label_of(cell: str | None) -> str | None:
    """The label in a cell, also where it is written as a list or as Label Studio's choices; None for none, and for what
    is no label.

    >>> label_of('["safe"]'), label_of('{"choices": ["b", "a"]}'), label_of("[]"), label_of('[{"start": 0}]')
    ('safe', 'b, a', None, None)
    """
    bare = (cell or "").strip()
    found: object = parsed_list(bare)
    if bare.startswith("{"):
        try:
            found = json.loads(bare).get("choices")
        except (ValueError, RecursionError):
            return cell
    elif found is None:
        return cell
    if not isinstance(found, list) or not all(isinstance(one, str | int | float) for one in found):
        return None
    return ", ".join(str(one) for one in found) or None


def agreed_value(words: Iterable[str]) -> str | None:
    """The value that all of them are, else the different ones beside each other, which are no label; None for none.

    >>> agreed_value(["safe", "safe"]), agreed_value(["b", "a"]), agreed_value([])
    ('safe', 'a | b', None)
    """
    return " | ".join(sorted(set(words))) or None
