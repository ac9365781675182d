"""A site's SOP as data: presets, versions, what can never decide. As TOML the same comes back, and what is wrong is
named with its place. Prompts as versions, and prices.
"""

import hashlib
import re
import tomllib
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from screening.labels import LABELS, OUTCOMES, Label
from screening.pipeline.config import (
    NodeConfig,
    PipelineConfig,
    UndecidableError,
    chain,
    chain_bound,
    longest,
    mean_calls,
    most_calls,
    preset,
    promises,
    require_decidable,
    version_of,
)
from screening.pipeline.draws import NodeAgent, Usage, cost_usd, has_list_price
from screening.pipeline.files import (
    PROMPTS,
    SECOND_LOOK,
    PipelineRefused,
    PromptError,
    PromptSet,
    check,
    estimated_tokens,
    load_prompts,
    read_pipeline,
    shipped_pipelines,
    usage_per_call,
    write_pipeline,
)
from screening.stopping.certificates import CertifiedMixture
from screening.stopping.evidence import least_count
from screening.stopping.rules import DEFAULT_CONTRACT, Contract, MajorityVote, PairwiseMixture, SuccessiveElimination
from screening.stopping.theory import operating_characteristics
from tests.fixtures import tables

RECOMMENDED = write_pipeline(preset("recommended"))


def test_the_files_that_come_along_are_the_presets_whose_versions_stay_the_same():
    found = dict(shipped_pipelines())
    four = [node.name for node in found.pop("four_agents").nodes]
    assert found == {name: preset(name) for name in ("certified", "paper", "recommended")}
    assert four == ["worker", "risk", "cultural_context", "legal"]
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
def test_a_pipeline_comes_back_as_it_was_written(instructions, title, temperature, model):
    worker = preset("recommended").nodes[0]
    said = {"instructions": instructions, "title": title, "temperature": temperature, "model": model}
    routes = {**worker.routes, Label.ESCALATE: "human_review"}
    node = NodeConfig.model_validate(worker.model_dump() | said | {"routes": routes})
    pipeline = PipelineConfig(name="one", nodes=(node,))
    assert read_pipeline(write_pipeline(pipeline)) == pipeline


@pytest.mark.parametrize(("old", "new", "words"), tables(__file__)["wrong"])
def test_what_is_wrong_is_named_with_its_place(old, new, words):
    assert old in RECOMMENDED
    with pytest.raises(PipelineRefused) as refused:
        read_pipeline(RECOMMENDED.replace(old, new, 1))
    assert str(refused.value).startswith(words) and "\n" not in str(refused.value)


def test_what_is_no_pipeline_is_refused_in_one_sentence():
    for text, words in (
        ("nodes:\n  - worker\n", "not TOML: "),
        ("", "name: Field required"),
        ('name = "x"\nnode = 3', "nodes: Input should be a valid tuple"),
        ('name = "x"\nnode = [3]', "node number 1: Input should be"),
        ("x" * 1_000_001, "a pipeline has at most 1,000,000"),
    ):
        with pytest.raises(PipelineRefused, match=words):
            read_pipeline(text)
    node = preset("recommended").nodes[0].model_dump(mode="json")
    with pytest.raises(PipelineRefused, match=r"^nodes: a pipeline has at most 20 nodes, and this one 10,000$"):
        check({"name": "x", "node": [node | {"name": f"n{number}"} for number in range(10_000)]})


def test_a_file_begins_with_the_bound_of_its_whole_way_or_says_that_it_has_none():
    way = "# Naming, anywhere on the longest path, a label that is not the agent's mode: "
    for pipeline, bound, each in (
        (preset("certified"), "at most 0.15.", "certified: a label other than"),
        (chain("v", MajorityVote(n=3), "next"), "no bound: an agent has none.", "a majority vote has no error bound"),
    ):
        first, second, *_ = write_pipeline(pipeline).splitlines()
        assert first == f"{way}{bound}" and second.startswith(f"# At each agent: {each}")


def test_a_file_may_begin_with_a_byte_order_mark_and_hold_lines():
    assert read_pipeline(f"\ufeff{RECOMMENDED}") == read_pipeline(RECOMMENDED)
    body = preset("recommended").model_dump(mode="json")
    body["nodes"][0]["instructions"] = "First line.\nSecond line."
    assert '"""\nFirst line.\nSecond line."""' in write_pipeline(PipelineConfig.model_validate(body))


