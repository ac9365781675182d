"""The paper's baseline: a fixed number of draws and the label that most of them gave."""

from dataclasses import dataclass

from screening.labels import LABELS, Label
from screening.statistics.bounds import clopper_pearson
from screening.statistics.rules.counts import LabelCounts
from screening.statistics.rules.protocol import Arm, Comparison, Ended, Verdict

BAND_DELTA = 0.05
"""Level of the displayed interval. The vote itself has no error level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MajorityVote:
    """Plurality of ``n`` draws, all of which it uses, as the paper does; n = 1 is a single draw.

    It bounds no error, so ``delta`` is None. Without a plurality the label is `escalate` (the paper: tie →
    escalate) and the node has ended `exhausted`: it ran out of votes, the model did not ask to escalate. ValueError for
    n below 1.
    """

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError("a vote needs at least one draw")

    @property
    def budget(self) -> int:
        """The n draws."""
        return self.n

    @property
    def delta(self) -> None:
        """None: a vote promises nothing about the mode."""
        return None

    def minimum_budget(self) -> int:
        """The n draws."""
        return self.n

    def start(self) -> "VoteState":
        """The state before the first draw."""
        return VoteState(rule=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteState(LabelCounts):
    """How often each label was drawn, in the order of `LABELS`."""

    rule: MajorityVote

    def observe(self, label: Label) -> "VoteState":
        """The state after one more vote; ValueError after a verdict."""
        if self.verdict() is not None:
            raise ValueError("the rule has stopped")
        return self.with_one_more(label)

    def verdict(self) -> Verdict | None:
        """None before n votes; then the plurality as identified (no more is meant), a tie as exhausted."""
        if self.calls < self.rule.n:
            return None
        most = max(self.counts)
        leaders = [label for label, count in zip(LABELS, self.counts, strict=True) if count == most]
        if len(leaders) > 1:
            return Verdict(label=Label.ESCALATE, ended=Ended.EXHAUSTED, calls=self.calls)
        return Verdict(label=leaders[0], ended=Ended.IDENTIFIED, calls=self.calls)

    def draws_to_earliest_decision(self) -> int:
        """The votes not yet cast: it never stops before n, even where the rest cannot change the winner."""
        return self.rule.n - self.calls

    def next_wave(self) -> int:
        """All the votes not yet cast."""
        return self.rule.n - self.calls

    def arms(self) -> tuple[Arm, ...]:
        """Each label's share with an exact 95 % interval for all K labels together.

        Unlike the other rules' bands these hold only at the n votes fixed in advance, not at every look.
        """
        return tuple(self._arm(label, count) for label, count in zip(LABELS, self.counts, strict=True))

    def _arm(self, label: Label, count: int) -> Arm:
        band = clopper_pearson(count, self.calls, BAND_DELTA / len(LABELS))
        return Arm(
            label=label,
            draws=self.calls,
            estimate=count / self.calls if self.calls else None,
            low=band.low,
            high=band.high,
            eliminated=False,
        )

    def comparisons(self) -> tuple[Comparison, ...]:
        """The lead in votes of the most frequent label over each other. Nothing is excluded before all votes are in,
        and then it is a count and no evidence: there is no line.
        """
        leader = max(LABELS, key=lambda label: self.counts[LABELS.index(label)])
        most = max(self.counts)
        return tuple(
            Comparison(rival=rival, leader=leader, scale="votes", value=most - count, needed=None, excluded=False)
            for rival, count in zip(LABELS, self.counts, strict=True)
            if rival is not leader
        )
