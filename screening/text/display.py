"""A text as it is shown: to people with the characters marked that show nothing or change how others are shown, and to
a model, where a site says so, without what tells who somebody is, as far as patterns find it.

Masked are mail addresses, links, handles, phone numbers and numbers of four digits or more. Not found are names,
places, street addresses, dates, workplaces, numbers written in words, and what only the context gives away: a masked
text is not anonymous. What is stored stays exact.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    SOFT_HYPHEN = "soft_hyphen"
    ZERO_WIDTH = "zero_width"
    BIDI = "bidi"
    CONTROL = "control"
    PAYLOAD = "payload"
    """Tag characters and variation selectors outside emoji: a channel for text nobody sees."""


_BASE = (
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u245f\u24c2\u2500-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001f12f\U0001f18e-\U0001faff]"
)
_ONE = f"{_BASE}[\ufe0e\ufe0f]?[\U0001f3fb-\U0001f3ff]?"
_FLAG = (
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
EMOJI = f"{_FLAG}|[0-9#*]\ufe0f?\u20e3|{_ONE}(?:\u200d{_ONE})*"
"""Emoji as a regular expression: here, and only here, joiners, selectors and tags are part of the writing."""

_CLASSES = {
    Kind.SOFT_HYPHEN: "\u00ad",
    Kind.ZERO_WIDTH: (
        "\u200b-\u200e\u2060-\u2065\ufeff\u180b-\u180f\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800"
        "\ufff9-\ufffb\U0001d173-\U0001d17a\U0001bca0-\U0001bca3\u206a-\u206f"
    ),
    Kind.BIDI: "\u200f\u061c\u202a-\u202e\u2066-\u2069",
    Kind.CONTROL: "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029",
    Kind.PAYLOAD: "\ufe00-\ufe0f\U000e0000-\U000e0fff",
}
_SCAN = re.compile(f"(?P<emoji>{EMOJI})|" + "|".join(f"(?P<{kind}>[{members}])" for kind, members in _CLASSES.items()))
_PLAIN_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def invisibles(text: str) -> Iterator[tuple[int, str, Kind]]:
    """Every invisible character of ``text``, except those that belong to an emoji, with its position and its kind.

    >>> [(position, kind.value) for position, _, kind in invisibles("d\\xadie\\u202e")]
    [(1, 'soft_hyphen'), (4, 'bidi')]
    """
    if text.isascii() and not _PLAIN_CONTROL.search(text):
        return
    for match in _SCAN.finditer(text):
        if match.lastgroup != "emoji" and match.lastgroup is not None:
            yield match.start(), match.group(), Kind(match.lastgroup)


def is_mark(character: str) -> bool:
    """Whether it is a combining mark that takes no place of its own."""
    return unicodedata.category(character) in {"Mn", "Me"}


_SHOWN = re.compile(f"{EMOJI}|([{''.join(_CLASSES.values())}\ud800-\udfff]|\r(?!\n))")
"""What `visible` looks at: an emoji, which stays, or a character that becomes a marker."""


def visible(text: str) -> str:
    """The text with every invisible, control or direction-changing character as a marker such as ⟨U+202E⟩.

    Emoji keep their joiners and selectors; tab and line ends stay. The rest is unchanged, so the result is still
    untrusted and must be escaped by whatever shows it.

    >>> visible("note: \u202eefas")
    'note: ⟨U+202E⟩efas'
    """
    if text.isascii() and text.isprintable():
        return text
    return _SHOWN.sub(lambda found: found[0] if found[1] is None else _marker(found[1]), text)


def file_label(name: str) -> str:
    """The last part of a file name, in printable characters, for people to read.

    >>> file_label("../../etc/passwd.csv"), file_label("C:\\\\x\\\\a\\u202eb\\x1b[31m.csv")
    ('passwd.csv', 'ab[31m.csv')
    """
    last = re.split(r"[/\\]", name)[-1]
    return "".join(character for character in last if character.isprintable())[:120] or "file"


def received_offset(text: str, shown: int) -> int:
    """The position in ``text`` of a position in `visible(text)`; one within a marker is that of its character.

    >>> received_offset("a\\u202eb", 1), received_offset("a\\u202eb", 5), received_offset("a\\u202eb", 9)
    (1, 1, 2)
    """
    return max(0, bisect_right(range(len(text) + 1), shown, key=lambda at: shown_offset(text, at)) - 1)


def shown_offset(text: str, received: int) -> int:
    """The position in `visible(text)` of a position in ``text``.

    >>> shown_offset("a\\u202eb", 1), shown_offset("a\\u202eb", 2)
    (1, 9)
    """
    marked = (found for found in _SHOWN.finditer(text) if found[1] is not None and found.start() < received)
    return received + sum(len(_marker(found[1])) - 1 for found in marked)


def _marker(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


MASKING_VERSION: Final = 1
"""Of what is found and how it is replaced; stands in the configuration of what was screened with it."""
_REGIONS = ("US", "GB", "DE", "FR", "IN", "AU")
"""Where a phone number without its country's code may come from."""
_MOST_LOOKED_UP = 200
"""Phone numbers of one text that are told from other numbers; the rest is masked as numbers all the same."""
_MAIL = re.compile(r"[\w.+'-]{1,64}\s?(?:@|\(at\)|\[at\])\s?[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}", re.IGNORECASE)
_LINK = re.compile(
    r"(?:https?://|www\.)[^\s<>\"),]{1,2000}"
    r"|\b(?:[a-z0-9-]{1,63}\.){1,4}(?:com|org|net|io|edu|gov|info|co|uk|de|fr|in|au|me|tv|gg|be|ly|app|dev)\b"
    r"(?:/[^\s<>\"),]{0,2000})?",
    re.IGNORECASE,
)
_HANDLE = re.compile(r"(?<![\w@])@[A-Za-z_][\w.]{1,63}|\b[ur]/[A-Za-z0-9_-]{2,32}\b")
_NUMBER = re.compile(r"[+(]?\d(?:[\d ().\-/]{0,24}\d)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
_RUN = re.compile(r"\d{4,}")
_LONG = 7
"""Digits from which a grouped number is one that could tell who somebody is; shorter ones may be times or doses."""


def mask(text: str) -> str:
    """The text with what was found replaced by a word for what it was.

    >>> mask("Write to ann@example.org or @ann_b, call +49 30 901820, see www.example.org/ann, case 4711")
    'Write to [mail] or [handle], call [phone], see [link], case [number]'
    >>> mask("In 2019 I took 20 pills at 10.30, 1 of 10.")
    'In 2019 I took 20 pills at 10.30, 1 of 10.'
    """
    found = _HANDLE.sub("[handle]", _LINK.sub("[link]", _MAIL.sub("[mail]", text)))
    left = _MOST_LOOKED_UP

    def replace_number(match: "re.Match[str]") -> str:
        nonlocal left
        number = match[0]
        if sum(letter.isdigit() for letter in number) < _LONG:
            return _RUN.sub(lambda run: run[0] if _YEAR.fullmatch(run[0]) else "[number]", number)
        left -= 1
        return "[phone]" if left >= 0 and _is_phone(number) else "[number]"

    return _NUMBER.sub(replace_number, found)


def _is_phone(number: str) -> bool:
    """Whether somebody could be called under it, with its country's code or from one of the regions."""
    from phonenumbers import NumberParseException, is_possible_number, is_valid_number, parse

    for region in (None, *_REGIONS):
        try:
            read = parse(number, region)
        except NumberParseException:
            continue
        if is_valid_number(read) or (region is None and is_possible_number(read)):
            return True
    return False
