"""Simulated agents: seeded draws from a keyword scorer. Not a model; not for use on people.

Simulated agents whose label distributions are given, to check an experiment against what it must find.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from functools import cache, lru_cache

from screening.labels import LABELS, Label
from screening.models.lexicon import ROLES, EvidenceReader, Kind, Lexicon, load_lexicon
from screening.pipeline.draws import Draw, DrawRequest, NodeAgent, ScreenedText

_TEXTS_KEPT = 64
OTHER_ROLE = "risk"
"""What a node plays whose name says nothing: a careful second reader."""
_DRAWS = {label: Draw(label=label) for label in LABELS}


@cache
def _usual() -> tuple[Lexicon, EvidenceReader]:
    """The lexicon of the file, read once, and what reads texts by it, which keeps nothing of them."""
    lexicon = load_lexicon()
    return lexicon, EvidenceReader(lexicon)


class SimulatedSampler:
    """Draws as a model might give them, so that everything runs without a key.

    Draw number i of a node on a text is a pure function of (seed, node, text, variant, i): neither draw batch sizes,
    nor order, nor a restart change it. Draws carry no tokens, as none were used. ``latency_s`` is what each
    draw batch waits, in seconds.
    """

    def __init__(self, seed: int, latency_s: float = 0.0) -> None:
        if latency_s < 0:
            raise ValueError("latency_s must not be negative")
        self._seed = seed
        self._latency_s = latency_s
        self._lexicon, reader = _usual()
        self._kinds = {kind.name: kind for kind in self._lexicon.kinds}
        # A text is asked about draw batch after draw batch and node after node: reading it once is enough.
        self._kind_of = lru_cache(maxsize=_TEXTS_KEPT)(lambda text: reader.kind(text_to_score(text)))

    def describe(self) -> dict[str, str | int]:
        return {"sampler": "simulated", "seed": self._seed, "lexicon": self._lexicon.digest}

    def evidence(self, text: ScreenedText) -> str:
        """The gravest kind of evidence found in the text and its reply: a name from the lexicon's ``kinds``."""
        return self._kind_of(text)

    def shares(self, node: str, text: ScreenedText) -> Mapping[Label, float]:
        """The label distribution from which this node's draws on this text come; it sums to 1.

        Pure. Added text never lowers P(unsafe) or raises P(safe), unless it puts a statement into a quotation,
        a report or a negation of the same sentence; then the text is still not safe.
        """
        kind: Kind = self._kinds[self._kind_of(text)]
        return dict(zip(LABELS, kind.of(role_of(node)), strict=True))

    async def draw(self, request: DrawRequest) -> list[Draw]:
        """Exactly ``request.count`` draws, numbers ``first`` to ``first + count - 1``.

        Raises ValueError for a negative number.
        """
        if request.first < 0 or request.count < 0:
            raise ValueError("first and count must not be negative")
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
            await asyncio.to_thread(self._kind_of, request.text)  # long texts take long: other cases go on meanwhile
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
    reply = request.text.reply
    parts = [str(seed), request.node, request.variant, request.text.text]
    key = hashlib.blake2b(digest_size=32, person=b"no reply" if reply is None else b"reply")
    for part in [*parts, reply or ""]:
        encoded = part.encode("utf-8", "surrogatepass")
        key.update(len(encoded).to_bytes(8, "big"))
        key.update(encoded)
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


Distribution = Mapping[Label, float]


class KnownSampler(SimulatedSampler):
    """Draws each text's label from the distribution it was given, at every node alike.

    Draw number i is a pure function of (seed, node, text, variant, i). ValueError for probabilities that do not
    add up to 1; KeyError when a text without a distribution is asked about.
    """

    def __init__(self, seed: int, distributions: Mapping[ScreenedText, Distribution]) -> None:
        super().__init__(seed)
        for distribution in distributions.values():
            if min(distribution.values()) < 0 or abs(sum(distribution.values()) - 1) > 1e-6:
                raise ValueError("the probabilities of a text must not be negative and must add up to 1")
        self._given = {
            text: {label: shares.get(label, 0.0) for label in LABELS} for text, shares in distributions.items()
        }

    def describe(self) -> dict[str, str | int]:
        return {"sampler": "known distributions", "seed": self._seed}

    def shares(self, node: str, text: ScreenedText) -> Distribution:
        return self._given[text]
