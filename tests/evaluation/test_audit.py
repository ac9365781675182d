"""The audit's coin, what of a case counts, tallies; and the guarantee: levels held by simulation and exact numbers."""

import re
from dataclasses import replace
from math import comb, sqrt

import numpy as np
import pytest
from scipy.stats import binom

from screening.evaluation.audit import (
    AuditCase,
    AuditPlan,
    Guarantee,
    Standing,
    Stratum,
    audit_coin,
    binding_of,
    configuration_words,
    guarantee_of,
    plan_reviews,
    recognized_share,
    reviews_required,
    tally_by_stratum,
)
from screening.labels import Label, Outcome
from screening.stopping.evidence import betting_sequence
from tests.fixtures import tables

SAFE, UNSAFE = Label.SAFE, Label.UNSAFE
HUMAN, UNCLEAR = Outcome.HUMAN_REVIEW, "insufficient_information"


def case(outcome, label, coin=0.05, **more):
    details = {"stratum": "a", "probability": 0.2, "blind_first": label} | more
    return AuditCase(outcome=outcome, coin=coin, **details)


# --- the random draw, what of a case counts, and tallies


def test_the_coin_is_the_seeds_and_the_cases_alone():
    coins, others = (np.array([audit_coin(seed, f"case-{i}") for i in range(20_000)]) for seed in ("one", "other"))
    assert coins[7] == audit_coin("one", "case-7") and coins.min() >= 0 and coins.max() < 1
    for probability in (0.05, 0.5, 0.9):  # within four standard errors
        assert abs((coins < probability).mean() - probability) < 4 * sqrt(probability * (1 - probability) / 20_000)
    assert abs(np.corrcoef(coins, others)[0, 1]) < 0.03


def test_only_selected_and_blind_first_reviews_enter_the_tallies_of_stratum_outcome_and_probability():
    cases = [
        case(Outcome.SAFE, UNSAFE),
        case(Outcome.SAFE, None),  # due, not read yet
        case(Outcome.SAFE, UNCLEAR, 0.09),
        case(Outcome.SAFE, UNSAFE, 0.5),  # read for another reason: does not count
        case(HUMAN, SAFE, 0.5),  # always due
        case(HUMAN, SAFE, 0.5, stratum="b", probability=0.1),
        case(Outcome.SAFE, None, disputed=True, probability=0.1),
        case(Outcome.SAFE, None, unreadable=True, stratum="b"),
    ]
    found = tally_by_stratum([*((each, 1) for each in cases), (cases[0], 2)])
    assert found == (
        Stratum(name="a", outcome=HUMAN, probability=1.0, cases=1, selected=1, read=1, unsafe=0),
        Stratum(name="a", outcome=Outcome.SAFE, probability=0.1, cases=1, selected=1, read=0, unsafe=0, read_again=1),
        Stratum(name="a", outcome=Outcome.SAFE, probability=0.2, cases=6, selected=5, read=3, unsafe=3, inconclusive=1),
        Stratum(name="b", outcome=HUMAN, probability=1.0, cases=1, selected=1, read=1, unsafe=0),
        Stratum(name="b", outcome=Outcome.SAFE, probability=0.2, cases=1, selected=1, read=0, unsafe=0, lost=1),
    )
    assert [each.waiting for each in found] == [0, 0, 1, 0, 0]
    assert case(Outcome.SAFE, None, 0.0, probability=1.0).state == "waiting", "the ends are allowed"
    for probability, coin in [(0.0, 0.5), (1.1, 0.5), (0.5, 1.0), (0.5, -0.1)]:
        with pytest.raises(ValueError):
            case(Outcome.SAFE, None, coin, probability=probability)


def test_what_several_reviewers_settled_counts_and_a_dispute_waits():
    first = case(Outcome.SAFE, UNSAFE)
    assert (first.label, first.state, first.unsafe) == (UNSAFE, "read", True)
    disputed = replace(first, disputed=True)
    assert (disputed.label, disputed.state, disputed.unsafe) == (None, "read_again", False)
    settled = replace(first, settled=SAFE)
    assert settled.label is SAFE and replace(settled, disputed=True).with_first_review_only() == first
    assert (replace(first, settled=UNCLEAR).state, replace(first, coin=0.5).state) == ("inconclusive", None)


def test_what_double_reviews_measure_is_no_more_than_what_reviewers_recognize():
    """Both say unsafe in the share s/(2-s) of the pairs in which one does; its limit holds at every look."""
    for both in ([True] * 8 + [False] * 4, [True, False] * 30):
        found, share = recognized_share(both), sum(both) / len(both)
        (look,) = betting_sequence(np.array(both, float), looks=[len(both)], delta=0.05)
        assert (found.observations, found.estimate) == (len(both), pytest.approx(2 * share / (1 + share)))
        assert found.low == pytest.approx(2 * look.low / (1 + look.low)) and found.low < found.estimate
    assert recognized_share([]) is None


# --- guarantees: which reviews count, and where a plan begins and ends


def guarantee(read, missed, allowed=0, confidence=0.95, **more):
    return Guarantee(plan=AuditPlan(confidence=confidence, allowed_misses=allowed), read=read, missed=missed, **more)


CAUGHT, MISSED = case(Outcome.UNSAFE, UNSAFE), case(Outcome.SAFE, UNSAFE)


