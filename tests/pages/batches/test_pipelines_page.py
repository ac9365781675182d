"""Pipelines in the browser's page: drawn, changed, saved as a version, put in force, and then used."""

from collections.abc import Callable, Iterator
from hashlib import sha256

import pytest
from sqlalchemy import update

from pages.batches.pipeline_editor import draft_of, prompt_facts, with_node
from pages.ui import context
from pages.ui.labels import literal
from screening.labels import Label
from screening.models.canaries import ALL, UNSAFE, Probed
from screening.pipeline.config import RULES, PipelineConfig, preset
from screening.pipeline.files import PromptError, load_prompts, read_pipeline, write_pipeline
from screening.review.actors import LOCAL_USER
from storage.batches import configurations
from storage.batches.configurations import activate, active_version, keep_version, list_versions
from storage.database import Database
from storage.schema import pipeline_versions
from storage.settings_store import accept_model_name
from tests.commands.conftest import stub  # noqa: F401 - a fixture, also below
from tests.databases import write
from tests.pages.conftest import Opener, html_on, restart
from tests.stopping.test_new_rule import Streak
from tests.storage.inbox_cases import NOW
from tests.stub_server.plan import StubPlan


def _said(element) -> str:
    """Its words without what keeps them from being read as Markdown."""
    return str(element.value.replace("\\", ""))


def test_an_agent_is_added_saved_and_put_in_force(open_page: Opener, page_database: Database) -> None:
    page = open_page("pipelines")
    assert not page.exception and "Worker" in html_on(page)
    page.text_input(key="pipeline_1_new").set_value("Cultural context").run()
    page.button(key="pipeline_1_add").click().run()
    assert "Cultural context" in html_on(page) and "escalate → Cultural context" in html_on(page)
    page.text_input(key="pipeline_1_name").set_value("ours").run()
    page.text_input(key="pipeline_note").set_value("a fourth agent").run()
    page.button(key="pipeline_save").click().run()
    (made,) = list_versions(page_database, LOCAL_USER)
    assert (made.title, made.note) == ("ours v1", "a fourth agent")
    assert "Saved: ours v1" in page.success[0].value
    page.button(key="pipeline_save").click().run()
    assert "Nothing differs from ours v1: nothing was saved." in page.success[0].value
    assert list_versions(page_database, LOCAL_USER) == (made,)
    assert made.pipeline.node("worker").routes[Label.ESCALATE] == "cultural_context"
    page.button(key="pipeline_activate").click().run()
    assert "say why" in page.error[0].value.casefold() and active_version(page_database) is None
    page.text_input(key="pipeline_reason").set_value("tried").run()
    page.button(key="pipeline_activate").click().run()
    assert active_version(page_database) == made
    screen = open_page("screen")
    assert screen.selectbox(key="screen_preset").value == "own" and "Cultural context" in html_on(screen)


def test_what_cannot_be_saved_says_why_and_offers_no_saving(open_page: Opener) -> None:
    page = open_page("pipelines")
    page.number_input(key="pipeline_1_worker_certified_budget").set_value(3).run()
    assert "Node worker: with a budget of 3 calls no label can ever be identified" in page.error[0].value.replace(
        "\\", ""
    )
    assert "pipeline_save" not in [button.key for button in page.button]


def test_a_saved_version_whose_model_the_service_no_longer_has_is_neither_put_in_force_nor_tried(
    monkeypatch: pytest.MonkeyPatch, open_page: Opener, page_database: Database
) -> None:
    worker, *others = preset("recommended").nodes
    nodes = (worker.model_copy(update={"model": "claude-hiaku-4-5"}), *others)
    ours = preset("recommended").model_copy(update={"name": "ours", "nodes": nodes})
    keep_version(page_database, LOCAL_USER.at(NOW), ours, "", 0)  # simulated agents went by any name
    accept_model_name(page_database, LOCAL_USER.at(NOW), "another-name")
    monkeypatch.setenv("SECOND_LOOK_SAMPLER", "anthropic")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    restart()
    page = open_page("pipelines")
    assert any(
        "Node worker, model: 'claude-hiaku-4-5' is an unknown model" in said.value.replace("\\", "")
        for said in page.error
    )
    assert page.button(key="pipeline_activate").disabled
    assert "pipeline_probe" not in [button.key for button in page.button]
    context.database().close()
    accept_model_name(page_database, LOCAL_USER.at(NOW), "claude-hiaku-4-5")
    restart()
    page = open_page("pipelines")
    assert not page.error and "pipeline_probe" in [button.key for button in page.button]
    context.database().close()


