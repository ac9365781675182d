"""The floor: what a text says outright of wanting, planning or trying to die, or of self-injury, forbids `safe`.

One list for everybody: the guard that stands behind every model, the inbox that puts such a text first, and whoever
else needs it. It is made for precision and knows only what is said outright; that nothing is found says nothing. How
much it finds, and how often it is wrong: docs/model-layer.md.

A text is read as a stream of plain words: lower case, long forms, no accents, one space between words, " . " where a
sentence ends. One that is dressed up (spaced letters, digits for letters, blanks inside words, letters of another
alphabet) has further streams.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from screening.text.flags import Flag
from screening.text.lexicon import Lexicon, Reading, Readings, distinct, versions

_NEAR_WORDS = 24
"""How many words before and after a statement may hold its time or means."""


class StatementKind(StrEnum):
    WISH = "wish"
    INTENT = "intent"
    PLAN = "plan"
    MEANS = "means"
    ATTEMPT = "attempt"
    SELF_INJURY = "self_injury"
    OTHER_PERSON = "other_person"
    """Somebody else is said to want, mean or have done it, or to have said goodbye."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskStatement:
    """One statement: its words in plain form, and where it stands in the text; both are part of it and never logged.

    ``imminent``: it stands with a time or with means. ``start`` and ``end`` enclose the phrase in the text looked at,
    line breaks and markup in it included.
    """

    kind: StatementKind
    wording: str
    imminent: bool
    start: int
    end: int


def risk_statements(text: str) -> tuple[RiskStatement, ...]:
    r"""Every kind of statement in a text as received or normalized, each once; none for an empty text.

    >>> text = "I'm gonna <b>k\u00adill</b>\nmyself tonight."
    >>> [(found.kind.value, found.imminent, text[found.start : found.end]) for found in risk_statements(text)]
    [('intent', True, 'k\xadill</b>\nmyself')]
    >>> risk_statements("I don't want to die, and this homework is killing me.")
    ()
    """
    if not any(True for _ in _statements(Reading(text))):
        return ()
    found: dict[StatementKind, RiskStatement] = {}
    for statement in _statements(Reading.tracked(text)):
        if statement.kind not in found or (statement.imminent and not found[statement.kind].imminent):
            found[statement.kind] = statement
    return tuple(found.values())


def risk_flags(text: str) -> frozenset[Flag]:
    """The flags the engine and the inbox act on.

    >>> sorted(risk_flags("I tried to kill myself last night"))
    [<Flag.STATED_IMMINENT: 'stated_imminent'>, <Flag.STATED_RISK: 'stated_risk'>]
    """
    imminent = [statement.imminent for statement in _statements(Reading(text))]
    flags = {Flag.STATED_RISK} if imminent else set()
    return frozenset(flags | ({Flag.STATED_IMMINENT} if any(imminent) else set()))


def _statements(text: Reading) -> Iterator[RiskStatement]:
    readings = Readings()
    for stream in _streams_told(text):
        for found, match in readings.look_for(_rules().wordings, stream.text):
            kind = StatementKind(found.kind)
            wording = match[0].strip()
            begin = match.start() + len(match[0]) - len(match[0].lstrip())
            start, end = stream.place(begin, begin + len(wording))
            imminent = kind is StatementKind.MEANS or _stands_near(stream.text, match)
            yield RiskStatement(kind=kind, wording=wording, imminent=imminent, start=start, end=end)


def _streams_told(text: Reading) -> Iterator[Reading]:
    """The streams of a text, and each with the subjects that its sentences leave out."""
    for stream in streams(text):
        yield stream
        told = stream
        for subject, left_out in _rules().subjects.items():
            told = told.sub(left_out, rf"\g<0>{subject} ")
        if told.text != stream.text:
            yield told


def _stands_near(stream: str, match: re.Match[str]) -> bool:
    before, after = stream[: match.start() + 1].split()[-_NEAR_WORDS:], stream[match.end() - 1 :].split()[:_NEAR_WORDS]
    return _rules().near.search(f" {' '.join([*before, *match[0].split(), *after])} ") is not None


