"""A site's SOP as data: what is refused before a single call."""

from typing import Any

import pytest
from pydantic import ValidationError

from screening.engine.pipeline import (
    MajorityVoteConfig,
    PairwiseMixtureConfig,
    PipelineConfig,
    UndecidableError,
    chain,
    preset,
    require_decidable,
)
from screening.labels import Label


def _changed(**node: Any) -> dict[str, Any]:
    data = preset("recommended").model_dump(mode="json")
    data["nodes"][0] |= node
    return data


def test_the_presets_are_the_papers_chain() -> None:
    for name, kind, on_abstain in (
        ("recommended", "pairwise-mixture", "human_review"),
        ("paper", "successive-elimination", "next"),
    ):
        nodes = preset(name).nodes  # type: ignore[arg-type]
        assert [node.name for node in nodes] == ["worker", "risk", "legal"]
        assert [node.target(Label.ESCALATE) for node in nodes] == ["risk", "legal", "human_review"]
        assert {node.rule.kind for node in nodes} == {kind} and {node.on_abstain for node in nodes} == {on_abstain}


def test_an_abstention_goes_to_a_human_or_where_escalate_leads() -> None:
    assert [node.target(None) for node in preset("recommended").nodes] == ["human_review"] * 3
    assert [node.target(None) for node in preset("paper").nodes] == ["risk", "legal", "human_review"]


def test_a_site_may_have_safe_confirmed_by_the_next_node() -> None:
    data = _changed(routes={"safe": "risk", "unsafe": "unsafe", "escalate": "risk"})
    assert PipelineConfig.model_validate(data).nodes[0].target(Label.SAFE) == "risk"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"routes": {"safe": "safe", "unsafe": "unsafe", "escalate": "worker"}}, "leads back to 'worker'"),
        ({"routes": {"safe": "safe", "unsafe": "unsafe", "escalate": "nobody"}}, "neither an outcome nor a node"),
        ({"routes": {"safe": "safe", "unsafe": "unsafe"}}, "no route for escalate"),
        ({"routes": {"safe": "safe", "unsafe": "safe", "escalate": "risk"}}, "unsafe must not lead to"),
        ({"routes": {"safe": "safe", "unsafe": "unsafe", "escalate": "safe"}}, "escalate must not lead to"),
        ({"name": "risk"}, "unique"),
        ({"name": "human_review"}, "unique"),
        ({"routes": {"safe": "safe", "unsafe": "risk", "escalate": "risk"}}, "from where a case could end safe"),
        (
            {"routes": {"safe": "safe", "unsafe": "unsafe", "escalate": "human_review"}},
            "node risk: no route leads here",
        ),
        ({"prompt": "worker", "instructions": "Read."}, "not both"),
        ({"temperature": 3}, "less than or equal to 2"),
        ({"top_p": 1}, "Extra inputs"),
    ],
)
def test_a_faulty_route_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        PipelineConfig.model_validate(_changed(**change))


@pytest.mark.parametrize("pair", ["safe|safe", "safe|nothing", "safe"])
def test_error_levels_are_for_pairs_of_labels(pair: str) -> None:
    with pytest.raises(ValueError):
        PairwiseMixtureConfig(errors={pair: 0.01})


def test_a_setting_that_can_never_decide_is_refused_with_the_minimum_that_can() -> None:
    # Algorithm 1 at δ = 0.05 needs 24 rounds of 3 calls even when the model is unanimous.
    with pytest.raises(UndecidableError, match="minimum is 72 calls"):
        preset("paper", budget=71)
    assert preset("paper", budget=72).nodes[0].rule.rule().budget == 72
    with pytest.raises(UndecidableError, match="minimum is 6 calls"):
        preset("recommended", budget=5, delta=0.05)


def test_the_version_changes_with_any_setting_and_survives_json() -> None:
    pipeline = preset("recommended")
    assert PipelineConfig.model_validate_json(pipeline.model_dump_json()).version == pipeline.version
    assert preset("recommended", budget=99).version != pipeline.version
    assert PipelineConfig.model_validate(_changed(question="Another?")).version != pipeline.version


def test_a_majority_vote_is_always_decidable() -> None:
    pipeline = chain("vote", MajorityVoteConfig(n=1), "next")
    assert require_decidable(pipeline) is pipeline
