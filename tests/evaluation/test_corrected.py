"""Corrected evaluation: what is read of everything is exact, and limits hold what nobody read as often as they say. And
planted wrong reference labels come first in the review order, by either ranking, with the reasons in words.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from jobs.label_noise import corrected
from screening.evaluation import label_errors
from screening.evaluation.corrected import (
    INCONCLUSIVE,
    RATES,
    READ_SAFE,
    READ_UNSAFE,
    UNREAD,
    Reviewers,
    Study,
    draw_sample,
    strata_of,
)
from screening.evaluation.label_errors import Ranking
from screening.evaluation.metrics import reference_codes
from screening.labels import LABELS, Label, Outcome
from screening.stopping.evidence import log_evidence
from storage.research.recordings import Reviews

TEXTS, REVIEWS, DRAWS = 500, 120, 9
SAFE, UNSAFE, HUMAN = range(len(Outcome))


def make_benchmark(random, together=0.1):
    """What is true of 500 texts (30 % unsafe), and a benchmark of them: the model is wrong about one in ten for good,
    one label in ten is wrong, of those the model is wrong about the share ``together``.
    """
    unsafe, wrong = random.random(TEXTS) < 0.3, random.random(TEXTS) < 0.1
    steady = random.beta(20, 1, TEXTS)
    drawn = random.random((DRAWS, TEXTS)) < np.where(wrong != unsafe, steady, 1 - steady)
    noise = np.where(wrong, together, (0.1 - 0.1 * together) / 0.9)
    labels = (unsafe != (random.random(TEXTS) < noise)).astype(np.int8)
    said = drawn.sum(axis=0)
    outcomes = {
        "MV n=1": np.where(drawn[0], UNSAFE, SAFE),
        "MV n=3": np.where(drawn[:3].sum(axis=0) >= 2, UNSAFE, SAFE),
        "clear majority": np.where((said >= 3) & (said <= 6), HUMAN, np.where(said >= 5, UNSAFE, SAFE)),
    }
    against = np.where(labels == 1, 1 - said / DRAWS, said / DRAWS)
    codes = {name: each.astype(np.int8) for name, each in outcomes.items()}
    unread = np.full(TEXTS, UNREAD, np.int8)
    return unsafe, Study(references=labels, outcomes=codes, strata=strata_of(against), reviews=unread)


def truth_of(name, unsafe, told):
    """The figure, counted on what is true."""
    decided = told != HUMAN
    if name == "accuracy":
        return float(((told == UNSAFE) == unsafe)[decided].mean())
    counted = decided & (unsafe if name == "fnr" else ~unsafe)
    return float((told == (SAFE if name == "fnr" else UNSAFE))[counted].mean())


def read_texts(order, unsafe):
    """Reviews that are right of these texts."""
    reviews = np.full(TEXTS, UNREAD, np.int8)
    reviews[order] = np.where(unsafe[order], READ_UNSAFE, READ_SAFE)
    return reviews


@pytest.fixture(scope="module")
def world():
    return make_benchmark(np.random.default_rng(5))


def test_a_benchmark_of_which_all_is_read_is_counted(world):
    unsafe, benchmark = world
    study = replace(benchmark, reviews=read_texts(np.arange(TEXTS), unsafe))
    for rate, (name, told) in product(RATES, benchmark.outcomes.items()):
        found, truth = study.rate(rate, name), truth_of(rate, unsafe, told)
        assert (found.value, found.low, found.high) == pytest.approx((truth, truth, truth))
        difference = study.differences(rate, "MV n=1").get(name)
        if difference is not None:
            counted = truth - truth_of(rate, unsafe, benchmark.outcomes["MV n=1"])
            assert (difference.low, difference.high) == pytest.approx((counted, counted))
    assert study.wrong_labels().value == pytest.approx(((benchmark.references == 1) != unsafe).mean())


def test_a_sample_is_random_in_every_stratum_and_keeps_to_its_budget(world):
    _, benchmark = world
    order = draw_sample(benchmark.strata, REVIEWS, 3)
    assert len(order) == len(set(order.tolist())) == REVIEWS
    assert (order == draw_sample(benchmark.strata, REVIEWS, 3)).all() and (
        order != draw_sample(benchmark.strata, REVIEWS, 4)
    ).any()
    sizes = np.bincount(benchmark.strata)
    whole, half = (np.bincount(benchmark.strata[order[:many]], minlength=2) for many in (REVIEWS, REVIEWS // 2))
    assert half == pytest.approx(whole / 2, abs=1.5)  # whoever stops early has read its share of both
    assert whole[1] / sizes[1] > 2 * whole[0] / sizes[0]  # where the draws contradict the label there is more to learn
    assert len(draw_sample(benchmark.strata, 10_000, 3)) == TEXTS
    drawn = np.mean(
        [np.isin(np.arange(TEXTS), draw_sample(benchmark.strata, REVIEWS, seed)) for seed in range(100)], axis=0
    )
    for stratum in (0, 1):
        shares = drawn[benchmark.strata == stratum]
        assert shares.mean() == pytest.approx(whole[stratum] / sizes[stratum])
        assert shares.std() < 1.3 * np.sqrt(shares.mean() * (1 - shares.mean()) / 100)


def test_no_mistake_in_a_few_reviews_is_not_taken_for_none():
    told, reviews = np.zeros(400, np.int8), np.full(400, UNREAD, np.int8)
    reviews[:40] = READ_SAFE
    strata = strata_of(np.zeros(400))
    study = Study(references=told, outcomes={"all safe": told}, strata=strata, reviews=reviews)
    found = study.rate("accuracy", "all safe")
    assert found.value == 1.0 and found.high == 1.0
    # 0 of 40: Jeffreys' 97.5% quantile of Beta(0.5, 40.5) is .060, of 360 unread; the exact limit is .088.
    assert found.low is not None and 1 - 0.088 < found.low < 1 - 0.04
    assert study.rate("fnr", "all safe").value is None, "no text is known to be unsafe"


def test_limits_that_hold_together_are_wider_and_a_difference_is_of_what_either_decides(world):
    unsafe, benchmark = world
    study = replace(benchmark, reviews=read_texts(draw_sample(benchmark.strata, REVIEWS, 1), unsafe))
    for rate in RATES:
        for name, one in study.rates(rate).items():
            alone = study.rate(rate, name)
            assert one.low <= alone.low < alone.high <= one.high and one.high - one.low > alone.high - alone.low
    assert (benchmark.outcomes["clear majority"] == HUMAN).any()
    assert {each.decided for each in study.differences("fnr", "clear majority").values()} == {TEXTS}


def test_unsure_reviews_are_taken_both_ways(world):
    unsafe, benchmark = world
    order = draw_sample(benchmark.strata, REVIEWS, 1)
    sure = replace(benchmark, reviews=read_texts(order, unsafe))
    unsure = replace(sure, reviews=sure.reviews.copy())
    unsure.reviews[order[::4]] = INCONCLUSIVE
    for rate in RATES:
        one, other = (study.rate(rate, "MV n=3") for study in (sure, unsure))
        assert other.low < one.low and other.high > one.high


def test_reviewers_that_overlook_are_told_and_corrected(monkeypatch):
    monkeypatch.setattr("screening.evaluation.corrected.RUNS", 1_000)
    random, held = np.random.default_rng(2), []
    for run in range(25):
        unsafe, benchmark = make_benchmark(random)
        word = np.where(unsafe, random.random(TEXTS) < 0.8, False)
        study = replace(benchmark, reviews=read_texts(draw_sample(benchmark.strata, REVIEWS, run), word))
        told = replace(study, reviewers=Reviewers(sensitivity=(int(random.binomial(40, 0.8)), 40)))
        wrong = ((benchmark.references == 1) != unsafe).mean()
        held.append([found.low <= wrong <= found.high for found in (study.wrong_labels(), told.wrong_labels())])
    naive, corrected_for = np.mean(held, axis=0)
    assert naive < 0.8 < 0.9 <= corrected_for
    # What reviewers and model overlook together moves the miss rate, and the dial says by how much.
    dialed = [study.at(each).rate("fnr", "MV n=3").high for each in (1.0, 0.8, 0.6)]
    assert dialed == sorted(dialed) and dialed[0] < dialed[2]
    # 2 of 3 texts that one labeled unsafe were called so by both: each sees 2q / (1 + q) = .8 of them.
    pairs, _ = Reviewers(pairs=(600, 900)).draw(random)
    assert pairs.mean() == pytest.approx(0.8, abs=0.005) and Reviewers().perfect and not Reviewers(pairs=(2, 3)).perfect
    with pytest.raises(ValueError, match=r"at least 0\.5"):
        Reviewers(specificity=0.4)


def _reviews(labels, picked):
    nobody = np.zeros(len(labels), bool)
    return Reviews(labels=labels.astype(np.int8), by_several=nobody, picked=picked, entered=labels != UNREAD)


def test_where_all_are_reviewed_the_figures_are_those_of_the_reviews_and_without_any_there_are_none():
    reviews = np.array([0, 0, 1, 1, 1, 0], np.int8)
    told = np.array([SAFE, UNSAFE, SAFE, UNSAFE, HUMAN, SAFE], np.int8)
    references, nobody = np.array([0, 1, 1, 1, 1, 0], np.int8), np.zeros(6, bool)
    found = corrected(references, {"it": told}, np.zeros(6), _reviews(reviews, nobody))
    for name, value, of in (("accuracy", 3 / 5, 5), ("fnr", 1 / 2, 5), ("fpr", 1 / 3, 5)):
        one = found.rates[name]["it"]
        assert (one.value, one.low, one.high) == pytest.approx((value, value, value), abs=1e-9) and one.decided == of
    assert found.wrong.value == pytest.approx(1 / 6)
    nothing = corrected(references, {"it": told}, np.zeros(6), _reviews(np.full(6, UNREAD), nobody))
    none = nothing.rates["accuracy"]["it"]
    assert (none.value, none.low, none.high) == (None, pytest.approx(0), pytest.approx(1)) and nothing.free == 6


def test_a_picked_text_that_is_not_reviewed_yet_may_be_anything_and_stands_for_no_other():
    """Of 100 texts all 80 others are reviewed: safe, as told. Four picked ones wait, then six: above 5% no estimate."""
    told, references = np.zeros(100, np.int8), np.zeros(100, np.int8)
    for due in (4, 6):
        labels, picked = np.zeros(100), np.arange(100) < due
        labels[picked] = UNREAD
        found = corrected(references, {"it": told}, np.zeros(100), _reviews(labels, picked))
        one = found.rates["accuracy"]["it"]
        assert (one.low, one.high) == (pytest.approx(1 - due / 100), 1.0) and found.due == due
        assert (one.value is None) == (due == 6)


S, U, E = Label.SAFE, Label.UNSAFE, Label.ESCALATE
NODES = ("worker", "risk")


def review_order(references, draws, ranking=Ranking.EVIDENCE):
    """From each case's draws as counts by node and label."""
    counted = {}
    for node in NODES:
        counts = [[one.get(node, {}).get(label, 0) for label in LABELS] for one in draws]
        counted[node] = np.array(counts, np.int64).reshape(-1, 3)
    return label_errors.review_order(reference_codes(references), counted, ranking)


