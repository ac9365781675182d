"""Pipelines: a draft's changes; on the page drawn, saved, put in force and used; a comparison's figures and end."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from jobs.intake import configuration
from pages.batches import pipelines as editor
from pages.batches.pipelines import draft_of, insert_after, judge_draft, with_node
from pages.research.comparing import agreement, differing_pairs, figures
from pages.ui import context
from pages.ui.words import error_words
from screening.labels import Label
from screening.models.canaries import ALL, Probed
from screening.pipeline.config import RULES, PipelineConfig, preset
from screening.review.policy import LOCAL_USER, SYSTEM
from screening.settings import Settings
from storage.batches import configurations
from storage.batches.configurations import activate, active_version, keep_version, list_versions, save_configuration
from storage.database import Database
from storage.research.comparisons import Pair, Side, begin_comparison, end_comparison, list_comparisons
from storage.schema import pipeline_versions
from tests.commands.conftest import stub  # noqa: F401 - a fixture, also below
from tests.databases import write
from tests.evaluation.test_replay import Streak
from tests.jobs.running import screened
from tests.pages.conftest import Opener, html_on, restart
from tests.storage.people import NOW
from tests.stub_server.plan import StubPlan

RECOMMENDED = preset("recommended")
OURS = RECOMMENDED.model_copy(update={"name": "ours"})
BY = LOCAL_USER.at(NOW)


def judged(draft: Any) -> PipelineConfig:
    pipeline, wrong = judge_draft(draft)
    assert pipeline is not None, wrong
    return pipeline


def test_an_agent_added_stands_in_the_way_of_escalate_and_removed_gives_the_pipeline_back() -> None:
    draft = insert_after(draft_of(RECOMMENDED), "risk", "extra", "Extra")
    ways = {node.name: node.routes[Label.ESCALATE] for node in judged(draft).nodes}
    assert ways == {"worker": "risk", "risk": "extra", "extra": "legal", "legal": "human_review"}
    assert editor.targets_after(draft, "risk") == ["human_review", "safe", "unsafe", "extra", "legal"]
    with pytest.raises(ValueError, match="already something called 'legal'"):
        insert_after(draft, "risk", "legal", "Legal")
    assert judged(editor.remove(draft, "extra")) == RECOMMENDED
    assert editor.node_names(editor.remove(draft, "worker")) == ["risk", "extra", "legal"]
    filled = with_node(draft_of(RECOMMENDED), "worker", {"model": "a-model", "temperature": None, "server": None})
    assert judged(filled).node("worker").model == "a-model"
    assert judged(with_node(filled, "worker", {"model": None})) == RECOMMENDED, "what is left empty is not written"
    assert judge_draft(with_node(filled, "worker", {"temperature": "hot"}))[1].startswith("node worker, temperature: ")


# --- the page


def press(page: AppTest, key: str, **texts: str) -> AppTest:
    for name, words in texts.items():
        page.text_input(key=f"pipeline_{name}").set_value(words).run()
    page.button(key=f"pipeline_{key}").click().run()
    assert not page.exception, page.exception
    return page


def keys(page: AppTest) -> set[str | None]:
    assert not page.exception, page.exception
    return {button.key for button in page.button}


def refused(page: AppTest, said: str) -> bool:
    """Whether an error says this; such a pipeline cannot be saved or put in force."""
    return any(said in one.value.replace("\\", "") for one in page.error)


def test_an_agent_is_added_saved_and_put_in_force(open_page: Opener, page_database: Database) -> None:
    page = press(open_page("pipelines"), "1_add", **{"1_new": "Cultural context"})
    assert "escalate → Cultural context" in html_on(page)
    page.selectbox(key="pipeline_1_worker_protocol").set_value("logprobs").run()
    press(page, "save", **{"1_name": "ours"}, note="a fourth agent")
    (made,) = list_versions(page_database, LOCAL_USER)
    worker, risk = made.pipeline.node("worker"), made.pipeline.node("risk")
    assert (made.title, made.note, worker.protocol, risk.protocol) == ("ours v1", "a fourth agent", "logprobs", None)
    assert worker.routes[Label.ESCALATE] == "cultural_context"
    keep_version(page_database, BY, RECOMMENDED.model_copy(update={"name": "ours"}), "", 1)
    page.number_input(key="pipeline_1_worker_certified_budget").set_value(90).run()
    press(page, "save")
    assert refused(page, "Version 2 of ours") and len(list_versions(page_database, LOCAL_USER)) == 2, "by another"
    page.selectbox(key="pipeline_version").set_value("ours/1").run()
    press(page, "activate")
    assert page.error and active_version(page_database) is None, "say why"
    press(page, "activate", reason="tried")
    assert active_version(page_database) == made
    screen = open_page("screen")
    assert screen.selectbox(key="screen_preset").value == "own" and "Cultural context" in html_on(screen)


def test_what_cannot_be_saved_says_why_and_offers_no_saving(open_page: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents follow any rule that the site has, by its words and settings."""
    monkeypatch.setitem(RULES, "streak", Streak)
    page = open_page("pipelines")
    page.number_input(key="pipeline_1_worker_certified_budget").set_value(3).run()
    assert refused(page, "Node worker: with a budget of 3 calls") and "pipeline_save" not in keys(page)
    page.selectbox(key="pipeline_1_worker_rule").set_value("streak").run()
    length = page.number_input(key="pipeline_1_worker_streak_length")
    assert (length.label, length.value) == ("Length", 4)
    page.session_state["pipeline_draft"] = with_node(draft_of(RECOMMENDED), "worker", {"server": "ward"})
    page.session_state["pipeline_round"] = 2  # as another pipeline is taken up
    page.run()
    assert page.selectbox(key="pipeline_2_worker_server").value == "ward", "it stays named"
    assert refused(page, "Node worker, server: 'ward'") and "pipeline_save" not in keys(page)
    page.selectbox(key="pipeline_2_worker_server").select_index(0).run()
    assert not page.error and "pipeline_save" in keys(page)


