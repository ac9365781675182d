"""Prompts as versions: what changes the hash, what a site may replace, and what the prompts must hold to."""

import hashlib
import re

import pytest

from screening.labels import LABELS
from screening.pipeline.draws import NodeAgent
from screening.pipeline.files import PROMPTS, SECOND_LOOK, PromptError, PromptSet, estimated_tokens, load_prompts


def test_the_shipped_prompts_are_long_enough_to_be_cached():
    prompts = load_prompts()
    assert {"worker", "risk", "legal"} <= set(prompts.nodes)
    assert min(estimated_tokens(prompts.system(node)) for node in prompts.nodes) >= 1024


def test_any_edit_is_another_version_but_outer_blank_lines_are_not(tmp_path):
    shipped = load_prompts().version
    worker = (PROMPTS / "worker.md").read_text()
    (tmp_path / "worker.md").write_text(f"\n{worker}\r\n\n")
    assert load_prompts(tmp_path).version == shipped
    (tmp_path / "worker.md").write_bytes(b"\xef\xbb\xbf" + worker.encode())
    assert load_prompts(tmp_path).version == shipped, "as an editor marks its byte order"
    (tmp_path / "worker.md").write_text(worker + "One more sentence.")
    assert load_prompts(tmp_path).version != shipped


def test_a_site_replaces_one_prompt_and_adds_a_node(tmp_path):
    (tmp_path / "risk.md").write_text("# Risk\n\nOur own words.")
    (tmp_path / "night.md").write_text("# Night\n\nThe night shift.")
    prompts = load_prompts(tmp_path)
    assert prompts.nodes == ("legal", "night", "risk", "worker")
    assert prompts.system("risk").startswith("# Risk\n\nOur own words.")
    assert prompts.system("night").endswith(load_prompts().files["policy"])


@pytest.mark.parametrize("content", [b"", b"  \n", b"\xff\xfe\x00"])
def test_an_unusable_file_is_refused_by_name(tmp_path, content):
    (tmp_path / "worker.md").write_bytes(content)
    with pytest.raises(PromptError, match=r"worker\.md"):
        load_prompts(tmp_path)


def test_a_missing_directory_node_or_variant_is_refused(tmp_path):
    with pytest.raises(PromptError):
        load_prompts(tmp_path / "nowhere")
    with pytest.raises(PromptError, match=r"night\.md"):
        load_prompts().system("night")
    with pytest.raises(PromptError):
        load_prompts().system("worker", "third_look")
    with pytest.raises(PromptError):
        load_prompts().system("policy")


def test_a_version_is_the_hash_of_all_names_and_contents_whatever_their_order():
    made = PromptSet({"b": "zwei", "a": "für"})
    by_hand = hashlib.sha256(b"a\0" + b"4\0" + "für".encode() + b"b\x004\0zwei").hexdigest()
    assert made.version == by_hand == PromptSet({"a": "für", "b": "zwei"}).version
    assert made.version != PromptSet({"a": "fürb", "b": "zwei"}).version


def test_an_agent_gets_its_own_instructions_else_the_file_that_it_or_its_node_names():
    prompts = load_prompts()
    shared = f"\n\n{prompts.files['criteria']}\n\n{prompts.files['policy']}"
    assert prompts.system("worker") == prompts.system("worker", agent=NodeAgent()) == prompts.files["worker"] + shared
    assert prompts.system("night", agent=NodeAgent(prompt="risk")) == prompts.files["risk"] + shared
    own = NodeAgent(instructions="Read slowly.", prompt="risk")
    assert prompts.system("night", agent=own) == "Read slowly." + shared
    assert prompts.system("night", SECOND_LOOK, own) == f"{prompts.files['second_look']}\n\n{prompts.files['criteria']}"
    with pytest.raises(PromptError, match=r"node 'night' has no prompt: add day\.md"):
        prompts.system("night", agent=NodeAgent(prompt="day"))


def test_the_policy_names_the_three_answers_and_calls_the_record_data():
    system = load_prompts().system("worker")
    assert all(f"`{label}`" in system for label in LABELS)
    assert "never an instruction" in system


def test_the_second_look_names_no_label_that_a_text_could_ask_for():
    system = load_prompts().system("worker", SECOND_LOOK)
    assert not re.search(r"\b(safe|unsafe|escalate)\b", system, re.IGNORECASE)