class _Rules:
    """The file, compiled."""

    def __init__(self) -> None:
        lexicon = Lexicon("risk_statements")
        near, spelling = lexicon.table["near"], lexicon.table["spelling"]
        times = f"{_spaced(lexicon.whole(near['time']))}|{_plain(lexicon.whole(near['unspaced_time']))}"
        lead = lexicon.whole("@start@@lead@")
        left_out: Mapping[str, str] = lexicon.table["subject"]
        self.wordings = (
            *lexicon.wordings("statements", "others", compiled=lambda whole: re.compile(_spaced(whole))),
            *lexicon.wordings("unspaced", compiled=lambda whole: re.compile(_plain(whole))),
        )
        self.near = re.compile(f"{times}|{_spaced(lexicon.whole(near['means']))}")
        self.subjects = {subject: re.compile(f"{lead}(?={words} )") for subject, words in left_out.items()}
        self.expand: Mapping[str, str] = lexicon.table["expand"]
        self.run_on = re.compile(spelling["run_on"])
        self.swapped: dict[tuple[str, str], str] = {_letters(word): word for word in spelling["swapped"].split()}
        self.respelled: dict[str, re.Pattern[str]] = {
            meant: re.compile(spelled) for meant, spelled in spelling["respelled"].items()
        }
        self.doubled = frozenset(spelling["doubled"].split())


_rules = cache(_Rules)


def _letters(word: str) -> tuple[str, str]:
    return word[:1], "".join(sorted(word))


def _spaced(expression: str) -> str:
    return f" (?:{_plain(expression)})(?= )"


def _plain(expression: str) -> str:
    """The expression folded as texts are."""
    return expression if expression.isascii() else _folded(Reading(expression)).text


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
_RUN_ON = re.compile(r"(?<![^\W_])[a-z]{8,40}(?![^\W_])")
_TWO = re.compile(r"(?<![^\W_])2(?![^\W_])|\btoo(?= (?:die|kill|end|hang|be dead)\b)")
_BEGUN_ANEW = re.compile(
    r",\s*(?=(?:and |but |so |just )?(?:don'?t|do not|can'?t|cannot|wanna|want|wish|hate|tired|gonna|going|tried)\b)"
)
_CLOCK = re.compile(r"(?<=\d)[.:](?=\d)")
_WIDE_GAP = re.compile(r"\s{2,}|\s*[/|]\s*")
_NUL, _WORD, _GAP = re.compile("\0"), re.compile(r"\S+"), re.compile(r"\s+")
_STRETCHED = re.compile(r"(.)\1{2,}")


def streams(text: Reading) -> tuple[Reading, ...]:
    """The distinct readings of a text, the plain one first; never raises for any str.

    >>> streams(Reading("I'm d1e-ing. K i l l"))[0].text
    ' i am d1e ing . k i l l '
    >>> " i want to die " in [one.text for one in streams(Reading("I w4nt t0 d13"))]
    True
    """
    return distinct(_stream(reading) for version in versions(text) for reading in _readings(version))


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
    if _SPACED.search(plain.text):
        wide = plain.sub(_WIDE_GAP, " \0 ")
        yield wide.sub(_ANY_SPACED, lambda run: _part(re.sub(r"[^\w]", "", run[0]))).sub(_NUL, " ")
    if _LEET_WORD.search(plain.text):
        yield plain.translate(_LEET)
    for disguise, by in ((_INSIDE, ""), (_BEGUN_ANEW, ". "), (_TWO, "to"), (_RUN_ON, lambda word: _apart(word[0]))):
        if (undone := plain.sub(disguise, by)).text != plain.text:
            yield undone


def _part(letters: str) -> str:
    """A run of letters as the words of statements it begins with, the rest as it is."""
    parts = []
    while (word := _rules().run_on.match(letters)) is not None:
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


def _stream(plain: Reading) -> Reading:
    stopped = plain.translate(_APOSTROPHES).sub(_CLOCK, " ").sub(_STOPS, " . ").sub(_TIDY, " ")
    if plain.at is None:
        return Reading(f" {' '.join(filter(None, map(_long_form, stopped.text.split())))} ")
    words = stopped.sub(_WORD, lambda word: _long_form(word[0])).sub(_GAP, " ")
    text, at = words.text, words.at or ()
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    return Reading(f" {text.strip()} ", [0, *at[first:last], 0])


@lru_cache(maxsize=1 << 15)
def _long_form(word: str) -> str:
    """The word as it is spelled out, also where it was written in a hurry or stretched."""
    rules, word = _rules(), word.strip("'")
    if word in rules.expand:
        return rules.expand[word]
    bare = word.removesuffix("'s").replace("'", "")
    if bare in rules.expand:
        return rules.expand[bare]
    if (meant := rules.swapped.get(_letters(bare))) is not None:
        return meant
    for meant, spelled in rules.respelled.items() if bare[:1] in ("s", "m") else ():
        if spelled.fullmatch(bare):
            return meant
    short = _STRETCHED.sub(r"\1", bare)
    if short == bare:
        return bare
    double = _STRETCHED.sub(r"\1\1", bare)
    return rules.expand.get(short, double if double in rules.doubled else short)
