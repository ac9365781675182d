"""The recommended rule: every draw informs all labels; a mixture martingale compares them pair by pair."""

from dataclasses import dataclass, field
from functools import lru_cache
from math import log

from screening.labels import LABELS, Label
from screening.statistics.bounds import confidence_sequence
from screening.statistics.rules.contract import Contract, Pair
from screening.statistics.rules.counts import LabelCounts
from screening.statistics.rules.evidence import least_count, log_evidence
from screening.statistics.rules.protocol import Arm, Comparison, Ended, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorLevels:
    """δ_{a|b}: how probable it may be at most that the rule says a when the node's mode is b.

    ``overrides`` holds ((said, mode), level) where the level differs from ``default``. The defaults are for
    screening: saying safe of what the model finds unsafe is held to 0.001. ValueError for a level outside (0, 1), or a
    pair of one label, or a pair given twice.
    """

    default: float = 0.025
    overrides: tuple[tuple[Pair, float], ...] = (((Label.SAFE, Label.UNSAFE), 0.001),)

    def __post_init__(self) -> None:
        if not all(0 < level < 1 for level in (self.default, *(level for _, level in self.overrides))):
            raise ValueError("an error level must lie strictly between 0 and 1")
        pairs = [pair for pair, _ in self.overrides]
        if len(set(pairs)) < len(pairs) or any(said is mode for said, mode in pairs):
            raise ValueError("an error level belongs to two different labels and is given once")

    @classmethod
    def symmetric(cls, delta: float) -> "ErrorLevels":
        """δ/(K-1) for every pair, so that naming any label but the mode has probability at most δ, in (0, 1)."""
        if not 0 < delta < 1:
            raise ValueError("delta must lie strictly between 0 and 1")
        return cls(default=delta / (len(LABELS) - 1), overrides=())

    def level(self, said: Label, mode: Label) -> float:
        """δ_{said|mode}; ValueError where the two are the same label, which is no error.

        >>> ErrorLevels().level(Label.SAFE, Label.UNSAFE), ErrorLevels().level(Label.UNSAFE, Label.SAFE)
        (0.001, 0.025)
        """
        if said is mode:
            raise ValueError("naming the mode is no error")
        return dict(self.overrides).get((said, mode), self.default)

    def delta_of_mode(self, mode: Label) -> float:
        """Bound on naming any other label when ``mode`` is the node's mode: the sum of its error levels."""
        return sum(self.level(said, mode) for said in LABELS if said is not mode)

    @property
    def delta(self) -> float:
        """Bound on naming a label that is not the mode, whatever the mode: the largest of the sums."""
        return _largest_delta(self)


