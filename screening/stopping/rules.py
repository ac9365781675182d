"""The stopping rules, and what is true of every one: how a record of draws ends, and how many draws to ask for next.

A rule is a setting that can be written down (pydantic) and answers one question for many sequences at once: `stops`.
A live case is a batch of one. Label numbers follow `LABELS`; any larger value is no draw and stands only after a
sequence's end.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import floor, log
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from screening.labels import LABELS, Label
from screening.stopping.evidence import (
    Band,
    algorithm_one_radius,
    clopper_pearson,
    confidence_sequence,
    least_count,
    log_evidence,
)

K = len(LABELS)
NONE = -1
"""No label, or no end: the record is too short for a verdict."""
NO_DRAW = 255
BAND_DELTA = 0.05
"""Level of the displayed limits where a rule has no error bound of its own."""
AT_ONCE, TABLE_CELLS = 4_096, 4_000_000
"""Sequences that a rule is run on together, and their draws."""
LARGEST_SEARCH = 1 << 20
"""Up to where the smallest budget is looked for."""

Draws = NDArray[np.uint8]
Codes = NDArray[np.int8]
Integers = NDArray[np.int64]
Pair = tuple[Label, Label]
"""(said, mode): the label named, and the one that the model gives most often."""


class Ended(StrEnum):
    """How a node ended. `EXHAUSTED`, `FUTILITY` and `TOO_CLOSE` are abstentions. No rule says the last two, the engine
    does: `NO_ANSWER` where an escalation rests on answers that were no labels, `TOO_CLOSE` where the probabilities that
    a server gave leave no label ahead.
    """

    IDENTIFIED = "identified"
    EXHAUSTED = "exhausted"
    FUTILITY = "futility"
    NO_ANSWER = "no_answer"
    TOO_CLOSE = "too_close"


ENDS: tuple[Ended, ...] = tuple(Ended)
_IDENTIFIED, _EXHAUSTED, _FUTILITY = map(ENDS.index, (Ended.IDENTIFIED, Ended.EXHAUSTED, Ended.FUTILITY))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rule concluded, and its stopping time in calls."""

    label: Label | None
    ended: Ended
    calls: int


def _read_pairs(values: Any) -> Any:
    if not isinstance(values, Mapping):
        return values
    return tuple((tuple(map(Label, str(pair).split("|"))), level) for pair, level in values.items())


def _distinct(pairs: tuple[tuple[Pair, float], ...]) -> tuple[tuple[Pair, float], ...]:
    for (said, mode), _ in pairs:
        if said is mode:
            raise ValueError(f"{said}|{mode}: a label cannot be mistaken for itself")
    return pairs


def _write_pairs(pairs: tuple[tuple[Pair, float], ...]) -> dict[str, float]:
    return {f"{said}|{mode}": level for (said, mode), level in pairs}


Probability = Annotated[float, Field(gt=0, lt=1)]
PairLevels = Annotated[
    tuple[tuple[Pair, Probability], ...],
    BeforeValidator(_read_pairs),
    AfterValidator(_distinct),
    PlainSerializer(_write_pairs, dict[str, float]),
]
"""A level for some pairs, written as {"said|mode": level}."""


class Contract(BaseModel):
    """Any label that is not the mode is named with probability at most ``any_wrong``, all of them together; the bounds
    of ``pairs`` hold a mix-up to less. Nothing is assumed about the label mix.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    any_wrong: Probability
    pairs: PairLevels = ()

    def words(self) -> str:
        r"""One sentence for pages, exports and the command line.

        >>> print(Contract(any_wrong=0.05, pairs=(((Label.SAFE, Label.UNSAFE), 0.001),)).words().replace("; ", "\n"))
        a label other than the model's most frequent answer: at most 5% in all
        safe when it mostly says unsafe: at most 0.1%
        """
        pairs = [f"{said} when it mostly says {mode}: at most {100 * bound:g}%" for (said, mode), bound in self.pairs]
        return "; ".join(
            [f"a label other than the model's most frequent answer: at most {100 * self.any_wrong:g}% in all", *pairs]
        )


SAFE_ERRORS: tuple[tuple[Pair, float], ...] = tuple(
    ((Label.SAFE, mode), 0.001) for mode in LABELS if mode is not Label.SAFE
)
"""Saying safe where the mode is another label: held to 0.001 each wherever nobody asks for something else."""
DEFAULT_CONTRACT = Contract(any_wrong=0.05, pairs=SAFE_ERRORS)


class Arm(NamedTuple):
    """One label's share of the draws, None before the first, with limits of its probability at all looks together, at
    the rule's own level.
    """

    estimate: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How far the leading label is from excluding one rival, in the rule's own statistic.

    The rival is excluded where ``value`` is at or past ``needed``. The scale is the natural logarithm of evidence, a
    lead in pulls, in probability, or in votes, which have no line. A rival that was dropped for good names no leader,
    and its value is the line that was passed then.
    """

    rival: Label
    leader: Label | None
    scale: Literal["evidence", "pulls", "votes", "probability"]
    value: float
    needed: float | None
    excluded: bool

    @property
    def progress(self) -> float | None:
        """The share of the way to the line; None where there is none."""
        if self.needed is None:
            return None
        if self.excluded:
            return 1.0
        return min(1.0, max(0.0, self.value / self.needed)) if self.needed > 0 else 0.0