def test_a_server_that_the_settings_do_not_name_stays_named_and_is_refused(open_page: Opener) -> None:
    page = open_page("pipelines")
    page.session_state["pipeline_draft"] = with_node(draft_of(preset("recommended")), "worker", {"server": "ward"})
    page.session_state["pipeline_round"] = 2  # as another pipeline is taken up
    page.run()
    assert page.selectbox(key="pipeline_2_worker_server").value == "ward"
    assert "Node worker, server: 'ward' is an unknown server" in _said(page.error[0])
    assert "pipeline_save" not in [button.key for button in page.button]
    page.selectbox(key="pipeline_2_worker_server").select_index(0).run()
    assert not page.error and "pipeline_save" in [button.key for button in page.button]


def test_how_a_server_is_spoken_to_is_chosen_and_kept(open_page: Opener, page_database: Database) -> None:
    page = open_page("pipelines")
    page.selectbox(key="pipeline_1_worker_protocol").set_value("logprobs").run()
    page.text_input(key="pipeline_1_name").set_value("ours").run()
    page.button(key="pipeline_save").click().run()
    (made,) = list_versions(page_database, LOCAL_USER)
    assert made.pipeline.node("worker").protocol == "logprobs" and made.pipeline.node("risk").protocol is None
    assert read_pipeline(write_pipeline(made.pipeline)) == made.pipeline
    page.selectbox(key="pipeline_1_worker_protocol").select("chat").run()
    page.button(key="pipeline_save").click().run()
    assert {one.pipeline.node("worker").protocol for one in list_versions(page_database, LOCAL_USER)} == {
        "logprobs",
        "chat",
    }


def test_prompts_are_shown_with_their_hash_and_what_differs_from_what_is_in_force() -> None:
    before, prompts = preset("recommended"), load_prompts()
    worker, risk, legal = before.nodes
    own = f"{prompts.files['risk']}\nA further line."
    after = before.model_copy(update={"nodes": (worker, risk.model_copy(update={"instructions": own}), legal)})
    (same, nothing), (_, lines), _ = prompt_facts(before, after, prompts)
    assert sha256(prompts.system("worker").encode()).hexdigest()[:12] in same
    assert not nothing and same.endswith("as in the active one")
    assert [line for line in lines if line[0] in "+-"] == ["+A further line."]
    with pytest.raises(PromptError, match="node 'other' has no prompt"):
        other = risk.model_copy(update={"name": "other"})
        prompt_facts(before, before.model_copy(update={"nodes": (worker, other, legal)}), prompts)


def test_whoever_saves_on_an_old_version_is_told(open_page: Opener, page_database: Database) -> None:
    page = open_page("pipelines")
    page.text_input(key="pipeline_1_name").set_value("ours").run()
    other = preset("recommended", budget=50).model_copy(update={"name": "ours"})
    keep_version(page_database, LOCAL_USER.at(NOW), other, "", 0)
    page.button(key="pipeline_save").click().run()
    assert "Version 1 of ours was saved in the meantime" in page.error[0].value
    assert [one.number for one in list_versions(page_database, LOCAL_USER, "ours")] == [1]
    page.text_input(key="pipeline_1_name").set_value("ours too").run()
    page.button(key="pipeline_save").click().run()
    assert [one.title for one in list_versions(page_database, LOCAL_USER)] == ["ours v1", "ours too v1"]


@pytest.fixture
def ours(
    stub,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
    page_database: Database,
) -> Iterator[Callable[[str], PipelineConfig]]:
    """A version that no worker has tried, on a site whose model says this of every text."""

    def kept(label: str) -> PipelineConfig:
        stub(StubPlan(weights={label: 1.0}, fails_probes=True))
        monkeypatch.setenv("SECOND_LOOK_SAMPLER", "anthropic")
        restart()
        made = preset("recommended").model_copy(update={"name": "ours"})
        keep_version(page_database, LOCAL_USER.at(NOW), made, "", 0)
        return made

    yield kept
    context.database().close()


