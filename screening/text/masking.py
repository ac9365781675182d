"""What tells who somebody is, as far as patterns find it, replaced before a text leaves the site.

Found are mail addresses, links, handles, phone numbers and numbers of four digits or more. Not found are names, places,
street addresses, dates, workplaces, numbers written in words, and what only the context gives away: a masked text is
not anonymous. What is stored stays exact.
"""

import re
from typing import Final

MASKING_VERSION: Final = 1
"""Version of what is found and how it is replaced; stands in the configuration of what was screened with it."""
REGIONS: Final = ("US", "GB", "DE", "FR", "IN", "AU")
"""Where a phone number without its country's code may come from."""

MOST_LOOKED_UP: Final = 200
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
    found = _MAIL.sub("[mail]", text)
    found = _LINK.sub("[link]", found)
    found = _HANDLE.sub("[handle]", found)
    left = MOST_LOOKED_UP

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

    for region in (None, *REGIONS):
        try:
            read = parse(number, region)
        except NumberParseException:
            continue
        if is_valid_number(read) or (region is None and is_possible_number(read)):
            return True
    return False
