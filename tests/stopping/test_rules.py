"""Every rule against independent oracles: the paper's pseudocode, integration, and all sequences of answers."""

from functools import cache, partial
from itertools import pairwise, product
from math import exp, inf, log, sqrt
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.integrate import quad
from scipy.special import beta

from screening.labels import LABELS
from screening.stopping.certificates import CertifiedMixture
from screening.stopping.evidence import clopper_pearson, confidence_sequence, least_count, log_evidence
from screening.stopping.rules import (
    ENDS,
    NO_DRAW,
    NONE,
    Comparison,
    Contract,
    Ended,
    MajorityVote,
    PairwiseMixture,
    SuccessiveElimination,
    conclude,
    label_numbers,
    minimum_budget,
    next_batch,
    run,
    smallest_decidable_gap,
)

SAFE, UNSAFE, ESCALATE = LABELS
LETTERS = {"S": SAFE, "U": UNSAFE, "E": ESCALATE}

budgets = st.integers(1, 90)
rules = st.one_of(
    st.builds(
        SuccessiveElimination, delta=st.sampled_from([0.05, 0.9]), budget=budgets, stop_for_futility=st.booleans()
    ),
    st.builds(PairwiseMixture, budget=budgets, stop_for_futility=st.booleans()),
    st.builds(lambda budget: CertifiedMixture(budget=budget), budgets),
    st.builds(MajorityVote, n=st.integers(1, 9)),
)


def draws(codes):
    return label_numbers(LETTERS[code] for code in codes)


def ended(rule, codes):
    """(label, end, calls) after these draws; None while more are needed."""
    verdict = conclude(rule, draws(codes))
    return None if verdict is None else (verdict.label, verdict.ended, verdict.calls)


# --- what holds of every rule


def oracle(rule, sequence):
    """Draw by draw: the first prefix at which the rule has named a label, has spent its budget, or has no hope by any
    answers; hope is looked for in one label for ever, which `test_one_label_for_ever_is_the_best` checks.
    """
    for calls in range(len(sequence) + 1):
        (label,), (taken,) = rule.stops(sequence[None, :calls])
        if label != NONE:
            return LABELS[label], Ended.IDENTIFIED, calls
        if taken <= calls:
            return rule.fallback, Ended.EXHAUSTED, calls
        if rule.stops_for_futility:
            futures = [np.append(sequence[:calls], [arm] * (rule.budget - calls)).astype(np.uint8) for arm in range(3)]
            if (rule.stops(np.array(futures))[0] == NONE).all():
                return None, Ended.FUTILITY, calls
    return None


@given(
    rule=rules, seed=st.integers(0, 1000), mix=st.sampled_from([(0.9, 0.07, 0.03), (0.1, 0.6, 0.3), (0.4, 0.3, 0.3)])
)
@settings(max_examples=60, deadline=None)
def test_many_sequences_at_once_end_as_each_does_alone_draw_by_draw(rule, seed, mix):
    table = np.random.default_rng(seed).choice(3, size=(6, rule.budget), p=mix).astype(np.uint8)
    lengths = np.random.default_rng(seed).integers(0, rule.budget + 1, size=6)
    table[np.arange(rule.budget) >= lengths[:, None]] = NO_DRAW
    for row, length, label, end, calls in zip(table, lengths, *run(rule, table), strict=True):
        expected = oracle(rule, row[:length])
        if expected is None:
            assert (label, end, calls) == (NONE, NONE, length)
            assert conclude(rule, row[:length]) is None
        else:
            found = (None if label == NONE else LABELS[label], ENDS[end], calls)
            assert found == expected and calls <= rule.budget
            verdict = conclude(rule, row[:length])
            assert (verdict.label, verdict.ended, verdict.calls) == expected


@pytest.mark.parametrize(
    "rule", [PairwiseMixture.symmetric(0.5, 6), PairwiseMixture(budget=7, default_error=0.3), MajorityVote(n=5)]
)
def test_one_label_for_ever_is_the_best(rule):
    """Over all answers: nothing is given up that some answers could still decide, and no batch goes past the first
    moment at which some answers decide.
    """

    @cache
    def shortest(codes):
        (label,), (taken,) = rule.stops(draws(codes)[None, :])
        if label != NONE:
            return 0
        return inf if taken <= len(codes) else 1 + min(shortest(codes + code) for code in "SUE")

    for codes in ("".join(code) for length in range(6) for code in product("SUE", repeat=length)):
        verdict = conclude(rule, draws(codes))
        if rule.stops_for_futility and (verdict is None or verdict.ended is not Ended.EXHAUSTED):
            assert (shortest(codes) == inf) == (verdict is not None and verdict.ended is Ended.FUTILITY), codes
        if verdict is None:
            assert next_batch(rule, draws(codes)) == shortest(codes), codes
        elif verdict.calls == len(codes):
            assert next_batch(rule, draws(codes)) == 0