def places(order):
    return [order.at(place) for place in range(len(order.cases))]


def planted(seed, cases=300, wrong=20):
    """Cases whose model gives the true label in 0.85 of 11 draws; the first ``wrong`` references are flipped."""
    random = np.random.default_rng(seed)
    truth = [U if is_unsafe else S for is_unsafe in random.random(cases) < 0.4]
    draws = []
    for label in truth:
        right, other, unsure = random.multinomial(11, [0.85, 0.1, 0.05]).tolist()
        draws.append({"worker": {label: right, (S if label is U else U): other, E: unsure}})
    references = [(S if label is U else U) if case < wrong else label for case, label in enumerate(truth)]
    return references, draws


@pytest.mark.parametrize("ranking", list(Ranking))
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("error")
def test_the_top_holds_the_planted_labels(ranking, seed):
    order = places(review_order(*planted(seed), ranking))
    assert sum(look.case < 20 for look in order[:20]) >= 18  # precision at 20 of at least 0.9
    assert sum(look.case < 20 for look in order[-100:]) == 0
    assert len(order) == 300
    if ranking is Ranking.CONFIDENT_LEARNING:
        # It estimates how many labels are wrong and is cautious: the list is short, and what is on it is planted.
        issues = {look.case for look in order if look.issue}
        assert all(type(look.issue) is bool and type(look.quality) is float for look in order if look.issue is not None)
        assert len(issues & set(range(20))) >= 15 and len(issues - set(range(20))) <= 1
        assert all(0 < look.quality < 1 for look in order)