class StoppingRule(BaseModel, ABC):
    """A rule with its settings. One of its own needs `stops` alone; the rest has defaults that claim nothing.

    ``budget`` is the most draws of a node, a hard cap. A rule with a true ``stop_for_futility`` abstains at the first
    draw after which nothing within the budget can name a label; without, it pays its budget first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    title: ClassVar[str]
    """What its error bound rests on, or who has none: the subject of `promise`."""
    fallback: ClassVar[Label | None] = None
    """The label that counts where the budget ends without one; None is an abstention."""

    kind: str
    budget: Annotated[int, Field(ge=1, le=100_000)] = 100

    @abstractmethod
    def stops(self, draws: Draws) -> tuple[Integers, Integers]:
        """For each row of ``draws`` (sequences, most draws) the label named, or `NONE`, and the calls it took.

        Where none is named the calls are those after which the budget pays nothing more (``budget``, where the record
        ends before that is known). Nothing after the stopping time may change it.
        """

    @property
    def stops_for_futility(self) -> bool:
        return self.fallback is None and bool(getattr(self, "stop_for_futility", False))

    @property
    def contract(self) -> Contract | None:
        """What is promised about naming a label that is not the mode; None where nothing is."""
        return None

    @property
    def error_bound(self) -> float | None:
        """δ: bound on naming a label that is not the mode; None without a contract."""
        return None if self.contract is None else self.contract.any_wrong

    def tallies(self, draws: Draws) -> tuple[list[int], list[int]]:
        """How often each label was answered in one sequence, and of how many draws that could count for it."""
        return count_labels(draws), [len(draws)] * K

    def band(self, successes: int, draws: int) -> Band:
        """Limits of a label's probability, of all labels together: here a confidence sequence, for every look."""
        return confidence_sequence(successes, draws, min(self.error_bound or BAND_DELTA, 0.5) / K)

    def arms(self, draws: Draws) -> tuple[Arm, ...]:
        """After these draws (one sequence), in the order of `LABELS`."""
        return tuple(
            Arm(successes / pulls if pulls else None, *self.band(successes, pulls))
            for successes, pulls in zip(*self.tallies(draws), strict=True)
        )

    def comparisons(self, draws: Draws) -> tuple[Comparison, ...]:
        """The most frequent label against each rival: what the rule decides by."""
        counts = count_labels(draws)
        leader = counts.index(max(counts))
        return tuple(
            self.compare(LABELS[leader], rival, counts[leader], count)
            for rival, count in zip(LABELS, counts, strict=True)
            if rival is not LABELS[leader]
        )

    def compare(self, leader: Label, rival: Label, ahead: int, behind: int) -> Comparison:
        """The label given ``ahead`` times against the one given ``behind`` times: here its lead, without a line."""
        return Comparison(rival=rival, leader=leader, scale="votes", value=ahead - behind, needed=None, excluded=False)


class CountRule(StoppingRule):
    """A rule on how often each label was drawn, and nothing else; more draws of a label never take it away."""

    @abstractmethod
    def named(self, counts: Integers) -> Integers:
        """The label named at these counts, of shape (K, …), or `NONE`; the result has shape (…)."""

    def stops(self, draws: Draws) -> tuple[Integers, Integers]:
        considered = draws[:, : self.budget]
        counts = np.stack([np.cumsum(considered == arm, axis=1, dtype=np.int64) for arm in range(K)])
        return first_named(self.named(counts), self.budget)


