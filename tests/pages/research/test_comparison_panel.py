"""A comparison that ended says in words why, who can mend that, and goes on at a press where it can."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select

from jobs.agents import Agents
from jobs.comparing import ComparisonRunner
from jobs.intake import configuration
from jobs.port import system_clock
from pages.research.comparison_panel import figures_of
from pages.research.comparison_table import differing_pairs
from screening.pipeline.config import preset
from screening.review.actors import LOCAL_USER, SYSTEM
from screening.settings import Settings
from storage.batches.configurations import save_configuration
from storage.database import Database
from storage.research.comparisons import begin_comparison, end_comparison, list_comparisons, paired_outcomes
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


def test_a_refused_key_is_told_in_words_and_the_comparison_goes_on(open_page: Opener, page_database: Database) -> None:
    ended(page_database, "authentication")
    page = open_page("pipelines")
    assert page.selectbox(key="compared").options[0].endswith("ended: the model's service refuses the key")
    assert (
        "It ended: the model's service refuses the key. An administrator fixes it in the account or the settings of "
        "the model; then press Go on."
    ) in [text.value for text in page.text]
    page.button(key="compare_resume").click().run()
    assert list_comparisons(page_database, LOCAL_USER)[0].running
    assert "compare_resume" not in [button.key for button in page.button]
    assert "compare_stop" in [button.key for button in page.button]


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("max_calls", "It ended: it had made as many calls as it may. It stays ended; begin it again with another "
                      "cap."),
        ("stopped", "It ended: stopped."),
        ("preflight_failed", "It ended: it failed the probes. An administrator can allow the model in writing, in "
                             "Settings; then press Go on."),
    ],
)  # fmt: skip
def test_each_end_says_what_can_be_done(why: str, said: str, open_page: Opener, page_database: Database) -> None:
    ended(page_database, why)
    page = open_page("pipelines")
    assert said in [text.value for text in page.text]
    assert ("compare_resume" in [button.key for button in page.button]) == (why != "max_calls")


async def compare(db: Database, settings: Settings) -> None:
    """Screen all that is due, as a worker does."""
    agents = Agents(settings)
    runner = ComparisonRunner(db=db, agents=agents, clock=system_clock, worker="test")
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
