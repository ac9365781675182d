"""What an index of texts holds of them: short pieces of their words, as numbers.

Pieces of one, two and three characters find words by any part of them and in any script: one that is written without
spaces too. The numbers do not tell the text, and two pieces may share one: what an index finds is looked at again.
"""

import unicodedata
from collections.abc import Iterable
from zlib import crc32

LONGEST = 3


def fold_case(text: str) -> str:
    """The form in which words are compared: without regard to case, width and compatibility forms.

    >>> fold_case("Ｂridge ﬁne STRASSE") == fold_case("bridge fine Straße")
    True
    """
    return unicodedata.normalize("NFKC", text).casefold()


def parts_of(text: str) -> frozenset[int]:
    """All pieces of its words, as numbers of 32 bits with a sign; empty where nothing is written."""
    sizes = range(1, LONGEST + 1)
    return _numbers(piece for word in fold_case(text).split() for size in sizes for piece in _cut(word, size))


def parts_needed(words: str) -> frozenset[int]:
    """The pieces that a text has where it holds each of these words, or more of them together as one.

    >>> parts_needed("pill") <= parts_of("Spilled"), parts_needed("pill") <= parts_of("Spied")
    (True, False)
    """
    found = fold_case(words).split()
    return _numbers(piece for word in found for piece in _cut(word, min(LONGEST, len(word))))


def holds(text: str, words: str) -> bool:
    """Whether each of the words stands in the text, by itself or in a longer one."""
    given = fold_case(text)
    return all(word in given for word in fold_case(words).split())


def _cut(word: str, size: int) -> list[str]:
    return [word[at : at + size] for at in range(len(word) - size + 1)]


def _numbers(pieces: Iterable[str]) -> frozenset[int]:
    return frozenset(crc32(piece.encode("utf-8", "surrogatepass")) - 2**31 for piece in set(pieces))
