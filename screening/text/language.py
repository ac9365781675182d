"""Whether a text is in a language the screening was validated for.

Three looks, cheapest first: the script; how many of the words are common English ones; and, for what these leave open,
py3langid's probabilities. Short texts are hard for any identifier, so an English verdict on words comes first and a
foreign verdict needs py3langid to be far from English.
"""

import functools
import re
import tomllib
import unicodedata
from pathlib import Path

from py3langid.langid import MODEL_FILE, LanguageIdentifier

_WORDS = tomllib.loads(Path(__file__).with_name("common_words.toml").read_text(encoding="utf-8"))
_SHARED, _USUAL, FOREIGN, RISK_WORDS, GRAVE_WORDS = (
    frozenset(_WORDS[name].split()) for name in ("shared", "english", "foreign", "risk", "grave")
)
DISTINCT = _USUAL - _SHARED
COMMON = _USUAL | {word for word in _SHARED if len(word) > 1}
"""Common English words; `DISTINCT` are those that are not also common elsewhere, `FOREIGN` hardly ever English. The
disguise of one of `RISK_WORDS` alone is reason for a second look, and so is a part of `GRAVE_WORDS`.
"""

VALIDATED_LANGUAGES: tuple[str, ...] = ("en",)
"""ISO 639-1 codes of the languages the screening was validated for."""

ENGLISH_SHARE = 0.5
"""From this share of common English words on, a part counts as English unless another language claims it."""
DISTINCT_SHARE = 0.2
"""From this share of words that are common in English alone, likewise."""
OTHER_AT_LEAST = 0.25
"""A language other than a validated one must reach this probability ..."""
TIMES_LIKELIER = 20.0
"""... and be so many times likelier than the likeliest validated one."""
SURELY = 0.9
"""At this probability a part is in another language even though some words are common English."""

_PART = re.compile(r"[.!?\n;…。！？।]+")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_MARKUP = re.compile(r"<[^<>\n]{1,200}>|&\w{1,10};")
_NOT_PROSE = re.compile(r"[_/\\{}=()\[\]<>]|^[#@]|^www\.|.@.")
_SIGN_OF_CODE = re.compile(r"[_/\\{}=()\[\]<>#@]|www")
_TOKEN = re.compile(r"\S+")
_PART_WORDS = 3
"""A part of the text is judged by itself from so many words on."""


def is_supported(text: str, languages: tuple[str, ...] = VALIDATED_LANGUAGES) -> bool:
    """Whether all of the (normalised) text appears to be in one of ``languages``.

    A text without letters, or of one unknown word, counts as supported: nothing speaks against it. One sentence in
    another language is enough for False, since nobody has validated that it is understood.

    >>> is_supported("This homework is killing me lol"), is_supported("Ya no quiero vivir")
    (True, False)
    """
    if _has_other_script(text):
        return False
    prose = _prose(text)
    parts = [part for part in map(_WORD.findall, _PART.split(prose)) if len(part) >= _PART_WORDS]
    whole = _WORD.findall(prose)
    return _part_is_supported(whole, languages) and all(_part_is_supported(part, languages) for part in parts)


def _prose(text: str) -> str:
    """The text in lower case without mark-up, addresses, tags and code."""
    text = _MARKUP.sub(" ", text).lower().replace("’", "'")
    if not _SIGN_OF_CODE.search(text):
        return text
    return _TOKEN.sub(lambda token: " " if _NOT_PROSE.search(token.group()) else token.group(), text)


def _has_other_script(text: str) -> bool:
    """Whether two neighbouring letters are not Latin (a lone one may be a unit or part of an emoticon)."""
    if text.isascii():
        return False
    return any(
        len(word) > 1 and sum(not _is_latin(letter) for letter in word) > 1 and not _is_latin(word[0])
        for word in re.findall(r"[^\W\d_]+(?:[^\W\d_]|[\u0300-\u0dff])*", text)
    )


@functools.cache
def _is_latin(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith(("LATIN", "MODIFIER", "COMBINING"))


def _part_is_supported(words: list[str], languages: tuple[str, ...]) -> bool:
    if not words:
        return True
    foreign = sum(word in FOREIGN or not word.isascii() for word in words)
    if "en" in languages and not foreign and _is_plainly_english(words):
        return True
    if len(words) == 1:
        return words[0] not in FOREIGN
    return not _is_likelier_another(words, languages, foreign)


def _is_plainly_english(words: list[str]) -> bool:
    distinct = sum(word in DISTINCT for word in words) / len(words)
    common = sum(word in COMMON for word in words) / len(words)
    return distinct >= DISTINCT_SHARE and common >= ENGLISH_SHARE


def _is_likelier_another(words: list[str], languages: tuple[str, ...], foreign: int) -> bool:
    ranked = dict(_identifier().rank(" ".join(words)))
    language, likeliest = max(ranked.items(), key=lambda one: one[1])
    if language in languages:
        return False
    validated = max(ranked.get(one, 0.0) for one in languages)
    needed = OTHER_AT_LEAST if validated * TIMES_LIKELIER < likeliest else 1.1
    if "en" in languages and sum(word in DISTINCT for word in words) / len(words) >= DISTINCT_SHARE:
        needed = SURELY
    return bool(likeliest >= needed) or foreign > len(words) / 3


@functools.cache
def _identifier() -> LanguageIdentifier:
    """The model of py3langid (under a megabyte), read at first use: it never changes while the program runs."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
