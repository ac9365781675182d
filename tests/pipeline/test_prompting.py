"""Prompts as versions: what changes the hash, what a site may replace, what they hold to; and what a call costs."""

import hashlib
import re
from decimal import Decimal

import pytest

from screening.labels import LABELS
from screening.pipeline.config import preset
from screening.pipeline.cost import cost_usd, has_list_price, usage_per_call
from screening.pipeline.draws import NodeAgent, Usage
from screening.pipeline.files import PROMPTS, SECOND_LOOK, PromptError, PromptSet, estimated_tokens, load_prompts


def test_any_edit_is_another_version_but_outer_blank_lines_are_not(tmp_path):
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


def test_a_version_is_the_hash_of_all_names_and_contents_whatever_their_order():
    made = PromptSet({"b": "zwei", "a": "für"})
    by_hand = hashlib.sha256(b"a\0" + b"4\0" + "für".encode() + b"b\x004\0zwei").hexdigest()
    assert made.version == by_hand == PromptSet({"a": "für", "b": "zwei"}).version
    assert made.version != PromptSet({"a": "fürb", "b": "zwei"}).version


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
