"""The theory page's numbers are those of the specification, and the page runs behind the shell."""

import pytest

from pages.research import theory_numbers as theory
from tests.pages.conftest import Opener

RULES = ("Algorithm 1", "Pooled, Ville")


def test_decidable_gaps_are_the_specification_s() -> None:
    paper, pooled = ([gaps[name] for gaps in theory.decidable_gaps(0.05).values()] for name in RULES)
    assert paper[:2] == [None, None] and pooled[1] == 0.48  # Algorithm 1 would need a gap of 1.17
    assert [round(gap or 0, 3) for gap in paper[2:]] == [0.976, 0.869, 0.794, 0.730, 0.542]
    assert [round(gap or 0, 3) for gap in pooled[2:]] == [0.413, 0.36, 0.323, 0.293, 0.213]


def test_mean_calls_are_exact_and_never_below_the_information_bound() -> None:
    found = theory.calls_needed((0.9, 0.05, 0.05), 0.05, budget=100)
    fewest, pooled, paper = (
        found[name][0] or 0 for name in (theory.FEWEST, "Ville, mean calls", "Algorithm 1, mean calls")
    )
    assert round(pooled, 2) == 10.28 and round(fewest, 1) == 5.7 and fewest < pooled < paper


def test_the_claims_carry_the_numbers_that_refute_them() -> None:
    shown = " ".join(shown for _, shown in theory.claims())
    assert "needs 72 calls" in shown and "Pooling the responses needs 6" in shown
    assert "29.5 per arm" in shown and "by 50" in shown  # n* at a gap of 0.5; Σ δ over 1,000 cases at constant δ


def test_twice_epsilon_is_drawn_twice_as_wide() -> None:
    stated, proven, *_ = theory.radius_series(0.05)
    assert [y == pytest.approx(2 * x) for x, y in zip(stated.y, proven.y, strict=True)]


def test_the_page_shows_every_part_and_follows_the_slider(open_page: Opener) -> None:
    page = open_page("theory")
    assert not page.exception
    assert [each.value for each in page.title] == ["Methods"]
    headings = [each.value for each in page.header]
    assert "Wrong decisions over many cases" in headings and headings[-1].startswith("The paper's claims")
    before = page.dataframe[0].value
    page.select_slider[0].set_value(0.2).run()
    assert not page.exception
    after = page.dataframe[0].value
    assert before.iloc[1]["Algorithm 1"] == "cannot decide anything"
    assert float(after.iloc[2]["Algorithm 1"]) < float(before.iloc[2]["Algorithm 1"])