@pytest.mark.parametrize("codes", ["S" * 48, "SE" + "S" * 46, "SEU" + "S" * 45, "SUSSSS" + "S" * 42, "SES" * 16])
def test_algorithm_one_is_given_up_where_no_answers_at_all_could_decide(codes):
    """All 3⁸ endings of a budget of 56, 54 or 53; at δ = 0.9 the first round that can drop a label is the 17th."""
    endings = np.array(list(product(range(3), repeat=8)), dtype=np.uint8)
    sequences = np.hstack([np.tile(draws(codes), (len(endings), 1)), endings])
    for budget in (53, 54, 56):
        rule = SuccessiveElimination(delta=0.9, budget=budget)
        verdict = conclude(rule, draws(codes))
        labels, calls = rule.stops(sequences)
        assert (verdict is None) == (labels != NONE).any()
        assert verdict is not None or next_batch(rule, draws(codes)) <= calls[labels != NONE].min() - 48


# --- evidence


@pytest.mark.parametrize(
    ("ahead", "behind"),
    [(6, 0), (8, 1), (7, 1), (20, 6), (0, 0), (10, 900), (0, 5000), (100, 100_000), (40, 1500)],  # the last underflow
)
def test_the_evidence_is_the_mean_likelihood_ratio_over_the_upper_half_of_the_prior(ahead, behind):
    def integrand(u):
        theta = 1 - u**4  # takes away the singular end of (1 - θ)^-¾
        return 4 * exp(ahead * log(2 * theta) + behind * log(2 * u**4) - 0.75 * log(theta))

    least = 0.5 - min(0.5, 40 / max(1, behind))
    integral = quad(integrand, least**0.25, 0.5**0.25, epsabs=0)[0]
    # Half the Beta(¼, ¼) mass lies above ½, hence the factor 2.
    assert log_evidence(ahead, behind) == pytest.approx(log(2 * integral / beta(0.25, 0.25)), abs=1e-6)


def test_the_least_count_is_the_first_that_reaches_the_level():
    for level in (0.025, 0.001, 0.3, 1e-6):
        counts = [least_count(behind, level) for behind in range(60)]
        for behind, ahead in enumerate(counts):
            assert log_evidence(ahead, behind) >= -log(level) > log_evidence(ahead - 1, behind)
        assert all(earlier < later for earlier, later in pairwise(counts))
    assert -50 < log_evidence(500_000, 500_000) < 0 < log_evidence(10**6, 0) < inf
    with pytest.raises(ValueError, match="negative"):
        log_evidence(-1, 0)


# --- pooled draws


@pytest.mark.parametrize(
    ("rule", "calls"),
    [
        # δ/(K-1) = δ/2 for each rival, so E(n, 0) ≥ 2/δ
        *((partial(PairwiseMixture.symmetric, delta), calls) for delta, calls in {0.2: 4, 0.05: 6, 1e-6: 23}.items()),
        # three calls for each of the first T rounds with 2·sqrt(ln(12·T²/δ) / (2T)) < 1
        *((partial(SuccessiveElimination, delta=delta), calls) for delta, calls in {0.2: 63, 0.05: 72}.items()),
    ],
)
def test_a_unanimous_model_is_identified_once_the_evidence_or_the_gap_is_large_enough(rule, calls):
    enough, short = rule(budget=calls), rule(budget=calls - 1)
    for code, label in LETTERS.items():
        assert ended(enough, code * calls) == (label, Ended.IDENTIFIED, calls)
        assert ended(enough, code * (calls - 1)) is None
    assert next_batch(enough, draws("")) == minimum_budget(enough) == minimum_budget(short) == calls
    assert ended(short, "") == (None, Ended.FUTILITY, 0)


def test_the_contract_is_the_worst_sum_of_the_levels_over_the_modes_and_each_pair():
    contract = PairwiseMixture(budget=9).contract
    assert PairwiseMixture.symmetric(0.2).error_bound == pytest.approx(0.2)
    assert contract.any_wrong == pytest.approx(0.05)  # 0.025 + 0.025 where the mode is safe
    assert contract.pairs == (((SAFE, UNSAFE), 0.001),)


def test_how_far_a_rival_is_from_its_exclusion_and_that_a_fourth_number_is_no_draw():
    of = {"rival": SAFE, "leader": UNSAFE, "scale": "pulls"}
    stands = [(5, 10, False), (12, 10, False), (-3, 10, False), (5, 10, True), (5, 0, False), (5, None, False)]
    ways = [Comparison(**of, value=value, needed=needed, excluded=out).progress for value, needed, out in stands]
    assert ways == [0.5, 1.0, 0.0, 1.0, 0.0, None]
    (label,), (end,), (calls,) = run(MajorityVote(n=3), np.array([[0, 0, 3]], dtype=np.uint8))
    assert (label, end, calls) == (NONE, NONE, 2)