@lru_cache(maxsize=256)
def _largest_delta(errors: ErrorLevels) -> float:
    return max(errors.delta_of_mode(mode) for mode in LABELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseMixture:
    """Names a label once the evidence that it beats each rival b has reached 1/δ_{label|b}.

    ``budget`` is the most calls. With ``curtail`` it abstains as soon as no further draws within the budget
    could identify a label; without, it uses the whole budget first.

    Without a ``contract`` the error levels are bounds of the errors too (Ville), for any budget. With one they are
    evidence levels only, and the contract is what is promised: it was proven for this budget (see `certification`).
    ValueError for a budget below 0; with 0 it has ended before the first draw.
    """

    budget: int
    errors: ErrorLevels = field(default_factory=ErrorLevels)
    curtail: bool = True
    contract: Contract | None = None

    def __post_init__(self) -> None:
        if self.budget < 0:
            raise ValueError("budget must not be negative")

    @property
    def delta(self) -> float:
        """Bound on naming a label that is not the mode, whatever the mode."""
        return self.errors.delta if self.contract is None else self.contract.any_wrong

    def error_bound(self, said: Label, mode: Label) -> float:
        """Bound on saying ``said`` where the mode is ``mode``."""
        return self.errors.level(said, mode) if self.contract is None else self.contract.bound(said, mode)

    def minimum_budget(self) -> int:
        """Smallest budget that can ever identify some label, from a unanimous model.

        >>> PairwiseMixture(budget=100, errors=ErrorLevels.symmetric(0.05)).minimum_budget()
        6
        """
        return min(self.minimum_budget_for(label) for label in LABELS)

    def minimum_budget_for(self, label: Label) -> int:
        """Smallest budget that can ever identify this label: the draws it takes when all of them give it.

        >>> PairwiseMixture(budget=100).minimum_budget_for(Label.SAFE)
        11
        """
        return max(least_count(0, self.errors.level(label, rival)) for rival in LABELS if rival is not label)

    def smallest_decidable_gap(self) -> float | None:
        """Smallest p̂₁ - p̂₂ at which the whole budget could decide if two labels share it.

        Taken at the default error level; None if even a unanimous budget cannot.
        """
        return next(
            (
                (2 * ahead - self.budget) / self.budget
                for ahead in range(self.budget // 2, self.budget + 1)
                if ahead >= least_count(self.budget - ahead, self.errors.default)
            ),
            None,
        )

    def start(self) -> "PairwiseState":
        """The state before the first draw."""
        return PairwiseState(rule=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseState(LabelCounts):
    """How often each label was drawn, in the order of `LABELS`."""

    rule: PairwiseMixture

    @property
    def remaining(self) -> int:
        """Calls left in the budget."""
        return self.rule.budget - self.calls

    def observe(self, label: Label) -> "PairwiseState":
        """The state after one more draw; ValueError once identified or exhausted."""
        verdict = self.verdict()
        if verdict is not None and verdict.ended is not Ended.CURTAILED:
            raise ValueError("the rule has stopped")
        return self.with_one_more(label)

    def verdict(self) -> Verdict | None:
        """Identified when one label beats every rival, exhausted when no draw is left, curtailed if hopeless."""
        return _verdict(self)

    def draws_to_identify(self, label: Label) -> int:
        """Fewest further draws, all giving this label, to identify it, budget aside; 0 if it is identified."""
        own = self.counts[LABELS.index(label)]
        needed = (
            least_count(count, self.rule.errors.level(label, rival))
            for rival, count in zip(LABELS, self.counts, strict=True)
            if rival is not label
        )
        return max(0, max(needed) - own)

    def draws_to_earliest_decision(self) -> int:
        """Fewest further draws after which a label could be identified; 0 once there is a verdict."""
        if self.verdict() is not None:
            return 0
        return min(self.draws_to_identify(label) for label in LABELS)

    def next_wave(self) -> int:
        """As many draws as the earliest decision takes, or the rest of the budget if it is less."""
        return min(self.remaining, self.draws_to_earliest_decision())

    def arms(self) -> tuple[Arm, ...]:
        """Each label's share with a confidence sequence at level delta/K, so that all hold at every look.

        Eliminated is a label that the most frequent one has already beaten at its own error level.
        """
        leader, level = self._leader(), min(self.rule.delta, 0.5) / len(LABELS)
        return tuple(self._arm(label, leader, level) for label in LABELS)

    def _arm(self, label: Label, leader: Label, level: float) -> Arm:
        count = self.counts[LABELS.index(label)]
        band = confidence_sequence(count, self.calls, level)
        return Arm(
            label=label,
            draws=self.calls,
            estimate=count / self.calls if self.calls else None,
            low=band.low,
            high=band.high,
            eliminated=label is not leader and self._beats(leader, label),
        )

    def _leader(self) -> Label:
        return max(LABELS, key=lambda label: self.counts[LABELS.index(label)])

    def comparisons(self) -> tuple[Comparison, ...]:
        """The most frequent label's evidence over each rival, and the line 1/δ_{label|rival}, both as logarithms."""
        leader = self._leader()
        return tuple(self._comparison(leader, rival) for rival in LABELS if rival is not leader)

    def _comparison(self, leader: Label, rival: Label) -> Comparison:
        ahead, behind = (self.counts[LABELS.index(label)] for label in (leader, rival))
        return Comparison(
            rival=rival,
            leader=leader,
            scale="evidence",
            value=log_evidence(ahead, behind),
            needed=-log(self.rule.errors.level(leader, rival)),
            excluded=self._beats(leader, rival),
        )

    def _beats(self, leader: Label, rival: Label) -> bool:
        needed = least_count(self.counts[LABELS.index(rival)], self.rule.errors.level(leader, rival))
        return self.counts[LABELS.index(leader)] >= needed


@lru_cache(maxsize=1 << 14)
def _verdict(state: PairwiseState) -> Verdict | None:
    """The same few counts come again and again: nearly all cases are near-unanimous."""
    further = {label: state.draws_to_identify(label) for label in LABELS}
    label = min(LABELS, key=further.__getitem__)
    if further[label] == 0:
        return Verdict(label=label, ended=Ended.IDENTIFIED, calls=state.calls)
    if state.remaining == 0:
        return Verdict(label=None, ended=Ended.EXHAUSTED, calls=state.calls)
    if state.rule.curtail and further[label] > state.remaining:
        return Verdict(label=None, ended=Ended.CURTAILED, calls=state.calls)
    return None