def first_named(labels: Integers | Draws, budget: int) -> tuple[Integers, Integers]:
    """What `StoppingRule.stops` gives, from the label named after each draw; any other number is none."""
    labels = labels.astype(np.int64)
    if labels.shape[1] == 0:
        return np.full(len(labels), NONE), np.full(len(labels), budget)
    hit = (labels >= 0) & (labels < K)
    at, found = hit.argmax(axis=1), hit.any(axis=1)
    return np.where(found, labels[np.arange(len(labels)), at], NONE), np.where(found, at + 1, budget)


class MajorityVote(CountRule):
    """The paper's baseline: plurality of ``n`` draws, all of which it uses; n = 1 is a single draw.

    It bounds no error. Without a plurality the label is `escalate` (the paper: tie → escalate) and the node has ended
    `exhausted`: it ran out of votes, the model did not ask to escalate.
    """

    title = "a majority vote"
    fallback = Label.ESCALATE

    kind: Literal["majority-vote"] = "majority-vote"
    budget: Annotated[int, Field(ge=1, le=1_000, alias="n")]

    def named(self, counts: Integers) -> Integers:
        alone = (counts == counts.max(axis=0)).sum(axis=0) == 1
        return np.where(alone & (counts.sum(axis=0) == self.budget), counts.argmax(axis=0), NONE)

    def band(self, successes: int, draws: int) -> Band:
        """Exact 95% intervals of all labels together, which hold only at the n votes fixed in advance."""
        return clopper_pearson(successes, draws, BAND_DELTA / K)


class Pairwise(CountRule):
    """Pooled draws: names a label once the evidence that it beats each rival b has reached 1/η_{label|b}."""

    stop_for_futility: bool = True

    @abstractmethod
    def level(self, said: Label, mode: Label) -> float:
        """η_{said|mode}, the evidence level of this pair of different labels."""

    def named(self, counts: Integers) -> Integers:
        """The label that beats both others. A negative count is read as 0."""
        middle = counts.sum(axis=0) - counts.max(axis=0) - counts.min(axis=0)  # of three labels the second
        most = 1 << max(5, int(middle.max(initial=0)).bit_length())
        lines = _least_counts(self, most)
        seen = np.clip(counts, 0, most)  # only a leader is seen more often, and no label behind beats it
        label = np.full(counts.shape[1:], NONE)
        for arm in range(K):
            beats = [counts[arm] >= lines[arm][rival][seen[rival]] for rival in range(K) if rival != arm]
            label[np.logical_and.reduce(beats)] = arm
        return label

    def compare(self, leader: Label, rival: Label, ahead: int, behind: int) -> Comparison:
        """On the scale of logarithms of evidence, with the line 1/η."""
        level = self.level(leader, rival)
        return Comparison(
            rival=rival,
            leader=leader,
            scale="evidence",
            value=log_evidence(ahead, behind),
            needed=-log(level),
            excluded=ahead >= least_count(behind, level),
        )


@lru_cache(maxsize=128)
def _least_counts(rule: Pairwise, most: int) -> Integers:
    """Shape (K, K, most + 1): draws of label a that beat label b seen y times, [a, b, y]; 0 where a is b."""
    table = np.zeros((K, K, most + 1), dtype=np.int64)
    for a, said in enumerate(LABELS):
        for b, mode in enumerate(LABELS):
            if a != b:
                table[a, b] = [least_count(behind, rule.level(said, mode)) for behind in range(most + 1)]
    return table


class PairwiseMixture(Pairwise):
    """Pooled draws at Ville's levels: they are bounds of the errors too, for any budget. ``errors`` names the pairs
    whose level is not ``default_error``; saying safe of what the model finds unsafe is held to 0.001.
    """

    title = "Ville's bound"

    kind: Literal["pairwise-mixture"] = "pairwise-mixture"
    default_error: Probability = 0.025
    errors: PairLevels = (((Label.SAFE, Label.UNSAFE), 0.001),)

    @classmethod
    def symmetric(cls, delta: float, budget: int = 100, *, stop_for_futility: bool = True) -> Self:
        """δ/(K-1) for every pair, so that naming any label but the mode has probability at most δ, in (0, 1)."""
        return cls(budget=budget, default_error=delta / (K - 1), errors=(), stop_for_futility=stop_for_futility)

    def level(self, said: Label, mode: Label) -> float:
        """The pair's own level or the default.

        >>> rule = PairwiseMixture()
        >>> rule.level(Label.SAFE, Label.UNSAFE), rule.level(Label.UNSAFE, Label.SAFE)
        (0.001, 0.025)
        """
        return dict(self.errors).get((said, mode), self.default_error)

    @property
    def contract(self) -> Contract:
        """In all the largest, over the modes, of the sums of the levels of naming another label; and each pair's."""
        sums = (sum(self.level(said, mode) for said in LABELS if said is not mode) for mode in LABELS)
        return Contract(any_wrong=min(max(sums), 1 - 1e-9), pairs=tuple(sorted(self.errors)))