def test_the_smallest_decidable_gap_of_two_labels_that_share_the_budget():
    pooled = {5: None, 6: 1.0, 50: 0.48, 75: 0.413, 100: 0.36, 124: 0.323, 150: 0.293, 300: 0.213}
    in_turn = {2: None, 50: None, 75: 0.976, 100: 0.869, 124: 0.794, 150: 0.730, 300: 0.542}
    for budget, gap in pooled.items():
        assert smallest_decidable_gap(PairwiseMixture.symmetric(0.05, budget)) == pytest.approx(gap, abs=1e-3)
    for budget, gap in in_turn.items():
        assert smallest_decidable_gap(SuccessiveElimination(budget=budget)) == pytest.approx(gap, abs=5e-3)
    assert smallest_decidable_gap(PairwiseMixture(budget=6, errors={"unsafe|safe": 1e-9})) is None


def test_impossible_settings_are_refused():
    for arguments in (
        *({"errors": {pair: 0.1}} for pair in ("safe|safe", "safe|nothing", "safe")),
        {"errors": {"safe|unsafe": 1.2}},
        {"default_error": 1.0},
    ):
        with pytest.raises(ValidationError):
            PairwiseMixture(**arguments)
    for contract in ({"any_wrong": 0.0}, {"any_wrong": 1.0}, {"any_wrong": 0.05, "pairs": (((SAFE, UNSAFE), 1.0),)}):
        with pytest.raises(ValueError, match=r"greater than 0|less than 1"):
            Contract(**contract)


def test_each_rival_must_be_beaten_by_the_evidence_against_its_own_line():
    """Safe 11 : 0 over escalate, at 0.025; 11 : 1 over unsafe, at 0.001: the first is beaten, the second is not."""
    rule, codes = PairwiseMixture(), "U" + "S" * 11
    unsafe, escalate = rule.comparisons(draws(codes))
    assert (unsafe.leader, unsafe.rival, unsafe.scale, unsafe.excluded) == (SAFE, UNSAFE, "evidence", False)
    assert (escalate.leader, escalate.rival, escalate.scale, escalate.excluded) == (SAFE, ESCALATE, "evidence", True)
    assert (unsafe.value, unsafe.needed) == pytest.approx((log_evidence(11, 1), log(1000)))
    assert (escalate.value, escalate.needed) == pytest.approx((log_evidence(11, 0), log(40)))
    assert (unsafe.progress, escalate.progress) == (pytest.approx(log_evidence(11, 1) / log(1000)), 1.0)
    assert ended(rule, codes) is None and next_batch(rule, draws(codes)) == least_count(1, 0.001) - 11
    before, at = (rule.comparisons(draws(codes)) for codes in ("SSSSSU", "SSSSSSU"))
    assert [each.excluded for each in before] == [False, False]
    assert [each.excluded for each in at] == [False, True]  # E(6, 0) is the first above 40


def test_the_bands_of_all_labels_share_delta():
    for arm, count in zip(PairwiseMixture.symmetric(0.05).arms(draws("SSU")), (2, 1, 0), strict=True):
        assert (arm.low, arm.high) == confidence_sequence(count, 3, 0.05 / 3)
        assert arm.estimate == count / 3
    loose = PairwiseMixture(default_error=0.4, errors={})  # two of 0.4 are above a half
    assert loose.arms(draws("S"))[0].low == confidence_sequence(1, 1, 0.5 / 3)[0]
    assert loose.arms(draws(""))[0].estimate is None
    in_turn = SuccessiveElimination(budget=300)  # the estimate and its radius, clipped
    assert in_turn.arms(draws("")) == ((None, 0.0, 1.0),) * 3
    safe, unsafe, _ = in_turn.arms(draws("S" * 60))
    width = pytest.approx(sqrt(log(12 * 20**2 / 0.05) / 40))
    assert (safe.estimate, safe.high, 1 - safe.low) == (1.0, 1.0, width)
    assert unsafe == (0.0, 0.0, width) and in_turn.tallies(draws("S" * 60))[1] == [20] * 3


# --- Algorithm 1


