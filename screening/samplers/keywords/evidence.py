"""Finds the gravest kind of evidence that a text or a reply holds."""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from screening.engine.draws import ScreenedText
from screening.samplers.keywords.lexicon import Lexicon
from screening.samplers.keywords.words import Reading, read

_CONTEXT_WORDS = 12
_FEWEST_WORDS = 2
_TAKEN_DOWN = frozenset({"clear", "harm"})


class EvidenceReader:
    """Names the kind of evidence in a text. Pure; the gravest finding decides, so padding changes nothing.

    It reads plain English and no disguise: what hides something is found before any agent is asked.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._rank = {kind.name: rank for rank, kind in enumerate(lexicon.kinds)}
        self._statements = {name: self._anywhere(found) for name, found in lexicon.statements.items()}
        self._supporting = self._any_of(lexicon.replies.supporting + lexicon.replies.refusing)
        self._approving = self._any_of(lexicon.replies.approving)
        self._idioms = self._any_of(lexicon.words.idioms)
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
        flat = read(screened.reply, self._lexicon.expand).flat
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
        reading = read(text, self._lexicon.expand)
        yield from self._find_statements(reading)
        words = set(self._idioms.sub("", reading.flat).split())
        if words & self._lexicon.words.mention:
            yield "mention"
        if words & self._lexicon.words.distress:
            yield "distress"
        if _in_another_script(reading) or sum(word.text.isalpha() for word in reading.words) < _FEWEST_WORDS:
            yield "unreadable"

    def _find_statements(self, reading: Reading) -> Iterator[str]:
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
        left, context = f" {' '.join(before)} ", self._lexicon.context
        if name == "harm":
            taken_down = bool((context.negation | context.condition).intersection(before[-5:]))
        else:
            taken_down = (
                self._is_quotation(reading, first, last)
                or bool(self._subject.search(left) and self._reported.search(left))
                or bool(context.negation.intersection([*before[-4:], *match.group(1).split()]))
                or bool(self._history.search(left))
            )
        return "reported" if taken_down else "clear"

    def _is_quotation(self, reading: Reading, first: int, last: int) -> bool:
        if not all(word.quoted for word in reading.words[first : last + 1]):
            return False
        near = reading.words[max(0, first - 2 * _CONTEXT_WORDS) : last + 2 * _CONTEXT_WORDS]
        sentence = reading.words[first].sentence
        return any(word.text in self._lexicon.context.fiction for word in near if word.sentence == sentence)


def _in_another_script(reading: Reading) -> bool:
    """Whether any letter is not Latin."""
    return any(char.isalpha() and "LATIN" not in unicodedata.name(char, "") for char in set(reading.flat))
