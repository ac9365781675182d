"""A site's SOP as data: what is refused before a single call."""

from typing import Any

import pytest
from pydantic import ValidationError

from screening.labels import Label
from screening.pipeline.config import (
    PipelineConfig,
    Preset,
    UndecidableError,
    chain,
    preset,
    require_decidable,
    version_of,
)
from screening.stopping.certificates import CertifiedMixture
from screening.stopping.evidence import least_count
from screening.stopping.rules import (
    DEFAULT_CONTRACT,
    Contract,
    PairwiseMixture,
    StoppingRule,
    SuccessiveElimination,
)

STRICT = {"safe|unsafe": 0.001, "safe|escalate": 0.001}


def _changed(**node: Any) -> dict[str, Any]:
    data = preset("recommended").model_dump(mode="json")
    data["nodes"][0] |= node
    return data


def test_the_presets_are_the_papers_chain_and_an_abstention_goes_to_a_human_or_where_escalate_leads() -> None:
    for nodes in (preset("recommended").nodes, preset("paper").nodes):
        assert [node.name for node in nodes] == ["worker", "risk", "legal"]
        assert [node.target(Label.ESCALATE) for node in nodes] == ["risk", "legal", "human_review"]
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
        ({"name": "risk"}, "node risk: another node has this name"),
        ({"name": "human_review"}, "node human_review: this is the name of an outcome"),
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


def test_a_setting_that_can_never_decide_is_refused_with_the_minimum_that_can() -> None:
    # Algorithm 1 at δ = 0.05 needs 24 rounds of 3 calls even when the model is unanimous.
    with pytest.raises(UndecidableError, match="minimum is 72 calls"):
        preset("paper", budget=71)
    assert preset("paper", budget=72).nodes[0].rule.budget == 72
    with pytest.raises(UndecidableError, match="minimum is 6 calls"):
        preset("recommended", budget=5, delta=0.05)


def test_the_version_changes_with_any_setting_and_survives_json() -> None:
    pipeline = preset("recommended")
    assert PipelineConfig.model_validate_json(pipeline.model_dump_json()).version == pipeline.version
    assert preset("recommended", budget=99).version != pipeline.version
    assert PipelineConfig.model_validate(_changed(question="Another?")).version != pipeline.version


@pytest.mark.parametrize(
    ("name", "delta", "budget", "rule", "on_abstain"),
    [
        ("paper", None, 100, SuccessiveElimination(budget=100, delta=0.05), "next"),
        ("paper", 0.1, 90, SuccessiveElimination(budget=90, delta=0.1), "next"),
        ("recommended", None, 60, PairwiseMixture(budget=60), "human_review"),
        ("recommended", 0.1, 60, PairwiseMixture.symmetric(0.1, 60), "human_review"),
        ("certified", None, 100, CertifiedMixture.for_contract(DEFAULT_CONTRACT, 100), "human_review"),
        ("certified", None, 10_000, PairwiseMixture(budget=10_000, default_error=0.025, errors=STRICT), "human_review"),
        ("certified", 0.001, 300, CertifiedMixture.for_contract(Contract(any_wrong=0.001), 300), "human_review"),
        ("certified", 0.07, 100, PairwiseMixture.symmetric(0.07, 100), "human_review"),  # no certificate is made for it
    ],
)
def test_a_preset_is_the_rule_it_is_said_to_be_at_every_node(
    name: Preset, delta: float | None, budget: int, rule: StoppingRule, on_abstain: str
) -> None:
    made = preset(name, delta=delta, budget=budget)
    assert made.name == name and {node.on_abstain for node in made.nodes} == {on_abstain}
    assert [node.rule for node in made.nodes] == [rule] * 3


def test_the_version_is_sixteen_characters_and_the_same_in_whatever_order_the_record_is_written() -> None:
    values = preset("recommended").model_dump(mode="json")
    again = dict(reversed(list(values.items())))
    assert list(again) != list(values)
    assert version_of(again) == version_of(values) and len(version_of(values)) == 16


def test_the_label_that_takes_most_calls_is_named_with_what_it_takes() -> None:
    """Unanimous draws: least_count(0, 0.025) = 6 name unsafe, and 0.001 takes safe to 10 or more."""
    safe, other = least_count(0, 0.0005), least_count(0, 0.025)
    levels = PairwiseMixture(
        budget=safe - 1, default_error=0.025, errors={"safe|unsafe": 0.0005, "safe|escalate": 0.0005}
    )
    with pytest.raises(UndecidableError, match=f"safe can never be identified .* minimum is {safe} calls"):
        require_decidable(chain("x", levels, "next"))
    enough = levels.model_copy(update={"budget": safe})
    assert require_decidable(chain("x", enough, "next")).nodes[0].rule == enough
    just = levels.model_copy(update={"budget": other})
    with pytest.raises(UndecidableError, match="safe can never be identified"):  # unsafe can, at the very last call
        require_decidable(chain("x", just, "next"))
    none = levels.model_copy(update={"budget": other - 1})
    with pytest.raises(UndecidableError, match=f"no label can ever be identified .* minimum is {safe} calls"):
        require_decidable(chain("x", none, "next"))