@pytest.mark.parametrize(
    ("cases", "floor", "counts"),
    [
        # only texts that were read as unsafe
        ([CAUGHT, CAUGHT, MISSED, case(Outcome.SAFE, SAFE), case(HUMAN, SAFE)], 0.2, {"read": 3, "missed": 1}),
        # what came to no label, or is lost, may be a miss only where it was labeled safe
        ([case(one, UNCLEAR) for one in Outcome], 0.2, {"inconclusive_safe": 1}),
        ([CAUGHT, *(case(one, None, unreadable=True) for one in Outcome)], 0.2, {"read": 1, "lost_safe": 1}),
        ([case(one, None) for one in Outcome], 0.2, {"waiting": 3}),
        ([case(one, UNSAFE, disputed=True) for one in Outcome], 0.2, {"waiting": 3}),
        # a coin of exactly the floor did not draw the case
        ([replace(MISSED, coin=coin) for coin in (0.0999, 0.1, 0.1001, 0.3)], 0.1, {"read": 1, "missed": 1}),
        # cases audited below the floor count nowhere: not all of their coins were read; and take no miss back
        ([replace(CAUGHT, probability=p) for p in (0.0999, 0.1, 0.11)], 0.1, {"read": 2}),
        ([replace(MISSED, coin=0.15), case(Outcome.SAFE, None, 0.9, probability=0.1)], 0.2, {"read": 1, "missed": 1}),
        # what was labeled unsafe, and is read anyway, counts by the coin of the safe ones
        *(
            ([replace(CAUGHT, coin=at / 100, probability=1.0, tossed_at=0.2) for at in range(100)], floor, {"read": n})
            for floor, n in ((0.1, 10), (0.2, 20), (0.21, 0))
        ),
    ],
)
def test_a_guarantee_counts_unsafe_texts_that_had_an_equal_chance_to_be_read(cases, floor, counts):
    plan = AuditPlan(at_most=0.1, confidence=0.9, allowed_misses=2)
    nothing = dict.fromkeys(("read", "missed", "waiting", "inconclusive_safe", "lost_safe"), 0)
    assert guarantee_of(cases, plan, floor) == Guarantee(plan=plan, **nothing | counts)


def test_what_a_guarantee_is_bound_to_differs_with_model_prompts_rule_and_form():
    nodes = [{"name": name, "rule": {"budget": 3}} for name in "ab"]
    made = {"sampler": {"sampler": "simulated", "lexicon": "9a1d"}, "pipeline": {"nodes": nodes}}
    bound, other = binding_of(made, 7), binding_of(made | {"pipeline": {"nodes": nodes[:1]}}, 7)
    assert re.fullmatch("budget 3; pipeline [0-9a-f]{12}", bound["Rule"]) and bound["Rule"] != other["Rule"]
    assert list(bound.items())[:2] == [("Model", "sampler simulated"), ("Prompts", "9a1d")]
    assert bound["Label definition"] == "review form 7" and len(bound) == 4
    pipelines = [configuration_words(one)["pipeline"] for one in (made, {})]
    assert pipelines[0].startswith("none ") and pipelines[0] != pipelines[1]
    assert (binding_of({}, 7)["Model"], binding_of({}, 7)["Prompts"]) == ("none", "none")
    asked = {"sampler": {"prompts": "p1", "lexicon": "9a1d", "models": ["a", "b"], "tools": (), "thinks": False}}
    assert binding_of(asked, 7)["Prompts"] == "p1"
    assert binding_of(asked, 7)["Model"] == "models a and b, thinks no, tools none"


def test_the_reviews_required_are_the_exact_binomials():
    for misses in range(6):
        needed = reviews_required(0.1, misses, 0.9)
        tails = [sum(comb(n, k) * 0.1**k * 0.9 ** (n - k) for k in range(misses + 1)) for n in (needed - 1, needed)]
        assert tails[1] <= 0.1 < tails[0]
    # P[Binomial(n, ½) ≤ 0] = 2^-n: ½ after one review, ¼ after two; a chance of exactly the level is enough
    assert [reviews_required(0.5, 0, confidence) for confidence in (0.5, 0.75)] == [1, 2]
    for refused in [(0, 0, 0.95), (1, 0, 0.95), (1.5, 0, 0.95), (0.05, 0, 0), (0.05, 0, 1), (0.05, -1, 0.95)]:
        with pytest.raises(ValueError, match="strictly between"):
            reviews_required(*refused)


def test_where_a_plan_stands():
    for read, missed, more, standing in tables(__file__)["standings"]:
        assert guarantee(read, missed, **more).standing is Standing[standing], (read, missed, more)


def test_the_planner_gives_the_shortest_plan_with_the_chance():
    plan = plan_reviews(0.05, 0.01)
    assert plan is not None and plan[1] == reviews_required(0.05, plan[0])
    assert plan[2] == pytest.approx(binom.cdf(plan[0], plan[1], 0.01)) and plan[2] >= 0.8
    assert binom.cdf(plan[0] - 1, reviews_required(0.05, plan[0] - 1), 0.01) < 0.8
    assert plan_reviews(0.05, 0.01, most_misses=plan[0] - 1) is None
    assert (plan_reviews(0.05, 0.0, confidence=0.9) or ())[:2] == (0, 45)
    assert plan_reviews(0.05, 0.0, chance=1.0) is not None, "a rate of 0 succeeds for certain"
    assert plan_reviews(0.05, 0.05, chance=0.01) is None, "59 reviews without a miss happen in 5 of 100 such sites"
