"""The paper's Algorithm 1: pull every active label once a round, drop those that are clearly not the mode."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import floor

from screening.labels import LABELS, Label
from screening.statistics.bounds import algorithm_one_radius
from screening.statistics.rules.protocol import Arm, Comparison, Ended, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessiveElimination:
    """Algorithm 1 with identify-or-escalate (paper, section 3; after Even-Dar et al. 2006).

    ``delta`` bounds the probability that the mode is ever dropped; ``budget`` is the most calls. With
    ``curtail`` it abstains as soon as no further draws within the budget could identify a label; without, it
    pays for every round it can, as the paper does. ValueError for a δ outside (0, 1) or a budget below 0.
    """

    delta: float
    budget: int
    curtail: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise ValueError("delta must lie strictly between 0 and 1")
        if self.budget < 0:
            raise ValueError("budget must not be negative")

    def minimum_budget(self) -> int:
        """Calls that a unanimous model needs: the smallest budget that can ever identify a label.

        >>> SuccessiveElimination(delta=0.05, budget=100).minimum_budget()
        72
        """
        return self.start().draws_to_identify()

    def smallest_decidable_gap(self) -> float | None:
        """Smallest p̂₁ - p̂₂ that all the rounds of the budget could tell apart: 2w.

        A value of 1 or more is impossible: no answers can decide. None if the budget pays no round.
        """
        rounds = self.budget // len(LABELS)
        return 2 * algorithm_one_radius(rounds, self.delta, len(LABELS)) if rounds else None

    def start(self) -> "EliminationState":
        """The state before the first pull."""
        return EliminationState(rule=self)


@lru_cache(maxsize=1 << 16)
def least_gap(pulls: int, delta: float) -> int:
    """Fewest successes a leader must be ahead, after as many pulls each, for the other arm to be dropped.

    p̂_max - w > p̂_c + w with equal pulls T is (difference of successes) > 2·T·w.

    >>> least_gap(24, 0.05)
    24
    """
    return floor(2 * pulls * algorithm_one_radius(pulls, delta, len(LABELS))) + 1


@lru_cache(maxsize=1 << 16)
def earliest_drop(losses: int, delta: float) -> int:
    """Number of the round that can drop an arm at the earliest, when its leader has lost ``losses`` on it.

    A leader that gains 1 every round would be T ahead after T rounds; what it is short of that are its losses.
    Returns the smallest T with T - losses ≥ `least_gap`: finite, as the gap needed grows like √(T ln T).

    >>> earliest_drop(0, 0.05), earliest_drop(4, 0.05), earliest_drop(5, 0.05)
    (24, 33, 35)
    """
    rounds = 1
    while (needed := losses + least_gap(rounds, delta)) > rounds:
        rounds = needed  # no smaller T can do, since the gap needed never shrinks
    return rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class EliminationState:
    """Pulls and successes per arm, in the order of `LABELS`.

    ``pulled`` of the active arms have had their turn in this round.
    """

    rule: SuccessiveElimination
    successes: tuple[int, ...] = (0,) * len(LABELS)
    pulls: tuple[int, ...] = (0,) * len(LABELS)
    active: tuple[int, ...] = tuple(range(len(LABELS)))
    pulled: int = 0

    @property
    def calls(self) -> int:
        """Draws observed so far: every pull is a call of its own."""
        return sum(self.pulls)

    @property
    def remaining(self) -> int:
        """Calls left in the budget."""
        return self.rule.budget - self.calls

    def observe(self, label: Label) -> "EliminationState":
        """The state after one more pull: a success if the answer was the pulled arm's label, else a failure.

        ValueError once identified or exhausted.
        """
        verdict = self.verdict()
        if verdict is not None and verdict.ended is not Ended.CURTAILED:
            raise ValueError("the rule has stopped")
        arm = self.active[self.pulled]
        after = replace(
            self,
            successes=_increment(self.successes, arm, int(LABELS[arm] is label)),
            pulls=_increment(self.pulls, arm, 1),
            pulled=self.pulled + 1,
        )
        return after if after.pulled < len(after.active) else after._end_of_round()

    def _end_of_round(self) -> "EliminationState":
        best = max(self.successes[arm] for arm in self.active)
        needed = least_gap(self.pulls[self.active[0]], self.rule.delta)
        active = tuple(arm for arm in self.active if best - self.successes[arm] < needed)
        return replace(self, active=active, pulled=0)

    def verdict(self) -> Verdict | None:
        """Identified when one arm is left, exhausted if no further round can be paid, curtailed if hopeless."""
        if len(self.active) == 1:
            return Verdict(label=LABELS[self.active[0]], ended=Ended.IDENTIFIED, calls=self.calls)
        if self.pulled == 0 and self.remaining < len(self.active):
            return Verdict(label=None, ended=Ended.EXHAUSTED, calls=self.calls)
        if self.rule.curtail and self.draws_to_identify() > self.remaining:
            return Verdict(label=None, ended=Ended.CURTAILED, calls=self.calls)
        return None

    def draws_to_identify(self) -> int:
        """Fewest further draws to a single arm, budget aside; 0 once one arm is left."""
        if len(self.active) == 1:
            return 0
        rounds = self._rounds_to_drop_rivals()
        return sum(rounds) + max(rounds) - self.pulled

    def _rounds_to_drop_rivals(self) -> list[int]:
        """Rounds, the current one included, after which each rival of the best-placed arm could go.

        Best placed is the arm with the most successes at the end of this round if it succeeds in its turn; of
        equals the first, which has had its turn and so has them already. While it succeeds and the others
        fail, its lead over each rival is the largest that any answers can make: no arm can go sooner.
        """
        complete = self.pulls[self.active[-1]]
        reach = {arm: self.successes[arm] + (position >= self.pulled) for position, arm in enumerate(self.active)}
        best = max(self.active, key=reach.__getitem__)
        leads = (reach[best] - self.successes[arm] for arm in self.active if arm != best)
        return [earliest_drop(complete + 1 - lead, self.rule.delta) - complete for lead in leads]

    def draws_to_earliest_decision(self) -> int:
        """Fewest further draws after which a label could be identified; 0 once there is a verdict."""
        return 0 if self.verdict() is not None else self.draws_to_identify()

    def next_wave(self) -> int:
        """As many draws as the earliest decision takes; 0 once there is a verdict.

        Close to the end of the budget the rule might be exhausted sooner, or could identify nothing at all
        (without curtailment). Then it is the draws up to the first round that could drop an arm or, if sooner,
        that the budget cannot follow with another.
        """
        needed, active = self.draws_to_earliest_decision(), len(self.active)
        if needed <= self.remaining - (active - 1):  # exhausted means fewer calls left than active arms
            return needed
        affordable = (self.remaining + self.pulled) // active
        return min(affordable, *self._rounds_to_drop_rivals()) * active - self.pulled

    def arms(self) -> tuple[Arm, ...]:
        """p̂ ± w of every arm, clipped to [0, 1]; a dropped arm stays as it was when it was dropped."""
        return tuple(self._arm(index) for index in range(len(LABELS)))

    def _arm(self, index: int) -> Arm:
        pulls = self.pulls[index]
        estimate = self.successes[index] / pulls if pulls else None
        width = algorithm_one_radius(pulls, self.rule.delta, len(LABELS))
        return Arm(
            label=LABELS[index],
            draws=pulls,
            estimate=estimate,
            low=0.0 if estimate is None else max(0.0, estimate - width),
            high=1.0 if estimate is None else min(1.0, estimate + width),
            eliminated=index not in self.active,
        )

    def comparisons(self) -> tuple[Comparison, ...]:
        """The best active arm's lead in successes over each rival, and the lead that would drop it at this round's end.

        A dropped arm stands at the lead that dropped it; it was the best arm of then that had it.
        """
        best = max(self.active, key=self.successes.__getitem__)
        return tuple(self._comparison(best, index) for index in range(len(LABELS)) if index != best)

    def _comparison(self, best: int, index: int) -> Comparison:
        dropped = index not in self.active
        rounds = self.pulls[index] if dropped else max(1, *(self.pulls[arm] for arm in self.active))
        needed = least_gap(rounds, self.rule.delta)
        return Comparison(
            rival=LABELS[index],
            leader=None if dropped else LABELS[best],
            scale="pulls",
            value=needed if dropped else self.successes[best] - self.successes[index],
            needed=needed,
            excluded=dropped,
        )


def _increment(counts: tuple[int, ...], index: int, by: int) -> tuple[int, ...]:
    return (*counts[:index], counts[index] + by, *counts[index + 1 :])