@pytest.mark.filterwarnings("error")
def test_a_label_that_occurs_once_is_ranked_without_a_warning():
    for references in ([S, U], [S, S, S, U], [S] * 50 + [U]):
        first = review_order(references, [{"worker": {S: 6}}] * len(references), Ranking.CONFIDENT_LEARNING).at(0)
        assert first.reference is U and first.quality < 0.5


def test_cases_that_cannot_be_ranked_are_left_out_and_counted():
    draws = [{"worker": {U: 6}}, {"worker": {U: 6}}, {"worker": {E: 6}}, {}, {"worker": {S: 2, U: 1}}]
    order = review_order([None, E, S, S, U], draws)
    assert [look.case for look in places(order)] == [4] and order.left_out == 4
    assert places(review_order([], [])) == []
    with pytest.raises(ValueError, match="draws"):
        review_order([S], [])
    alike = [{"worker": {U: n}} for n in (6, 11, 6)]  # one reference label: nothing to learn from
    for ranking, places_of in ((Ranking.EVIDENCE, [1, 0, 2]), (Ranking.CONFIDENT_LEARNING, [0, 1, 2])):
        looks = places(review_order([S, S, S], alike, ranking))
        assert [look.case for look in looks] == places_of and (looks[0].quality, looks[0].issue) == (None, None)


