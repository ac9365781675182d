"""One model answer as a draw, strictly one of the allowed words, or ``escalate`` marked as what it was; and the port
that draws come through.

Where a server gives a node's whole label distribution in one call, no stopping rule takes part, so no error level
holds: the label is the mode of what the server says, provided that the part it does not tell could not change it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import partial
from itertools import count, takewhile
from typing import TYPE_CHECKING, Protocol

from screening.labels import LABELS, Label, Spoken
from screening.stopping.rules import Comparison, Ended, Verdict

if TYPE_CHECKING:  # reading conversations takes longer to import than a rule takes to answer
    from screening.text.conversation import Thread

RAW_LIMIT = 200
"""Characters kept of an answer that was not a label."""


class Answer(StrEnum):
    LABEL = "label"
    UNPARSABLE = "unparsable"
    REFUSAL = "refusal"
    EMPTY = "empty"
    CUT = "cut"
    MISSHAPEN = "misshapen"
    """A reply of another shape than was asked: another role, an id seen before, blocks beside the word."""
    OTHER_MODEL = "other_model"
    """A reply that names a model which nobody accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one or more calls, as the service counted them; ``input_tokens`` holds cache reads and writes."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )


def cost_usd(model: str, usage: Usage) -> Decimal | None:
    """US dollars at list price, cache reads and writes at their own rates; None where the table does not know the
    model.

    >>> cost_usd("claude-sonnet-4-6", Usage(input_tokens=1_000_000, output_tokens=1_000_000)) == 18
    True
    """
    import genai_prices

    tokens = genai_prices.Usage(**asdict(usage))
    try:
        return Decimal(genai_prices.calc_price(tokens, model, provider_id="anthropic").total_price)
    except LookupError:
        return None


def sum_costs(costs: Sequence[float | None]) -> float | None:
    """None where one of them is not known.

    >>> sum_costs([1.0, 2.5]), sum_costs([1.0, None]), sum_costs([])
    (3.5, None, 0.0)
    """
    return None if None in costs else sum((cost or 0.0 for cost in costs), 0.0)


def has_list_price(model: str) -> bool:
    """Whether the paid service is known to offer this model.

    >>> has_list_price("claude-haiku-4-5"), has_list_price("claude-hiaku-4-5")
    (True, False)
    """
    return cost_usd(model, Usage()) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One model answer parsed to a label; anything but a label counts as ``escalate`` and says what it was."""

    label: Label
    answer: Answer = Answer.LABEL
    raw: str = ""
    usage: Usage = Usage()

    def __post_init__(self) -> None:
        if self.answer is not Answer.LABEL and self.label is not Label.ESCALATE:
            raise ValueError("an answer that is not a label can only count as escalate")

    @property
    def code(self) -> str:
        """One character: the label's initial, or the mark of an unusable answer."""
        return _LABEL_CODES[self.label] if self.answer is Answer.LABEL else _ANSWER_CODES[self.answer]


_LABEL_CODES = {Label.SAFE: "S", Label.UNSAFE: "U", Label.ESCALATE: "E"}
_ANSWER_CODES = {
    Answer.UNPARSABLE: "?",
    Answer.REFUSAL: "!",
    Answer.EMPTY: "_",
    Answer.CUT: "~",
    Answer.MISSHAPEN: "#",
    Answer.OTHER_MODEL: "@",
}
"""Stored with each case: written out, so that no order of the members decides what is read back."""
_DRAWS_BY_CODE = {code: Draw(label=label) for label, code in _LABEL_CODES.items()} | {
    code: Draw(label=Label.ESCALATE, answer=answer) for answer, code in _ANSWER_CODES.items()
}


def unusable(answer: Answer, raw: str = "", usage: Usage | None = None) -> Draw:
    return Draw(label=Label.ESCALATE, answer=answer, raw=raw[:RAW_LIMIT], usage=usage or Usage())


def encode_draws(draws: Iterable[Draw]) -> str:
    """As one character each, the form they are stored in."""
    return "".join(draw.code for draw in draws)


