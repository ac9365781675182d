"""The figures of a comparison: rates against reference labels, amounts, and what is said where there is nothing."""

from pages.research.comparison_table import agreement, differing_pairs, lines
from storage.research.comparisons import Pair, Side


def _pair(
    name: str, reference: str | None, first: str, second: str, *, calls: int = 6, cost: float | None = 0.5
) -> Pair:
    one = Side(outcome=first, calls=10, cost_usd=1.0, seconds=2.0)
    other = Side(outcome=second, calls=6, cost_usd=cost, seconds=1.0)
    return Pair(case_id=name, external_id=name, reference=reference, first=one, second=other)


PAIRS = (
    _pair("a", "unsafe", "safe", "unsafe"),
    _pair("b", "unsafe", "unsafe", "unsafe"),
    _pair("c", "safe", "safe", "unsafe"),
    _pair("d", "safe", "human_review", "safe"),
    _pair("e", None, "safe", "safe", cost=None),
)


def test_rates_are_over_the_cases_with_that_reference_and_amounts_over_all() -> None:
    missed, alarms, right, human, calls, cost, slow = lines(PAIRS)
    assert (missed.difference.n, missed.difference.first, missed.difference.second) == (2, 0.5, 0.0)
    assert (alarms.difference.n, alarms.difference.first, alarms.difference.second) == (2, 0.0, 0.5)
    assert (right.difference.n, right.difference.first, right.difference.second) == (4, 0.5, 0.75)
    assert (human.difference.n, human.difference.value) == (5, -0.2)
    assert (calls.difference.value, calls.p) == (-4.0, None)
    assert cost.difference.n == 4  # a side without a known price is no pair
    assert (slow.difference.first, slow.difference.second, slow.difference.value) == (2.0, 1.0, -1.0)
    assert human.cells["Difference"].startswith("-20.0 points (")
    assert calls.cells["Difference"] == "-4, n = 5"
    assert slow.cells["Difference"] == "-1, n = 5"


def test_agents_that_cost_nothing_have_no_interval_of_shares_about_their_cost() -> None:
    free = Side(outcome="safe", calls=1, cost_usd=0.0, seconds=1.0)
    pairs = [Pair(case_id=str(n), external_id=str(n), reference="safe", first=free, second=free) for n in range(12)]
    *_, calls, cost, _ = lines(pairs)
    assert (cost.cells["Difference"], calls.cells["Difference"]) == ("+0, n = 12",) * 2


def test_without_cases_it_says_not_yet() -> None:
    assert {line.cells["Difference"] for line in lines(())} == {"not yet: n = 0"}
    assert differing_pairs(()) == ()


def test_the_cases_that_part_and_the_agreement_matrix_add_up() -> None:
    assert [pair.case_id for pair in differing_pairs(PAIRS)] == ["a", "c", "d"]
    table = agreement(PAIRS)
    assert table["safe"] == {"safe": 1, "unsafe": 2, "human_review": 0}
    assert sum(sum(row.values()) for row in table.values()) == len(PAIRS)
