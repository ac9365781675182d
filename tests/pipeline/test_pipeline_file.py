"""A pipeline written as TOML: the same one comes back, and what is wrong is named with its place."""

import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from screening.labels import Label
from screening.pipeline.config import NodeConfig, PipelineConfig, chain, preset
from screening.pipeline.files import PipelineRefused, check, read_pipeline, shipped_pipelines, write_pipeline
from screening.stopping.rules import MajorityVote

RECOMMENDED = write_pipeline(preset("recommended"))


def test_the_files_that_come_along_are_the_presets_and_one_with_four_agents() -> None:
    found = shipped_pipelines()
    assert found["certified"] == preset("certified")
    assert found["recommended"] == preset("recommended") and found["paper"] == preset("paper")
    assert [node.name for node in found["four_agents"].nodes] == ["worker", "risk", "cultural_context", "legal"]


def test_what_is_not_said_of_an_agent_stays_out_so_that_versions_written_before_stay_the_same() -> None:
    assert set(tomllib.loads(RECOMMENDED)["node"][0]) == {"name", "title", "question", "rule", "routes", "on_abstain"}
    # The versions that databases made before these options existed hold.
    assert (preset("recommended").version, preset("paper").version) == ("283c2efb5f4d06a5", "f9d0778f71e38387")


@example(instructions="a\r\nb\rc\n", title="0", temperature=None, model="\r\n")
@given(
    instructions=st.text(min_size=1, max_size=200),
    title=st.text(min_size=1, max_size=60),
    temperature=st.none() | st.floats(0, 2),
    model=st.none() | st.text(min_size=1, max_size=100),
)
def test_a_pipeline_comes_back_as_it_was_written(
    instructions: str, title: str, temperature: float | None, model: str | None
) -> None:
    worker = preset("recommended").nodes[0]
    said = {"instructions": instructions, "title": title, "temperature": temperature, "model": model}
    routes = {**worker.routes, Label.ESCALATE: "human_review"}
    node = NodeConfig.model_validate(worker.model_dump() | said | {"routes": routes})
    pipeline = PipelineConfig(name="one", nodes=(node,))
    assert read_pipeline(write_pipeline(pipeline)) == pipeline


ESCALATES, UNSAFE = 'escalate = "risk"', 'unsafe = "unsafe"'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('escalate = "legal"', 'escalate = "worker"', "node risk: escalate leads back to 'worker'"),
        ('escalate = "legal"', 'escalate = "nobody"', "node risk: escalate leads to 'nobody', which is neither"),
        (ESCALATES, 'escalate = "legal"', "node risk: no route leads here"),
        (ESCALATES, "", "node worker: no route for escalate"),
        (ESCALATES, 'escalate = "safe"', "node worker: escalate must not lead to the outcome safe"),
        (UNSAFE, 'unsafe = "safe"', "node worker: unsafe must not lead to the outcome safe"),
        (UNSAFE, 'unsafe = "legal"', "node worker: unsafe leads to 'legal', from where"),
        ('name = "worker"', 'name = "risk"', "node risk: another node has this name"),
        ('name = "worker"', 'name = "human_review"', "node human_review: this is the name of an outcome"),
        ('name = "worker"', f'name = "{"N" * 39}"', f"node {'N' * 39}, name: "),
        ('name = "risk"', f'name = "{"N" * 40}"', "node number 2, name: "),
        ('title = "Risk"', 'title = "Risk"\nprompt = "risk"\ninstructions = "Read."', "node risk: give the name"),
        ('title = "Risk"', 'title = "Risk"\ntemperature = 3', "node risk, temperature: Input should be less than"),
        ('title = "Risk"', 'title = "Risk"\ntop_p = 1', "node risk, top_p: Extra inputs"),
        ('title = "Risk"', "", "node risk, title: Field required"),
        ("budget = 100", 'budget = "many"', "node worker, rule.budget: "),
        ("budget = 100", "budget = 5", "node worker: with a budget of 5 calls no label can ever be identified"),
        ("budget = 100", "budget = 10", "node worker: with a budget of 10 calls safe can never be identified"),
        ('kind = "pairwise-mixture"', 'kind = "dice"', "node worker, rule: "),
    ],
)
def test_what_is_wrong_is_named_with_its_place(old: str, new: str, words: str) -> None:
    assert old in RECOMMENDED
    with pytest.raises(PipelineRefused) as refused:
        read_pipeline(RECOMMENDED.replace(old, new, 1))
    assert str(refused.value).startswith(words) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes:\n  - worker\n", "not TOML: "),
        ("", "name: Field required"),
        ('name = "x"\nnode = 3', "nodes: Input should be a valid tuple"),
        ('name = "x"\nnode = [3]', "node number 1: Input should be"),
        ("x" * 1_000_001, "a pipeline has at most 1,000,000"),
    ],
)
def test_what_is_no_pipeline_is_refused_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(PipelineRefused, match=words):
        read_pipeline(text)