@pytest.mark.parametrize("label", ["safe", "unsafe"])
def test_with_a_model_a_version_is_tried_before_it_is_put_in_force_and_what_a_worker_found_of_it_counts(
    stub,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
    open_page: Opener,
    page_database: Database,
    label: str,
) -> None:
    """A site whose model says this of every text."""
    stub(StubPlan(weights={label: 1.0}, fails_probes=True))
    monkeypatch.setenv("SECOND_LOOK_SAMPLER", "anthropic")
    restart()
    keep_version(page_database, BY, OURS, "", 0)
    page = open_page("pipelines")
    assert page.button(key="pipeline_activate").disabled
    press(page, "probe")
    assert page.button(key="pipeline_activate").disabled is (label == "safe")
    asked = context.configuration(OURS).preflight_key  # what a worker looks up before each text
    found = configurations.latest_preflight(page_database, asked)
    assert found is not None and bool(found.passed) is (label == "unsafe"), "and need not ask again"
    missed = Probed(ends=dict.fromkeys(ALL, ("safe", "identified")), calls=88)
    configurations.keep_preflight(page_database, asked, missed, NOW)
    assert page.run().button(key="pipeline_activate").disabled
    configurations.override_preflight(page_database, BY, asked, "Tried in the lab with the vendor.")
    assert not page.run().button(key="pipeline_activate").disabled
    context.database().close()


def test_another_version_takes_the_place_of_one_that_is_unreadable(open_page: Opener, page_database: Database) -> None:
    first = keep_version(page_database, BY, RECOMMENDED, "", 0)
    keep_version(page_database, BY, preset("recommended", budget=50), "", 1)
    activate(page_database, BY, "recommended", 2, "trial")
    second = pipeline_versions.c.number == 2
    write(page_database, update(pipeline_versions).where(second).values(body={"name": "recommended", "nodes": []}))
    page = open_page("pipelines")
    assert not page.exception and refused(page, "Recommended v2 was written by another version")
    press(page, "activate", reason="back to what can be read")
    assert not page.error and active_version(page_database) == first


def test_each_end_is_told_and_what_can_go_on_goes_on(open_page: Opener, page_database: Database) -> None:
    settings, batch_id = Settings(_env_file=None, sampler="simulated"), asyncio.run(screened(page_database, 2))
    version = save_configuration(page_database, configuration(settings, preset("paper")), NOW)
    tried: dict[str, Any] = {"configuration": version, "name": "paper", "most_cases": 99}
    for hour, (why, goes_on) in enumerate((("max_calls", False), ("stopped", True), ("authentication", True))):
        at = NOW + timedelta(hours=hour)
        begun = begin_comparison(page_database, LOCAL_USER.at(at), batch_id, **tried)
        end_comparison(page_database, SYSTEM.at(at), begun, why)
        page = open_page("pipelines")
        assert page.selectbox(key="compared").options[0].endswith(f"ended: {error_words(why)}")
        assert ("compare_resume" in {button.key for button in page.button}) is goes_on
    page.button(key="compare_resume").click().run()
    assert list_comparisons(page_database, LOCAL_USER)[0].running
    assert {button.key for button in page.button} & {"compare_resume", "compare_stop"} == {"compare_stop"}


def test_rates_are_over_the_cases_with_that_reference_and_amounts_over_all() -> None:
    def pair(name: str, reference: str | None, first: str, second: str, cost: float | None = 0.5) -> Pair:
        one = Side(outcome=first, calls=10, cost_usd=1.0, seconds=2.0)
        other = Side(outcome=second, calls=6, cost_usd=cost, seconds=1.0)
        return Pair(case_id=name, external_id=name, reference=reference, first=one, second=other)

    ended = ["unsafe safe unsafe", "unsafe unsafe unsafe", "safe safe unsafe", "safe human_review safe"]
    pairs = [pair(name, *words.split()) for name, words in zip("abcd", ended, strict=True)]
    pairs.append(pair("e", None, "safe", "safe", cost=None))
    rows = figures(pairs)
    told = [(row["Decided"], row["Tried"], row["Difference"].split("n = ")[1]) for row in rows]
    assert told[:3] == [("50.0%", "0.0%", "2"), ("0.0%", "50.0%", "2"), ("50.0%", "75.0%", "4")]
    assert told[5][2] == "4", "a side without a known price is no pair"
    assert rows[3]["Difference"].startswith("-20.0 points (") and rows[3]["Difference"].endswith("n = 5")
    assert rows[4]["Difference"] == "-4, n = 5" and (*told[6][:2], rows[6]["Difference"]) == ("2", "1", "-1, n = 5")
    assert [each.case_id for each in differing_pairs(pairs)] == ["a", "c", "d"]
    table = agreement(pairs)
    assert table["safe"] == {"safe": 1, "unsafe": 2, "human_review": 0}
    assert sum(sum(row.values()) for row in table.values()) == len(pairs)
    assert {row["Difference"] for row in figures(())} == {"not yet: n = 0"} and differing_pairs(()) == []
    assert figures([pair("1", "unsafe", "safe", "unsafe")] * 12)[0]["p (McNemar)"] == "< 0.001", "2 / 2^12"
    free = [pair("1", "safe", "safe", "safe", cost=1.0)] * 12
    assert figures(free)[-2]["Difference"] == "+0, n = 12", "no interval of shares about no cost"
