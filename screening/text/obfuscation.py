"""Text written so that people read what programs miss.

A list of a few dozen words and some patterns, not a model: it is tuned to rarely name ordinary chat slang
("gr8", "2day", "U.S.A."), and whatever it misses is still read by the nodes.
"""

import base64
import binascii
import html
import re

from screening.text.language import COMMON

_RISK_WORDS = """
die dies died dying dead death kill kills killed killing suicide suicidal suicides unalive unaliving
unalived harm selfharm hurt hurting harming cutting overdose hang hanging alive life living live pain murder
blade blades pills bleed worthless hopeless burden goodbye
"""
RISK_WORDS: frozenset[str] = frozenset(_RISK_WORDS.split())
"""Words whose disguise alone is reason for a second look."""

_ALWAYS = frozenset(("die", "dead", "dying", "death", "kill", "suicide", "suicidal", "unalive", "overdose"))

_SUBSTITUTES = str.maketrans("013457@$!|", "oieastasii")
_ONE_AS_L = str.maketrans("013457@$!|", "oleastasll")
_LEET_TOKEN = re.compile(r"[\w@$!|]+")
_LEET_AT_ALL = re.compile(r"[013457@$!|][a-zA-Z]|[a-zA-Z][013457@$!|]+\w|[a-zA-Z][013457$]")
_SIGNED_AT_ALL = re.compile(r"[a-zA-Z][*#_.\-'|+~]+[a-zA-Z]")
_PART_OF_ADDRESS = frozenset("/.#@&-")
_SIGNED_TOKEN = re.compile(r"[\w*#.\-'|+~]+")
_JOINED_BY = re.compile(r"[*#_.\-'|+~]+")
_BLANKED = re.compile(r"([a-z]+)([*#]+)([a-z]+)", re.IGNORECASE)
_LONGEST_TOKEN = 40
"""Longer tokens are addresses or noise; passing over them keeps the work linear in the text."""
_LETTER = r"[^\W\d_]"
_SPACED = re.compile(
    rf"(?<!\w){_LETTER}(?:(?:\s{{1,3}}{_LETTER})+|([._\-*·/|,]\s?){_LETTER}(?:\1{_LETTER})+)(?![^\W\d_])"
)
_MANY = 5
_ENTITY = re.compile(r"&#(?:x[0-9a-f]{2,4}|[0-9]{2,4});", re.IGNORECASE)
_BASE64 = re.compile(r"(?<![\w/+.=-])[A-Za-z0-9+/]{16,}={0,2}(?![\w/+=])")
_WORDS = re.compile(r"[^\W\d_]+")
_LATIN = re.compile("[a-zA-Z]")
_CYRILLIC_OR_ALIKE = re.compile("[\u0400-\u052f\u0531-\u058f\u13a0-\u13ff]")
_GREEK_ALIKE = re.compile("[αβεηικνορτυχωγΑΒΕΗΙΚΜΝΟΡΤΥΧΖ]")
_PHONETIC = re.compile("[\u0250-\u02af\u01dd\u1d00-\u1d7f]")


def is_obfuscated(text: str) -> bool:
    """Whether the (normalised) text appears to be disguised; False for an empty text.

    >>> is_obfuscated("1 w4nt t0 d13"), is_obfuscated("gr8, see you 2day at 5pm in the U.S.A.")
    (True, False)
    """
    return (
        _has_leet(text)
        or _has_masked_word(text)
        or _has_spaced_letters(text)
        or _has_look_alikes(text)
        or _has_encoded_letters(text)
        or _is_reversed(text)
    )


def _has_leet(text: str) -> bool:
    """A disguised risk word, or two disguised common words of which one is longer than two letters."""
    if not _LEET_AT_ALL.search(text):
        return False
    common: set[str] = set()
    for match in _LEET_TOKEN.finditer(text):
        token = match.group()
        if not token.isalpha() and len(token) <= _LONGEST_TOKEN and not _is_part_of_address(text, match):
            readings = _leet_readings(token)
            if readings & RISK_WORDS:
                return True
            common |= {reading for reading in readings & COMMON if len(reading) > 1}
    return len(common) > 1 and any(len(word) > 2 for word in common)


def _is_part_of_address(text: str, match: re.Match[str]) -> bool:
    before, after = text[max(0, match.start() - 1) : match.start()], text[match.end() : match.end() + 1]
    return before in _PART_OF_ADDRESS or after == "/" or match.group().startswith("@")


def _leet_readings(token: str) -> set[str]:
    """The words the token may stand for; empty when it has no letter or nothing in place of one."""
    token = token.rstrip("!|").lower()
    if token.isalpha() or not _LATIN.search(token):
        return set()
    return {token.translate(_SUBSTITUTES), token.translate(_ONE_AS_L)}


def _has_masked_word(text: str) -> bool:
    """A risk word cut up by signs (ki.ll) or with letters starred out (k*ll)."""
    if not _SIGNED_AT_ALL.search(text):
        return False
    for match in _SIGNED_TOKEN.finditer(text):
        token = match.group().strip("*#_.-'|+~").lower()
        if len(token) > _LONGEST_TOKEN or token.isalpha():
            continue
        blanked = _BLANKED.fullmatch(token)
        if _JOINED_BY.sub("", token) in _ALWAYS or (blanked and _fits(blanked)):
            return True
    return False


def _fits(match: re.Match[str]) -> bool:
    start, stars, end = (part.lower() for part in match.groups())
    return any(
        word.startswith(start) and word.endswith(end) and len(word) == len(start + stars + end) for word in _ALWAYS
    )


def _has_spaced_letters(text: str) -> bool:
    """Five single letters in a row, or fewer that spell a risk word."""
    for match in _SPACED.finditer(text):
        letters = "".join(_WORDS.findall(match.group())).lower()
        if len(letters) >= _MANY or any(word in letters for word in _ALWAYS):
            return True
    return False


def _has_look_alikes(text: str) -> bool:
    """A word that mixes alphabets, or letters of the phonetic alphabet in numbers."""
    if text.isascii():
        return False
    if len(_PHONETIC.findall(text)) > 2:
        return True
    mixed = (word for word in _WORDS.findall(text) if not word.isascii() and _LATIN.search(word))
    return any(_CYRILLIC_OR_ALIKE.search(word) or (len(word) > 2 and _GREEK_ALIKE.search(word)) for word in mixed)


def _has_encoded_letters(text: str) -> bool:
    """Letters as character references, or a readable sentence in base 64."""
    if any(html.unescape(match.group()).isalpha() for match in _ENTITY.finditer(text)):
        return True
    return any(_decodes(match.group()) for match in _BASE64.finditer(text))


def _decodes(token: str) -> bool:
    try:
        plain = base64.b64decode(token + "=" * (-len(token) % 4), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return False
    return plain.isprintable() and " " in plain


def _is_reversed(text: str) -> bool:
    """Whether it has several common words only when read backwards."""
    words = _WORDS.findall(text.lower())
    if len(words) < 3 or any(word in COMMON for word in words if len(word) > 2):
        return False
    return sum(word[::-1] in COMMON for word in words if len(word) > 2 and word != word[::-1]) > 1
