"""The simulated agents' knowledge, from lexicon.toml: the gravest kind of evidence that a text or a reply holds."""

import hashlib
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from screening.pipeline.draws import ScreenedText

ROLES = ("worker", "risk", "legal")
_FILE = Path(__file__).with_name("lexicon.toml")

Probabilities = tuple[float, float, float]
"""P(safe), P(unsafe), P(escalate): the order of `LABELS`."""


def _split(value: object) -> object:
    return frozenset(value.split()) if isinstance(value, str) else value


WordSet = Annotated[frozenset[str], BeforeValidator(_split)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Kind(_Frozen):
    """A kind of evidence and the label distribution it gives each role's node."""

    name: str
    worker: Probabilities
    risk: Probabilities
    legal: Probabilities

    def of(self, role: str) -> Probabilities:
        """The distribution of one role; KeyError for a role that is not one of `ROLES`."""
        return {"worker": self.worker, "risk": self.risk, "legal": self.legal}[role]


class Replies(_Frozen):
    """Patterns that are read in a reply only."""

    supporting: tuple[str, ...]
    refusing: tuple[str, ...]
    approving: tuple[str, ...]


class Context(_Frozen):
    """Words that weaken a clear statement when they stand in the same sentence."""

    negation: frozenset[str]
    condition: frozenset[str]
    history: tuple[str, ...]
    reported: tuple[str, ...]
    fiction: frozenset[str]


class Words(_Frozen):
    """Single words, and figures of speech in which they mean nothing."""

    distress: WordSet
    mention: WordSet
    idioms: tuple[str, ...]


class Lexicon(_Frozen):
    """Everything the scorer knows; `kinds` runs from the mildest evidence to the gravest."""

    kinds: tuple[Kind, ...] = Field(min_length=2)
    macros: dict[str, str]
    statements: dict[str, tuple[str, ...]]
    replies: Replies
    context: Context
    words: Words
    expand: dict[str, str]
    digest: str = ""

    @model_validator(mode="after")
    def _graver_evidence_is_never_read_as_milder(self) -> Self:
        for role in ROLES:
            rows = [kind.of(role) for kind in self.kinds]
            if any(abs(sum(row) - 1) > 1e-9 or min(row) < 0 for row in rows):
                raise ValueError(f"{role}: not a probability distribution")
            if any(milder[0] < graver[0] or milder[1] > graver[1] for milder, graver in pairwise(rows)):
                raise ValueError(f"{role}: safe must never rise and unsafe never fall from kind to kind")
        return self


def load_lexicon() -> Lexicon:
    """The lexicon, with the file's BLAKE2 hash as its version."""
    content = _FILE.read_bytes()
    digest = hashlib.blake2b(content, digest_size=8).hexdigest()
    return Lexicon.model_validate(tomllib.loads(content.decode()) | {"digest": digest})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A text as words in order. ``flat`` is them with one space around each, for phrase patterns."""

    words: tuple[Word, ...]
    flat: str

    def index_at(self, position: int) -> int:
        """Index of the word that covers a position of ``flat``."""
        return max(self.flat.count(" ", 0, position) - 1, 0)


def read(text: str, expand: Mapping[str, str]) -> Reading:
    """The words of a text, in compatibility form, case folded, without marks and format characters, in long form.

    >>> read("I'm TIRED. Bye", {"i'm": "i am"}).flat
    ' i am tired bye '
    """
    words = tuple(_words(_plain(text), expand))
    return Reading(words=words, flat=f" {' '.join(word.text for word in words)} ")


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
