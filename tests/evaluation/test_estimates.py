"""Weighted estimates that cover the truth where the naive figure does not: against their formulas written out."""

from math import hypot

import pytest
from scipy.optimize import brentq
from scipy.stats import beta, chi2

from screening.evaluation.audit import Stratum
from screening.evaluation.estimates import bound_after, estimate
from screening.evaluation.metrics import Proportion
from screening.labels import Outcome

SAFE, UNSAFE, HUMAN = Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW


def stratum(outcome, cases, read, unsafe, name="all", **more):
    details = {"probability": 1.0, "selected": read} | more
    return Stratum(name=name, outcome=outcome, cases=cases, read=read, unsafe=unsafe, **details)


# A sample: cases, how many were read, how many of those were unsafe; and cases among them of strata that nobody has
# read. A world: the random samples of what was flagged, and of what was labeled safe.


def exact_interval(kept, lost, level):
    """One sample on each side: Clopper-Pearson of the share of ``lost`` among what was found, turned into the rate."""
    (kept_cases, kept_read, found), (lost_cases, lost_read, missed) = kept, lost
    low = beta.ppf(level / 2, missed, found + 1) if missed else 0.0
    high = beta.ppf(1 - level / 2, missed + 1, found) if found else 1.0

    def rate(theta):
        caught = (1 - theta) * kept_cases / kept_read
        return caught / (caught + theta * lost_cases / lost_read)

    return rate(high), rate(low)


def interval(kept, lost, level):
    """Of several samples: Garwood's limits of each count, and Donner and Zou's equation at both ends."""
    if len(kept) == len(lost) == 1 and len(kept[0]) == len(lost[0]) == 3:
        return exact_interval(kept[0], lost[0], level)

    def limits(samples):
        value, below, above = 0.0, [], []
        for cases, read, hits, *unseen in samples:
            value += (one := hits * cases / read)
            below.append(one - (chi2.ppf(level / 2, 2 * hits) / 2 * cases / read if hits else 0.0))
            above.append(chi2.ppf(1 - level / 2, 2 * hits + 2) / 2 * cases / read + sum(unseen) - one)
        return value, hypot(*below), hypot(*above)

    (k, k_below, k_above), (lo, lo_below, lo_above) = limits(kept), limits(lost)
    low = brentq(lambda s: (1 - s) * k - s * lo - hypot((1 - s) * k_below, s * lo_above), 0, 1) if k else 0.0
    high = brentq(lambda s: (1 - s) * k - s * lo + hypot((1 - s) * k_above, s * lo_below), 0, 1) if lo else 1.0
    return low, high


def harmless(samples):
    return [(cases, read, read - hits, *unseen) for cases, read, hits, *unseen in samples]


def total(samples):
    return sum(cases * hits / read for cases, read, hits, *_ in samples)


def apart(outcome, *samples):
    """Strata of which no two are one random sample."""
    return [stratum(outcome, *each, str(at), probability=(at + 1) / 7) for at, each in enumerate(samples)]


def hardly_read(unread):
    """1,000 texts labeled safe, some of them in a stratum that nobody has read yet."""
    read = [stratum(SAFE, 700, 70, 2, probability=0.1), stratum(SAFE, 300 - unread, 60, 1, probability=0.2)]
    return [*read, stratum(SAFE, unread, 0, 0, "new", probability=0.05), FLAGGED]


def unsettled(kind, flagged, safe):
    """Samples of which the last number gave no label: at worst all safe that were flagged, and all unsafe that were
    labeled safe; at best the other way round.
    """
    (many, read, caught, open_ones), (cases, looked, missed, doubtful) = flagged, safe
    strata = [
        stratum(UNSAFE, many, read, caught, selected=read + open_ones, **{kind: open_ones}),
        stratum(SAFE, cases, looked, missed, selected=looked + doubtful, probability=0.06, **{kind: doubtful}),
    ]
    worst = [(many, read + open_ones, caught)], [(cases, looked + doubtful, missed + doubtful)]
    best = [(many, read + open_ones, caught + open_ones)], [(cases, looked + doubtful, missed)]
    return strata, ([(many, read, caught)], [(cases, looked, missed)]), worst, best