def test_a_budget_that_is_no_number_of_calls_is_refused_before_a_certificate_is_looked_for():
    certified = write_pipeline(preset("certified"))
    begin, end = certified.index("[node.rule.certificate]"), certified.index("[node.routes]")
    short = certified[:begin] + certified[end:]
    assert read_pipeline(short) == preset("certified"), "the default certificate"
    for budget in ("[]", "inf", "-inf", "nan", '"many"', "{ calls = 1 }", "1.5", "0"):
        with pytest.raises(PipelineRefused, match=r"^node worker, rule\.budget: Input should be "):
            read_pipeline(short.replace("budget = 100", f"budget = {budget}", 1))


def test_every_path_after_unsafe_stays_away_from_safe_also_over_several_nodes():
    worker, risk, legal = (node.model_dump(mode="json") for node in preset("recommended").nodes)
    strict = {"safe": "human_review", "unsafe": "unsafe", "escalate": "human_review"}
    worker["routes"] |= {"unsafe": "risk"}
    risk["routes"] = strict | {"escalate": "legal"}
    with pytest.raises(PipelineRefused, match="node worker: unsafe leads to 'risk'"):
        check({"name": "x", "node": [worker, risk, legal]})
    found = check({"name": "x", "node": [worker, risk, legal | {"routes": strict}]})
    assert found.node("risk").target(Label.ESCALATE) == "legal"


# --- prompts, and what a call costs


def test_a_version_is_the_hash_of_all_names_and_contents_and_outer_blank_lines_are_none_of_it(tmp_path):
    made = PromptSet({"b": "zwei", "a": "für"})
    by_hand = hashlib.sha256(b"a\0" + b"4\0" + "für".encode() + b"b\x004\0zwei").hexdigest()
    assert made.version == by_hand == PromptSet({"a": "für", "b": "zwei"}).version
    assert made.version != PromptSet({"a": "fürb", "b": "zwei"}).version
    shipped = load_prompts().version
    worker = (PROMPTS / "worker.md").read_text()
    (tmp_path / "worker.md").write_text(f"\n{worker}\r\n\n")
    assert load_prompts(tmp_path).version == shipped
    (tmp_path / "worker.md").write_bytes(b"\xef\xbb\xbf" + worker.encode())
    assert load_prompts(tmp_path).version == shipped, "as an editor marks its byte order"
    (tmp_path / "worker.md").write_text(worker + "One more sentence.")
    assert load_prompts(tmp_path).version != shipped


def test_what_is_missing_or_unusable_is_refused_by_name(tmp_path):
    prompts = load_prompts()
    for asked, words in (
        (lambda: load_prompts(tmp_path / "nowhere"), "nowhere"),
        (lambda: prompts.system("night"), r"night\.md"),
        (lambda: prompts.system("night", agent=NodeAgent(prompt="day")), r"node 'night' has no prompt: add day\.md"),
        (lambda: prompts.system("worker", "third_look"), "third_look"),
        (lambda: prompts.system("policy"), "policy"),
    ):
        with pytest.raises(PromptError, match=words):
            asked()
    for content in (b"", b"  \n", b"\xff\xfe\x00"):
        (tmp_path / "worker.md").write_bytes(content)
        with pytest.raises(PromptError, match=r"worker\.md"):
            load_prompts(tmp_path)


def test_an_agent_gets_its_own_instructions_else_the_file_that_it_or_its_node_names(tmp_path):
    prompts = load_prompts()
    shared = f"\n\n{prompts.files['criteria']}\n\n{prompts.files['policy']}"
    assert prompts.system("worker") == prompts.system("worker", agent=NodeAgent()) == prompts.files["worker"] + shared
    assert prompts.system("night", agent=NodeAgent(prompt="risk")) == prompts.files["risk"] + shared
    own = NodeAgent(instructions="Read slowly.", prompt="risk")
    assert prompts.system("night", agent=own) == "Read slowly." + shared
    assert prompts.system("night", SECOND_LOOK, own) == f"{prompts.files['second_look']}\n\n{prompts.files['criteria']}"
    (tmp_path / "risk.md").write_text("# Risk\n\nOur own words.")
    (tmp_path / "night.md").write_text("# Night\n\nThe night shift.")
    site = load_prompts(tmp_path)
    assert site.nodes == ("legal", "night", "risk", "worker")
    assert site.system("risk") == "# Risk\n\nOur own words." + shared
    assert site.system("night") == "# Night\n\nThe night shift." + shared


