"""The audit's coin, what of a case counts, tallies; and the guarantee: levels held by simulation and exact numbers."""

from collections.abc import Callable
from dataclasses import asdict, replace
from math import comb, sqrt

import numpy as np
import pytest
from scipy.stats import binom

from screening.evaluation.audit import (
    AuditCase,
    Binding,
    Guarantee,
    Standing,
    audit_coin,
    guarantee_of,
    in_sample,
    plan_reviews,
    recognized_share,
    reviews_required,
    tally_by_stratum,
)
from screening.labels import Label, Outcome

SAFE, UNSAFE = Label.SAFE, Label.UNSAFE
HUMAN = Outcome.HUMAN_REVIEW


def case(outcome: Outcome, label: Label | None, coin: float = 0.05, **more: object) -> AuditCase:
    details = {"stratum": "a", "probability": 0.2, "blind_first": label} | more
    return AuditCase(outcome=outcome, coin=coin, **details)  # type: ignore[arg-type]


# --- the coin, what of a case counts, and tallies


def test_the_coin_is_the_seeds_and_the_cases_alone():
    coins = np.array([audit_coin("site seed", f"case-{i}") for i in range(20_000)])
    assert coins[7] == audit_coin("site seed", "case-7") != audit_coin("other seed", "case-7")
    assert coins.min() >= 0 and coins.max() < 1
    for probability in (0.05, 0.5, 0.9):  # within four standard errors
        assert abs((coins < probability).mean() - probability) < 4 * sqrt(probability * (1 - probability) / 20_000)
    others = np.array([audit_coin("other seed", f"case-{i}") for i in range(20_000)])
    assert abs(np.corrcoef(coins, others)[0, 1]) < 0.03


def test_only_selected_and_blind_first_reviews_enter_the_tally() -> None:
    cases = [
        case(Outcome.SAFE, UNSAFE),
        case(Outcome.SAFE, None),  # due, not read yet
        case(Outcome.SAFE, None, 0.09, inconclusive=True),
        case(Outcome.SAFE, UNSAFE, 0.5),  # read for another reason: does not count
        case(HUMAN, SAFE, 0.5),  # always due
    ]
    review, safe = tally_by_stratum((each, 1) for each in cases)
    assert (safe.cases, safe.selected, safe.read, safe.unsafe, safe.inconclusive, safe.waiting) == (4, 3, 1, 1, 1, 1)
    assert (review.probability, review.cases, review.read, review.unsafe) == (1.0, 1, 1, 0)


def test_what_several_reviewers_settled_counts_and_a_dispute_waits() -> None:
    first = case(Outcome.SAFE, UNSAFE)
    assert (first.label, first.read, first.waiting) == (UNSAFE, True, False)
    disputed = replace(first, disputed=True)
    assert (disputed.label, disputed.read, disputed.waiting, disputed.read_again) == (None, False, False, True)
    settled = replace(first, by_several=True, settled=SAFE)
    assert settled.label is SAFE and replace(settled, disputed=True).with_first_review_only() == first
    undecided = replace(first, by_several=True, settled=None)
    assert undecided.unclear and not undecided.read and not undecided.waiting


@pytest.mark.parametrize(
    ("probability", "coin"), [(0.0, 0.5), (1.1, 0.5), (2.0, 0.5), (0.5, 1.0), (0.5, -0.1), (0.5, 1.5)]
)
def test_a_case_of_the_audit_has_a_probability_and_a_coin_in_their_ranges(probability: float, coin: float) -> None:
    with pytest.raises(ValueError):
        case(Outcome.SAFE, None, coin, probability=probability)
    assert case(Outcome.SAFE, None, 0.0, probability=1.0).waiting, "the ends are allowed"


