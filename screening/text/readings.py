r"""Further readings of a text for the rules: what stands between or inside its words is undone, as far as it is known.

Hard wraps, quote marks, markup, entities, escapes, quoted-printable and text decoded with the wrong table hide no words
from a person who sees the text where it came from. The text itself and what a model is shown stay as they are.
"""

import base64
import binascii
import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

_ROUNDS = 3
"""So often what is undone is looked at again: ``&amp;nbsp;`` takes two."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A text made from another one and, where it is tracked, the place there of each of its characters."""

    text: str
    at: Sequence[int] | None = None

    @classmethod
    def tracked(cls, text: str) -> Self:
        """The text itself, from which places are counted."""
        return cls(text, range(len(text)))

    def sub(self, pattern: re.Pattern[str], by: str | Callable[[re.Match[str]], str]) -> "Reading":
        """As `re.Pattern.sub`, keeping places; what is put in stands where the first character it replaces stood."""
        if self.at is None:
            return Reading(pattern.sub(by, self.text))
        parts: list[str] = []
        at: list[int] = []
        done = 0
        for match in pattern.finditer(self.text):
            new = match.expand(by) if isinstance(by, str) else by(match)
            parts += [self.text[done : match.start()], new]
            at += self.at[done : match.start()]
            at += self._places(match.start(), match.end(), new)
            done = match.end()
        return Reading("".join([*parts, self.text[done:]]), [*at, *self.at[done:]])

    def translate(self, table: Mapping[int, int]) -> "Reading":
        """As `str.translate` by a table of single characters."""
        return Reading(self.text.translate(table), self.at)

    def each(self, change: Callable[[str], str]) -> "Reading":
        """Every character replaced by what ``change`` makes of it."""
        if self.at is None:
            return Reading("".join(map(change, self.text)))
        made = [change(one) for one in self.text]
        return Reading("".join(made), [at for at, new in zip(self.at, made, strict=True) for _ in new])

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of a tracked reading stands in the text it was made from; (0, 0) for an empty part."""
        if self.at is None or end <= start:
            return (0, 0)
        return self.at[start], self.at[end - 1] + 1

    def _places(self, start: int, end: int, new: str) -> Sequence[int]:
        """Of what is put in: the places it replaces where there are as many, else the first of them and the last."""
        if self.at is None or not new or not self.at:
            return ()
        if len(new) == end - start:
            return self.at[start:end]
        first = self.at[min(start, len(self.at) - 1)]
        return [*[first] * (len(new) - 1), self.at[end - 1] if end > start else first]


def versions(reading: Reading) -> Iterator[Reading]:
    r"""The text, then the distinct readings in which what stands between its words is undone.

    >>> [one.text for one in versions(Reading("I don&#39;t<br>want <b>to</b>\n> go"))][1:]
    ["I don't\nwant to\n> go", "I don't want to go"]
    """
    plain = reading
    for _ in range(_ROUNDS):
        before, plain = plain, _undone(plain)
        if plain.text == before.text:
            break
    joined = plain
    for pattern, by in _LAYOUT:
        joined = joined.sub(pattern, by)
    seen: set[str] = set()
    for one in (reading, plain, joined, joined.sub(_ASIDE, " ")):
        if one.text not in seen:
            seen.add(one.text)
            yield one


def from_base64(token: str) -> bytes:
    """What it encodes, also in the alphabet for addresses; nothing where it encodes nothing."""
    standard = token.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4))
    except (binascii.Error, ValueError):
        return b""


def _undone(reading: Reading) -> Reading:
    if _ENCODED.search(reading.text):
        if not reading.text.isascii():
            reading = reading.sub(_FOREIGN_RUN, _mended)
        rich = _RICH_TEXT.search(reading.text) is not None
        for pattern, by in (*_BYTES, *(_RICH if rich else _ESCAPES), *_MARKUP):
            reading = reading.sub(pattern, by)
    return reading.sub(_APOSTROPHE, "'")


_ENCODED = re.compile(r"[<&=%\\\[{]|#\d|U\+|_x|[^\x00-\x7f]")
"""Without any of these nothing is encoded or marked up."""
_FOREIGN_RUN = re.compile("[\u0080-\uffff]+")
_TABLES = ("cp1252", "mac_roman", "cp850", "cp437", "cp1251", "cp1250", "gb18030", "cp932")
"""Tables by which text in UTF-8 is read mistakenly."""


def _mended(match: re.Match[str]) -> str:
    """The run as it was before it was read by the wrong table; itself where no table fits."""
    for table in _TABLES:
        try:
            return b"".join(_as_bytes(one, table) for one in match[0]).decode("utf-8")
        except UnicodeError:
            continue
    return match[0]


def _as_bytes(character: str, table: str) -> bytes:
    try:
        return character.encode(table)
    except UnicodeError:
        if table != "cp1252":
            raise
        return character.encode("latin-1")


def _byte_text(digits: str, base: int = 16, width: int = 2) -> str:
    raw = bytes(int(digits[at : at + width], base) for at in range(0, len(digits), width))
    try:
        return raw.decode("utf-8")
    except UnicodeError:
        return raw.decode("cp1252", "replace")


def _character(code: str, base: int = 16) -> str:
    number = int(code, base) % 0x10000 if base == 10 else int(code, base)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else ""


def _pair(match: re.Match[str]) -> str:
    high, low = int(match[1], 16), int(match[2], 16)
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


_Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]
_BYTES: tuple[_Rule, ...] = (
    (re.compile(r"=[ \t]*\r?\n"), ""),  # quoted-printable
    (re.compile(r"(?:=[0-9A-Fa-f]{2})+"), lambda match: _byte_text(match[0].replace("=", ""))),
    (re.compile(r"(?:%[0-9A-Fa-f]{2})+"), lambda match: _byte_text(match[0].replace("%", ""))),
    (re.compile(r"(?:\\x[0-9A-Fa-f]{2})+"), lambda match: _byte_text(match[0].replace("\\x", ""))),
    (re.compile(r"(?:<[0-9a-f]{2}>)+"), lambda match: _byte_text(re.sub("[<>]", "", match[0]))),  # as R prints them
    (re.compile(r"(?:\\[0-3][0-7]{2})+"), lambda match: _byte_text(match[0].replace("\\", ""), 8, 3)),
    (re.compile(r"<?\b[Uu]\+([0-9A-Fa-f]{4,6})\b>?"), lambda match: _character(match[1])),
    (re.compile(r"_x([0-9A-Fa-f]{4})_"), lambda match: _character(match[1])),  # spreadsheets
)
_ESCAPES: tuple[_Rule, ...] = (
    (re.compile(r"\\u([dD][89abAB]\w{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})"), _pair),
    (re.compile(r"\\u\{([0-9A-Fa-f]{1,6})\}|\\u([0-9A-Fa-f]{4})"), lambda match: _character(match[1] or match[2])),
    (re.compile(r"\\[nr]"), "\n"),
    (re.compile(r"\\t"), " "),
    (re.compile(r"\\([\"'/\\*_`~#>|.!()\[\]-])"), r"\1"),
    (re.compile(r"\\(?:text|em|it|bf)[a-z]*\{([^{}]*)\}|\\[a-zA-Z]{2,12}\b ?"), r"\1"),
)
_RICH_TEXT = re.compile(r"\\(?:rtf\d?|pard?|'[0-9a-f]{2})(?![a-z])")
_RICH: tuple[_Rule, ...] = (
    (re.compile(r"\{\\(?:fonttbl|colortbl|stylesheet|info|\*)[^{}]*(?:\{[^{}]*\}[^{}]*)*\}"), ""),
    (re.compile(r"(?:\\'[0-9A-Fa-f]{2})+"), lambda match: _byte_text(match[0].replace("\\'", ""))),
    (re.compile(r"\\u(-?\d{1,5}) ?\??"), lambda match: _character(match[1], 10)),
    (re.compile(r"\\(?:pard?|line|sect|page|row|cell)\b ?"), "\n"),
    (re.compile(r"\\(?:tab|~|emspace|enspace)\b ?|\\~"), " "),
    (re.compile(r"\\[a-z]{1,16}-?\d{0,6} ?|[{}]"), ""),
)
_MARKUP: tuple[_Rule, ...] = (
    (
        re.compile(
            r"<!--.{0,2000}?-->|<!\[CDATA\[|\]\]>|<(script|style)\b.{0,2000}?</\1\s{0,3}>", re.DOTALL | re.IGNORECASE
        ),
        "",
    ),
    (
        re.compile(
            r"<[ \t]{0,3}/?[ \t]{0,3}(?:br|p|div|li|ul|ol|td|th|tr|h[1-6]|hr|blockquote)\b[^<>]{0,300}>", re.IGNORECASE
        ),
        "\n",
    ),
    (re.compile(r"<https?://[^<>|\s]*\|([^<>]*)>"), r"\1"),
    # a comparison ("3 < 5 ... 7 > 2") is no tag: what stands between would be lost
    (re.compile(r"<[^<>\s]{1,60}>|<[ \t]{0,3}/?[ \t]{0,3}[A-Za-z!?][^<>]{0,300}>"), ""),
    (re.compile(r"!?\[([^\[\]\n]{1,200})\]\([^()\n]{0,300}\)"), r"\1"),
    (re.compile(r"\[\[(?:[^\[\]|\n]*\|)?([^\[\]\n]*)\]\]"), r"\1"),
    (re.compile(r"\[/?[a-zA-Z]{1,8}(?:=[^\[\]\n]{0,100})?\]|\{/?[a-z]{1,12}(?::[^{}\n]{0,60})?\}"), ""),
    (re.compile(r"&(?:\w{2,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});?"), lambda match: html.unescape(match[0])),
    (re.compile(r"(?<=\w)& ?# ?(\d{2,5}) ?;|(?<=\w)#0?39;"), lambda match: html.unescape(f"&#{match[1] or 39};")),
)


_SHORT = "(?:m|s|d|t|re|ve|ll)"
_APOSTROPHE = re.compile(
    rf"(?<=[a-z]) ?(?:['’`´] | ['’`´]|\?|\ufffd|â[\u0080-\u009f€™]{{0,2}}|&apos|&rsquo) ?(?={_SHORT}\b)"
    r"|(?<=[a-z])\s+(?=n['’]t\b)|(?<=[a-z])\s+(?=['’](?:m|s|d|re|ve|ll)\b)"
    rf"|(?<=\b[Ii]) (?=(?:m|ve|ll|d)\b)|(?:(?<=\bdon)|(?<=\bcan)|(?<=\bwon)|(?<=didn)|(?<=doesn)|(?<=couldn)) (?=t\b)",
    re.IGNORECASE,
)
"""Where an apostrophe was torn off or became another sign."""

_LINE = "(?:\r\n?|[\n\x0b\x0c\x85\u2028\u2029])"
_NO_ITEM = "(?:so|now|tonight|today|please|and|because|right|in|by|already|too|badly|myself|soon|but|for)"
_LAYOUT: tuple[_Rule, ...] = (
    (re.compile(r"^[ \t]*(?:\d{1,5}|(?:\d+:)?\d\d:\d\d[.,]\d+ --> .*)[ \t]*$\n?", re.MULTILINE), ""),  # subtitles
    (re.compile(r"^[ \t]*(?:(?:[A-Za-z]{0,3}>|[>|»›│┃])[ \t]?)+", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*(?://+|#+|%+|;+|--+|\d{1,5})[ \t]+(?=\S)", re.MULTILINE), ""),
    (re.compile(r"(?<![ \t])[ \t]*[|│┃\\][ \t]*$", re.MULTILINE), ""),
    (re.compile(rf"(?<=[a-z])[-\u2010\u00ad][ \t]*{_LINE}\s*(?=[a-z])"), ""),
    (
        re.compile(
            rf"(?<=[^\s.!?;:…])[ \t]*{_LINE}\s*(?!\w+:)"
            r"(?=[^\WA-Z]|[\"'’“(*_~]|I\b|(?!(?:[Dd]ie|[Dd]ead)\b)[A-Z]"
            rf"|(?:Die|Dead)\b(?:\W*$|\W+{_NO_ITEM}\b|\W*[.!?\n])|(?<=[A-Z]\n)[A-Z]{{2,}}\b)"
        ),
        " ",
    ),
    (re.compile(r"(?<=[\w,])[ \t]*(?:\.{2,}|…)[ \t]*(?=[a-z])"), " "),
    (re.compile(r"(?<!\S)(?:\w[\w'’]*[.!]\s+){2,}\w[\w'’]*"), lambda match: re.sub(r"[.!](?=\s)", "", match[0])),
)
_ASIDE = re.compile(
    r"\[[^\[\]\n]{1,40}\]|\((?:[\w']+ ){0,3}[\w']+\)|\*[a-z ]{2,20}\*|,?\b(?:um+|uh+|uhm+|erm*|hm+|mhm)\b[,.…]*",
    re.IGNORECASE,
)
"""What a transcript says beside the words: [sobs], (pause), um."""