def test_the_shipped_prompts_can_be_cached_call_the_record_data_and_name_the_answers_only_where_they_may():
    prompts = load_prompts()
    assert {"worker", "risk", "legal"} <= set(prompts.nodes)
    for node in prompts.nodes:
        system = prompts.system(node)
        assert estimated_tokens(system) >= 1024 and "never an instruction" in system
        assert all(f"`{label}`" in system for label in LABELS)
    again = prompts.system("worker", SECOND_LOOK)
    assert not re.search(r"\b(safe|unsafe|escalate)\b", again, re.IGNORECASE), "no label that a text could ask for"


# --- what a call costs


def test_a_call_costs_what_the_list_price_says_and_an_unknown_price_is_unknown():
    # Sonnet 4.6: $3 input, $15 output, $0.30 cache read, $3.75 cache write per million tokens.
    usage = Usage(input_tokens=1_300, output_tokens=3, cache_read_tokens=1_000, cache_write_tokens=100)
    expected = (200 * Decimal("3") + 3 * Decimal("15") + 1_000 * Decimal("0.30") + 100 * Decimal("3.75")) / 1_000_000
    assert cost_usd("claude-sonnet-4-6", usage) == expected
    assert cost_usd("llama3.1:8b", usage) is None
    assert has_list_price("claude-haiku-4-5") and not has_list_price("claude-hiaku-4-5")
    assert not has_list_price("gpt-4o"), "another service's model of that price is not what is asked"


def test_the_estimate_before_the_first_call_grows_with_the_text_and_an_agents_own_instructions():
    prompts, (worker, risk, _) = load_prompts(), preset("recommended").nodes
    own = worker.model_copy(update={"instructions": "Say one word. " * 2_000})

    def asked(*nodes, characters=0):
        return usage_per_call(prompts, nodes, characters).input_tokens

    assert asked(worker, characters=3_000) - asked(worker) == 1_000
    assert estimated_tokens(prompts.system("worker")) < asked(worker) < asked(own) - 5_000
    assert asked(worker, risk) == pytest.approx((asked(worker) + asked(risk)) / 2, abs=1)


STRICT = {"safe|unsafe": 0.001, "safe|escalate": 0.001}


@pytest.mark.parametrize(
    ("name", "delta", "budget", "rule"),
    [
        ("paper", None, 100, SuccessiveElimination(budget=100, delta=0.05)),
        ("paper", 0.1, 90, SuccessiveElimination(budget=90, delta=0.1)),
        ("recommended", None, 60, PairwiseMixture(budget=60)),
        ("recommended", 0.1, 60, PairwiseMixture.symmetric(0.1, 60)),
        ("certified", None, 100, CertifiedMixture.for_contract(DEFAULT_CONTRACT, 100)),
        ("certified", None, 10_000, PairwiseMixture(budget=10_000, default_error=0.025, errors=STRICT)),
        ("certified", 0.001, 300, CertifiedMixture.for_contract(Contract(any_wrong=0.001), 300)),
        ("certified", 0.07, 100, PairwiseMixture.symmetric(0.07, 100)),  # no certificate is made for it
    ],
)
def test_a_preset_is_the_papers_chain_of_the_rule_it_is_said_to_be(name, delta, budget, rule):
    made = preset(name, delta=delta, budget=budget)
    assert (made.name, [node.name for node in made.nodes]) == (name, ["worker", "risk", "legal"])
    assert [node.rule for node in made.nodes] == [rule] * 3
    onward = ["risk", "legal", "human_review"]
    assert [node.target(Label.ESCALATE) for node in made.nodes] == onward
    assert [node.target(None) for node in made.nodes] == (onward if name == "paper" else ["human_review"] * 3)


def test_the_version_is_that_of_all_settings_in_whatever_order_they_are_written():
    pipeline = preset("recommended")
    values = pipeline.model_dump(mode="json")
    assert version_of(dict(reversed(values.items()))) == version_of(values) == pipeline.version
    assert PipelineConfig.model_validate(values) == pipeline and len(pipeline.version) == 16
    values["nodes"][0]["question"] = "Another?"
    others = {preset("recommended", budget=99).version, PipelineConfig.model_validate(values).version}
    assert len(others | {pipeline.version}) == 3


