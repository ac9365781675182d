"""What a stopping rule does at a given distribution of answers: exactly for rules on counts, else simulated. And what
the theory page shows: radii and sample sizes of the paper, fewest draws of any rule, errors over many cases.

A commit is wrong when the label named is not the node's mode; whether the mode is right is another question. The
paper claims logarithmic growth for its rule (regret theorem, appendix C). At a constant δ the bound grows in
proportion to T; it is the schedule δ/t that makes it logarithmic. A δ outside 0 < δ < 1 is a ValueError everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, log, pi, sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from screening.stopping.evidence import Floats, log_evidence, require_probability
from screening.stopping.rules import NONE, CountRule, Draws, Integers, K, MajorityVote, StoppingRule, first_named, run

SIMULATED = 4_000
"""Sequences that a rule is run on which depends on more than counts."""
VOTES = 5
"""Those of the majority vote beside which errors over many cases are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingCharacteristics:
    """Probabilities of a node's possible ends, and its mean number of calls, at ``probabilities`` of the labels.

    ``identified`` is in the order of `LABELS`; it and ``abstained`` add up to 1.
    """

    probabilities: tuple[float, ...]
    identified: tuple[float, ...]
    abstained: float
    mean_calls: float

    @property
    def right(self) -> float:
        """Probability of naming the mode (any of them, if several labels are equally probable)."""
        top = max(self.probabilities)
        return sum(named for named, each in zip(self.identified, self.probabilities, strict=True) if each == top)


