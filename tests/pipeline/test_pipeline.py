"""A site's SOP as data: presets, versions, what can never decide; and what becomes of a text in the whole pipeline."""

import pytest

from screening.labels import LABELS, OUTCOMES, Label
from screening.pipeline.config import (
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
from screening.stopping.certificates import CertifiedMixture
from screening.stopping.evidence import least_count
from screening.stopping.operating_characteristics import operating_characteristics
from screening.stopping.rules import DEFAULT_CONTRACT, Contract, MajorityVote, PairwiseMixture, SuccessiveElimination

STRICT = {"safe|unsafe": 0.001, "safe|escalate": 0.001}
AGENTS = ("worker", "risk", "legal")


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
    assert (made.name, [node.name for node in made.nodes]) == (name, list(AGENTS))
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
