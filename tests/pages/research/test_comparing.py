"""A comparison: its figures, and how one that ended goes on."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from jobs.agents import Agents
from jobs.intake import configuration
from pages.research.comparing import agreement, differing_pairs, figures
from pages.ui.labels import error_words
from screening.pipeline.config import preset
from screening.review.actors import LOCAL_USER, SYSTEM
from screening.settings import Settings
from storage.batches.configurations import save_configuration
from storage.database import Database
from storage.research.comparisons import Pair, Side, begin_comparison, end_comparison, list_comparisons
from tests.jobs.running import screened
from tests.pages.conftest import Opener
from tests.storage.inbox_cases import NOW

SETTINGS = Settings(_env_file=None, sampler="simulated")


def begun(db: Database, batch_id: str, at: datetime = NOW) -> str:
    version = save_configuration(db, configuration(SETTINGS, Agents(SETTINGS), preset("paper")), NOW)
    tried: dict[str, Any] = {"configuration": version, "name": "paper", "most_cases": 99}
    return begin_comparison(db, LOCAL_USER.at(at), batch_id, **tried)


def test_each_end_is_told_and_what_can_go_on_goes_on(open_page: Opener, page_database: Database) -> None:
    batch_id = asyncio.run(screened(page_database, 2))
    for hour, (why, goes_on) in enumerate((("max_calls", False), ("stopped", True), ("authentication", True))):
        at = NOW + timedelta(hours=hour)
        end_comparison(page_database, SYSTEM.at(at), begun(page_database, batch_id, at), why)
        page = open_page("pipelines")
        assert page.selectbox(key="compared").options[0].endswith(f"ended: {error_words(why)}")
        assert ("compare_resume" in {button.key for button in page.button}) is goes_on
    page.button(key="compare_resume").click().run()
    assert list_comparisons(page_database, LOCAL_USER)[0].running
    assert {button.key for button in page.button} & {"compare_resume", "compare_stop"} == {"compare_stop"}


def _pair(name: str, reference: str | None, first: str, second: str, cost: float | None = 0.5) -> Pair:
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
    rows = figures(PAIRS)
    _, _, _, human, calls, *_ = rows
    told = [(row["Decided"], row["Tried"], row["Difference"].split("n = ")[1]) for row in rows]
    assert told[:3] == [("50.0%", "0.0%", "2"), ("0.0%", "50.0%", "2"), ("50.0%", "75.0%", "4")]
    assert told[5][2] == "4", "a side without a known price is no pair"
    assert human["Difference"].startswith("-20.0 points (") and human["Difference"].endswith("n = 5")
    assert calls["Difference"] == "-4, n = 5" and "p (McNemar)" not in calls
    assert (*told[6][:2], rows[6]["Difference"]) == ("2", "1", "-1, n = 5")
    assert [pair.case_id for pair in differing_pairs(PAIRS)] == ["a", "c", "d"]
    table = agreement(PAIRS)
    assert table["safe"] == {"safe": 1, "unsafe": 2, "human_review": 0}
    assert sum(sum(row.values()) for row in table.values()) == len(PAIRS)
    assert {row["Difference"] for row in figures(())} == {"not yet: n = 0"} and differing_pairs(()) == []


def test_agents_that_cost_nothing_have_no_interval_of_shares_about_their_cost() -> None:
    free = Side(outcome="safe", calls=1, cost_usd=0.0, seconds=1.0)
    pairs = [Pair(case_id=str(n), external_id=str(n), reference="safe", first=free, second=free) for n in range(12)]
    *_, calls, cost, _ = figures(pairs)
    assert (cost["Difference"], calls["Difference"]) == ("+0, n = 12",) * 2
