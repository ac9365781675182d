"""Where the bytes come from, what kind of file they are by content, and in which encoding; why a file is refused."""

import codecs
import io
import re
import unicodedata
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from screening.settings import FILE_LIMITS


class FileRefused(Exception):
    """The file cannot be read without risking a wrong row. The sentence is for the person who sent it.

    ``line`` is the physical line (from 1) where there is one; ``sheets`` are those of a workbook of which another
    one might be read. The message never holds text from the file other than names of recognised columns, or what
    the person asked for by name.
    """

    def __init__(self, sentence: str, *, line: int | None = None, sheets: tuple[str, ...] = ()) -> None:
        super().__init__(sentence if line is None else f"Line {line}: {sentence}")
        self.line = line
        self.sheets = sheets


class ColumnsUnclear(FileRefused):
    """A person must say which column is what, or which are joined; ``columns`` are those of the file."""

    def __init__(self, sentence: str, *, columns: tuple[str, ...], sheets: tuple[str, ...] = ()) -> None:
        super().__init__(sentence, sheets=sheets)
        self.columns = columns


Source = Path | bytes
"""A file on disk, or the whole content."""

HEAD = 4096
"""Bytes looked at to tell the kind of file."""

PACKED_TIGHTLY = 10_000_000
"""A part of a workbook of more bytes than this may be at most so many times larger than it is in the archive as is
said for files: texts that people wrote pack to a fifth, a bomb to a thousandth.
"""

MOST_PARTS = 2_000
"""Most files in the archive of a workbook: one for each sheet, picture and style."""


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


READ = "Send CSV, TSV, JSON, JSON lines, xlsx or Parquet."
"""What may be sent instead of a file that is not read."""

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "a gzip archive"),
    (b"%PDF", "a PDF document"),
    (b"\xd0\xcf\x11\xe0", "an old Office document (such as .xls)"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"Rar!", "a RAR archive"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"\x7fELF", "a program"),
    (b"{\\rtf", "an RTF document"),
)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
"""Of a file, of an archive without one, of one in parts; a column may be called PK."""
_MARKUP = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<body", b"<table")


def open_source(source: Source) -> BinaryIO:
    """The bytes from the start."""
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


def size_of(source: Source) -> int:
    """Its bytes; of a folder those of all its files."""
    if isinstance(source, bytes):
        return len(source)
    files = source.rglob("*") if source.is_dir() else (source,)
    return sum(one.stat().st_size for one in files if one.is_file())


@contextmanager
def damage_refused(kind: FileFormat) -> Iterator[None]:
    """What libraries raise for a damaged file, with errors of their own, of memory and of values, as a refusal."""
    try:
        yield
    except (FileRefused, GeneratorExit):
        raise
    except Exception:
        raise FileRefused(f"This {kind} is damaged or cut off.") from None


def is_workbook(source: Source) -> bool:
    """Whether it is an Excel workbook; FileRefused when it is something else that holds no rows of text.

    An empty file, an archive, a document or a web page is refused with what it is.
    """
    with open_source(source) as stream:
        head = stream.read(HEAD)
    if not head.strip(b"\xef\xbb\xbf\xff\xfe \t\r\n"):
        raise FileRefused("The file is empty.")
    if head.startswith(_ZIP):
        _check_workbook(source)
        return True
    for signature, name in _SIGNATURES:
        if head.startswith(signature):
            raise FileRefused(f"This is {name}, whatever its name says. {READ}")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_MARKUP):
        raise FileRefused(f"This is a web page or XML, whatever its name says. {READ}")
    return False


def _check_workbook(source: Source) -> None:
    with open_source(source) as stream, damage_refused(FileFormat.WORKBOOK), zipfile.ZipFile(stream) as archive:
        entries = archive.infolist()
    if "xl/workbook.xml" not in {entry.filename for entry in entries}:
        raise FileRefused("This is a zip archive but not an Excel workbook. Unpack it and send the file inside.")
    most = FILE_LIMITS.characters
    if len(entries) > MOST_PARTS or sum(entry.file_size for entry in entries) > most:
        raise FileRefused(f"This workbook unpacks to more than {most // 1_000_000} MB. Send it as CSV.")
    tightest = FILE_LIMITS.expansion
    if any(entry.file_size > max(PACKED_TIGHTLY, tightest * entry.compress_size) for entry in entries):
        raise FileRefused("This workbook is packed far tighter than texts are. Send it as CSV.")


