"""The encoding of text, and delimited text: a quote never closed refuses the file, a cell too many only the row."""

import codecs
import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from screening.datasets.mapping import is_known
from screening.datasets.rows import (
    SEPARATORS,
    WORDS,
    Encoding,
    FileFormat,
    FileLayout,
    FileRefused,
    FileRow,
    Lines,
    Reason,
    Source,
    open_source,
    unique_names,
)
from screening.settings import FILE_LIMITS

_HEAD, _CHUNK, _SAMPLE = 1 << 12, 1 << 20, 1 << 18
_SIGNATURES = {start.encode("latin-1"): name for name, starts in WORDS["no_rows"].items() for start in starts}
_MARKUP = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<body", b"<table")
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LEGACY = ["cp1252", *(f"cp125{number}" for number in (0, 1, 3, 4, 5, 6)), "shift_jis", "gb18030", "big5", "euc_kr"]
_MOSTLY_ASCII = 0.05
_SHIFTED = re.compile(rb"\+(?:[AB]|I[A-D])[A-Za-z0-9+/]{1,400}(?:-|(?![A-Za-z0-9+/]))")
"""Letters and punctuation as UTF-7 writes them in ASCII: ``caf+AOk-``."""
_ESCAPED = re.compile("[\udc80-\udcff]")
_ENCODED_SURROGATE = re.compile("\udced[\udca0-\udcbf][\udc80-\udcbf]")
_OTHER = re.compile("[^\x00-\x7f\udc80-\udcff]")


def require_text(source: Source) -> None:
    """FileRefused where it is empty or holds no rows of text: an archive, a document, a web page."""
    with open_source(source) as stream:
        head = stream.read(_HEAD)
    what = next((name for signature, name in _SIGNATURES.items() if head.startswith(signature)), None)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_MARKUP):
        what = "a web page or XML"
    if what is not None:
        raise FileRefused(f"This is {what}, whatever its name says. Send CSV, TSV, JSON, JSON lines, xlsx or Parquet.")
    if not head.strip(b"\xef\xbb\xbf\xff\xfe \t\r\n"):
        raise FileRefused("The file is empty.")


def open_text(source: Source, encoding: Encoding, newline: str = "") -> io.TextIOWrapper:
    """The decoded text with its line ends as they are."""
    name = encoding.name
    errors = "surrogateescape" if name.startswith("utf-8") else "surrogatepass" if name.startswith("utf") else "strict"
    return io.TextIOWrapper(open_source(source), encoding=name, errors=errors, newline=newline)


def decode(content: bytes) -> str:
    """The words of a file, in whatever encoding it is. Raises FileRefused."""
    return open_text(content, detect_encoding(content)).read()


def detect_encoding(source: Source) -> Encoding:
    """The encoding of all of ``source``, which is read once. FileRefused when nothing fits."""
    with open_source(source) as stream:
        head = stream.read(_HEAD)
    marked = next((name for mark, name in _MARKS if head.startswith(mark)), None) or _unmarked_utf16(head)
    if marked and marked != "utf-8-sig":
        return _check(source, Encoding(name=marked))
    fitting, escaped, shifted = _count_utf8(source)
    if fitting == escaped == 0 and shifted:
        raise FileRefused(f"The text is in UTF-7 ({shifted} in it is a letter or a mark). Save it as UTF-8.")
    if marked or escaped == 0 or escaped <= fitting:
        return Encoding(name=marked or "utf-8", unreadable_bytes=escaped)
    return _check(source, Encoding(name=_guess(source), guessed=True))


def _unmarked_utf16(head: bytes) -> str | None:
    pairs = len(head) // 2
    even, odd = (head[first::2].count(0) / max(1, pairs) for first in (0, 1))
    if odd > 0.4 and even < 0.1:
        return "utf-16-le"
    return "utf-16-be" if pairs and even > 0.4 and odd < 0.1 else None


