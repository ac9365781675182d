"""Reads a text as a row of plain words: where sentences end, and what stands between quotation marks."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

LONGEST_WORD = 40
"""Characters kept of one word, so that no pattern has to step over an endless one."""

_TOKEN = re.compile(r"(?P<word>[^\W_]+(?:['’`\-][^\W_]+)*)|(?P<quote>[\"“”„«»])|(?P<stop>[.!?…;:\n\r]+)")
_APOSTROPHES = str.maketrans("’`", "''")
_INVISIBLE = frozenset({"Mn", "Me", "Mc", "Cf", "Co", "Cn", "Cs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word as read, the sentence it stands in, and whether between a pair of quotation marks."""

    text: str
    sentence: int
    quoted: bool


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A text as words in order. ``flat`` is them with one space around each, for phrase patterns."""

    words: tuple[Word, ...]

    @cached_property
    def flat(self) -> str:
        """The words joined by, and surrounded with, single spaces."""
        return f" {' '.join(word.text for word in self.words)} "

    @cached_property
    def _starts(self) -> list[int]:
        starts, position = [], 1
        for word in self.words:
            starts.append(position)
            position += len(word.text) + 1
        return starts

    def index_at(self, position: int) -> int:
        """Index of the word that covers a position of ``flat``."""
        return max(bisect_right(self._starts, position) - 1, 0)


def read(text: str, expand: Mapping[str, str]) -> Reading:
    """The words of a text, in compatibility form, case folded, without marks and format characters, in long form.

    >>> read("I'm TIRED. Bye", {"i'm": "i am"}).flat
    ' i am tired bye '
    """
    return Reading(words=tuple(_words(_plain(text), expand)))


def _plain(text: str) -> str:
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(char for char in decomposed if unicodedata.category(char) not in _INVISIBLE)


def _words(text: str, expand: Mapping[str, str]) -> Iterator[Word]:
    for sentence, tokens in enumerate(_sentences(text)):
        paired = sum(token.lastgroup == "quote" for token in tokens) // 2 * 2
        quotes = 0
        for token in tokens:
            if token.lastgroup == "quote":
                quotes += 1
            else:
                quoted = quotes % 2 == 1 and quotes < paired
                for part in _parts(token.group(), expand):
                    yield Word(text=part, sentence=sentence, quoted=quoted)


def _sentences(text: str) -> Iterator[list[re.Match[str]]]:
    """The word and quotation tokens of each sentence. A quotation must close within its sentence: then what
    stands in other sentences cannot turn a statement into a quotation.
    """
    tokens: list[re.Match[str]] = []
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "stop":
            yield tokens
            tokens = []
        else:
            tokens.append(token)
    yield tokens


def _parts(token: str, expand: Mapping[str, str]) -> Iterator[str]:
    word = token.translate(_APOSTROPHES)
    if word in expand:
        yield from expand[word].split()
        return
    for piece in word.split("-"):
        bare = piece if piece in expand else piece.removesuffix("'s").replace("'", "")
        yield from (part[:LONGEST_WORD] for part in expand.get(bare, bare).split())