_CHUNK = 1 << 20
_SAMPLE = 1 << 18
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LEGACY = [
    "cp1252",
    "cp1250",
    "cp1251",
    "cp1253",
    "cp1254",
    "cp1255",
    "cp1256",
    "shift_jis",
    "gb18030",
    "big5",
    "euc_kr",
]
_MOSTLY_ASCII = 0.05
_SHIFTED = re.compile(rb"\+(?:[AB]|I[A-D])[A-Za-z0-9+/]{1,400}(?:-|(?![A-Za-z0-9+/]))")
"""Letters and punctuation as UTF-7 writes them in ASCII: ``caf+AOk-``."""
_ESCAPED = re.compile("[\udc80-\udcff]")
_ENCODED_SURROGATE = re.compile("\udced[\udca0-\udcbf][\udc80-\udcbf]")
_OTHER = re.compile("[^\x00-\x7f\udc80-\udcff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """The encoding read with, whether it is a guess, and how many bytes did not fit it.

    Bytes that do not fit UTF-8 are read as lone surrogates (PEP 383), so that the text is flagged unreadable
    and still recoverable.
    """

    name: str
    guessed: bool = False
    unreadable_bytes: int = 0

    @property
    def errors(self) -> str:
        """How decoding treats what does not fit."""
        return "surrogateescape" if self.name.startswith("utf-8") else "surrogatepass"


def detect_encoding(source: Source) -> Encoding:
    """The encoding of all of ``source``, which is read once. FileRefused when nothing fits."""
    with open_source(source) as stream:
        head = stream.read(HEAD)
    marked = next((name for mark, name in _MARKS if head.startswith(mark)), None) or _guess_utf16(head)
    if marked and marked != "utf-8-sig":
        return _check(source, Encoding(name=marked))
    fitting, escaped, shifted = _count_utf8(source)
    if fitting == escaped == 0 and shifted:
        raise FileRefused(f"The text is in UTF-7 ({shifted} in it is a letter or a mark). Save it as UTF-8.")
    if marked or escaped == 0 or escaped <= fitting:
        return Encoding(name=marked or "utf-8", unreadable_bytes=escaped)
    return _check(source, Encoding(name=_guess(source), guessed=True))


def open_text(source: Source, encoding: Encoding, newline: str = "") -> io.TextIOWrapper:
    """The decoded text with its line ends as they are."""
    errors = encoding.errors if encoding.name.startswith("utf") else "strict"
    return io.TextIOWrapper(open_source(source), encoding=encoding.name, errors=errors, newline=newline)


def _guess_utf16(head: bytes) -> str | None:
    pairs = len(head) // 2
    if pairs and head[1::2].count(0) > 0.4 * pairs and head[::2].count(0) < 0.1 * pairs:
        return "utf-16-le"
    if pairs and head[::2].count(0) > 0.4 * pairs and head[1::2].count(0) < 0.1 * pairs:
        return "utf-16-be"
    return None


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
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    for chunk in _chunks(source):
        shifted = shifted or _utf7(chunk)
        if not (text := decoder.decode(chunk)).isascii():
            surrogates = len(_ENCODED_SURROGATE.findall(text))
            fitting += len(_OTHER.findall(text)) + 3 * surrogates
            escaped += len(_ESCAPED.findall(text))
    return fitting, escaped + len(_ESCAPED.findall(decoder.decode(b"", final=True))), shifted


def _chunks(source: Source) -> Iterator[bytes]:
    with open_source(source) as stream:
        yield from iter(lambda: stream.read(_CHUNK), b"")


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
    sample = b"".join(_lines_beyond_ascii(source))[:_SAMPLE]
    strange = sum(byte > 0x7F for byte in sample)
    if strange <= _MOSTLY_ASCII * len(sample) or len(sample) < 200:
        return "cp1252"
    from charset_normalizer import from_bytes  # few files need it, and every process would import it

    best = from_bytes(sample, cp_isolation=_LEGACY).best()
    return best.encoding if best else "cp1252"


def _lines_beyond_ascii(source: Source) -> Iterator[bytes]:
    taken = 0
    with open_source(source) as stream:
        for line in iter(lambda: stream.readline(_CHUNK), b""):
            if not line.isascii():
                yield line
                taken += len(line)
            if taken > _SAMPLE:
                return
