"""Which words are recognised as English, and what a misspelt, disguised or run-together word may stand for."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from screening.samplers.keywords.lexicon import Words
from screening.samplers.keywords.reading import LONGEST_WORD, Word

_ENDINGS = ("ing", "ings", "ed", "ies", "es", "s", "er", "ers", "est", "ly", "ness", "ful", "less")
_ENGLISH_SHAPE = re.compile(r".{3,}(?:ing|ings|ness|ful|less|fully|lessly|ship|ight|ough|edly)$")
_STRETCHED = re.compile(r"(.)\1{2,}")
_LEET = str.maketrans("0345679@$€+", "oeasgtgaset")
_WORDLIKE_DIGITS = re.compile(r"(?<=[^\W_])[!|](?=[^\W_])")


class Vocabulary:
    """The recognised words. Lookups take constant time per word."""

    def __init__(self, words: Words) -> None:
        self.neutral = words.neutral
        self._known = words.english | words.distress | words.mention | words.spelt | words.neutral
        self._near = _deletions(words.spelt)

    def recognises(self, word: str) -> bool:
        """Whether the word, its stem or its shape is English."""
        return self._knows(word) or bool(_ENGLISH_SHAPE.match(word))

    def _knows(self, word: str) -> bool:
        return word in self._known or self._has_known_stem(word)

    def _has_known_stem(self, word: str) -> bool:
        for ending in _ENDINGS:
            if word.endswith(ending):
                stem = word[: -len(ending)]
                undoubled = stem[:-1] if stem[-1:] == stem[-2:-1] else stem
                stems = (stem, undoubled, stem + "e", stem + "y")
                if len(stem) >= 3 and any(form in self._known for form in stems):
                    return True
        return False

    def respelt(self, word: str) -> str:
        """The word, or the word of the lexicon that it is one slip of the finger away from.

        >>> from screening.samplers.keywords.lexicon import load_lexicon
        >>> Vocabulary(load_lexicon().words).respelt("kil")
        'kill'
        """
        if len(word) < 3 or self.recognises(word):
            return word
        double, short = _STRETCHED.sub(r"\1\1", word), _STRETCHED.sub(r"\1", word)
        if double != word and double in self._known:
            return double
        if short in self._known or len(short) < 3:
            return short
        forms = [short, *(short[:at] + short[at + 1 :] for at in range(len(short)))]
        return next((self._near[form] for form in forms if form in self._near), word)

    def split(self, letters: str) -> list[str]:
        """The fewest known words that a run of letters is made of; the run itself when there are none."""
        if len(letters) > 2 * LONGEST_WORD:
            return [letters]
        best: list[list[str] | None] = [[]]
        for end in range(1, len(letters) + 1):
            ways = [
                [*before, letters[start:end]]
                for start in range(max(0, end - 12), end)
                if (before := best[start]) is not None and self._is_part(letters[start:end])
            ]
            best.append(min(ways, key=_pieces) if ways else None)
        return best[-1] or [letters]

    def _is_part(self, letters: str) -> bool:
        return letters in self._known and (len(letters) > 1 or letters in {"i", "a"})

    def unmasked(self, words: Sequence[Word]) -> list[Word]:
        """The words with spaced-out letters joined, and misplaced or missing spaces put right."""
        read: list[Word] = []
        for is_broken, group in groupby(words, key=self._is_broken):
            run = list(group)
            read += self._mended(run) if is_broken else run
        return read

    def _is_broken(self, word: Word) -> bool:
        return (len(word.text) == 1 and word.text.isalnum()) or not self._knows(word.text)

    def _mended(self, run: Sequence[Word]) -> Iterable[Word]:
        joined = self.split("".join(word.text for word in run))
        if len(joined) > 1 or joined[0] in self._known:
            return _as_words(joined, run[0])
        return [part for word in run for part in _as_words(self.split(word.text), word)]


def _pieces(parts: Sequence[str]) -> tuple[int, int]:
    """Fewest words first; of as many, the fewest single letters ("it all" before "i tall")."""
    return len(parts), sum(len(part) == 1 for part in parts)


def _as_words(texts: Iterable[str], like: Word) -> list[Word]:
    return [Word(text=text, sentence=like.sentence, quoted=like.quoted) for text in texts]


def unleet(plain_text: str, one: str) -> str:
    """The text with digits and signs read as the letters they resemble, 1 as ``one``.

    >>> unleet("1 w4nt t0 d13", "i")
    'i want to die'
    """
    return _WORDLIKE_DIGITS.sub("i", plain_text).replace("1", one).translate(_LEET)


def _deletions(words: Iterable[str]) -> dict[str, str]:
    """Every form with one letter left out (and the word itself), as the key of the word it comes from."""
    near: dict[str, str] = {}
    for word in sorted(words):
        for at in range(len(word)):
            form = word[:at] + word[at + 1 :]
            if len(form) >= 2:
                near.setdefault(form, word)
    return near | {word: word for word in words}
