"""What a stopping rule does at a given distribution of answers: exactly for rules on counts, else simulated."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from screening.labels import LABELS
from screening.stopping.rules import NONE, CountRule, Integers, StoppingRule, run

K = len(LABELS)
SIMULATED = 4_000
"""Sequences that a rule is run on which depends on more than counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingCharacteristics:
    """Probabilities of a node's possible ends, and its mean number of calls, at ``probabilities`` of the labels.

    ``identified`` is in the order of `LABELS`; it and ``abstained`` add up to 1. ``simulated`` is the number of
    sequences that the figures are shares of, None where they are exact.
    """

    probabilities: tuple[float, ...]
    identified: tuple[float, ...]
    abstained: float
    mean_calls: float
    simulated: int | None = None

    @property
    def right(self) -> float:
        """Probability of naming the mode (any of them, if several labels are equally probable)."""
        return sum(self._shares(is_mode=True))

    @property
    def wrong(self) -> float:
        """Probability of naming a label that is not the mode: what the contract bounds."""
        return sum(self._shares(is_mode=False))

    def _shares(self, *, is_mode: bool) -> list[float]:
        top = max(self.probabilities)
        return [
            named
            for named, probability in zip(self.identified, self.probabilities, strict=True)
            if (probability == top) is is_mode
        ]


def operating_characteristics(rule: StoppingRule, probabilities: Sequence[float]) -> OperatingCharacteristics:
    """What the rule does when each draw gives label i with ``probabilities[i]``, in the order of `LABELS`.

    Exact by dynamic programming over counts, in time that grows with the budget cubed: a second at some hundred calls.
    ValueError unless the probabilities are K and add up to 1.

    >>> from screening.stopping.rules import MajorityVote
    >>> round(operating_characteristics(MajorityVote(n=3), (0.8, 0.2, 0.0)).right, 3)  # 0.8³ + 3·0.8²·0.2
    0.896
    """
    if len(probabilities) != K or min(probabilities) < 0 or abs(sum(probabilities) - 1) > 1e-9:
        raise ValueError("one probability per label, adding up to 1")
    mix = tuple(map(float, probabilities))
    return _exact(rule, mix) if isinstance(rule, CountRule) else _simulate(rule, mix)


def _exact(rule: CountRule, mix: tuple[float, ...]) -> OperatingCharacteristics:
    identified, abstained, mean_calls = np.zeros(K), 0.0, 0.0
    live = np.ones((1, 1))  # probability of having drawn (safe, unsafe) so often and not having stopped
    for calls in range(rule.budget + 1):
        safe, unsafe = np.indices(live.shape)
        counts = np.stack([safe, unsafe, np.maximum(calls - safe - unsafe, 0)])
        label = rule.named(counts)
        ends = np.array([live[label == arm].sum() for arm in range(K)])
        live[label != NONE] = 0
        if rule.stops_for_futility or calls == rule.budget:
            hopeless = ~_hopeful(rule, counts, rule.budget - calls)
            given_up = float(live[hopeless].sum())
            live[hopeless] = 0
        else:
            given_up = 0.0
        identified += ends
        abstained += given_up
        mean_calls += calls * (float(ends.sum()) + given_up)
        live = _after_draw(live, mix)
    return OperatingCharacteristics(
        probabilities=mix, identified=tuple(identified.tolist()), abstained=abstained, mean_calls=mean_calls
    )


def _hopeful(rule: CountRule, counts: Integers, remaining: int) -> NDArray[np.bool_]:
    hopeful = np.zeros(counts.shape[1:], dtype=bool)
    for arm in range(K):
        later = counts.copy()
        later[arm] += remaining
        hopeful |= rule.named(later) != NONE
    return hopeful


def _after_draw(live: NDArray[np.float64], mix: Sequence[float]) -> NDArray[np.float64]:
    after = np.zeros((len(live) + 1, len(live) + 1))
    after[1:, :-1] += mix[0] * live
    after[:-1, 1:] += mix[1] * live
    after[:-1, :-1] += mix[2] * live
    return after


def _simulate(rule: StoppingRule, mix: tuple[float, ...]) -> OperatingCharacteristics:
    """Always the same sequences for the same mix."""
    edges = np.cumsum(mix)[: K - 1]
    uniform = np.random.default_rng(0).random((SIMULATED, rule.budget))
    label, ended, calls = run(rule, (uniform[:, :, None] >= edges).sum(axis=2, dtype=np.uint8))
    named = ended == 0
    shares = [float(np.mean(named & (label == arm))) for arm in range(K)]
    return OperatingCharacteristics(
        probabilities=mix,
        identified=tuple(shares),
        abstained=1 - float(np.mean(named)),
        mean_calls=float(calls.mean()),
        simulated=SIMULATED,
    )