class SuccessiveElimination(StoppingRule):
    """The paper's Algorithm 1 (section 3; after Even-Dar et al. 2006): pull every active label once a round, drop those
    that are clearly not the mode. ``delta`` bounds the probability that the mode is ever dropped.

    A round is begun only if the budget pays for all of it, so that the budget is never exceeded.
    """

    title = "Algorithm 1"

    kind: Literal["successive-elimination"] = "successive-elimination"
    delta: Probability = 0.05
    stop_for_futility: bool = True

    @property
    def contract(self) -> Contract:
        return Contract(any_wrong=self.delta)

    def stops(self, draws: Draws) -> tuple[Integers, Integers]:
        _, _, active, at = self._rounds(draws)
        left = active.sum(axis=1)
        label = np.where(left == 1, active.argmax(axis=1), NONE)
        return label, np.where((left == 1) | (at + left > self.budget), at, self.budget)

    def _rounds(self, draws: Draws) -> tuple[Integers, Integers, NDArray[np.bool_], Integers]:
        """After whole rounds: each label's successes, pulls and whether it is active; how many draws that took."""
        reach, gaps = np.minimum((draws < K).sum(axis=1), self.budget), _least_gaps(self.delta, self.budget)
        padded = np.pad(draws[:, : self.budget], ((0, 0), (0, 1)), constant_values=NO_DRAW)
        successes, pulls = np.zeros((2, len(draws), K), dtype=np.int64)
        active, at = np.ones((len(draws), K), dtype=bool), np.zeros(len(draws), dtype=np.int64)
        left = active.sum(axis=1)
        while len(rows := np.flatnonzero((left > 1) & (at + left <= reach))):  # to the next drop in each of them
            stays, begun = active[rows], pulls[rows].max(axis=1)
            whole = (reach[rows] - at[rows]) // left[rows]
            rounds = np.arange(whole.max())
            starts = at[rows, None] + left[rows, None] * rounds
            turns = np.minimum(starts[:, :, None] + np.cumsum(stays, axis=1)[:, None] - 1, padded.shape[1] - 1)
            wins = stays[:, None] & (padded[rows[:, None, None], turns] == np.arange(K, dtype=np.uint8))
            won = successes[rows][:, None] + np.cumsum(wins, axis=1, dtype=np.int32)
            best = np.where(stays[:, None], won, -1).max(axis=2, keepdims=True)
            drops = stays[:, None] & (best - won >= gaps[begun[:, None] + 1 + rounds][:, :, None])
            ends = drops.any(axis=2) & (rounds < whole[:, None])
            last = np.arange(len(rows)), np.where(ends.any(axis=1), ends.argmax(axis=1), whole - 1)
            successes[rows], active[rows] = won[last], stays & ~drops[last]
            pulls[rows] = np.where(stays, (begun + last[1] + 1)[:, None], pulls[rows])
            at[rows] += left[rows] * (last[1] + 1)
            left = active.sum(axis=1)
        return successes, pulls, active, at

    def tallies(self, draws: Draws) -> tuple[list[int], list[int]]:
        """Also of a round that is not over; a dropped label's stay as they were."""
        (successes,), (pulls,), (active,), (at,) = self._rounds(draws[None, :])
        if active.sum() > 1:
            for arm, draw in zip(np.flatnonzero(active), draws[at:], strict=False):
                successes[arm] += draw == arm
                pulls[arm] += 1
        return successes.tolist(), pulls.tolist()

    def band(self, successes: int, draws: int) -> Band:
        """p̂ ± w, clipped to [0, 1]."""
        if not draws:
            return 0.0, 1.0
        estimate, width = successes / draws, algorithm_one_radius(draws, self.delta)
        return max(0.0, estimate - width), min(1.0, estimate + width)

    def comparisons(self, draws: Draws) -> tuple[Comparison, ...]:
        """The best active arm's lead in successes over each rival, and the lead that would drop it at this round's end.

        A dropped arm stands at the lead that dropped it; it was the best arm of then that had it.
        """
        successes, pulls = self.tallies(draws)
        stays = self._rounds(draws[None, :])[2][0]
        best = max(np.flatnonzero(stays), key=successes.__getitem__)
        now = max(1, *(pulls[arm] for arm in np.flatnonzero(stays)))
        found = []
        for arm in (arm for arm in range(K) if arm != best):
            needed = least_gap(now if stays[arm] else pulls[arm], self.delta)
            found.append(
                Comparison(
                    rival=LABELS[arm],
                    leader=LABELS[best] if stays[arm] else None,
                    scale="pulls",
                    value=successes[best] - successes[arm] if stays[arm] else needed,
                    needed=needed,
                    excluded=bool(not stays[arm]),
                )
            )
        return tuple(found)