def decode_draws(codes: str) -> tuple[Draw, ...]:
    """Without raw text and usage; ValueError for an unknown character.

    >>> [str(draw.label) for draw in decode_draws("SU?")], encode_draws(decode_draws("SU?"))
    (['safe', 'unsafe', 'escalate'], 'SU?')
    """
    try:
        return tuple(_DRAWS_BY_CODE[code] for code in codes)
    except KeyError as unknown:
        raise ValueError(f"not a draw code: {unknown.args[0]!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenedTurn:
    role: str
    text: str
    judged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenedThread:
    """A conversation as the model is shown it, and what is asked of the judged turns: the writer's risk ("text") or
    what the assistant did ("reply"). ``left_out`` of its oldest turns are not shown.
    """

    turns: tuple[ScreenedTurn, ...]
    question: str = "text"
    left_out: int = 0


def screened_thread(thread: "Thread", model_text: str) -> ScreenedThread:
    """The turns that the model is shown, taken out of the normalised text that holds them all."""
    turns = tuple(
        ScreenedTurn(role=turn.role.value, text=model_text[slice(*turn.shown)], judged=turn.judged)
        for turn in thread.turns
        if turn.shown is not None
    )
    return ScreenedThread(turns=turns, question=thread.question.value, left_out=thread.left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenedText:
    """What the model is shown: the normalised text and the reply to it; of a conversation its turns, all of which
    ``text`` holds in one.
    """

    text: str
    reply: str | None = None
    thread: ScreenedThread | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAgent:
    """Who answers for a node; None leaves the site's setting. ``prompt`` names a prompt file, ``instructions`` is a
    prompt of the pipeline's own, ``role`` the part that simulated agents play, ``server`` one of the site's.
    """

    prompt: str | None = None
    instructions: str | None = None
    role: str | None = None
    model: str | None = None
    temperature: float | None = None
    server: str | None = None
    protocol: Spoken | None = None


@dataclass(slots=True)
class Bill:
    """What a draw batch has cost so far, also when it fails or is broken off: ``requests`` that were charged or may
    have been, and ``answers``, the draws by their place; ``took`` is told of each as it comes.
    """

    requests: int = 0
    answers: dict[int, Draw] = field(default_factory=dict)
    took: Callable[[int, Draw], None] | None = None

    def record_answer(self, place: int, draw: Draw) -> None:
        """Samplers report each draw at once, so that people can watch."""
        if self.took is not None and place not in self.answers:
            self.took(place, draw)
        self.answers[place] = draw

    def in_order(self) -> list[Draw]:
        """The first draws of the draw batch without a gap: all of it that a rule may see.

        >>> bill = Bill(answers={0: Draw(label=Label.SAFE), 2: Draw(label=Label.UNSAFE)})
        >>> encode_draws(bill.in_order())
        'S'
        """
        return [self.answers[place] for place in takewhile(self.answers.__contains__, count())]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawRequest:
    """A draw batch: ``count`` draws of one node on one text, the first of them being number ``first`` (from 0).

    ``urgent``: somebody waits for it, and its calls go first. ``bill``: where draws are paid for they are written on it
    as they are made. ``enough`` says of the first draws whether the node's end no longer depends on the rest: then, and
    only then, a sampler may break off what is under way and give fewer than ``count``.
    """

    node: str
    text: ScreenedText
    first: int
    count: int
    variant: str = "main"
    agent: NodeAgent = NodeAgent()
    urgent: bool = False
    bill: Bill | None = field(default=None, compare=False, repr=False)
    enough: Callable[[Sequence["Draw"]], bool] | None = field(default=None, compare=False, repr=False)


TOO_LONG = "too_long"


class SamplerError(Exception):
    """The service gave no answer, so there is no draw: the case stays pending and can be taken up again. ``kind`` is
    one of errors.toml; ``stops_batch``: going on with other cases is pointless (spend cap, bad key, unknown model).
    """

    def __init__(self, kind: str, message: str, *, stops_batch: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.stops_batch = stops_batch


class DrawSource(Protocol):
    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        """``request.count`` draws in request order, or the first of them that are ``enough``. Raises SamplerError when
        it cannot.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What came of asking once with a harmless text; ``ok`` only where a label came back under these very settings."""

    ok: bool
    message: str
    model: str
    kind: str | None
    seconds: float


LABEL_WORDS: Mapping[str, Label] = {label.value: label for label in LABELS}

_AROUND = " \t\r\n\u00a0\"'`.*\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_FINISHED = frozenset({"end_turn", "stop_sequence"})
_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})


def bare_word(answer: str) -> str:
    """The answer in lower case, without white space, quotation marks, full stops and asterisks around it. Nothing else
    is taken off: "¬safe", "safe?" and "🚫safe" are no labels, nor is a word in other letters.

    >>> bare_word(' **Unsafe.** '), bare_word("!safe")
    ('unsafe', '!safe')
    """
    return answer.strip(_AROUND).lower()


def read_answer(
    answer: str | None, stop_reason: str | None, usage: Usage, words: Mapping[str, Label] = LABEL_WORDS
) -> Draw:
    """The draw an answer makes. Only a finished answer that is exactly one of ``words`` is a label.

    >>> told = (("Safe.", "end_turn"), ("safe", "max_tokens"), ("It is safe", "end_turn"))
    >>> [read_answer(answer, stopped, Usage()).code for answer, stopped in told]
    ['S', '~', '?']
    """
    text = answer or ""
    if stop_reason == "refusal":
        return unusable(Answer.REFUSAL, text, usage)
    if stop_reason in _CUT:
        return unusable(Answer.CUT, text, usage)
    if not text.strip():
        return unusable(Answer.EMPTY, text, usage)
    label = words.get(bare_word(text)) if stop_reason in _FINISHED else None
    if label is None:
        return unusable(Answer.UNPARSABLE, text, usage)
    return Draw(label=label, usage=usage)


MARK = "="
"""The first character of a distribution's code, which is stored in place of the codes of draws."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelDistribution:
    """``unknown`` is the rest, so that all sum to 1; above ``most_unknown`` nothing is decided: the node is sampled."""

    labels: Mapping[Label, float]
    unknown: float
    most_unknown: float = 1.0
    usage: Usage = field(default_factory=Usage)

    @property
    def gap(self) -> float:
        first, second, _ = sorted(self.labels.values(), reverse=True)
        return first - second

    def mode(self) -> Label | None:
        """The label that stays most probable wherever the unknown part belongs; None where none does."""
        return self._leader if self.gap > self.unknown else None

    @property
    def _leader(self) -> Label:
        return max(LABELS, key=self.labels.__getitem__)

    def verdict(self) -> Verdict | None:
        """What one call has settled; None where too much is unknown, so that the node must be sampled.

        >>> known = {Label.SAFE: 0.7, Label.UNSAFE: 0.2, Label.ESCALATE: 0.1}
        >>> LabelDistribution(labels=known, unknown=0.0).verdict().label
        <Label.SAFE: 'safe'>
        >>> str(LabelDistribution(labels={**known, Label.SAFE: 0.3}, unknown=0.4).verdict().ended)
        'too_close'
        """
        if self.unknown > self.most_unknown:
            return None
        label = self.mode()
        return Verdict(label=label, ended=Ended.TOO_CLOSE if label is None else Ended.IDENTIFIED, calls=1)

    def comparisons(self) -> tuple[Comparison, ...]:
        """The most probable label's lead over each other; its line is the unknown part, which could go to the other."""
        leads = {rival: self.labels[self._leader] - self.labels[rival] for rival in LABELS if rival is not self._leader}
        made = partial(Comparison, leader=self._leader, scale="probability", needed=self.unknown)
        return tuple(made(rival=rival, value=lead, excluded=lead > self.unknown) for rival, lead in leads.items())

    @property
    def code(self) -> str:
        shares = (*(self.labels[label] for label in LABELS), self.unknown, self.most_unknown)
        return MARK + "|".join(f"{share:.6g}" for share in shares)


def read_distribution(code: str) -> LabelDistribution | None:
    """The distribution that a code stands for; None for the codes of draws.

    >>> told = read_distribution("=0.7|0.2|0.1|0|1")
    >>> read_distribution("SSU"), str(told.mode()), told.code
    (None, 'safe', '=0.7|0.2|0.1|0|1')
    """
    if not code.startswith(MARK):
        return None
    *shares, unknown, most_unknown = map(float, code.removeprefix(MARK).split("|"))
    labels = dict(zip(LABELS, shares, strict=True))
    return LabelDistribution(labels=labels, unknown=unknown, most_unknown=most_unknown)