FLAGGED = stratum(UNSAFE, 40, 40, 30)
CHAT = stratum(SAFE, 1000, 100, 2, "chat", probability=0.1)
SETTLED = {
    "all that was flagged is one sample": (
        [CHAT, stratum(UNSAFE, 90, 90, 60), stratum(HUMAN, 30, 30, 20)],
        ([(120, 120, 80)], [(1000, 100, 2)]),
    ),
    "strata with one probability are one sample": (
        [CHAT, stratum(SAFE, 500, 50, 1, "forum", probability=0.1), FLAGGED],
        ([(40, 40, 30)], [(1500, 150, 3)]),
    ),
    "unless reviews of one are due": (
        [CHAT, stratum(SAFE, 1000, 20, 1, "forum", probability=0.1, selected=100), FLAGGED],
        ([(40, 40, 30)], [(1000, 20, 1), (1000, 100, 2)]),
    ),
    "a hundredth may be unread": (hardly_read(10), ([(40, 40, 30)], [(710, 70, 2, 10), (290, 60, 1)])),
    **{
        f"{flagged} {safe}": ([*apart(UNSAFE, *flagged), *apart(SAFE, *safe)], (flagged, safe))
        for flagged, safe in [
            ([(90, 45, 1)], [(400, 40, 6)]),
            ([(90, 30, 4)], [(1000, 100, 0)]),
            ([(9, 3, 0)], [(8, 4, 1)]),
            ([(90, 30, 20), (60, 12, 3)], [(1000, 100, 2), (500, 10, 1)]),
            ([(90, 30, 7), (60, 12, 3)], [(1000, 100, 0), (500, 10, 0)]),
            ([(90, 30, 0), (60, 12, 0)], [(1000, 100, 4)]),
        ]
    },
}
UNSETTLED = {
    "lost": unsettled("lost", (45, 40, 40, 5), (1000, 58, 0, 2)),
    "read again": unsettled("read_again", (45, 45, 40, 0), (1000, 54, 0, 6)),
    "inconclusive": unsettled("inconclusive", (45, 40, 30, 5), (1000, 50, 1, 10)),
    # of 100 escalated 50 came to no label, 10 of 50 were unsafe: 20 in all, which had once counted as fewer
    "of one outcome is not made up from another": (
        [
            stratum(SAFE, 3000, 300, 3, probability=0.1),
            stratum(UNSAFE, 100, 100, 95),
            stratum(HUMAN, 100, 50, 10, selected=100, inconclusive=50),
        ],
        ([(100, 100, 95), (100, 50, 10)], [(3000, 300, 3)]),
        ([(200, 200, 105)], [(3000, 300, 3)]),
        ([(200, 200, 155)], [(3000, 300, 3)]),
    ),
}


