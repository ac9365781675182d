"""Rates by the labels of reviews: exact where all are reviewed, covered where few are, no estimate without any."""

import numpy as np
import pytest
from scipy.stats import hypergeom

from jobs.label_noise import corrected
from screening.statistics.metrics import wilson
from screening.statistics.reviewed import INCONCLUSIVE, UNREVIEWED, Reviewed, count_limits
from storage.research.columns import Reviews

SAFE, UNSAFE, HUMAN = range(3)


def test_limits_of_a_count_are_those_of_the_hypergeometric_law() -> None:
    for size, read, found in ((400, 40, 0), (50, 20, 3), (30, 29, 10)):
        low, high = count_limits(size, read, found)

        def below(unsafe: int, size: int = size, read: int = read, found: int = found) -> float:
            law = hypergeom(size, unsafe, read)
            return float(law.cdf(found) - law.pmf(found) / 2)

        possible = [unsafe for unsafe in range(found, size - read + found + 1) if 0.025 < below(unsafe) < 0.975]
        assert (low, high) == (min(possible), max(possible))


def test_where_all_are_reviewed_the_figures_are_those_of_the_reviews() -> None:
    reviews = np.array([0, 0, 1, 1, 1, 0], np.int8)
    told = np.array([SAFE, UNSAFE, SAFE, UNSAFE, HUMAN, SAFE])
    references = np.array([0, 1, 1, 1, 1, 0], np.int8)
    found = Reviewed(references=references, reviews=reviews, strata=np.zeros(6, np.int64))
    for name, value, of in (("accuracy", 3 / 5, 5), ("fnr", 1 / 2, 5), ("fpr", 1 / 3, 5)):
        one = found.rate(name, told)  # type: ignore[arg-type]
        assert (one.value, one.low, one.high) == pytest.approx((value, value, value), abs=1e-9) and one.of == of
    assert found.wrong_labels().value == pytest.approx(1 / 6)
    nothing = Reviewed(references=references, reviews=np.full(6, UNREVIEWED, np.int8), strata=np.zeros(6, np.int64))
    none = nothing.rate("accuracy", told)
    assert (none.value, none.low, none.high) == (None, pytest.approx(0), pytest.approx(1))
    assert nothing.rate("accuracy", np.full(6, HUMAN)).low is None
    unclear = Reviewed(references=references, reviews=np.where(told == HUMAN, reviews, INCONCLUSIVE).astype(np.int8),
                       strata=np.zeros(6, np.int64))  # fmt: skip
    wide = unclear.rate("accuracy", told)
    assert wide.low is not None and wide.high is not None and wide.high - wide.low > 0.6


def _site(rng: np.random.Generator, texts: int = 500) -> tuple[np.ndarray, ...]:
    """10% of the labels wrong; the AI errs in a tenth and escalates a tenth; what it contradicts is listed first."""
    truth = (rng.random(texts) < 0.3).astype(np.int8)
    references = np.where(rng.random(texts) < 0.1, 1 - truth, truth).astype(np.int8)
    told = np.where(rng.random(texts) < 0.1, 1 - truth, truth)
    told = np.where(rng.random(texts) < 0.1, HUMAN, told)
    against = (told != HUMAN) & (told != references)
    picked = told == HUMAN
    picked[rng.permutation(np.flatnonzero(against))[:25]] = True
    return truth, references, told, against, picked


@pytest.mark.parametrize("drawn", [25, 100])
def test_few_reviews_cover_the_truth_where_mixing_labels_does_not(drawn: int) -> None:
    """500 texts, 25 picked off the list and some drawn: mixed with unread labels a Wilson interval covers in 3%."""
    rng, runs, mixed, covered, widths = np.random.default_rng(8), 300, 0, dict.fromkeys("afpw", 0), []
    for _ in range(runs):
        truth, references, told, against, picked = _site(rng)
        chosen = picked.copy()
        chosen[rng.permutation(np.flatnonzero(~picked))[:drawn]] = True
        reviews = Reviews(
            labels=np.where(chosen, truth, UNREVIEWED).astype(np.int8), by_several=picked & False, picked=picked
        )
        found = corrected(references, {"it": told}, against, reviews)
        final, decided = np.where(chosen, truth, references), told != HUMAN
        accuracy = float((told == truth)[decided].mean())
        low, high = wilson(int((told == final)[decided].sum()), int(decided.sum())) or (0.0, 1.0)
        mixed += low <= accuracy <= high
        unsafe, safe = (decided & (truth == one) for one in (1, 0))
        rates = found.rates["it"]
        for key, one, value in (
            ("a", rates["accuracy"], accuracy),
            ("f", rates["fnr"], float((told == 0)[unsafe].mean())),
            ("p", rates["fpr"], float((told == 1)[safe].mean())),
            ("w", found.wrong, float((references != truth).mean())),
        ):
            covered[key] += one.low - 1e-9 <= value <= one.high + 1e-9  # type: ignore[operator]
        widths.append(rates["accuracy"].high - rates["accuracy"].low)  # type: ignore[operator]
    assert mixed / runs < 0.5
    assert min(covered.values()) / runs >= 0.94
    assert np.mean(widths) < (0.35 if drawn == 25 else 0.12)


def test_reviewers_who_overlook_a_fifth_leave_the_truth_within_the_limits() -> None:
    rng, covered, runs = np.random.default_rng(9), 0, 200
    for _ in range(runs):
        truth, references, told, against, picked = _site(rng)
        chosen = picked.copy()
        chosen[rng.permutation(np.flatnonzero(~picked))[:150]] = True
        said = truth * (rng.random(len(truth)) < 0.8)
        labels = np.where(chosen, said, UNREVIEWED).astype(np.int8)
        reviews = Reviews(labels=labels, by_several=picked & False, picked=picked)
        found = corrected(references, {"it": told}, against, reviews, sensitivity=0.8).rates["it"]["fnr"]
        unsafe = (told != HUMAN) & (truth == 1)
        covered += found.low <= float((told == 0)[unsafe].mean()) <= found.high  # type: ignore[operator]
    assert covered / runs >= 0.94