def algorithm_one(p, budget, delta, random):
    """The paper's pseudocode line by line, as an independent oracle; returns its answer and the draws it took."""
    active, pulls, successes, drawn = [0, 1, 2], [0, 0, 0], [0, 0, 0], []
    while len(active) > 1 and sum(pulls) + len(active) <= budget:
        for arm in active:
            answer = random.choices((0, 1, 2), p)[0]
            drawn.append(answer)
            successes[arm] += answer == arm
            pulls[arm] += 1
        estimate = {arm: successes[arm] / pulls[arm] for arm in active}
        width = {arm: sqrt(log(4 * 3 * pulls[arm] ** 2 / delta) / (2 * pulls[arm])) for arm in active}
        best = max(active, key=estimate.__getitem__)
        active = [a for a in active if not estimate[best] - width[best] > estimate[a] + width[a]]
    return (active[0] if len(active) == 1 else None), drawn, pulls, successes


@pytest.mark.parametrize(("delta", "budget"), [(0.05, 100), (0.05, 150), (0.05, 400), (0.9, 75), (0.5, 10), (0.1, 2)])
@pytest.mark.parametrize("p", [(0.95, 0.03, 0.02), (0.1, 0.8, 0.1), (0.0, 0.3, 0.7), (0.4, 0.3, 0.3), (0.5, 0.5, 0)])
def test_it_is_the_papers_pseudocode(delta, budget, p):
    random = Random(f"{delta} {budget} {p}")
    rule = SuccessiveElimination(delta=delta, budget=budget, stop_for_futility=False)
    for _case in range(25):
        label, drawn, pulls, successes = algorithm_one(p, budget, delta, random)
        sequence = np.array(drawn, dtype=np.uint8)
        found = conclude(rule, sequence)
        ended = (None, Ended.EXHAUSTED) if label is None else (LABELS[label], Ended.IDENTIFIED)
        assert (found.label, found.ended, found.calls) == (*ended, len(drawn)) and len(drawn) <= budget
        estimates = [hits / n if n else None for n, hits in zip(pulls, successes, strict=True)]
        assert [arm.estimate for arm in rule.arms(sequence)] == estimates and rule.tallies(sequence)[1] == pulls


def test_the_best_arms_lead_is_compared_with_the_one_that_drops_a_rival_at_this_rounds_end():
    rule = SuccessiveElimination(budget=300)
    needed = [int(2 * t * sqrt(log(12 * t * t / 0.05) / (2 * t))) + 1 for t in range(1, 30)]  # more than 2·T·w
    dropped = "UUE" * 24 + "E" * 6
    assert rule.tallies(draws(dropped))[1] == [24, 27, 27]
    for codes, expected in (
        ("", [(UNSAFE, SAFE, 0, needed[0], False), (ESCALATE, SAFE, 0, needed[0], False)]),
        # the first pull of the second round: `safe` has 1 as well
        ("UUUS", [(UNSAFE, SAFE, 0, needed[1], False), (ESCALATE, SAFE, 1, needed[1], False)]),
        ("UUUUU", [(SAFE, UNSAFE, 2, needed[1], False), (ESCALATE, UNSAFE, 2, needed[1], False)]),
        # `safe` never answers and goes after round 24; then `escalate` wins three rounds more and `unsafe` none
        (dropped, [(SAFE, None, 24, 24, True), (UNSAFE, ESCALATE, 3, needed[26], False)]),
    ):
        compared = rule.comparisons(draws(codes))
        found = [(each.rival, each.leader, each.value, each.needed, each.excluded) for each in compared]
        assert found == expected and {each.scale for each in compared} == {"pulls"}


# --- majority vote


def test_the_plurality_wins_once_all_votes_are_in_and_a_tie_escalates():
    named = {"U": UNSAFE, "SUS": SAFE, "SUUEEE": ESCALATE}
    for votes in (*named, "SU", "SUE", "SSUUE"):
        rule = MajorityVote(n=len(votes))
        end = Ended.IDENTIFIED if votes in named else Ended.EXHAUSTED  # a tie is no answer of the model
        assert ended(rule, votes) == (named.get(votes, ESCALATE), end, len(votes))
        assert all(ended(rule, votes[:count]) is None for count in range(len(votes)))
        assert next_batch(rule, draws(votes[:-1])) == 1
        assert (rule.error_bound, minimum_budget(rule)) == (None, len(votes))
        assert rule.model_dump(mode="json") == {"kind": "majority-vote", "n": len(votes)}


def test_its_intervals_are_exact_and_its_leads_have_no_line():
    rule = MajorityVote(n=4)  # the level is divided over three labels
    for arm, count in zip(rule.arms(draws("USUU")), (1, 3, 0), strict=True):
        assert (arm.low, arm.high) == clopper_pearson(count, 4, 0.05 / 3) and arm.estimate == count / 4
    compared = [(each.rival, each.leader, each.value, each.needed) for each in rule.comparisons(draws("USUU"))]
    assert compared == [(SAFE, UNSAFE, 2, None), (ESCALATE, UNSAFE, 3, None)]
