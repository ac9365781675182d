"""Simulated agents: seeded draws from a keyword scorer, or from label distributions that are given, to check an
experiment against what it must find. No model; not for use on people. What they know stands in lexicon.toml.
"""

import asyncio
import hashlib
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from screening.labels import LABELS, Label
from screening.pipeline.draws import Draw, DrawRequest, NodeAgent, ScreenedText

ROLES = ("worker", "risk", "legal")
Probabilities = tuple[float, float, float]
"""P(safe), P(unsafe), P(escalate): the order of `LABELS`."""
Lists = dict[str, Annotated[tuple[str, ...], BeforeValidator(lambda one: one.split() if isinstance(one, str) else one)]]
"""Words or patterns by what they are there for; words may stand in one string."""


class Kind(BaseModel):
    """A kind of evidence and the label distribution it gives each role's node."""

    name: str
    worker: Probabilities
    risk: Probabilities
    legal: Probabilities


class Lexicon(BaseModel):
    """`kinds` runs from the mildest evidence to the gravest; ``replies`` are read in a reply only, ``context`` is what
    weakens a clear statement in the same sentence.
    """

    kinds: tuple[Kind, ...] = Field(min_length=2)
    macros: dict[str, str]
    statements: Lists
    replies: Lists
    context: Lists
    words: Lists
    expand: dict[str, str]
    digest: str = ""

    @model_validator(mode="after")
    def _graver_evidence_is_never_read_as_milder(self) -> Self:
        for role in ROLES:
            rows: list[Probabilities] = [getattr(kind, role) for kind in self.kinds]
            if any(abs(sum(row) - 1) > 1e-9 or min(row) < 0 for row in rows):
                raise ValueError(f"{role}: not a probability distribution")
            if any(milder[0] < graver[0] or milder[1] > graver[1] for milder, graver in pairwise(rows)):
                raise ValueError(f"{role}: safe must never rise and unsafe never fall from kind to kind")
        return self


def load_lexicon() -> Lexicon:
    """With the file's BLAKE2 hash as its version."""
    content = Path(__file__).with_name("lexicon.toml").read_bytes()
    digest = hashlib.blake2b(content, digest_size=8).hexdigest()
    return Lexicon.model_validate(tomllib.loads(content.decode()) | {"digest": digest})


LONGEST_WORD = 40
"""Characters kept of one word, so that no pattern has to step over an endless one."""

