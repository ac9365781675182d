"""What every stopping rule is: a frozen setting that starts frozen states."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, Self

from screening.labels import Label


class Ended(StrEnum):
    """How a node ended. `EXHAUSTED`, `CURTAILED` and `TOO_CLOSE` are abstentions. No rule says the last two, the engine
    does: `NO_ANSWER` where an escalation rests on answers that were no labels, `TOO_CLOSE` where the probabilities that
    a server gave leave no label ahead.
    """

    IDENTIFIED = "identified"
    EXHAUSTED = "exhausted"
    CURTAILED = "curtailed"
    NO_ANSWER = "no_answer"
    TOO_CLOSE = "too_close"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rule concluded, and its stopping time in calls."""

    label: Label | None
    ended: Ended
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One label as the evidence stands: its estimate with a band, over ``draws`` draws.

    ``estimate`` is None before the first draw. ``low`` and ``high`` bound the probability that the node's
    model gives this label, simultaneously over all looks, at the rule's own level.
    """

    label: Label
    draws: int
    estimate: float | None
    low: float
    high: float
    eliminated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How far the leading label is from excluding one rival, in the rule's own statistic.

    ``value`` is where it stands and ``needed`` its line: the rival is excluded at or past it. The scale is the natural
    logarithm of evidence, a lead in pulls, in probability, or in votes, which have no line. A rival that was dropped
    for good names no leader, and its value is the line that was passed then.
    """

    rival: Label
    leader: Label | None
    scale: Literal["evidence", "pulls", "votes", "probability"]
    value: float
    needed: float | None
    excluded: bool

    @property
    def progress(self) -> float | None:
        """The share of the way to the line, from 0 to 1; None where there is no line."""
        if self.needed is None:
            return None
        if self.excluded or self.needed <= 0:
            return 1.0 if self.excluded else 0.0
        return min(1.0, max(0.0, self.value / self.needed))


class RuleState(Protocol):
    """The evidence so far. States are immutable: `observe` returns the next one."""

    @property
    def calls(self) -> int:
        """Draws observed so far."""
        ...

    def observe(self, label: Label) -> Self:
        """The state after one more draw, in request order. ValueError once identified or exhausted.

        A curtailed state may be fed on: an engine that draws in waves looks only when a wave is in, since no
        label can be identified before, and so may learn of a curtailment up to a wave late. It counts every
        draw of the wave; a replay must look at the same moments to give the same calls.
        """
        ...

    def verdict(self) -> Verdict | None:
        """The conclusion, or None while more draws are needed."""
        ...

    def draws_to_earliest_decision(self) -> int:
        """Fewest further draws after which any label could be identified, were all of them favourable.

        0 once there is a verdict.
        """
        ...

    def next_wave(self) -> int:
        """Draws to ask for at once: as many as the earliest decision takes, so that none can come too late to
        count; without curtailment, when nothing can be decided any more, what the budget still pays for.
        """
        ...

    def arms(self) -> tuple[Arm, ...]:
        """Each label's estimate and band, in the order of `LABELS`."""
        ...

    def comparisons(self) -> tuple[Comparison, ...]:
        """The leading label against each rival, in the order of `LABELS`: what the rule decides by."""
        ...


class StoppingRule(Protocol):
    """A rule with its settings fixed."""

    def __hash__(self) -> int:
        """Equal settings, equal hash: what follows from a rule and its draws can be kept by them."""
        ...

    @property
    def budget(self) -> int:
        """Most draws a node may use: a hard cap."""
        ...

    @property
    def delta(self) -> float | None:
        """Bound on the probability of naming a label that is not the mode; None where the rule has none."""
        ...

    def minimum_budget(self) -> int:
        """Smallest budget with which these error levels could ever identify a label."""
        ...

    def start(self) -> RuleState:
        """The state before the first draw."""
        ...
