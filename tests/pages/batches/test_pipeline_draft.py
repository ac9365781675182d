"""Editing a pipeline: what a change of one agent does to the ways of the others, and what is said of the whole."""

import pytest

from pages.batches.pipeline_editor import (
    checks,
    draft_of,
    insert_after,
    judge_draft,
    node_names,
    price_at_worst,
    remove,
    targets_after,
    with_node,
)
from screening.labels import Label
from screening.pipeline.config import PipelineConfig, chain, chain_bound, most_calls, preset
from screening.pipeline.files import load_prompts
from screening.stopping.rules import MajorityVote

RECOMMENDED = preset("recommended")


def _pipeline(draft) -> PipelineConfig:
    pipeline, wrong = judge_draft(draft)
    assert pipeline is not None, wrong
    return pipeline


def test_a_new_agent_stands_in_the_way_of_escalate() -> None:
    pipeline = _pipeline(insert_after(draft_of(RECOMMENDED), "risk", "cultural_context", "Cultural context"))
    ways = {node.name: node.routes[Label.ESCALATE] for node in pipeline.nodes}
    assert ways == {"worker": "risk", "risk": "cultural_context", "cultural_context": "legal", "legal": "human_review"}
    with pytest.raises(ValueError, match="already something called 'legal'"):
        insert_after(draft_of(RECOMMENDED), "risk", "legal", "Legal")


def test_adding_and_removing_gives_the_pipeline_back() -> None:
    draft = insert_after(draft_of(RECOMMENDED), "risk", "extra", "Extra")
    assert _pipeline(remove(draft, "extra")) == RECOMMENDED
    assert node_names(remove(draft, "worker")) == ["risk", "extra", "legal"]


def test_what_is_left_empty_is_not_written() -> None:
    draft = with_node(draft_of(RECOMMENDED), "worker", {"model": "a-model", "temperature": None, "server": None})
    assert _pipeline(draft).node("worker").model == "a-model"
    assert _pipeline(with_node(draft, "worker", {"model": None})) == RECOMMENDED
    assert judge_draft(with_node(draft, "worker", {"temperature": "hot"}))[1].startswith("node worker, temperature: ")


def test_targets_are_outcomes_and_later_agents() -> None:
    assert targets_after(draft_of(RECOMMENDED), "risk") == ["human_review", "safe", "unsafe", "legal"]


def test_calls_bound_and_price_are_those_of_the_dearest_way() -> None:
    assert most_calls(RECOMMENDED) == 300 and most_calls(RECOMMENDED, flagged=True) == 400
    assert chain_bound(RECOMMENDED) == pytest.approx(3 * RECOMMENDED.nodes[0].rule.error_bound)
    straight = draft_of(RECOMMENDED)
    straight["nodes"][0]["routes"]["escalate"] = "legal"  # Risk is then reached by safe alone
    straight["nodes"][0]["routes"]["safe"] = "risk"
    straight["nodes"][1]["routes"]["escalate"] = "human_review"
    assert most_calls(_pipeline(straight)) == 200 and most_calls(_pipeline(straight), flagged=True) == 300
    prompts = load_prompts()
    one, all_of_them = (price_at_worst(p, prompts, "claude-sonnet-4-6") for p in (_pipeline(straight), RECOMMENDED))
    assert one is not None and all_of_them is not None and 1.2 * one < all_of_them < 1.45 * one
    assert price_at_worst(RECOMMENDED, prompts, "a-model-of-our-own") is None
    elsewhere = _pipeline(with_node(draft_of(RECOMMENDED), "legal", {"server": "ward"}))
    assert price_at_worst(elsewhere, prompts, "claude-sonnet-4-6") is None


def test_a_majority_vote_has_no_bound_and_that_is_said() -> None:
    voting = chain("vote", MajorityVote(n=3), "next")
    assert chain_bound(voting) is None
    assert [words for holds, words in checks(voting) if not holds] == [
        f"{title}: a majority vote has no error bound." for title in ("Worker", "Risk", "Legal")
    ]
