"""The theory page's numbers are those of the specification, and the page runs behind the shell."""

import pytest

from pages.research import theory_numbers as theory
from tests.pages.conftest import Opener

RULES = ("Algorithm 1", "Pooled, Ville")


def test_the_numbers_are_the_specification_s_and_the_claims_carry_those_that_refute_them() -> None:
    paper, pooled = ([gaps[name] for gaps in theory.decidable_gaps(0.05).values()] for name in RULES)
    assert paper[:2] == [None, None] and pooled[1] == 0.48  # Algorithm 1 would need a gap of 1.17
    assert [round(gap or 0, 3) for gap in paper[2:]] == [0.976, 0.869, 0.794, 0.730, 0.542]
    assert [round(gap or 0, 3) for gap in pooled[2:]] == [0.413, 0.36, 0.323, 0.293, 0.213]
    found = theory.calls_needed((0.9, 0.05, 0.05), 0.05, budget=100)
    names = (theory.FEWEST, "Ville, mean calls", "Algorithm 1, mean calls")
    fewest, mean, mean_of_paper = (found[name][0] or 0 for name in names)
    assert round(mean, 2) == 10.28 and round(fewest, 1) == 5.7 and fewest < mean < mean_of_paper
    shown = " ".join(shown for _, shown in theory.claims())
    assert "needs 72 calls" in shown and "Pooling the responses needs 6" in shown
    assert "29.5 per arm" in shown and "by 50" in shown  # n* at a gap of 0.5; Σ δ over 1,000 cases at constant δ
    stated, proven, *_ = theory.radius_series(0.05)
    assert proven.y == pytest.approx([2 * y for y in stated.y]), "twice as wide"


def test_the_page_follows_the_slider(open_page: Opener) -> None:
    page = open_page("theory")
    before = page.dataframe[0].value
    page.select_slider[0].set_value(0.2).run()
    assert not page.exception and before.iloc[1]["Algorithm 1"] == "cannot decide anything"
    assert float(page.dataframe[0].value.iloc[2]["Algorithm 1"]) < float(before.iloc[2]["Algorithm 1"])