def test_tallies_are_kept_apart_by_stratum_outcome_and_probability_and_say_which_they_are() -> None:
    one = case(Outcome.SAFE, SAFE, stratum="chat")
    cases = [one, replace(one, probability=0.1), replace(one, stratum="forum"), replace(one, outcome=HUMAN)]
    tallies = tally_by_stratum([*((each, 1) for each in cases), (one, 1)])
    assert sorted((each.name, each.outcome, each.probability, each.cases) for each in tallies) == [
        ("chat", HUMAN, 1.0, 1), ("chat", Outcome.SAFE, 0.1, 1), ("chat", Outcome.SAFE, 0.2, 2),
        ("forum", Outcome.SAFE, 0.2, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("sensitivity", "false_alarms"), [(0.8, 0.03), (0.6, 0.0), (0.9, 0.1)])
def test_what_double_reviews_measure_is_no_more_than_what_reviewers_recognize(sensitivity, false_alarms):
    """200 double reviews, 30% unsafe: the lower limit lies above the truth in 2.5% at most."""
    rng, above, shares = np.random.default_rng(3), 0, []
    for _ in range(400):
        chances = np.where(rng.random(200) < 0.3, sensitivity, false_alarms)
        one, other = (rng.random(200) < chances for _ in range(2))
        found = recognized_share((one & other)[one | other].tolist())
        above += found.at_least > sensitivity
        shares.append(found.share)
    assert above / 400 <= 0.025 and np.mean(shares) <= sensitivity + 0.01
    assert recognized_share([]).at_least is None


# --- guarantees: which reviews count, and where a plan begins and ends


def guarantee(read: int, missed: int, allowed: int = 0, **more: object) -> Guarantee:
    details = {"at_most": 0.05, "confidence": 0.95, "allowed_misses": allowed} | more
    return Guarantee(read=read, missed=missed, **details)  # type: ignore[arg-type]


def test_only_texts_that_were_read_as_unsafe_are_counted() -> None:
    caught, missed = case(Outcome.UNSAFE, UNSAFE), case(Outcome.SAFE, UNSAFE)
    harmless = [case(Outcome.SAFE, SAFE)] * 40 + [case(Outcome.HUMAN_REVIEW, SAFE)] * 40
    found = guarantee_of([caught, caught, missed, *harmless], floor=0.2)
    assert (found.read, found.missed, found.waiting, found.inconclusive_safe) == (3, 1, 0, 0)


def test_an_inconclusive_text_may_be_a_miss_only_where_it_was_called_safe() -> None:
    unclear = [case(outcome, None, inconclusive=True) for outcome in Outcome]
    found = guarantee_of([*unclear, case(Outcome.SAFE, SAFE)], floor=0.2)
    assert (found.read, found.inconclusive_safe, found.waiting) == (0, 1, 0)


def test_a_review_that_is_lost_may_be_a_miss_where_called_safe_and_else_keeps_nothing_waiting() -> None:
    lost = [case(outcome, None, unreadable=True) for outcome in (Outcome.UNSAFE, HUMAN)]
    caught = [case(Outcome.UNSAFE, UNSAFE)] * 59
    found = guarantee_of([*caught, *lost], floor=0.2)
    assert (found.waiting, found.lost_safe, found.standing) == (0, 0, Standing.GUARANTEED)
    missed = [*caught, *lost, case(Outcome.SAFE, None, unreadable=True)]
    short = guarantee_of(missed, floor=0.2)
    assert (short.read, short.lost_safe, short.standing) == (59, 1, Standing.NOT_YET)
    allowed = guarantee_of([*missed, *[caught[0]] * 34], floor=0.2, allowed_misses=1)
    assert (allowed.read, allowed.standing) == (93, Standing.GUARANTEED)


def test_a_coin_of_exactly_the_floor_did_not_draw_the_case() -> None:
    assert [in_sample(case(Outcome.SAFE, None, coin), 0.1) for coin in (0.0999, 0.1, 0.1001)] == [True, False, False]
    assert [in_sample(case(Outcome.SAFE, None, 0.01, probability=p), 0.1) for p in (0.0999, 0.1, 0.11)] == [
        False, True, True,
    ]  # fmt: skip


def test_what_was_called_unsafe_counts_by_the_coin_of_the_safe_ones_though_it_is_read_anyway() -> None:
    """Else the many caught ones would hide the few misses that the audit can see."""
    caught = [case(Outcome.UNSAFE, UNSAFE, coin / 100, probability=1.0, tossed_at=0.2) for coin in range(100)]
    assert caught[0].coin_probability == 0.2 and case(Outcome.SAFE, SAFE).coin_probability == 0.2
    assert [guarantee_of(caught, floor=floor).read for floor in (0.1, 0.2, 0.21)] == [10, 20, 0]


def test_the_guarantee_counts_only_cases_that_had_an_equal_chance():
    def unsafe(outcome: Outcome, coin: float, probability: float = 0.1, read: bool = True) -> AuditCase:
        review = Label.UNSAFE if read else None
        return AuditCase(stratum="a", outcome=outcome, probability=probability, coin=coin, blind_first=review)

    flagged = [unsafe(Outcome.HUMAN_REVIEW, coin) for coin in (0.01, 0.02, 0.5, 0.9)]
    flagged += [unsafe(Outcome.UNSAFE, coin, probability=1.0) for coin in (0.03, 0.7)]
    missed = [unsafe(Outcome.SAFE, 0.04), unsafe(Outcome.SAFE, 0.3)]
    due = [unsafe(Outcome.SAFE, 0.05, read=False), unsafe(Outcome.SAFE, 0.6, read=False)]
    counted = guarantee_of(flagged + missed + due, floor=0.1)
    assert (counted.read, counted.missed, counted.waiting) == (4, 1, 1)  # coins 0.01 0.02 0.03 0.04; 0.05 is due
    assert guarantee_of([], floor=0.1).standing is Standing.NOT_YET


def test_a_lower_rate_takes_no_miss_back() -> None:
    """The defect: one unread text from a batch with a lower rate hid a miss whose coin lay between the two."""
    missed = [case(Outcome.SAFE, Label.UNSAFE, 0.15)]
    caught = [case(Outcome.UNSAFE, Label.UNSAFE, 0.01)] * 119
    unread = [case(Outcome.SAFE, None, 0.9, probability=0.1)]
    for cases in (missed + caught, missed + caught + unread):
        found = guarantee_of(cases, floor=0.2)
        assert found.standing is Standing.FAILED and found.missed == 1
    assert guarantee_of(caught + unread, floor=0.2).read == 119
    low = [case(Outcome.UNSAFE, Label.UNSAFE, 0.01, probability=0.1)] * 10
    assert guarantee_of(low, floor=0.2).read == 0, "audited below the plan's π: not all of its coins were read"


def test_what_was_planned_and_measured_stays_with_the_guarantee() -> None:
    binding = Binding(model="m", prompt_hash="p", rule="r", label_definition="d")
    cases = [case(Outcome.UNSAFE, UNSAFE)]
    found = guarantee_of(cases, floor=0.15, at_most=0.1, confidence=0.9, allowed_misses=2, binding=binding)
    assert asdict(found) == {
        "read": 1, "missed": 0, "at_most": 0.1, "confidence": 0.9, "allowed_misses": 2, "binding": asdict(binding),
        "waiting": 0, "inconclusive_safe": 0, "lost_safe": 0, "floor": 0.15,
    }  # fmt: skip


def test_a_guarantee_is_stale_when_anything_it_is_bound_to_changed():
    bound = Binding(model="m1", prompt_hash="p1", rule="r1", label_definition="l1")
    assert not guarantee(59, 0, binding=bound).stale(bound)
    for changed in ({"model": "m2"}, {"prompt_hash": "p2"}, {"rule": "r2"}, {"label_definition": "l2"}):
        fields = {"model": "m1", "prompt_hash": "p1", "rule": "r1", "label_definition": "l1"} | changed
        assert guarantee(59, 0, binding=bound).stale(Binding(**fields))
    assert guarantee(59, 0).stale(bound)


def test_the_reviews_required_are_the_exact_binomials():
    # 0.95^59 = 0.0485 ≤ 0.05 < 0.0510 = 0.95^58; 0.99^299 = 0.0495 ≤ 0.05 < 0.0500001 = 0.99^298
    assert 0.95**59 <= 0.05 < 0.95**58 and 0.99**299 <= 0.05 < 0.99**298
    assert [reviews_required(0.05, misses) for misses in (0, 1, 2)] == [59, 93, 124]
    assert reviews_required(0.01) == 299
    for misses in range(6):
        needed = reviews_required(0.1, misses, 0.9)
        tails = [sum(comb(n, k) * 0.1**k * 0.9 ** (n - k) for k in range(misses + 1)) for n in (needed - 1, needed)]
        assert tails[1] <= 0.1 < tails[0]
    with pytest.raises(ValueError, match="between 0 and 1"):
        reviews_required(0.0)


@pytest.mark.parametrize(
    ("read", "missed", "more", "standing"),
    [
        (58, 0, {}, Standing.NOT_YET),
        (59, 0, {}, Standing.GUARANTEED),
        (59, 0, {"waiting": 2}, Standing.NOT_YET),
        (200, 1, {}, Standing.FAILED),
        (41, 1, {"allowed": 1}, Standing.NOT_YET),  # 93 are needed
        (45, 0, {"confidence": 0.9}, Standing.GUARANTEED),  # 0.95^45 = 0.0994 ≤ 0.1 < 0.1047 = 0.95^44
        (44, 0, {"confidence": 0.9}, Standing.NOT_YET),
        (500, 1, {"allowed": 2}, Standing.GUARANTEED),
        (500, 2, {"allowed": 2}, Standing.GUARANTEED),
        (500, 3, {"allowed": 2}, Standing.FAILED),
        (500, 1, {"allowed": 2, "inconclusive_safe": 1}, Standing.GUARANTEED),
        (500, 1, {"allowed": 2, "inconclusive_safe": 2}, Standing.NOT_YET),
    ],
)
def test_where_a_plan_stands(read: int, missed: int, more: dict[str, float], standing: Standing) -> None:
    assert guarantee(read, missed, **more).standing is standing


def test_looking_after_every_review_keeps_the_level_only_with_the_plan_fixed():
    # The miss rate is exactly the 5 % that the guarantee says it is below.
    misses = (np.random.default_rng(5).random((20_000, 400)) < 0.05).cumsum(axis=1)
    required = [reviews_required(0.05, allowed) for allowed in range(12)]
    fixed, moved = np.zeros(20_000, bool), np.zeros(20_000, bool)
    for read in range(1, 401):
        fixed |= (misses[:, read - 1] <= 1) & (read >= required[1])
    for allowed, read in enumerate(required):
        moved |= misses[:, read - 1] <= allowed
    assert fixed.mean() <= 0.055 and moved.mean() > 0.15  # binomial error of 20,000 runs: 0.0015


def halved(rate: float, cases: list[AuditCase]) -> float:
    return rate / 2


def below_the_missed(rate: float, cases: list[AuditCase]) -> float:
    """Chosen to fit: so low that by their coins the missed would not have been read."""
    return min((case.coin for case in cases if case.outcome is Outcome.SAFE and case.read), default=rate)


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [halved, below_the_missed])
def test_false_guarantees_stay_below_five_percent_whatever_rate_is_chosen_after_a_failure(
    chosen: Callable[[float, list[AuditCase]], float],
) -> None:
    """At a true miss rate of 5 %, with another audit rate after every failure, looking after every batch."""
    random, false, runs = np.random.default_rng(7), 0, 250
    for _ in range(runs):
        rate, cases = 0.4, list[AuditCase]()
        for _batch in range(8):
            coins, caught = random.random(400), random.random(400) >= 0.05
            cases += [
                case(
                    Outcome.UNSAFE if hit else Outcome.SAFE,
                    Label.UNSAFE if coin < rate else None,
                    coin,
                    probability=rate,
                )
                for coin, hit in zip(coins, caught, strict=True)
                if coin < 0.4  # no rate is above it: the others are never read
            ]
            standing = guarantee_of(cases, floor=0.2).standing
            if standing is Standing.GUARANTEED:
                false += 1
                break
            if standing is Standing.FAILED:
                rate = chosen(rate, cases)
    assert false <= 0.05 * runs