def test_a_model_that_calls_unsafe_texts_safe_is_tried_and_not_put_in_force(
    ours: Callable[[str], PipelineConfig], open_page: Opener
) -> None:
    ours("safe")
    page = open_page("pipelines")
    assert page.button(key="pipeline_activate").disabled
    page.button(key="pipeline_probe").click().run()
    assert page.button(key="pipeline_activate").disabled
    assert page.warning[-1].value.startswith(f"The model called {len(UNSAFE)} of {len(UNSAFE)} plainly")


def test_with_a_model_a_version_is_tried_and_what_a_worker_found_of_it_counts_before_it_is_put_in_force(
    ours: Callable[[str], PipelineConfig], open_page: Opener, page_database: Database
) -> None:
    made = ours("unsafe")
    page = open_page("pipelines")
    assert page.button(key="pipeline_activate").disabled
    page.button(key="pipeline_probe").click().run()
    assert not page.button(key="pipeline_activate").disabled
    assert page.success[-1].value.startswith(f"None of {len(UNSAFE)} plainly")
    asked = context.configuration(made).preflight_key  # what a worker looks up before each text
    found = configurations.latest_preflight(page_database, asked)
    assert found is not None and found.passed, "and need not ask again"
    missed = Probed(ends=dict.fromkeys(ALL, ("safe", "identified")), calls=88)
    configurations.keep_preflight(page_database, asked, missed, NOW)
    page.run()
    assert page.button(key="pipeline_activate").disabled
    configurations.override_preflight(page_database, LOCAL_USER.at(NOW), asked, "Tried in the lab with the vendor.")
    page.run()
    assert not page.button(key="pipeline_activate").disabled
    assert page.warning[-1].value.endswith("An administrator allowed it all the same.")


def test_what_is_in_force_and_cannot_be_read_is_said_and_another_version_takes_its_place(
    open_page: Opener, page_database: Database
) -> None:
    first = keep_version(page_database, LOCAL_USER.at(NOW), preset("recommended"), "", 0)
    keep_version(page_database, LOCAL_USER.at(NOW), preset("recommended", budget=50), "", 1)
    activate(page_database, LOCAL_USER.at(NOW), "recommended", 2, "trial")
    second = pipeline_versions.c.number == 2
    write(page_database, update(pipeline_versions).where(second).values(body={"name": "recommended", "nodes": []}))
    page = open_page("pipelines")
    assert not page.exception and "Recommended v2 was written by another version" in page.error[0].value
    page.text_input(key="pipeline_reason").set_value("back to what can be read").run()
    page.button(key="pipeline_activate").click().run()
    assert not page.exception and not page.error and active_version(page_database) == first


def test_names_are_shown_as_they_were_written_and_fetch_nothing(open_page: Opener, page_database: Database) -> None:
    name = "ours *2* ![i](http://outside.example/i.png)"
    base = preset("recommended")
    first = base.nodes[0].model_copy(update={"title": name})
    named = base.model_copy(update={"name": name, "nodes": (first, *base.nodes[1:])})
    keep_version(page_database, LOCAL_USER.at(NOW), named, "", 0)
    activate(page_database, LOCAL_USER.at(NOW), name, 1, "tried")
    page = open_page("pipelines")
    page.button(key="pipeline_save").click().run()
    assert not page.exception and page.text_input(key="pipeline_1_name").value == name
    shown = [*page.caption, *page.success, *open_page("screen").caption]
    said = [element.value for element in shown] + [expander.label for expander in page.expander]
    assert any(literal(name) in words for words in said)
    assert [words for words in said if name in words] == []
    assert page.button_group(key="pipeline_1_node").options[0] == literal(name)


def test_a_rule_of_the_site_s_own_is_shown_by_its_words_and_settings(
    open_page: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RULES, "streak", Streak)
    page = open_page("pipelines")
    chosen = page.selectbox(key="pipeline_1_worker_rule")
    assert "A streak" in chosen.options
    page = chosen.set_value("streak").run()
    length = page.number_input(key="pipeline_1_worker_streak_length")
    assert not page.exception and (length.label, length.value) == ("Length", 4)
    assert any(one.value == "Names a label once it was drawn so many times in a row." for one in page.caption)