def _utf7(chunk: bytes) -> str | None:
    """The first part of ASCII that only UTF-7 writes, which spells no ASCII so."""
    for found in _SHIFTED.findall(chunk):
        with suppress(UnicodeDecodeError):
            said = found.decode("utf-7")
            if all("\x7f" < one < "\u2100" and unicodedata.category(one)[0] in "LMPSZ" for one in said) and (
                len(said) > 1 or (not found.strip(b"-").isupper() and not "\u017f" < said < "\u2000")
            ):  # one sign may be a word in capitals: REST+API
                return str(found[:20], "ascii")
    return None


def _count_utf8(source: Source) -> tuple[int, int, str | None]:
    """How many characters beyond ASCII are UTF-8, how many bytes are not, and what only UTF-7 writes."""
    fitting = escaped = 0
    shifted: str | None = None
    decoder, chunk = codecs.getincrementaldecoder("utf-8")("surrogateescape"), b"begun"
    with open_source(source) as stream:
        while chunk:
            chunk = stream.read(_CHUNK)
            shifted = shifted or _utf7(chunk)
            if not (text := decoder.decode(chunk, final=not chunk)).isascii():
                fitting += len(_OTHER.findall(text)) + 3 * len(_ENCODED_SURROGATE.findall(text))
                escaped += len(_ESCAPED.findall(text))
    return fitting, escaped, shifted


def _check(source: Source, encoding: Encoding) -> Encoding:
    """The encoding, once all of the file was decoded with it."""
    try:
        with open_text(source, encoding) as text:
            while text.read(_CHUNK):
                pass
    except UnicodeError:
        raise FileRefused(
            f"The text is not in {encoding.name}, as its first bytes suggest, nor in UTF-8. Save it as UTF-8."
        ) from None
    return encoding


def _guess(source: Source) -> str:
    """Windows Western for text that is nearly ASCII; else what charset-normalizer finds likeliest."""
    sample = b""
    with open_source(source) as stream:
        for line in iter(lambda: stream.readline(_CHUNK), b""):
            sample += b"" if line.isascii() else line[:_SAMPLE]
            if len(sample) > _SAMPLE:
                break
    if sum(byte > 0x7F for byte in sample) <= _MOSTLY_ASCII * len(sample) or len(sample) < 200:
        return "cp1252"
    from charset_normalizer import from_bytes  # few files need it, and every process would import it

    best = from_bytes(sample[:_SAMPLE], cp_isolation=_LEGACY).best()
    return best.encoding if best else "cp1252"


_SEP_LINE = re.compile(r'"?sep=(.)"?[^\S\r\n]*(?:[\r\n]|\Z)', re.IGNORECASE)
_SAMPLED_LINES = 200
_LONE_RETURN = "\ud800\udc0d"
"""Stands for a carriage return inside a line that is parsed: outside quotes the parser allows none. No text holds it:
UTF-16 makes one character of the two halves, and bytes that are not UTF-8 become others."""

Fit = tuple[int, float, int]
Records = Iterator[tuple[int, int, list[str]]]
"""The first line of each, its last line, and its cells: none where the line is blank."""


def find_delimited(source: Source, encoding: Encoding) -> FileLayout:
    """The separator (a ``sep=`` line, else the best fit) and the header. FileRefused without a usable header."""
    with open_text(source, encoding, newline="\n") as text:
        first, second = text.readline(FILE_LIMITS.row), text.readline(FILE_LIMITS.row)
    said = _SEP_LINE.match(first)
    # A line feed ends a line where one ends the first, for a carriage return is part of a cell then; else any does. Any
    # does too where the header alone ends in a line feed and the file in a carriage return.
    inside = first.removesuffix("\n").removesuffix("\r")
    newline = "\n" if first.endswith("\n") and "\r" not in inside and not second.endswith("\r") else ""
    records = partial(_records, source, encoding, newline, bool(said))
    found, refusals = list[tuple[Fit, str, tuple[str, ...]]](), list[FileRefused]()
    for separator in said[1] if said else SEPARATORS:
        try:
            fit, columns = _fit(records(separator))
            found.append((fit, separator, columns))
        except FileRefused as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    _, separator, columns = max(found, key=lambda one: one[0])
    return FileLayout(
        source=source,
        format=FileFormat.DELIMITED,
        read=partial(_read, partial(records, separator), separator, columns),
        columns=columns,
        encoding=encoding,
        separator=separator,
    )


