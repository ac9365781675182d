"""Agreement coefficients against independent oracles and hand arithmetic; undefined is None with a reason."""

from functools import partial

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t
from sklearn.metrics import cohen_kappa_score

from screening.evaluation.agreement import (
    agreement_report,
    cohen_kappa,
    gwet_ac1,
    krippendorff_alpha,
    label_agreement,
    ratings_of,
    with_interval,
)

LABELS = ("safe", "insufficient", "unsafe")
tables = st.integers(2, 4).flatmap(
    lambda reviewers: st.lists(
        st.lists(st.sampled_from([*LABELS, None]), min_size=reviewers, max_size=reviewers), min_size=2, max_size=25
    )
)


@given(table=tables)
@settings(max_examples=60, deadline=None)
def test_alpha_equals_the_reference_implementation_with_missing_ratings(table):
    ratings = ratings_of(table, LABELS)
    ours = krippendorff_alpha(ratings)
    if ours.value is None:
        pairable = [[r for r in row if r is not None] for row in table]
        assert len({r for row in pairable if len(row) >= 2 for r in row}) <= 1
        return
    counts = np.repeat(ratings.counts().astype(int), ratings.times.astype(int), axis=0)
    theirs = krippendorff.alpha(value_counts=counts, value_domain=[0, 1, 2], level_of_measurement="nominal")
    assert ours.value == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_kappa_equals_the_reference_implementation_on_what_both_rated(seed):
    random = np.random.default_rng(seed)
    one, other = random.choice(LABELS, (2, 40))
    other = np.where(random.random(40) < 0.5, one, other)
    table, theirs = list(zip(one, other, strict=True)), cohen_kappa_score(one, other)
    kappa = cohen_kappa(ratings_of([*table, ["unsafe", None], [None, "safe"]], LABELS))
    assert (kappa.value, kappa.cases) == (pytest.approx(theirs), 40)


def test_ac1_by_hand():
    one, other = ["safe", "unsafe"], ["unsafe", "unsafe"]
    for labels, table, agreeing, chance in (
        # share of safe 243/250: κ is below 0 here
        (2, [["safe"] * 2] * 118 + [one] * 5 + [one[::-1]] * 2, 0.944, 2 * 0.972 * 0.028),
        # agreeing pairs 1, 1/3 and 1; share of safe (1 + 1/3 + 0) / 3
        (2, [["safe"] * 3, [*one, "unsafe"], [*other, None]], 7 / 9, 40 / 81),
        # chance is taken from cases with one rating too: 8 + ½ of 12 cases are safe
        (2, [["safe"] * 2] * 8 + [one, other, ["unsafe", None], [None, "unsafe"]], 0.9, 2 * 8.5 / 12 * 3.5 / 12),
        # shares 1/2, 1/6 and 1/3: Σ π(1 - π) = 11/18, over K - 1 = 2
        (3, [["safe"] * 2, ["safe", "insufficient"], other], 2 / 3, 11 / 36),
    ):
        ratings = ratings_of(table, LABELS if labels == 3 else ("safe", "unsafe"))
        assert gwet_ac1(ratings).value == pytest.approx((agreeing - chance) / (1 - chance))


def test_positive_and_per_label_agreement_by_hand():
    table = [["unsafe"] * 3, ["unsafe", "unsafe", "safe"], ["safe", "safe", None], ["unsafe", None, None]]
    ratings = ratings_of(table, ("safe", "unsafe"))
    # unsafe: (3·2 + 2·1) / (3·2 + 2·2) = 8/10; safe: (0 + 2·1) / (1·2 + 2·1) = 2/4; the last case has one rating
    assert label_agreement(ratings, "unsafe").value == pytest.approx(0.8)
    assert label_agreement(ratings, "safe").value == pytest.approx(0.5)