_TOKEN = re.compile(r"(?P<word>[^\W_]+(?:['’`\-][^\W_]+)*)|(?P<quote>[\"“”„«»])")
_SENTENCE_END = re.compile(r"[.!?…;:\n\r]+")
_APOSTROPHES = str.maketrans("’`", "''")
_INVISIBLE = frozenset({"Mn", "Me", "Mc", "Cf", "Co", "Cn", "Cs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    text: str
    sentence: int
    quoted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """``flat`` is the words with one space around each, for phrase patterns."""

    words: tuple[Word, ...]
    flat: str

    def index_at(self, position: int) -> int:
        """Of the word that covers a position of ``flat``."""
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
    """A quotation must close within its sentence: then what stands in other sentences cannot turn a statement into a
    quotation.
    """
    for sentence, part in enumerate(_SENTENCE_END.split(text)):
        tokens = list(_TOKEN.finditer(part))
        paired = sum(token.lastgroup == "quote" for token in tokens) // 2 * 2
        quotes = 0
        for token in tokens:
            if token.lastgroup == "quote":
                quotes += 1
                continue
            for piece in _parts(token.group(), expand):
                yield Word(text=piece, sentence=sentence, quoted=quotes % 2 == 1 and quotes < paired)


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
    """Names the kind of evidence in a text: the gravest finding decides, so padding changes nothing. It reads no
    disguise: what hides something is found before any agent is asked.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._rank = {kind.name: rank for rank, kind in enumerate(lexicon.kinds)}
        # Overlapping matches are found too, as group 1: no statement hides behind one that begins before it.
        statements = {name: self._any_of(patterns) for name, patterns in lexicon.statements.items()}
        self._statements = {name: re.compile(f"(?=({found.pattern}))") for name, found in statements.items()}
        self._supporting = self._any_of(lexicon.replies["supporting"] + lexicon.replies["refusing"])
        self._approving = self._any_of(lexicon.replies["approving"])
        self._idioms = self._any_of(lexicon.words["idioms"])
        self._history = self._any_of(lexicon.context["history"])
        self._reported = self._any_of(lexicon.context["reported"])
        self._subject = self._any_of(["<other>"])

    def _any_of(self, patterns: Iterable[str]) -> re.Pattern[str]:
        joined = "|".join(patterns)
        for name, body in self._lexicon.macros.items():
            joined = joined.replace(f"<{name}> ", f"{body} ").replace(f"<{name}>", body)
        return re.compile(f"(?<= )(?:{joined})(?= )")

    def kind(self, screened: ScreenedText) -> str:
        """A supporting or refusing reply turns the text's graver evidence into "answered"; approval of it is
        "clear".
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
        yield from (kind for kind in ("mention", "distress") if not words.isdisjoint(self._lexicon.words[kind]))
        foreign = any(char.isalpha() and "LATIN" not in unicodedata.name(char, "") for char in set(reading.flat))
        if foreign or sum(word.text.isalpha() for word in reading.words) < _FEWEST_WORDS:
            yield "unreadable"

    def _find_statements(self, reading: Reading) -> Iterator[str]:
        for name, pattern in self._statements.items():
            for match in pattern.finditer(reading.flat):
                yield self._in_context(reading, match, name) if name in _TAKEN_DOWN else name

    def _in_context(self, reading: Reading, match: re.Match[str], name: str) -> str:
        """What is left of a statement of intent (or an urging) once its own sentence is read to where it ends."""
        first, last = reading.index_at(match.start(1)), reading.index_at(match.end(1) - 1)
        sentence = reading.words[first].sentence
        near = reading.words[max(0, first - _CONTEXT_WORDS) : first]
        before = [word.text for word in near if word.sentence == sentence]
        left, context = f" {' '.join(before)} ", self._lexicon.context
        if name == "harm":
            taken_down = not {*context["negation"], *context["condition"]}.isdisjoint(before[-5:])
        else:
            taken_down = (
                self._is_quotation(reading, first, last)
                or bool(self._subject.search(left) and self._reported.search(left))
                or not {*before[-4:], *match.group(1).split()}.isdisjoint(context["negation"])
                or bool(self._history.search(left))
            )
        return "reported" if taken_down else "clear"

    def _is_quotation(self, reading: Reading, first: int, last: int) -> bool:
        if not all(word.quoted for word in reading.words[first : last + 1]):
            return False
        near = reading.words[max(0, first - 2 * _CONTEXT_WORDS) : last + 2 * _CONTEXT_WORDS]
        sentence = reading.words[first].sentence
        return any(word.text in self._lexicon.context["fiction"] for word in near if word.sentence == sentence)


_TEXTS_KEPT = 64
OTHER_ROLE = "risk"
"""What a node plays whose name says nothing: a careful second reader."""
_DRAWS = {label: Draw(label=label) for label in LABELS}


@cache
def _usual() -> tuple[Lexicon, EvidenceReader]:
    """The file, read once, and what reads texts by it, which keeps nothing of them."""
    return (lexicon := load_lexicon()), EvidenceReader(lexicon)


class SimulatedSampler:
    """Draw number i of a node on a text is a pure function of (seed, node, text, variant, i): neither draw batch sizes,
    nor order, nor a restart change it. ``latency_s`` is what each draw batch waits, in seconds.
    """

    def __init__(self, seed: int, latency_s: float = 0.0) -> None:
        if latency_s < 0:
            raise ValueError("latency_s must not be negative")
        self._seed = seed
        self._latency_s = latency_s
        self._lexicon, reader = _usual()
        self._kinds = {kind.name: kind for kind in self._lexicon.kinds}
        # A text is asked about draw batch after draw batch and node after node: reading it once is enough.
        self.evidence = lru_cache(maxsize=_TEXTS_KEPT)(lambda text: reader.kind(text_to_score(text)))
        """The gravest of the lexicon's ``kinds`` that a text and its reply hold."""

    def describe(self) -> dict[str, str | int]:
        return {"sampler": "simulated", "seed": self._seed, "lexicon": self._lexicon.digest}

    def shares(self, node: str, text: ScreenedText) -> Mapping[Label, float]:
        """From which this node's draws on this text come. Added text never lowers P(unsafe) or raises P(safe), unless
        it puts a statement into a quotation, a report or a negation of the same sentence; then it is still not safe.
        """
        return dict(zip(LABELS, getattr(self._kinds[self.evidence(text)], role_of(node)), strict=True))

    async def draw(self, request: DrawRequest) -> list[Draw]:
        """Exactly ``request.count`` draws. ValueError for a negative number."""
        if request.first < 0 or request.count < 0:
            raise ValueError("first and count must not be negative")
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
            await asyncio.to_thread(self.evidence, request.text)  # long texts take long: other cases go on meanwhile
        distribution = self.shares(role_of(request.node, request.agent), request.text)
        stream = _stream(self._seed, request)
        numbers = range(request.first, request.first + request.count)
        made = [_DRAWS[_label_at(distribution, _uniform(stream, number))] for number in numbers]
        if request.bill is not None:
            for place, draw in enumerate(made):
                request.bill.record_answer(place, draw)
        return made


def text_to_score(text: ScreenedText) -> ScreenedText:
    """What the scorer reads of a conversation: all turns as one text or, where the assistant is judged, the user's
    words and the assistant's as a reply to them.
    """
    thread = text.thread
    if thread is None:
        return text
    if thread.question == "text":
        return ScreenedText(text="\n\n".join(turn.text for turn in thread.turns), reply=text.reply)
    said = "\n\n".join(turn.text for turn in thread.turns if turn.role == "user")
    return ScreenedText(text=said, reply="\n\n".join(turn.text for turn in thread.turns if turn.judged))


def role_of(node: str, agent: NodeAgent | None = None) -> str:
    """The role a node plays: the one declared, else what its prompt's or its own name begins with, else "risk".

    >>> role_of("risk_confirmation"), role_of("night", NodeAgent(prompt="legal")), role_of("cultural_context")
    ('risk', 'legal', 'risk')
    """
    asked = agent or NodeAgent()
    names = ((name or "").partition("_")[0] for name in (asked.role, asked.prompt, node))
    return next((name for name in names if name in ROLES), OTHER_ROLE)


def _stream(seed: int, request: DrawRequest) -> bytes:
    """A key for the draws of one (seed, node, text, reply, variant); lengths keep the parts apart."""
    text = request.text
    key = hashlib.blake2b(digest_size=32, person=b"no reply" if text.reply is None else b"reply")
    for part in (str(seed), request.node, request.variant, text.text, text.reply or ""):
        encoded = part.encode("utf-8", "surrogatepass")
        key.update(len(encoded).to_bytes(8, "big") + encoded)
    return key.digest()


def _uniform(stream: bytes, number: int) -> float:
    digest = hashlib.blake2b(number.to_bytes(8, "big"), key=stream, digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)


def _label_at(distribution: Mapping[Label, float], uniform: float) -> Label:
    """The label whose share of [0, 1) holds ``uniform``, in the order of `LABELS`; rounding errs to escalate.

    >>> _label_at({Label.SAFE: 0.25, Label.UNSAFE: 0.5, Label.ESCALATE: 0.25}, 0.3)
    <Label.UNSAFE: 'unsafe'>
    """
    reached = 0.0
    for label in (Label.SAFE, Label.UNSAFE):
        reached += distribution[label]
        if uniform < reached:
            return label
    return Label.ESCALATE


class KnownSampler(SimulatedSampler):
    """Draws each text's label from the distribution it was given, at every node alike. ValueError for probabilities
    that do not add up to 1; KeyError for a text without a distribution.
    """

    def __init__(self, seed: int, distributions: Mapping[ScreenedText, Mapping[Label, float]]) -> None:
        super().__init__(seed)
        for distribution in distributions.values():
            if min(distribution.values()) < 0 or abs(sum(distribution.values()) - 1) > 1e-6:
                raise ValueError("the probabilities of a text must not be negative and must add up to 1")
        self._given = {
            text: {label: shares.get(label, 0.0) for label in LABELS} for text, shares in distributions.items()
        }

    def describe(self) -> dict[str, str | int]:
        return {"sampler": "known distributions", "seed": self._seed}

    def shares(self, node: str, text: ScreenedText) -> Mapping[Label, float]:
        return self._given[text]