def test_the_label_that_takes_most_calls_is_named_with_what_it_takes():
    """Unanimous draws: least_count(0, 0.025) = 6 name unsafe, and 0.001 takes safe to 10 or more."""
    safe, other = least_count(0, 0.0005), least_count(0, 0.025)
    errors = dict.fromkeys(STRICT, 0.0005)
    for budget, words in ((safe - 1, "safe"), (other, "safe"), (other - 1, "no label")):
        rule = PairwiseMixture(budget=budget, default_error=0.025, errors=errors)
        with pytest.raises(UndecidableError, match=f"{words} can (n)?ever be identified .* minimum is {safe} calls"):
            require_decidable(chain("x", rule, "next"))
    enough = PairwiseMixture(budget=safe, default_error=0.025, errors=errors)
    assert require_decidable(chain("x", enough, "next")).nodes[0].rule == enough
    with pytest.raises(UndecidableError, match="minimum is 72 calls"):  # 24 rounds of 3 calls
        preset("paper", budget=71)


# --- the whole pipeline


@pytest.mark.parametrize(
    ("rule", "on_abstain"),
    [
        (PairwiseMixture.symmetric(0.5, 8), "next"),
        (PairwiseMixture.symmetric(0.5, 8), "human_review"),
        (MajorityVote(n=4), "next"),
    ],
)
def test_the_mean_calls_of_a_text_are_those_of_all_ways_through_the_agents_together(rule, on_abstain):
    pipeline, mix = chain("x", rule, on_abstain), (0.2, 0.3, 0.5)
    here = operating_characteristics(rule, mix)
    shares = [*zip(LABELS, here.identified, strict=True), (rule.fallback, here.abstained)]

    def walk(target):
        if target in OUTCOMES:
            return 0.0
        return here.mean_calls + sum(share * walk(pipeline.node(target).target(one)) for one, share in shares)

    assert here.abstained > 0.01 and mean_calls(pipeline, mix) == pytest.approx(walk("worker"))
    assert mean_calls(chain("vote", MajorityVote(n=300), "next"), (1.0, 0.0, 0.0)) == 300
    assert mean_calls(chain("vote", MajorityVote(n=301), "next"), (1.0, 0.0, 0.0)) is None


def test_the_longest_way_is_the_dearest_and_a_flagged_text_called_safe_is_asked_again():
    pipeline = preset("certified")
    late, early = {"worker": 1.0, "risk": 2.0, "legal": 4.0}, {"worker": 10.0, "risk": 1.0, "legal": 1.0}
    assert longest(pipeline, late) == 7 and longest(pipeline, early) == 12
    assert longest(pipeline, late, flagged=True) == 1 + 2 + 4 + 4, "on to the last agent, which is asked twice"
    assert longest(pipeline, early, flagged=True) == 10 + 10, "the first is asked twice, and no other"
    body = pipeline.model_dump(mode="json")
    body["nodes"][0]["routes"]["safe"] = "risk"
    confirmed = PipelineConfig.model_validate(body)
    assert longest(confirmed, early, flagged=True) == 10 + 1 + 1 + 1, "its safe is no outcome: another agent looks"


def test_calls_bound_and_contract_follow_from_each_agents_own_rule():
    body = preset("paper", budget=100).model_dump(mode="json")
    for node, (budget, delta) in zip(body["nodes"], [(80, 0.2), (100, 0.1), (120, 0.3)], strict=True):
        node["rule"] |= {"budget": budget, "delta": delta}
    pipeline = PipelineConfig.model_validate(body)
    assert most_calls(pipeline) == 300 and most_calls(pipeline, flagged=True) == 420
    assert most_calls(pipeline, read_off=True) == 303  # each agent may be asked for its probabilities first
    assert chain_bound(pipeline) == pytest.approx(0.6)
    wrong = "a label other than the model's most frequent answer: at most {}% in all".format
    assert promises(pipeline).split(" | ") == [f"Algorithm 1: {wrong(delta)}" for delta in (20, 10, 30)]
    for name, source in (("certified", "certified"), ("recommended", "Ville's bound")):
        words = promises(preset(name, budget=100))
        assert words.startswith(f"{source}: {wrong(5)}; ")
        assert "safe when it mostly says unsafe: at most 0.1%" in words
    body["nodes"][0]["rule"] |= {"delta": 0.8}
    assert chain_bound(PipelineConfig.model_validate(body)) == 1.0, "a probability"
    body["nodes"][1]["rule"] = {"kind": "majority-vote", "n": 3}
    assert chain_bound(PipelineConfig.model_validate(body)) is None, "one agent without a bound"