@pytest.mark.parametrize("ranking", list(Ranking))
def test_the_order_in_columns_is_that_of_cases_taken_one_by_one(ranking):
    random = np.random.default_rng(5)
    references = [[S, U, None, E][at] for at in random.choice(4, 120, p=[0.5, 0.3, 0.1, 0.1])]
    made = [
        {n: dict(zip((S, U, E), random.integers(0, 4, 3).tolist(), strict=True)) for n in NODES} for _ in references
    ]
    draws = [{node: counts for node, counts in one.items() if random.random() < 0.7} for one in made]
    order = review_order(references, draws, ranking)
    sides = [sum(counts[side] for counts in one.values() for side in (S, U)) for one in draws]
    ranked = [case for case, label in enumerate(references) if label in (S, U) and sides[case]]
    assert sorted(order.cases.tolist()) == ranked and order.left_out == 120 - len(ranked) > 0
    for look in places(order):
        assert look.suggested is (U if look.reference is S else S)
        counted = draws[look.case].items()
        assert look.evidence == sum(log_evidence(each[look.suggested], each[look.reference]) for _, each in counted)
        said = [
            f"{node.title()}: {each[look.suggested]} of {sum(each.values())} {look.suggested}"
            for node, each in counted
            if each[look.suggested]
        ]
        assert look.reason == ("; ".join(said) or f"no response says {look.suggested}")
    by_evidence = sorted(places(order), key=lambda look: (-look.evidence, look.case))
    by_learning = sorted(places(order), key=lambda look: (not look.issue, look.quality, look.case))
    assert places(order) == (by_evidence if ranking is Ranking.EVIDENCE else by_learning)