def operating_characteristics(rule: StoppingRule, probabilities: Sequence[float]) -> OperatingCharacteristics:
    """By dynamic programming over counts, in time that grows with the budget cubed. ValueError unless the probabilities
    are K and add up to 1.

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
        given_up = 0.0
        if rule.stops_for_futility or calls == rule.budget:
            hopeless = ~_hopeful(rule, counts, rule.budget - calls)
            given_up = float(live[hopeless].sum())
            live[hopeless] = 0
        identified += ends
        abstained += given_up
        mean_calls += calls * (float(ends.sum()) + given_up)
        after = np.zeros((calls + 2, calls + 2))
        after[1:, :-1] += mix[0] * live
        after[:-1, 1:] += mix[1] * live
        after[:-1, :-1] += mix[2] * live
        live = after
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


def _simulate(rule: StoppingRule, mix: tuple[float, ...]) -> OperatingCharacteristics:
    """Always the same sequences for the same mix."""
    mixes = np.broadcast_to(mix, (SIMULATED, K))
    label, ended, calls = run(rule, _draws(np.random.default_rng(0), mixes, rule.budget))
    named = ended == 0
    shares = [float(np.mean(named & (label == arm))) for arm in range(K)]
    return OperatingCharacteristics(
        probabilities=mix,
        identified=tuple(shares),
        abstained=1 - float(np.mean(named)),
        mean_calls=float(calls.mean()),
    )


def _draws(random: np.random.Generator, mixes: Floats, budget: int) -> Draws:
    """So many draws of each case, whose label probabilities are a row of ``mixes``."""
    # The last edge is left out: a sum that rounds below 1 must not make a fourth label.
    edges = np.cumsum(mixes, axis=1)[:, None, :-1]
    uniform = random.random((len(mixes), budget))
    drawn: Draws = (uniform[:, :, None] >= edges).sum(axis=2, dtype=np.uint8)
    return drawn


def dkw_radius(draws: int, delta: float) -> float:
    """ε_n(δ) = √(ln(2/δ) / (2n)): half width of the band around the empirical *distribution function*.

    The paper's node-level theorem states this ε for each label's probability. Its proof (appendix A) takes a
    probability as a difference of two values of the distribution function, which gives 2ε for all labels at once. Holds
    at one n fixed in advance, not at every look. Infinite at n = 0. Source: Massart 1990, doi:10.1214/aop/1176990746.

    >>> round(dkw_radius(100, 0.05), 3)  # √(ln 40 / 200)
    0.136
    """
    require_probability(delta)
    return sqrt(log(2 / delta) / (2 * draws)) if draws else inf


def fixed_sample_size(gap: float, delta: float) -> float:
    """The paper's n* = 2·ln(2/δ)/Δ² pulls per arm (appendix A): the size of a sample fixed in advance. It takes ε where
    the proof gives 2ε; the time-uniform Algorithm 1 needs more. Infinite at a gap Δ of 0.

    >>> round(fixed_sample_size(0.5, 0.05), 1), round(fixed_sample_size(0.4, 0.05), 1)
    (29.5, 46.1)
    """
    require_probability(delta)
    return 2 * log(2 / delta) / gap**2 if gap else inf


def information_bound(probabilities: Sequence[float], delta: float) -> float:
    """Fewest mean draws of *any* rule with error at most δ: kl(δ, 1-δ) / min over rivals b of KL to a tie.

    The nearest distribution in which the mode m is not the mode gives m and b both (p_m + p_b)/2
    (Garivier & Kaufmann, COLT 2016, for pooled draws). Infinite where the mode is not unique.

    >>> round(information_bound((0.8, 0.1, 0.1), 0.05), 1)
    8.6
    """
    require_probability(delta)
    first, *rivals = np.sort(probabilities)[::-1]
    ties = (first + np.array(rivals)) / 2
    distance = float((scipy.special.xlogy(first, first / ties) + scipy.special.xlogy(rivals, rivals / ties)).min())
    return (1 - 2 * delta) * log((1 - delta) / delta) / distance if distance > 0 else inf


class Schedule(StrEnum):
    """How δ is set for case number t of a deployment."""

    CONSTANT = "constant"
    HARMONIC = "harmonic"
    SUMMABLE = "summable"


def scheduled_deltas(schedule: Schedule, delta: float, cases: int) -> Floats:
    """δ_t of cases t = 1, 2, … T: δ, or δ/t, or 6δ/(π²t²).

    >>> scheduled_deltas(Schedule.HARMONIC, 0.05, 2).tolist()
    [0.05, 0.025]
    """
    require_probability(delta)
    t = np.arange(1, cases + 1)
    shares = {Schedule.CONSTANT: np.ones(cases), Schedule.HARMONIC: 1 / t, Schedule.SUMMABLE: 6 / (pi * t) ** 2}
    return delta * shares[schedule]


def expected_wrong_commits(schedule: Schedule, delta: float, cases: int) -> float:
    """Σ δ_t over T cases (one node each): bounds the expected number of named labels that are not the mode.

    It is δT, at most δ(1 + ln T), or at most δ for ever; 0 without cases.

    >>> round(expected_wrong_commits(Schedule.CONSTANT, 0.05, 1000), 6)
    50.0
    """
    return float(scheduled_deltas(schedule, delta, cases).sum())


Kinds = Mapping[tuple[float, float, float], float]
"""Kinds of cases: the node's label probabilities, in the order of `LABELS`, and the share of such cases."""
MOSTLY_EASY: Kinds = {(0.95, 0.03, 0.02): 0.7, (0.1, 0.8, 0.1): 0.2, (0.42, 0.53, 0.05): 0.1}
"""Seven cases in ten near-unanimous, one in ten hard."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegretCurve:
    """``wrong[t-1]`` is one rule's mean number over runs of wrong commits within the first t cases, ``bound`` Σ δ_t up
    to each, None for majority vote.
    """

    name: str
    wrong: Floats
    bound: Floats | None
    mean_calls: float
    abstained: float


def simulate_regret(
    kinds: Kinds = MOSTLY_EASY,
    *,
    seed: int,
    cases: int = 1000,
    runs: int = 20,
    delta: float = 0.05,
    budget: int = 100,
) -> tuple[RegretCurve, ...]:
    """The curves of majority vote and of the recommended rule (symmetric δ) under each schedule, on the same draws.

    One node, ``cases`` cases in random order, ``runs`` repetitions. No futility stop: an abstention costs the whole
    budget. Every kind has one mode.
    """
    random, evidence = np.random.default_rng(seed), evidence_table(budget)
    shares, mixes, sample = np.array(list(kinds.values())), np.array(list(kinds)), []
    for _ in range(runs):
        chosen = mixes[random.choice(len(kinds), size=cases, p=shares / shares.sum())]
        sample.append((chosen.argmax(axis=1), _draws(random, chosen, budget)))
    votes = [(modes, *MajorityVote(budget=VOTES).stops(draws)) for modes, draws in sample]
    curves = [_curve(f"majority vote n={VOTES}", votes, None)]
    for schedule in Schedule:
        deltas = scheduled_deltas(schedule, delta, cases)
        found = [(modes, *adapt(draws, deltas, evidence)) for modes, draws in sample]
        curves.append(_curve(f"adaptive, {schedule} δ", found, np.cumsum(deltas)))
    return tuple(curves)


def evidence_table(budget: int) -> Floats:
    """ln E(x, y), [x, y] up to the budget each; minus infinity where x + y is beyond it and where x is not ahead."""
    counts = range(budget + 1)
    return np.array([[log_evidence(x, y) if y < x <= budget - y else -inf for y in counts] for x in counts])


def adapt(draws: Draws, deltas: Floats, evidence: Floats) -> tuple[Integers, Integers]:
    """The pairwise rule on each row of draws, each at its own symmetric δ: the label named or `NONE`, and the calls.

    E falls with the rival's count, so the strongest rival decides: the test is E(first, second) ≥ (K-1)/δ.
    """
    counts = np.cumsum(draws[:, :, None] == np.arange(K), axis=1)
    ordered = np.sort(counts, axis=2)
    reached = evidence[ordered[:, :, -1], ordered[:, :, -2]] >= np.log((K - 1) / deltas)[:, None]
    return first_named(np.where(reached, counts.argmax(axis=2), NONE), draws.shape[1])


def _curve(name: str, outcomes: list[tuple[Integers, Integers, Integers]], bound: Floats | None) -> RegretCurve:
    wrong = np.array([(labels != NONE) & (labels != modes) for modes, labels, _ in outcomes])
    return RegretCurve(
        name=name,
        wrong=np.cumsum(wrong.mean(axis=0)),
        bound=bound,
        mean_calls=float(np.mean([calls.mean() for _, _, calls in outcomes])),
        abstained=float(np.mean([(labels == NONE).mean() for _, labels, _ in outcomes])),
    )