def test_a_file_begins_with_the_bound_of_its_whole_way_or_says_that_it_has_none() -> None:
    said = "# Naming, anywhere on the longest way, a label that is not the agent's mode: "
    bounded = write_pipeline(preset("certified")).splitlines()
    assert bounded[0] == f"{said}at most 0.15." and bounded[1].startswith(
        "# At each agent: certified: a label other than"
    )
    voting = write_pipeline(chain("vote", MajorityVote(n=3), "next")).splitlines()
    assert voting[:2] == [f"{said}no bound: an agent has none.", "# At each agent: a majority vote has no error bound"]


def test_a_file_may_be_as_long_as_the_limit_begin_with_a_byte_order_mark_and_hold_lines() -> None:
    assert read_pipeline(RECOMMENDED + "\n" * (1_000_000 - len(RECOMMENDED))) == read_pipeline(RECOMMENDED)
    assert read_pipeline(f"\ufeff{RECOMMENDED}") == read_pipeline(RECOMMENDED)
    body = preset("recommended").model_dump(mode="json")
    body["nodes"][0]["instructions"] = "First line.\nSecond line."
    assert '"""\nFirst line.\nSecond line."""' in write_pipeline(PipelineConfig.model_validate(body))


@pytest.mark.parametrize("budget", ["[]", "inf", "-inf", "nan", '"many"', "{ calls = 1 }", "1.5", "0"])
def test_a_budget_that_is_no_number_of_calls_is_refused_before_a_certificate_is_looked_for(budget: str) -> None:
    certified = write_pipeline(preset("certified"))
    begin, end = certified.index("[node.rule.certificate]"), certified.index("[node.routes]")
    short = certified[:begin] + certified[end:]
    assert read_pipeline(short) == preset("certified"), "the default certificate"
    with pytest.raises(PipelineRefused, match=r"^node worker, rule\.budget: Input should be "):
        read_pipeline(short.replace("budget = 100", f"budget = {budget}", 1))


def test_ten_thousand_nodes_are_refused_at_once() -> None:
    node = preset("recommended").nodes[0].model_dump(mode="json")
    with pytest.raises(PipelineRefused, match=r"^nodes: a pipeline has at most 20 nodes, and this one 10,000$"):
        check({"name": "x", "node": [node | {"name": f"n{number}"} for number in range(10_000)]})


def test_every_path_after_unsafe_stays_away_from_safe_also_over_several_nodes() -> None:
    worker, risk, legal = (node.model_dump(mode="json") for node in preset("recommended").nodes)
    strict = {"safe": "human_review", "unsafe": "unsafe", "escalate": "human_review"}
    worker["routes"] |= {"unsafe": "risk"}
    risk["routes"] = strict | {"escalate": "legal"}
    with pytest.raises(PipelineRefused, match="node worker: unsafe leads to 'risk'"):
        check({"name": "x", "node": [worker, risk, legal]})
    found = check({"name": "x", "node": [worker, risk, legal | {"routes": strict}]})
    assert found.node("risk").target(Label.ESCALATE) == "legal"
