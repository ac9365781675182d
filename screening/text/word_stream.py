"""A text as a stream of plain words for phrase lists: one way to write what people write in many.

Lower case, long forms, no accents, one space between words, `` . `` where a sentence ends. A text that is dressed up
(spaced letters, digits for letters, blanks inside words, letters of another alphabet) has further readings.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from screening.text.readings import Reading, versions

_STOPS = re.compile(r"[.!?;:…\n\r\u0964\u3002\uff01\uff1f\u061f]+")
_APOSTROPHES = str.maketrans("’‘`´ʼ", "'''''")
_OTHER_LETTERS = str.maketrans("łøıđœæ", "loidoa")
_LOOKALIKES = str.maketrans("аеорсухіјѕһԁοανιτκρυεβмтвнкқΙ", "aeopcyxijshdoavitkpuebmtbhkqi")
_LEET = str.maketrans("013457@$!|€+", "oieastasiiet")
_MIXED = re.compile(r"[a-z][\u0370-\u03ff\u0400-\u052f]|[\u0370-\u03ff\u0400-\u052f][a-z]")
_LEET_WORD = re.compile(r"[a-z][0134579@$!|€+]+[a-z]|\b[0134579@$|€+]+[a-z]|[a-z][013457$@]+\b")
_SPACED = re.compile(r"(?<![^\W_])[^\W\d_](?:[\s._\-*|/·~+,]{1,3}[^\W\d_](?![^\W_])){2,}")
_ANY_SPACED = re.compile(_SPACED.pattern.replace("{2,}", "+"))
_INSIDE = re.compile(r"(?<=[^\W_])[-_.*|/·~+^#=](?=[^\W_])")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
_BLANKS = re.compile("[\u2800\u3164\uffa0\u115f\u1160]")
_TIDY = re.compile(r"[^\w\u0900-\u0dff\u0e00-\u0eff\u1100-\u11ff.' ]+|_")
_STATED_WORD = re.compile(
    "(?:im|i(?!ll|t)|wanna|want|wish|was|will|would|to(?!night|day)|tonight|today|die|dead|going|gonna|kill|killing|my(?=self|life)"
    "|self|end|take|life|live|anymore|it|all|commit|suicide|hang|and|do|not|dont|be|am|myself)"
)
_RUN_ON = re.compile(r"(?<![^\W_])[a-z]{8,40}(?![^\W_])")
_TWO = re.compile(r"(?<![^\W_])2(?![^\W_])|\btoo(?= (?:die|kill|end|hang|be dead)\b)")
_BEGUN_ANEW = re.compile(
    r",\s*(?=(?:and |but |so |just )?(?:don'?t|do not|can'?t|cannot|wanna|want|wish|hate|tired|gonna|going|tried)\b)"
)
_CLOCK = re.compile(r"(?<=\d)[.:](?=\d)")
_WIDE_GAP = re.compile(r"\s{2,}|\s*[/|]\s*")
_NUL, _WORD, _GAP = re.compile("\0"), re.compile(r"\S+"), re.compile(r"\s+")
_STRETCHED = re.compile(r"(.)\1{2,}")


def streams(text: Reading, spell_out: Callable[[str], str]) -> tuple[Reading, ...]:
    """The distinct readings of a text, the plain one first; never raises for any str.

    >>> streams(Reading("I'm d1e-ing. K i l l"), long_forms({"i'm": "i am"}))[0].text
    ' i am d1e ing . k i l l '
    >>> " i want to die " in [one.text for one in streams(Reading("I w4nt t0 d13"), long_forms({}))]
    True
    """
    found: dict[str, Reading] = {}
    for version in versions(text):
        for reading in _readings(version):
            stream = _stream(reading, spell_out)
            found.setdefault(stream.text, stream)
    return tuple(found.values())


def long_forms(expand: Mapping[str, str]) -> Callable[[str], str]:
    """How a word is spelled out: by these long forms, and by what is known of hurried and stretched spellings."""
    return lru_cache(maxsize=1 << 15)(lambda word: _long_form(word, expand))


def fold(text: str) -> str:
    """Compatibility form in lower case without accents and without characters that show nothing.

    >>> fold("Ｄ\\u00adí\\u200bE")
    'die'
    """
    return _folded(Reading(text)).text


def _folded(reading: Reading) -> Reading:
    reading = reading.sub(_CONTROLS, "")
    return Reading(reading.text.lower(), reading.at) if reading.text.isascii() else reading.each(_fold)


@lru_cache(maxsize=4096)
def _fold(character: str) -> str:
    decomposed = unicodedata.normalize("NFKD", character.translate(_APOSTROPHES)).casefold()
    kept = (one for one in decomposed if unicodedata.category(one) not in {"Mn", "Me", "Cf", "Co", "Cn", "Cs"})
    return "".join(kept).translate(_OTHER_LETTERS)


def _readings(text: Reading) -> Iterator[Reading]:
    for blank in (" ", "") if _BLANKS.search(text.text) else (" ",):
        plain = _folded(text.sub(_BLANKS, blank))
        if _MIXED.search(plain.text):
            plain = plain.translate(_LOOKALIKES)
        yield plain
        yield from _disguises(plain)


def _disguises(plain: Reading) -> Iterator[Reading]:
    text = plain.text
    if _SPACED.search(text):
        wide = plain.sub(_WIDE_GAP, " \0 ")
        yield wide.sub(_ANY_SPACED, lambda run: _part(re.sub(r"[^\w]", "", run[0]))).sub(_NUL, " ")
    if _LEET_WORD.search(text):
        yield plain.translate(_LEET)
    if _INSIDE.search(text):
        yield plain.sub(_INSIDE, "")
    if _BEGUN_ANEW.search(text):
        yield plain.sub(_BEGUN_ANEW, ". ")
    if _TWO.search(text):
        yield plain.sub(_TWO, "to")
    apart = plain.sub(_RUN_ON, lambda word: _apart(word[0]))
    if apart.text != text:
        yield apart


def _part(letters: str) -> str:
    """A run of letters as the words of statements it begins with, the rest as it is."""
    parts = []
    while (word := _STATED_WORD.match(letters)) is not None:
        parts.append(word[0])
        letters = letters[word.end() :]
    return " ".join([*parts, letters])


def _apart(word: str) -> str:
    """A word that is nothing but words of statements, as in a hashtag, with spaces between them; else as it is.

    >>> _apart("iwanttodie"), _apart("willingly")
    ('i want to die', 'willingly')
    """
    parted = _part(word)
    return parted.rstrip() if parted.endswith(" ") else word


def _stream(plain: Reading, spell_out: Callable[[str], str]) -> Reading:
    stopped = plain.translate(_APOSTROPHES).sub(_CLOCK, " ").sub(_STOPS, " . ").sub(_TIDY, " ")
    if plain.at is None:
        return Reading(f" {' '.join(filter(None, map(spell_out, stopped.text.split())))} ")
    words = stopped.sub(_WORD, lambda word: spell_out(word[0])).sub(_GAP, " ")
    text, at = words.text, words.at or ()
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    return Reading(f" {text.strip()} ", [0, *at[first:last], 0])


def _long_form(word: str, expand: Mapping[str, str]) -> str:
    word = word.strip("'")
    if word in expand:
        return expand[word]
    bare = word.removesuffix("'s").replace("'", "")
    if bare in expand:
        return expand[bare]
    if (meant := _SWAPPED.get((bare[:1], "".join(sorted(bare))))) is not None:
        return meant
    for meant, spelled in _RESPELLED.items() if bare[:1] in ("s", "m") else ():
        if spelled.fullmatch(bare):
            return meant
    short = _STRETCHED.sub(r"\1", bare)
    if short == bare:
        return bare
    double = _STRETCHED.sub(r"\1\1", bare)
    return expand.get(short, double if double in _DOUBLED else short)


_SWAPPED = {
    (word[0], "".join(sorted(word))): word
    for word in (
        "want",
        "wanted",
        "kill",
        "killing",
        "myself",
        "going",
        "suicide",
        "suicidal",
        "tonight",
        "living",
        "hang",
    )
}
"""Words by their first letter and all their letters: what a hurried hand types."""
_RESPELLED = {
    "suicide": re.compile(r"s+(?:u|oo|ew|ue|w)+[aeiy]*(?:s|c|z|sh|k)+[aeiy]*d+(?:e|ee|3)"),
    "suicidal": re.compile(r"s+(?:u|oo|ew|ue|w)+[aeiy]*(?:s|c|z|sh|k)+[aeiy]*d+(?:al|le|el|ll|il|ial)"),
    "myself": re.compile(r"m(?:[aeiouy]|ai|ah)?[sz]+(?:e|a|i|eh)?l+(?:f+|v|ph)(?:e|s)?"),
}
_DOUBLED = frozenset(("kill", "killing", "pills", "all", "off", "still", "will", "need", "feel"))