@lru_cache(maxsize=64)
def _least_gaps(delta: float, budget: int) -> Integers:
    """`least_gap` after T = 0, 1, … pulls each, as far as so many calls reach; beyond reach at T = 0."""
    return np.array([budget + 1, *(least_gap(pulls, delta) for pulls in range(1, budget + 1))])


@lru_cache(maxsize=1 << 16)
def least_gap(pulls: int, delta: float) -> int:
    """Fewest successes a leader must be ahead, after as many pulls each, for the other arm to be dropped.

    p̂_max - w > p̂_c + w with equal pulls T is (difference of successes) > 2·T·w.

    >>> least_gap(24, 0.05)
    24
    """
    return floor(2 * pulls * algorithm_one_radius(pulls, delta)) + 1


def run(rule: StoppingRule, draws: Draws) -> tuple[Codes, Codes, Integers]:
    """How each row of ``draws`` (sequences, most draws) ends under the rule; draws after the end change nothing.

    The label, a number into `LABELS`, the end, one into `ENDS`, and the calls, each of shape (sequences,). Either
    number may be `NONE`; where the end is, more draws are needed than were recorded, and the calls are those recorded.
    """
    lengths, step = (draws < K).sum(axis=1), max(1, min(AT_ONCE, TABLE_CELLS // rule.budget))
    parts = [
        # no wider than the longest of them: the rest of the table is padding
        _run(rule, draws[first : first + step, : int(some.max(initial=0))], some)
        for first in range(0, max(1, len(draws)), step)
        for some in [lengths[first : first + step]]
    ]
    label, ended, calls = (np.concatenate(each) for each in zip(*parts, strict=True))
    return label, ended, calls


def _run(rule: StoppingRule, draws: Draws, lengths: Integers) -> tuple[Codes, Codes, Integers]:
    label, calls = (np.array(values) for values in rule.stops(draws))
    open_ended = np.flatnonzero(label == NONE)
    ended = np.full(len(draws), _IDENTIFIED, dtype=np.int8)
    ended[open_ended] = np.where(calls <= lengths, _EXHAUSTED, NONE)[open_ended]
    if rule.stops_for_futility and len(open_ended):
        last = np.minimum(calls, lengths)[open_ended]
        futile = _first_futile(rule, draws[open_ended], last)
        sooner = (futile <= last) & (futile < calls[open_ended])
        ended[open_ended[sooner]] = _FUTILITY
        calls[open_ended[sooner]] = futile[sooner]
    if rule.fallback is not None:
        label[ended == _EXHAUSTED] = LABELS.index(rule.fallback)
    return label.astype(np.int8), ended, np.where(ended == NONE, lengths, calls)


def _first_futile(rule: StoppingRule, draws: Draws, last: Integers) -> Integers:
    """After how many draws, at most ``last``, nothing can be named any more; one more than ``last`` where something
    still can. What is futile stays so, whence the search by halving.
    """
    first, open_until = np.zeros(len(draws), dtype=np.int64), last + 1
    at = last
    while len(rows := np.flatnonzero(first < open_until)):
        hopeful = _hopeful(rule, draws[rows], at[rows])
        first[rows] = np.where(hopeful, at[rows] + 1, first[rows])
        open_until[rows] = np.where(hopeful, open_until[rows], at[rows])
        at = (first + open_until) // 2
    return first


def _hopeful(rule: StoppingRule, draws: Draws, at: Integers) -> NDArray[np.bool_]:
    """Whether one label for ever after ``at`` draws is named within the budget: else no answers can name one."""
    width = min(rule.budget, draws.shape[1])
    drawn = np.pad(draws[:, :width], ((0, 0), (0, rule.budget - width)), constant_values=NO_DRAW)
    futures = np.where(np.arange(rule.budget) >= at[:, None], np.arange(K, dtype=np.uint8)[:, None, None], drawn)
    named = rule.stops(futures.reshape(-1, rule.budget))[0] != NONE
    return np.asarray(named.reshape(K, -1).any(axis=0))


def label_numbers(labels: Iterable[Label]) -> Draws:
    return np.fromiter((_NUMBERS[label] for label in labels), dtype=np.uint8)


_NUMBERS = {label: number for number, label in enumerate(LABELS)}


def count_labels(draws: Draws) -> list[int]:
    counts: list[int] = np.bincount(draws, minlength=K).tolist()
    return counts


def conclude(rule: StoppingRule, draws: Draws) -> Verdict | None:
    """The rule's verdict on one sequence, or None while more draws are needed. Draws after it change nothing."""
    return _look(rule, draws.tobytes())[0]


def next_batch(rule: StoppingRule, draws: Draws) -> int:
    """Draws to ask for at once after one sequence: as many as the earliest decision takes, so that none can come too
    late to count; without a stop for futility, when nothing can be decided any more, what the budget still pays for.
    0 once there is a verdict.
    """
    return _look(rule, draws.tobytes())[1]


@lru_cache(maxsize=1 << 14)
def _look(rule: StoppingRule, drawn: bytes) -> tuple[Verdict | None, int]:
    """Verdict and next batch, from what comes of each label for ever, which decides soonest, and of all labels in turn,
    with which a rule that pulls them in turn can run out of rounds first. Cached: nearly all cases are near-unanimous.
    """
    draws = np.frombuffer(drawn, dtype=np.uint8)
    turn = np.arange(max(rule.budget, len(draws)))
    futures = np.concatenate([np.arange(K)[:, None] + 0 * turn, (np.arange(K)[:, None] + turn) % K]).astype(np.uint8)
    futures[:, : len(draws)] = draws
    labels, calls = rule.stops(futures)
    further, hopeful = int(calls.min()) - len(draws), (labels[:K] != NONE).any()
    if further > 0 and (hopeful or not rule.stops_for_futility):
        return None, further
    (label,), (ended,), (taken,) = run(rule, draws[None, :])
    return Verdict(label=None if label == NONE else LABELS[label], ended=ENDS[ended], calls=int(taken)), 0


@lru_cache(maxsize=1 << 10)
def minimum_budget(rule: StoppingRule, label: Label | None = None) -> int:
    """Smallest budget that can ever name this label: the draws it takes when all of them give it; None: any label.
    `LARGEST_SEARCH` or more where none was found.

    >>> minimum_budget(SuccessiveElimination()), minimum_budget(PairwiseMixture(), Label.SAFE)
    (72, 11)
    """
    if label is None:
        return min(minimum_budget(rule, each) for each in LABELS)
    arm = _NUMBERS[label]
    named, calls = rule.stops(np.full((1, rule.budget), arm, dtype=np.uint8))
    while named[0] != arm and rule.budget < LARGEST_SEARCH:
        rule = rule.model_copy(update={"budget": 2 * rule.budget})
        named, calls = rule.stops(np.full((1, rule.budget), arm, dtype=np.uint8))
    return int(calls[0])


def smallest_decidable_gap(rule: CountRule | SuccessiveElimination) -> float | None:
    """Smallest p̂₁ - p̂₂ at which the whole budget could decide if two labels share it; None if even a unanimous budget
    cannot. Algorithm 1 spreads its pulls over all labels: there it is 2w after the rounds of its budget.
    """
    if isinstance(rule, SuccessiveElimination):
        decides = minimum_budget(rule) <= rule.budget
        return 2 * algorithm_one_radius(rule.budget // K, rule.delta) if decides else None
    ahead = np.arange(rule.budget + 1)
    named = rule.named(np.stack([rule.budget - ahead, ahead, 0 * ahead])) == 1
    return float(2 * named.argmax() - rule.budget) / rule.budget if named.any() else None
