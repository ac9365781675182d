"""The paper's table from counts and from cases, with undefined, pending and unreferenced ones; paired differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.evaluation.metrics import (
    NONE,
    Proportion,
    evaluate,
    exact_mcnemar,
    outcome_codes,
    paired_amounts,
    paired_rates,
    reference_codes,
    wilson,
)
from screening.labels import Label, Outcome
from tests.fixtures import tables


def triple(proportion):
    return proportion.value, proportion.low, proportion.high


def measure(references, outcomes, calls=None, tokens=None):
    """`evaluate` of lists."""
    made, used = (None if each is None else np.array(each, dtype=np.int64) for each in (calls, tokens))
    return evaluate(reference_codes(references), outcome_codes(outcomes), calls=made, tokens=used)


def cases_of(n, safe, fp, unsafe, fn):
    counts = {
        (Label.SAFE, Outcome.UNSAFE): fp,
        (Label.SAFE, Outcome.SAFE): safe - fp,
        (Label.UNSAFE, Outcome.SAFE): fn,
        (Label.UNSAFE, Outcome.UNSAFE): unsafe - fn,
        (Label.UNSAFE, Outcome.HUMAN_REVIEW): n - safe - unsafe,
    }
    return zip(*(pair for pair, count in counts.items() for _ in range(count)), strict=True)


@pytest.mark.parametrize(("name", "counts", "accuracy", "fpr", "fnr", "escalated"), tables(__file__)["paper"])
def test_the_papers_rows_follow_from_their_counts(name, counts, accuracy, fpr, fnr, escalated):
    metrics = measure(*cases_of(*counts))
    for found, printed in ((metrics.accuracy, accuracy), (metrics.fpr, fpr), (metrics.fnr, fnr)):
        assert (found.value, found.low, found.high) == pytest.approx(tuple(printed) or (None,) * 3, abs=0.001), name
    assert metrics.escalation_rate.value == pytest.approx(escalated, abs=0.001)


S, U, E = Label.SAFE, Label.UNSAFE, Label.ESCALATE
TO_SAFE, TO_UNSAFE, TO_HUMAN = Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW


def test_worst_and_best_case_count_each_escalation_as_error_and_as_right():
    references = [U, U, U, S, S]
    outcomes = [TO_UNSAFE, TO_SAFE, TO_HUMAN, TO_HUMAN, TO_SAFE]
    metrics = measure(references, outcomes)
    assert (metrics.worst.accuracy, metrics.best.accuracy) == (Proportion(2, 5), Proportion(4, 5))
    assert (metrics.worst.fnr, metrics.best.fnr) == (Proportion(2, 3), Proportion(1, 3))
    assert (metrics.worst.fpr, metrics.best.fpr) == (Proportion(1, 2), Proportion(0, 2))
    assert metrics.worst.escalation_rate == metrics.best.escalation_rate == Proportion(0, metrics.n)
    low, high = wilson(2, 3)
    assert metrics.worst.fnr.plain == {"value": 2 / 3, "low": low, "high": high, "numerator": 2, "denominator": 3}
    assert metrics.confusion[U, TO_HUMAN] == 1 and sum(metrics.confusion.values()) == 5


def test_no_cases_are_undefined_not_zero_and_what_does_not_fit_is_refused():
    for n in range(1, 200):
        (none, high), (low, all_of_them) = wilson(0, n), wilson(n, n)
        assert none == 0.0 < high < 1.0 == all_of_them > low > 0
    metrics = measure([], [], calls=[], tokens=[])
    assert metrics.escalation_rate.value is None and metrics.mean_calls is None
    with pytest.raises(ValueError, match="not a proportion"):
        Proportion(3, 2)
    with pytest.raises(ValueError, match="one entry per case"):
        measure([S], [TO_SAFE, TO_SAFE])


def _counted_one_by_one(references, outcomes, calls):
    """Confusion, settled, pending, unreferenced and unsettled cases, and the calls of the settled, by a plain loop."""
    here = range(len(references))
    labelled = [i for i in here if references[i] in (Label.SAFE, Label.UNSAFE)]
    settled = [i for i in labelled if outcomes[i] is not None]
    pairs = [(references[i] if i in labelled else None, outcomes[i]) for i in here]
    confusion = {(r, o): pairs.count((r, o)) for r in (None, Label.SAFE, Label.UNSAFE) for o in (None, *Outcome)}
    sizes = (
        len(settled),
        len(labelled) - len(settled),
        len(here) - len(labelled),
        sum(outcomes[i] is None for i in here),
    )
    return (confusion, *sizes, sum(calls[i] for i in settled))


cases_of_any_kind = st.lists(
    st.tuples(st.sampled_from([None, *Label]), st.sampled_from([None, *Outcome]), st.integers(0, 10**12)), max_size=30
)


@given(cases_of_any_kind)
def test_what_is_counted_in_columns_is_what_a_loop_counts(cases):
    references, outcomes, calls = [[case[column] for case in cases] for column in range(3)]
    found = measure(references, outcomes, calls=calls, tokens=calls)
    counted = (found.confusion, found.n, found.pending, found.without_reference, found.unsettled, found.calls)
    assert counted == _counted_one_by_one(references, outcomes, calls)
    assert found.tokens == found.calls
    assert found.mean_calls == (found.calls / found.n if found.n else None)


@given(cases_of_any_kind, st.lists(st.sampled_from(list(Outcome)), min_size=30, max_size=30))
def test_limits_with_unsettled_cases_hold_whatever_becomes_of_them(cases, ends):
    """Every way in which they may end has its rate, and its own interval, within the limits."""
    references, outcomes = reference_codes([case[0] for case in cases]), outcome_codes([case[1] for case in cases])
    found = evaluate(references, outcomes, calls=outcomes * 0 + 1, bounded=True)
    later = outcome_codes([ends[at] if case[1] is None else case[1] for at, case in enumerate(cases)])
    whole = evaluate(references, later, bounded=True)
    for limits, final in (
        (getattr(a, name), getattr(b, name))
        for a, b in ((found, whole), (found.worst, whole.worst), (found.best, whole.best))
        for name in ("accuracy", "fpr", "fnr")
    ):
        assert not final.unsettled and (limits.value is None or limits == final)
        if final.value is not None:
            assert limits.low <= final.low + 1e-12 and final.high <= limits.high + 1e-12
    unsettled = int(((outcomes == NONE) & (references != NONE)).sum())
    assert found.escalation_rate.unsettled == unsettled and (found.calls is None) == (unsettled > 0)


# --- paired differences


def test_mcnemar_is_the_binomial_of_the_pairs_that_part_and_without_pairs_there_is_no_figure():
    # 3 of 10 either way: 2·(1 + 10 + 45 + 120)/1024
    assert exact_mcnemar(3, 7) == exact_mcnemar(7, 3) == pytest.approx(352 / 1024)
    assert exact_mcnemar(5, 5) == 1.0
    for found in (paired_rates([], []), paired_amounts([], [], (-1, 1))):
        assert (found.n, found.value, found.low) == (0, None, None)
    with pytest.raises(ValueError, match="one figure for each case"):
        paired_rates([1], [1, 0])
    with pytest.raises(ValueError, match="out of its bounds"):
        paired_amounts([1, 2], [5, 2], (-3, 3))


def test_rates_have_the_adjusted_interval_by_hand():
    # 2 of 20 pairs part one way, none the other: shares 3/22 and 1/22, difference 2/22
    first, second = [0] * 20, [1] * 2 + [0] * 18
    z = 1.959963984540054
    spread = z * np.sqrt((4 / 22 - (2 / 22) ** 2) / 22)
    (low, high), (_, none) = wilson(2, 20, z), wilson(0, 20, z)
    found, turned = paired_rates(first, second), paired_rates(second, first)
    assert found.value == pytest.approx(0.1)
    assert found.low == pytest.approx(min(2 / 22 - spread, 0.1 - np.hypot(0.1 - low, none)))
    assert found.high == pytest.approx(max(2 / 22 + spread, high))
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))
    same = paired_rates([1] * 20, [1] * 20)
    assert same.value == 0.0 and same.low is not None and same.low < -0.05 and same.high == -same.low
    assert paired_rates([0, 0], [1, 1]).high == 1.0 and paired_rates([1, 1], [0, 0]).low == -1.0


def test_amounts_follow_their_confidence_and_a_sorted_file_does_no_harm():
    first = np.sort(np.random.default_rng(2).integers(5, 60, 300))
    found = paired_amounts(np.zeros(300), first, (-300, 300))
    narrow = paired_amounts(np.zeros(300), first, (-300, 300), confidence=0.5)
    assert (found.n, found.first, found.second, found.value) == (300, 0.0, first.mean(), first.mean())
    assert found.low < narrow.low < found.value < narrow.high < found.high
    assert found == paired_amounts(np.zeros(300), first, (-300, 300), seed=0)
    turned = paired_amounts(first, np.zeros(300), (-300, 300))
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low), abs=1)

    exact = paired_amounts([2, 2], [2, 2], (0, 0))
    assert (exact.low, exact.high) == (0, 0)
    unknown = paired_amounts([0.5] * 12, [0.7] * 12, None)
    assert unknown.value == pytest.approx(0.2) and (unknown.low, unknown.high) == (None, None)