def _fit(records: Records) -> tuple[Fit, tuple[str, ...]]:
    """How well a separator fits (recognised columns, then rows as long as the header, then its columns), and the header
    that it makes. A lone column says nothing: the preferred separator stays.
    """
    columns, lengths = tuple[str, ...](), list[int]()
    try:
        for line, _, cells in records:
            if cells:
                columns = columns or unique_names(cells)
                lengths.append(len(cells))
            if columns and (len(columns) == 1 or line > _SAMPLED_LINES):
                break
    except FileRefused:
        if not columns:
            raise
        lengths.append(0)
    if not columns:
        raise FileRefused("The file has no rows.")
    same = sum(length == len(columns) for length in lengths) / len(lengths)
    return (sum(map(is_known, columns)), same if len(columns) > 1 else 0.0, len(columns)), columns


def _read(records: Callable[[], Records], separator: str, columns: tuple[str, ...]) -> Lines:
    """Every data row and blank line but the header. FileRefused, with the line, at a quote that is not closed."""
    row = -1
    for line, last, cells in records():
        row += bool(cells)
        if not cells:
            yield None
        elif row > 0 and last > line and len(cells) == len(columns) and _swallows_rows(cells, separator):
            detail = f"one cell spans lines {line} to {last} and contains what looks like further rows"
            yield FileRow(row, line, {}, Reason.ROWS_MERGED, detail, tuple(cells))
        elif row > 0:
            yield FileRow.of_cells(row, line, columns, cells)


def _swallows_rows(cells: list[str], separator: str) -> bool:
    """Whether a line inside a cell begins with the next number after the row's first cell: a stray quote."""
    first = cells[0].strip()
    if not (first.isascii() and first.isdigit() and len(first) < 18):
        return False
    following = re.compile(rf'[\r\n]\s*"?0*{int(first) + 1}"?{re.escape(separator)}')
    return any(following.search(cell) for cell in cells[1:])


def _records(source: Source, encoding: Encoding, newline: str, announced: bool, separator: str) -> Records:
    csv.field_size_limit(FILE_LIMITS.row)  # the module's own limit of 131,072 would refuse texts that are merely long
    number = length = 0
    first, of_record = 1, list[str]()

    def numbered(lines: Iterator[str]) -> Iterator[str]:
        nonlocal number, length
        for line in lines:
            number, length = number + 1, length + len(line)
            if len(line) >= FILE_LIMITS.row:
                raise FileRefused(f"longer than {FILE_LIMITS.row:,} characters.", line=number)
            if length > FILE_LIMITS.row:
                raise FileRefused(
                    f"a row begins here that is longer than {FILE_LIMITS.row:,} characters; is a quote never closed?",
                    line=first,
                )
            inside = line.rstrip("\r\n")
            of_record.append(inside.replace("\r", _LONE_RETURN) + line[len(inside) :])
            yield of_record[-1]

    with open_text(source, encoding, newline=newline) as text:
        lines = numbered(iter(lambda: text.readline(FILE_LIMITS.row), ""))
        if announced:
            next(lines)
        reader = csv.reader(lines, delimiter=separator, strict=True)
        while True:
            first, length = number + 1, 0
            of_record.clear()
            try:
                cells = [cell.replace(_LONE_RETURN, "\r") for cell in next(reader)]
            except StopIteration:
                return
            except csv.Error as error:
                raise _refusal(str(error), of_record, first) from None
            yield first, number, [] if len(cells) == 1 and not cells[0].strip() else cells


def _refusal(error: str, lines: list[str], first: int) -> FileRefused:
    if "unexpected end" in error:
        said = "a quote opens here and is never closed; the rows after it cannot be told apart."
        return FileRefused(said, line=first)
    escaped = any('\\"' in one for one in lines)
    how = ", not with a backslash before it (in Spark: .option('escape', '\"'))" if escaped else ""
    return FileRefused(
        "a quote opens here and is closed in the middle of a cell; the rows around it cannot be told apart. "
        f"A quote inside a cell is written twice{how}.",
        line=first,
    )
