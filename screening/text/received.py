"""A text at the edge: what is stored, what the model is shown, and what was found on the way in."""

import hashlib
import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from screening.text.display import EMOJI, Kind, invisibles, is_mark
from screening.text.flags import REFUSES_SCREENING, Detector, Flag
from screening.text.language import COMMON, GRAVE_WORDS, RISK_WORDS, VALIDATED_LANGUAGES, is_supported
from screening.text.lexicon import from_base64
from screening.text.risk_statements import risk_flags

CHARACTER_LIMIT = 100_000
"""Longest text that is screened, in characters; a longer one goes to a human."""

MARKS_KEPT = 2
"""Combining marks per letter the model is shown; more than this is zalgo."""

MOST_KEPT = 100_000
"""Texts of which what was found is kept: to look at a long one once more costs more than all else."""

HIDDEN_RUN = 4
"""So many zero-width characters in one text can carry a message, wherever they stand."""

_LOST = "\ufffd"
_WRONG_TABLE = re.compile("[\u00a1-\u00ff]{4,}")
"""Letters of Western Europe in a row as no language writes them: a text in another alphabet, read by their table."""
_PAIR = re.compile("[\ud800-\udbff](?=[\udc00-\udfff])")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = re.compile(r"[^\W\d_]{2,}|[^\W\d_][^\W\d_'’]+")
_NONCHARACTER = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")
_LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_EMOJI = re.compile(f"({EMOJI})")
_NEGATIVE_LETTERS = {first + place: chr(ord("A") + place) for first in (0x1F150, 0x1F170) for place in range(26)}
_OVERLAY = re.compile("[\u0334-\u0338\u0488\u0489\u20d0-\u20ff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedText:
    """A text with its twin for the model.

    ``stored`` is the text exactly as received wherever both databases can hold it; else ``original_json`` holds the
    original in ASCII, and `original_text` gives it back. ``sha256`` (hex) is of the text as received. ``model_text`` is
    the normalised copy, empty where no call may be made.
    """

    stored: str
    original_json: str | None
    sha256: str
    model_text: str
    flags: frozenset[Flag]

    @property
    def refuses_screening(self) -> bool:
        return bool(self.flags & REFUSES_SCREENING)


Receive = Callable[[str], ReceivedText]
"""`receive` with all its options."""


def receive(
    raw: str,
    *,
    limit: int = CHARACTER_LIMIT,
    languages: tuple[str, ...] = VALIDATED_LANGUAGES,
    detectors: Sequence[Detector] = (),
    kept: dict[str, frozenset[Flag]] | None = None,
) -> ReceivedText:
    """Take a text in: keep it exactly, normalise the model's copy, and say what was found.

    ``limit`` is in characters; a longer text is kept whole and flagged ``too_long``. ``detectors`` see the normalised
    text and may add flags. ``kept`` holds by its hash what this very limit, languages and detectors found in a text
    before, and nothing else of it. Never raises for any str.

    >>> sorted(receive("a long d\\xaday").flags), receive("a long d\\xaday").model_text
    ([], 'a long day')
    """
    stored, sha256 = _storable(raw), text_sha256(raw)
    found = tuple(invisibles(stored)) if len(raw) <= limit else ()
    model_text = _normalise(stored, found) if len(raw) <= limit else ""
    too_long = len(raw) > limit or len(model_text) > limit
    flags = None if kept is None else kept.get(sha256)
    if flags is None:
        flags = frozenset(_flags_of_storage(raw, stored))
        if too_long:
            ends = stored if len(stored) <= limit else f"{stored[: limit // 2]}\n{stored[-limit // 2 :]}"
            flags |= {Flag.TOO_LONG} | risk_flags(ends)
        else:
            seen = _flags_of_reading(stored, found, model_text, languages)
            flags = flags.union(seen, risk_flags(stored), *(detector(model_text) for detector in detectors))
        if kept is not None:
            if len(kept) >= MOST_KEPT:
                kept.clear()
            kept[sha256] = flags
    return ReceivedText(
        stored=stored,
        original_json=None if stored == raw else escape(raw),
        sha256=sha256,
        model_text="" if too_long else model_text,
        flags=flags,
    )


def text_sha256(raw: str) -> str:
    """SHA-256 (hex) of the text as UTF-8, surrogates included."""
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()


def original_text(text: ReceivedText) -> str:
    """The text exactly as it was received.

    >>> original_text(receive("tired \\ud83d")) == "tired \\ud83d"
    True
    """
    return text.stored if text.original_json is None else unescape(text.original_json)


def _storable(raw: str) -> str:
    """Without NUL and surrogates: a pair becomes its character, the rest U+FFFD."""
    if _SURROGATE.search(raw):
        raw = raw.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return raw.replace("\x00", _LOST)


def _flags_of_storage(raw: str, stored: str) -> Iterator[Flag]:
    if stored != raw:
        yield Flag.ALTERED
    if "\x00" in raw:
        yield Flag.CONTROL_CHARACTERS
    if _LOST in stored or any(len(set(run)) > 2 for run in _WRONG_TABLE.findall(stored)):
        yield Flag.UNREADABLE


Invisibles = Sequence[tuple[int, str, Kind]]


def _flags_of_reading(stored: str, found: Invisibles, model_text: str, languages: tuple[str, ...]) -> Iterator[Flag]:
    kinds = {kind for _, _, kind in found}
    if Kind.BIDI in kinds:
        yield Flag.BIDI_CONTROL
    if any(kind is Kind.CONTROL and character not in "\u2028\u2029" for _, character, kind in found):
        yield Flag.CONTROL_CHARACTERS
    if Kind.PAYLOAD in kinds or _hides_in_words(stored, found):
        yield Flag.HIDDEN_UNICODE
    if not model_text:
        yield Flag.EMPTY
        return
    if not _WORD.search(model_text):
        yield Flag.NO_WORDS
    if _is_marked_over(stored) or is_obfuscated(model_text):
        yield Flag.OBFUSCATED
    if not is_supported(model_text, languages):
        yield Flag.UNSUPPORTED_LANGUAGE


def _hides_in_words(text: str, found: Invisibles) -> bool:
    """Whether so many show nothing that they can carry a message, or a run of them stands inside a word."""
    if sum(kind is Kind.ZERO_WIDTH for _, _, kind in found) >= HIDDEN_RUN and text.strip() != "":
        return True
    for _, neighbors in groupby(enumerate(found), lambda numbered: numbered[1][0] - numbered[0]):
        run = [one for _, one in neighbors]
        silent = any(
            kind is Kind.ZERO_WIDTH or (kind is Kind.CONTROL and not character.isspace()) for _, character, kind in run
        )
        start, end = run[0][0], run[-1][0] + 1
        if silent and start > 0 and end < len(text) and text[start - 1].isalnum() and text[end].isalnum():
            return True
    return False


def _normalise(text: str, found: Invisibles) -> str:
    """The copy for the model: invisible characters out, line ends as one, styled letters as plain ones."""
    text = _LINE_END.sub("\n", _without(text, found))
    if text.isascii():
        return text.strip()
    text = _NONCHARACTER.sub("", text).translate(_NEGATIVE_LETTERS)
    pieces = _EMOJI.split(text)
    pieces[::2] = [_few_marks("".join(map(_plain, unicodedata.normalize("NFC", one)))) for one in pieces[::2]]
    return unicodedata.normalize("NFC", "".join(pieces)).strip()


def _without(text: str, found: Invisibles) -> str:
    """The text without them, with white space where one parted words."""
    parts, done = [], 0
    for position, character, kind in found:
        blank = ""
        if character == "\u2800":
            blank = " "
        elif kind is Kind.CONTROL and character.isspace():
            blank = character if _LINE_END.match(character) else " "
        parts += [text[done:position], blank]
        done = position + 1
    return "".join([*parts, text[done:]])


def _plain(character: str) -> str:
    """The character's plain form (NFKC), except digits raised, lowered or in fractions: 10² is not 102."""
    if character.isascii():
        return character
    raised = unicodedata.decomposition(character).startswith(("<super>", "<sub>", "<fraction>"))
    kept = raised and character.isnumeric() and not character.isalpha()
    return character if kept else unicodedata.normalize("NFKC", character)


def _few_marks(text: str) -> str:
    """No marks drawn over letters, and no more than `MARKS_KEPT` others on one."""
    kept, marks = [], 0
    for character in _OVERLAY.sub("", text):
        marks = marks + 1 if is_mark(character) else 0
        if marks <= MARKS_KEPT:
            kept.append(character)
    return "".join(kept)


def _is_marked_over(text: str) -> bool:
    if text.isascii():
        return False
    letters = "".join(_EMOJI.split(unicodedata.normalize("NFC", text))[::2])
    return _few_marks(letters) != letters


def escape(raw: str) -> str:
    """ASCII JSON of the text; a list of strings to be joined where JSON would merge two surrogates into one."""
    parts = _PAIR.sub(lambda high: high.group() + "\x00\x00split", raw).split("\x00\x00split")
    return json.dumps(raw if len(parts) == 1 else parts)


def unescape(original_json: str) -> str:
    """The text of which `escape` made this.

    >>> unescape(escape("tired \\ud83d")) == "tired \\ud83d"
    True
    """
    return "".join(json.loads(original_json))


_SUBSTITUTES = str.maketrans("013457@$!|", "oieastasii")
_ONE_AS_L = str.maketrans("013457@$!|", "oleastasll")
_LEET_TOKEN = re.compile(r"[\w@$!|]+")
_LEET_AT_ALL = re.compile(r"[013457@$!|][a-zA-Z]|[a-zA-Z][013457@$!|]+\w|[a-zA-Z][013457$]")
_SIGNED_AT_ALL = re.compile(r"[a-zA-Z][*#_.\-'|+~]+[a-zA-Z]")
_PART_OF_ADDRESS = frozenset("/.#@&-")
_SIGNED_TOKEN = re.compile(r"[\w*#.\-'|+~]+")
_JOINED_BY = re.compile(r"[*#_.\-'|+~]+")
_BLANKED = re.compile(r"([a-z]+)[*#]+([a-z]+)")
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
    """Whether the (normalised) text appears to be disguised.

    >>> is_obfuscated("1 w4nt t0 d13"), is_obfuscated("gr8, see you 2day at 5pm in the U.S.A.")
    (True, False)
    """
    looks = _has_leet, _has_masked_word, _has_spaced_letters, _has_look_alikes, _has_encoded_letters, _is_reversed
    return any(look(text) for look in looks)


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
        if _JOINED_BY.sub("", token) in GRAVE_WORDS or (blanked and _fits(blanked)):
            return True
    return False


def _fits(blanked: re.Match[str]) -> bool:
    start, end = blanked.groups()
    return any(len(word) == len(blanked[0]) and word.startswith(start) and word.endswith(end) for word in GRAVE_WORDS)


def _has_spaced_letters(text: str) -> bool:
    """Five single letters in a row, or fewer that spell a risk word."""
    for match in _SPACED.finditer(text):
        letters = "".join(_WORDS.findall(match.group())).lower()
        if len(letters) >= _MANY or any(word in letters for word in GRAVE_WORDS):
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
    plain = (from_base64(match.group()).decode("ascii", "replace") for match in _BASE64.finditer(text))
    return any(one.isascii() and one.isprintable() and " " in one for one in plain)


def _is_reversed(text: str) -> bool:
    """Whether it has several common words only when read backwards."""
    words = _WORDS.findall(text.lower())
    if len(words) < 3 or any(word in COMMON for word in words if len(word) > 2):
        return False
    return sum(word[::-1] in COMMON for word in words if len(word) > 2 and word != word[::-1]) > 1
