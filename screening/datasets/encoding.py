"""The encoding of a text file: a mark, else UTF-8, else a guess that is announced as one."""

import codecs
import io
import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from screening.datasets.refused import FileRefused
from screening.datasets.source import HEAD, Source, open_source

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