def test_undefined_is_none_with_its_reason_and_what_is_no_table_is_refused():
    one_each = ratings_of([["safe", None], [None, "unsafe"]], LABELS)
    same = ratings_of([["safe", "safe"], ["safe", "safe"]], LABELS)
    three = ratings_of([["safe", "safe", "unsafe"]], LABELS)
    for coefficient in (krippendorff_alpha(one_each), gwet_ac1(one_each), cohen_kappa(one_each)):
        assert coefficient.value is None and coefficient.reason == "no case has two ratings"
        assert coefficient.name and coefficient.cases == 0
    assert krippendorff_alpha(ratings_of([], LABELS)).reason == "no case has two ratings"
    assert "same label" in krippendorff_alpha(same).reason
    assert "same one label" in cohen_kappa(same).reason
    assert "two reviewers" in cohen_kappa(three).reason
    assert label_agreement(same, "unsafe").value is None
    assert gwet_ac1(ratings_of([["safe", "safe"]], ["safe"])).value is None
    with pytest.raises(ValueError, match="per reviewer"):
        ratings_of([["safe"], ["safe", "safe"]], LABELS)
    with pytest.raises(ValueError, match="categories"):
        ratings_of([["danger"]], LABELS)


TWO_REVIEWERS = [["safe", "safe"]] * 9 + [["safe", "unsafe"]] * 3 + [["unsafe", "unsafe"]] * 6  # 21 safe, 15 unsafe
THREE_REVIEWERS = [
    *([["safe"] * 3] * 8), *([["safe", "unsafe", None]] * 4), *([["unsafe"] * 3] * 3), *([["unsafe", None, None]] * 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("coefficient", "label", "table", "added"),
    [
        *((one, None, TWO_REVIEWERS, ["uu", "us"]) for one in (krippendorff_alpha, gwet_ac1, cohen_kappa)),
        (partial(label_agreement, label="unsafe"), "unsafe", TWO_REVIEWERS, ["uu", "us"]),
        (partial(label_agreement, label="safe"), "safe", TWO_REVIEWERS, ["ss", "su"]),
        *((one, None, THREE_REVIEWERS, ["uuu", "uss"]) for one in (krippendorff_alpha, gwet_ac1)),
    ],
)
def test_the_interval_is_the_wider_of_the_cases_and_of_them_with_two_more(coefficient, label, table, added):
    """Equal cases are left out once for all: here each is left out by itself. What nobody rated counts for nothing."""
    more = [["safe" if letter == "s" else "unsafe" for letter in case] for case in added]
    cases = sum(sum(rating is not None for rating in row) >= 2 for row in table)
    limits = [_limits(coefficient, some, cases) for some in (table, table + more)]
    found = with_interval(coefficient, ratings_of([*table, [None] * len(table[0])], LABELS), label)
    assert (found.low, found.high) == pytest.approx((min(low for low, _ in limits), max(high for _, high in limits)))


def _limits(coefficient, table, cases):
    value = coefficient(ratings_of(table, LABELS)).value
    left_out = [coefficient(ratings_of(table[:i] + table[i + 1 :], LABELS)).value for i in range(len(table))]
    half = t.ppf(0.975, cases - 1) * np.sqrt((len(table) - 1) * np.var(left_out)) / (1 - value**2)
    return np.tanh(np.arctanh(value) - half), np.tanh(np.arctanh(value) + half)


def test_perfect_agreement_in_few_cases_has_no_interval():
    perfect = with_interval(gwet_ac1, ratings_of([["safe", "safe"], ["unsafe", "unsafe"]] * 5, LABELS))
    assert perfect.value == 1.0 and perfect.low is None and perfect.reason.startswith("too little variation")
    opposite = with_interval(cohen_kappa, ratings_of([["safe", "unsafe"], ["unsafe", "safe"]] * 5, LABELS))
    assert opposite.value == -1.0 and opposite.low is None and opposite.reason.startswith("too little variation")
    lonely = with_interval(krippendorff_alpha, ratings_of([["safe", "unsafe"], ["safe", "safe"]], LABELS))
    assert lonely.value is not None and lonely.low is None and "no figure" in lonely.reason


def test_the_report_gives_each_coefficient_as_it_is_by_itself():
    table = [["safe", "safe"]] * 9 + [["safe", "unsafe"]] * 3 + [["unsafe", "insufficient"]] * 2 + [["unsafe"] * 2] * 6
    ratings = ratings_of(table, LABELS)
    alone = [
        *(with_interval(one, ratings) for one in (krippendorff_alpha, gwet_ac1, cohen_kappa)),
        *(with_interval(partial(label_agreement, label=name), ratings, name) for name in ("unsafe", "safe")),
    ]
    assert tuple(alone) == agreement_report(ratings, ["unsafe", "safe"])
    names = ["Krippendorff α", "Gwet AC1", "Cohen κ", "agreement on unsafe", "agreement on safe"]
    assert [each.name for each in alone] == names and len({each.value for each in alone}) == len(alone)