@pytest.mark.parametrize("confidence", [0.95, 0.8])
@pytest.mark.parametrize(
    ("strata", "settled", "worst", "best"),
    [
        *(pytest.param(strata, world, world, world, id=name) for name, (strata, world) in SETTLED.items()),
        *(pytest.param(*each, id=name) for name, each in UNSETTLED.items()),
    ],
)
def test_rates_are_those_of_the_samples_between_what_they_are_at_both_extremes(
    strata, settled, worst, best, confidence
):
    found = estimate(strata, confidence)
    for rate, of, (kept, lost) in ((found.sensitivity, list, (0, 1)), (found.specificity, harmless, (1, 0))):
        assert rate.value == pytest.approx(total(of(settled[kept])) / (total(of(settled[0])) + total(of(settled[1]))))
        assert rate.low == pytest.approx(interval(of(worst[kept]), of(worst[lost]), 1 - confidence)[0])
        assert rate.high == pytest.approx(interval(of(best[kept]), of(best[lost]), 1 - confidence)[1])
        seen = [sum(hits for _, _, hits, *_ in of(settled[side])) for side in (kept, lost)]
        assert rate.naive == Proportion(seen[0], sum(seen))
    missed, cases = found.missed, sum(sample[0] for sample in settled[1])
    assert missed.per_thousand == pytest.approx(1000 * total(settled[1]) / cases)
    assert (missed.cases, missed.read, missed.missed) == tuple(sum(each[at] for each in settled[1]) for at in range(3))
    shares = [((n - sum(unseen)) / cases, k / read, read, k) for n, read, k, *unseen in worst[1]]
    above = hypot(*(weight * (beta.ppf(confidence, k + 1, read - k) - share) for weight, share, read, k in shares))
    at_most = sum(weight * share for weight, share, _, _ in shares) + above + sum(sum(s[3:]) for s in worst[1]) / cases
    assert missed.at_most_per_thousand == pytest.approx(1000 * at_most)
    assert missed.exact == (len(worst[1]) == 1)
    if not any(sample[3:] for sample in worst[1]) and confidence == 0.95:
        assert bound_after(strata, 0) == pytest.approx(missed.at_most_per_thousand)
    of_safe = [each for each in strata if each.outcome is SAFE]
    for kind in ("inconclusive", "read_again", "lost"):
        assert getattr(missed, kind) == sum(getattr(each, kind) for each in of_safe)


def test_what_nobody_has_read_has_no_estimate_and_the_stratum_is_named():
    unread = "no review has given safe or unsafe yet of: "
    flagged = [stratum(SAFE, 10, 10, 0), stratum(UNSAFE, 4, 0, 0, "b"), stratum(HUMAN, 5, 0, 0, "a")]
    for strata, reason in (
        ([stratum(SAFE, 500, 0, 0, "chat", probability=0.05, selected=20), FLAGGED], f"{unread}chat"),
        (hardly_read(11), f"{unread}new"),
        (flagged, f"{unread}a, b"),
        ([stratum(SAFE, 10, 10, 0)], "no such text has been reviewed yet"),
        ([], "no such text has been reviewed yet"),
    ):
        found = estimate(strata)
        assert (found.sensitivity.value, found.sensitivity.low, found.sensitivity.reason) == (None, None, reason)
        if strata not in (flagged, [flagged[0]]):
            assert (found.missed.per_thousand, found.missed.at_most_per_thousand) == (None, None)
            assert bound_after(strata, 5) is None
    unclear = estimate([stratum(SAFE, 100, 0, 0, selected=10, inconclusive=10), stratum(UNSAFE, 9, 9, 9)])
    assert (unclear.missed.per_thousand, unclear.missed.at_most_per_thousand) == (None, 1000.0)
    assert (unclear.sensitivity.value, unclear.sensitivity.naive) == (None, Proportion(9, 9))
    with pytest.raises(ValueError, match="tally"):
        stratum(SAFE, 9, 5, 0, selected=6, lost=2)


def test_further_reviews_find_as_much_as_those_before_and_are_spread_as_the_cases_are():
    for now, then, reviews in (
        # twice as many reviews with twice as many hits: the bound is the one of those counts
        ([(1000, 100, 2)], [(1000, 200, 4)], 100),
        ([(1000, 100, 2), (500, 50, 3)], [(1000, 200, 4), (500, 100, 6)], 150),
        ([(40, 20, 0)], [(40, 40, 0)], 500),  # all is read
        ([(9, 3, 3), (9, 3, 3)], [(9, 9, 9), (9, 9, 9)], 500),
    ):
        expected = estimate(apart(SAFE, *then)).missed.at_most_per_thousand
        assert bound_after(apart(SAFE, *now), reviews) == pytest.approx(expected, abs=0.01) and expected <= 1000.0
    assert bound_after([stratum(UNSAFE, 9, 9, 9)], 5) is None