def test_a_chance_of_exactly_the_level_is_enough() -> None:
    # P[Binomial(n, ½) ≤ 0] = 2^-n: ½ after one review, ¼ after two
    assert [reviews_required(0.5, 0, confidence) for confidence in (0.5, 0.75)] == [1, 2]


@pytest.mark.parametrize(
    ("at_most", "misses", "confidence"),
    [(0, 0, 0.95), (1, 0, 0.95), (1.5, 0, 0.95), (0.05, 0, 0), (0.05, 0, 1), (0.05, 0, 1.5), (0.05, -1, 0.95)],
)
def test_what_no_reviews_can_show_is_refused(at_most: float, misses: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="strictly between"):
        reviews_required(at_most, misses, confidence)


def test_a_plan_is_made_for_its_confidence_and_no_rate_at_the_limit_has_one() -> None:
    plan = plan_reviews(0.05, 0.0, confidence=0.9)
    assert plan is not None and plan[:2] == (0, 45)
    assert plan_reviews(0.05, 0.0, chance=1.0) is not None, "a rate of 0 succeeds for certain"
    assert plan_reviews(0.05, 0.05, chance=0.01) is None, "59 reviews without a miss happen in 5 of 100 such sites"


def test_the_planner_gives_the_shortest_plan_with_the_chance() -> None:
    plan = plan_reviews(0.05, 0.01)
    assert plan is not None and plan[1] == reviews_required(0.05, plan[0])
    assert plan[2] == pytest.approx(binom.cdf(plan[0], plan[1], 0.01)) and plan[2] >= 0.8
    shorter = plan[0] - 1
    assert binom.cdf(shorter, reviews_required(0.05, shorter), 0.01) < 0.8
    assert plan_reviews(0.05, 0.01, most_misses=plan[0]) == plan
    assert plan_reviews(0.05, 0.01, most_misses=shorter) is None
