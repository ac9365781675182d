"""A comparison: its figures, and how one that ended goes on."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select

from jobs.agents import Agents
from jobs.intake import configuration
from jobs.process import system_clock
from jobs.screening_job import ComparisonRunner, ScreeningJob
from pages.research.comparing import agreement, differing_pairs, figures, figures_of
from pages.ui.labels import error_words
from screening.pipeline.config import preset
from screening.pipeline.errors import error_kind
from screening.review.actors import LOCAL_USER, SYSTEM
from screening.settings import Settings
from storage.batches.configurations import save_configuration
from storage.database import Database
from storage.research.comparisons import Pair, Side, begin_comparison, end_comparison, list_comparisons, paired_outcomes
from storage.schema import inbox_entries
from storage.visibility import choose_hiding
from tests.jobs.running import screened
from tests.pages import researched
from tests.pages.conftest import Opener
from tests.pages.researched import sample_rows
from tests.storage.inbox_cases import NOW


def ended(db: Database, why: str) -> None:
    """A comparison that the worker gave up before its first text."""
    settings = Settings(_env_file=None, sampler="simulated")
    version = save_configuration(db, configuration(settings, Agents(settings), preset("paper")), NOW)
    tried: dict[str, Any] = {"configuration": version, "name": "paper", "most_cases": 9}
    begun = begin_comparison(db, LOCAL_USER.at(NOW), asyncio.run(screened(db, 2)), **tried)
    end_comparison(db, SYSTEM.at(NOW), begun, why)


@pytest.mark.parametrize(
    ("why", "goes_on"), [("authentication", True), ("preflight_failed", True), ("stopped", True), ("max_calls", False)]
)
def test_each_end_is_told_in_words_and_what_can_go_on_goes_on(
    why: str, goes_on: bool, open_page: Opener, page_database: Database
) -> None:
    ended(page_database, why)
    page = open_page("pipelines")
    assert page.selectbox(key="compared").options[0].endswith(f"ended: {error_words(why)}")
    (said,) = (text.value for text in page.text if text.value.startswith(f"It ended: {error_words(why)}."))
    assert ("then press Go on" in said) is bool(goes_on and error_kind(why).mend)
    assert ("compare_resume" in [button.key for button in page.button]) is goes_on
    if goes_on:
        page.button(key="compare_resume").click().run()
        assert list_comparisons(page_database, LOCAL_USER)[0].running
        assert "compare_resume" not in [button.key for button in page.button]
        assert "compare_stop" in [button.key for button in page.button]


async def compare(db: Database, settings: Settings) -> None:
    """Screen all that is due, as a worker does."""
    agents = Agents(settings)
    runner = ComparisonRunner(ScreeningJob(db=db, agents=agents, clock=system_clock, worker="test"))
    while await runner.round():
        pass
    await agents.aclose()


def test_the_figures_are_of_all_cases_and_the_list_of_those_that_are_not_hidden(
    open_page: Opener, page_database: Database
) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    batch_id = researched.screened(page_database, sample_rows(12), audit_rate=0.0)
    version = save_configuration(page_database, configuration(settings, Agents(settings), preset("paper")), NOW)
    tried: dict[str, Any] = {"configuration": version, "name": "paper", "most_cases": 99}
    begun = begin_comparison(page_database, LOCAL_USER.at(NOW), batch_id, **tried)
    asyncio.run(compare(page_database, settings))
    waits = page_database.value(select(func.count()).select_from(inbox_entries))
    before = figures_of(page_database, LOCAL_USER, begun)
    compared = len(paired_outcomes(page_database, LOCAL_USER, begun))
    assert f"n = {compared}" in before["figures"][4]["Difference"] and waits > 1
    choose_hiding(page_database, LOCAL_USER.at(NOW), hide=True)
    assert figures_of(page_database, LOCAL_USER, begun) == before
    apart = differing_pairs(paired_outcomes(page_database, LOCAL_USER, begun))
    hidden = sum(pair.hidden for pair in apart)
    said = any(f"{hidden:,} of them are in review and hidden" in one.value for one in open_page("pipelines").caption)
    assert said is bool(hidden)


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
    missed, alarms, right, human, calls, cost, slow = figures(PAIRS)
    assert (missed["Decided"], missed["Tried"], alarms["Decided"], alarms["Tried"]) == (
        "50.0%",
        "0.0%",
        "0.0%",
        "50.0%",
    )
    assert missed["Difference"].endswith("n = 2") and alarms["Difference"].endswith("n = 2")
    assert (right["Decided"], right["Tried"]) == ("50.0%", "75.0%") and right["Difference"].endswith("n = 4")
    assert human["Difference"].startswith("-20.0 points (") and human["Difference"].endswith("n = 5")
    assert calls["Difference"] == "-4, n = 5" and "p (McNemar)" not in calls
    assert cost["Difference"].endswith("n = 4")  # a side without a known price is no pair
    assert (slow["Decided"], slow["Tried"], slow["Difference"]) == ("2", "1", "-1, n = 5")


def test_agents_that_cost_nothing_have_no_interval_of_shares_about_their_cost() -> None:
    free = Side(outcome="safe", calls=1, cost_usd=0.0, seconds=1.0)
    pairs = [Pair(case_id=str(n), external_id=str(n), reference="safe", first=free, second=free) for n in range(12)]
    *_, calls, cost, _ = figures(pairs)
    assert (cost["Difference"], calls["Difference"]) == ("+0, n = 12",) * 2


def test_without_cases_it_says_not_yet() -> None:
    assert {row["Difference"] for row in figures(())} == {"not yet: n = 0"}
    assert differing_pairs(()) == []


def test_the_cases_that_part_and_the_agreement_matrix_add_up() -> None:
    assert [pair.case_id for pair in differing_pairs(PAIRS)] == ["a", "c", "d"]
    table = agreement(PAIRS)
    assert table["safe"] == {"safe": 1, "unsafe": 2, "human_review": 0}
    assert sum(sum(row.values()) for row in table.values()) == len(PAIRS)
