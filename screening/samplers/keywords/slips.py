"""Finds the lexicon's core phrases where one of their words is misspelt."""

from collections.abc import Callable, Iterable, Sequence

_SHORT = 3


class SlipFinder:
    """Looks for phrases with exactly one word one slip off. Linear in the number of words."""

    def __init__(self, phrases: Iterable[str], recognises: Callable[[str], bool]) -> None:
        self._recognises = recognises
        self._phrases = frozenset(tuple(phrase.split()) for phrase in phrases)
        self._words = frozenset(word for phrase in self._phrases for word in phrase)
        self._expected: dict[tuple[str | None, ...], list[str]] = {}
        for words in sorted(self._phrases):
            for hole, word in enumerate(words):
                self._expected.setdefault(_with_hole(words, hole), []).append(word)
        self._lengths = sorted({len(key) for key in self._expected})

    def finds(self, words: Sequence[str]) -> bool:
        """Whether any core phrase stands in the words but for one slip."""
        fits = [word in self._words for word in words]
        for length in self._lengths:
            for start in range(len(words) - length + 1):
                # Most windows hold too few words of any phrase to be looked at closely.
                if sum(fits[start : start + length]) >= length - 1 and self._is_slip(words[start : start + length]):
                    return True
        return False

    def _is_slip(self, window: Sequence[str]) -> bool:
        for hole, word in enumerate(window):
            for meant in self._expected.get(_with_hole(window, hole), ()):
                if one_slip_apart(word, meant) and not self._is_meant(word, meant, window):
                    return True
        return False

    def _is_meant(self, word: str, meant: str, window: Sequence[str]) -> bool:
        """A phrase of its own, or ("want to dig") a short English word with little around it to say otherwise."""
        if tuple(window) in self._phrases:
            return True
        return len(meant) <= _SHORT and len(window) <= _SHORT and self._recognises(word)


def _with_hole(words: Sequence[str], hole: int) -> tuple[str | None, ...]:
    return tuple(None if at == hole else word for at, word in enumerate(words))


def one_slip_apart(left: str, right: str) -> bool:
    """Whether one letter put in, left out, replaced or swapped with its neighbour makes one word of the other.

    >>> one_slip_apart("myslef", "myself"), one_slip_apart("life", "lie"), one_slip_apart("life", "love")
    (True, True, False)
    """
    short, long = sorted((left, right), key=len)
    if len(long) - len(short) > 1:
        return False
    same = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[same:] == long[same + 1 :]
    swapped = short[same : same + 2] == long[same : same + 2][::-1] and short[same + 2 :] == long[same + 2 :]
    return swapped or short[same + 1 :] == long[same + 1 :]
