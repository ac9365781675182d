"""Finds the gravest kind of evidence that a text or a reply holds."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from screening.engine.draws import ScreenedText
from screening.samplers.keywords.lexicon import Lexicon
from screening.samplers.keywords.reading import (
    Reading,
    Word,
    hides_something,
    other_script,
    plain,
    words_of,
)
from screening.samplers.keywords.slips import SlipFinder
from screening.samplers.keywords.vocabulary import Vocabulary, unleet

_CONTEXT_WORDS = 12
_FEWEST_KNOWN_WORDS = 2
_UNKNOWN_RUN = 4
_LETTER_RUN = 4
_LEET_LIKE = re.compile(r"[0-9]|[!|$@€+](?=\w)")
_NOT_RISK = frozenset({"instruction", "mention", "hopeless"})
_TAKEN_DOWN = frozenset({"clear", "harm"})


class EvidenceReader:
    """Names the kind of evidence in a text. Pure; the gravest finding decides, so padding changes nothing."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._rank = {kind.name: rank for rank, kind in enumerate(lexicon.kinds)}
        self._vocabulary = Vocabulary(lexicon.words)
        self._slips = SlipFinder(lexicon.phrases.core, self._vocabulary.recognises)
        self._statements = {name: self._anywhere(found) for name, found in lexicon.statements.items()}
        self._supporting = self._any_of(lexicon.replies.supporting + lexicon.replies.refusing)
        self._approving = self._any_of(lexicon.replies.approving)
        self._idioms = self._any_of(lexicon.phrases.idioms)
        self._history = self._any_of(lexicon.context.history)
        self._reported = self._any_of(lexicon.context.reported)
        self._subject = self._any_of(["<other>"])

    def _any_of(self, patterns: Iterable[str]) -> re.Pattern[str]:
        joined = "|".join(patterns)
        for name, body in self._lexicon.macros.items():
            joined = joined.replace(f"<{name}> ", f"{body} ").replace(f"<{name}>", body)
        return re.compile(f"(?<= )(?:{joined})(?= )")

    def _anywhere(self, patterns: Iterable[str]) -> re.Pattern[str]:
        """Finds overlapping matches too, as group 1: no statement hides behind one that begins before it."""
        return re.compile(f"(?=({self._any_of(patterns).pattern}))")

    def kind(self, screened: ScreenedText) -> str:
        """The gravest kind of evidence in the text and the reply together.

        A supporting or refusing reply turns the text's graver evidence into "answered"; approval of it is "clear".
        """
        of_text = self._gravest(self._kinds_in(screened.text))
        if screened.reply is None:
            return of_text
        flat = self._read(plain(screened.reply)).flat
        of_reply = self._gravest(self._kinds_in(screened.reply))
        if self._rank[of_text] >= self._rank["unreadable"] and self._approving.search(flat):
            return "clear"
        if self._supporting.search(flat):
            of_text = min(of_text, "answered", key=self._rank.__getitem__)
            # A supporting reply names what it answers: its own mention of it is no further evidence.
            of_reply = "benign" if of_reply in ("mention", "distress", "hopeless") else of_reply
        return self._gravest([of_text, of_reply])

    def _gravest(self, kinds: Iterable[str]) -> str:
        return max(kinds, key=self._rank.__getitem__, default="benign")

    def _kinds_in(self, text: str) -> Iterator[str]:
        clean = plain(text)
        words = words_of(clean, self._lexicon.expand)
        reading = self._corrected(words)
        yield from self._stated(reading)
        yield from self._mentioned(words)
        yield from self._disguised(clean, words, reading)
        if self._slips.finds([word.text for word in words]):
            yield "coded"
        if hides_something(text) or other_script(clean) or self._unreadable(words):
            yield "unreadable"

    def _read(self, clean: str) -> Reading:
        return self._corrected(words_of(clean, self._lexicon.expand))

    def _corrected(self, words: Sequence[Word]) -> Reading:
        return Reading(words=tuple(self._respelt(word) for word in words))

    def _respelt(self, word: Word) -> Word:
        meant = self._vocabulary.respelt(word.text)
        return word if meant == word.text else replace(word, text=meant)

    def _stated(self, reading: Reading) -> Iterator[str]:
        for name, pattern in self._statements.items():
            for match in pattern.finditer(reading.flat):
                yield self._in_context(reading, match, name) if name in _TAKEN_DOWN else name

    def _in_context(self, reading: Reading, match: re.Match[str], name: str) -> str:
        """What is left of a statement of intent (or an urging) once its own sentence is read to where it ends."""
        first, last = reading.index_at(match.start(1)), reading.index_at(match.end(1) - 1)
        sentence = reading.words[first].sentence
        before = [
            word.text for word in reading.words[max(0, first - _CONTEXT_WORDS) : first] if word.sentence == sentence
        ]
        left = f" {' '.join(before)} "
        context = self._lexicon.context
        if name == "harm":
            return "negated" if (context.negation | context.condition).intersection(before[-5:]) else "clear"
        if self._is_quotation(reading, first, last):
            return "quotation"
        if self._subject.search(left) and self._reported.search(left):
            return "third_party"
        if context.negation.intersection([*before[-4:], *match.group(1).split()]):
            return "negated"
        return "history" if self._history.search(left) else "clear"

    def _is_quotation(self, reading: Reading, first: int, last: int) -> bool:
        if not all(word.quoted for word in reading.words[first : last + 1]):
            return False
        near = reading.words[max(0, first - 2 * _CONTEXT_WORDS) : last + 2 * _CONTEXT_WORDS]
        sentence = reading.words[first].sentence
        return any(word.text in self._lexicon.context.fiction for word in near if word.sentence == sentence)

    def _mentioned(self, words: Sequence[Word]) -> Iterator[str]:
        flat = Reading(words=tuple(words)).flat
        for word in set(self._idioms.sub("", flat).split()):
            if word in self._lexicon.words.mention:
                yield "mention"
            if word in self._lexicon.words.distress:
                yield "distress"
            if word in self._lexicon.words.foreign:
                yield "unreadable"

    def _disguised(self, clean: str, words: Sequence[Word], reading: Reading) -> Iterator[str]:
        """A statement that only shows once letters are put back counts as coded, however it reads."""
        for unmasked in self._unmasked(clean, words):
            if unmasked == list(words):
                continue
            if self._count_of_risks(self._corrected(unmasked)) > self._count_of_risks(reading):
                yield "coded"
            if self._risk_words(unmasked) > self._risk_words(words):
                yield "unreadable"

    def _risk_words(self, words: Sequence[Word]) -> int:
        return sum(word.text in self._lexicon.words.mention for word in words)

    def _unmasked(self, clean: str, words: Sequence[Word]) -> Iterator[list[Word]]:
        yield self._vocabulary.unmasked(words)
        if _LEET_LIKE.search(clean):
            for one in "il" if "1" in clean else "i":
                leet = words_of(unleet(clean, one), self._lexicon.expand)
                yield self._vocabulary.unmasked(leet)

    def _count_of_risks(self, reading: Reading) -> int:
        patterns = (pattern for name, pattern in self._statements.items() if name not in _NOT_RISK)
        return sum(len(pattern.findall(reading.flat)) for pattern in patterns)

    def _unreadable(self, words: Sequence[Word]) -> bool:
        known = [self._vocabulary.recognises(word.text) for word in words]
        telling = [(word, found) for word, found in zip(words, known, strict=True) if self._tells(word.text)]
        if sum(found for _, found in telling) < _FEWEST_KNOWN_WORDS:
            return True
        if _longest_run(len(word.text) == 1 and word.text.isalpha() for word in words) >= _LETTER_RUN:
            return True
        if _longest_run(not found for _, found in telling) >= _UNKNOWN_RUN:
            return True
        return any(
            _mostly_unknown([found for _, found in sentence])
            for _, sentence in groupby(telling, key=lambda pair: pair[0].sentence)
        )

    def _tells(self, word: str) -> bool:
        """Whether the word speaks for or against English at all."""
        return word not in self._vocabulary.neutral and not word[0].isdigit() and (len(word) > 1 or word == "i")


def _mostly_unknown(found: Sequence[bool]) -> bool:
    unknown = len(found) - sum(found)
    return unknown >= 2 and unknown > sum(found)


def _longest_run(flags: Iterable[bool]) -> int:
    return max((sum(1 for _ in run) for flag, run in groupby(flags) if flag), default=0)
