"""Planted wrong reference labels come first in the review order, by either ranking, and the reasons are in words."""

import numpy as np
import pytest

from screening.evaluation import label_errors
from screening.evaluation.label_errors import Ranking
from screening.evaluation.metrics import reference_codes
from screening.labels import LABELS, Label
from screening.stopping.evidence import log_evidence

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
