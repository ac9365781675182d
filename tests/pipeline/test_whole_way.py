"""A pipeline as a whole: bounds along its longest way, exact values at given mixes."""

from itertools import product

import numpy as np
import pytest

from screening.labels import LABELS, OUTCOMES
from screening.pipeline.config import (
    PipelineConfig,
    chain,
    chain_bound,
    longest,
    most_calls,
    preset,
    promises,
    whole_way,
)
from screening.stopping.rules import NONE, MajorityVote, run


def _votes(n: int = 1) -> PipelineConfig:
    return chain("vote", MajorityVote(n=n), "next")


def _every(pipeline: PipelineConfig, mix: tuple[float, float, float]) -> dict[str, tuple[float, float, float]]:
    return {node.name: mix for node in pipeline.nodes}


def test_single_draws_by_hand() -> None:
    """One draw an agent at .5/.3/.2: escalate leads on, so the ways are s, u, es, eu, ees, eeu and eee."""
    found = whole_way(_votes(), _every(_votes(), (0.5, 0.3, 0.2)))
    assert found is not None
    assert found.ends == pytest.approx({"safe": 0.5 * 1.24, "unsafe": 0.3 * 1.24, "human_review": 0.008})
    assert found.wrong == pytest.approx(1 - 0.5)  # all but "safe at once": each escalate is no mode either
    assert found.calls == pytest.approx(1.24)


def test_agents_may_answer_differently() -> None:
    mixes = {"worker": (0.1, 0.1, 0.8), "risk": (0.2, 0.7, 0.1), "legal": (1.0, 0.0, 0.0)}
    found = whole_way(_votes(), mixes)
    assert found is not None
    assert found.ends == pytest.approx(
        {"safe": 0.1 + 0.8 * (0.2 + 0.1), "unsafe": 0.1 + 0.8 * 0.7, "human_review": 0.0}
    )
    assert found.wrong == pytest.approx(0.1 + 0.1 + 0.8 * (0.2 + 0.1))  # right: escalate, then unsafe


@pytest.mark.slow
@pytest.mark.parametrize("mix", [(0.9, 0.05, 0.05), (0.2, 0.2, 0.6), (0.5, 0.45, 0.05)])
def test_it_is_what_many_texts_do(mix: tuple[float, float, float]) -> None:
    """3,000 texts walked from agent to agent."""
    pipeline, random = preset("certified", budget=30), np.random.default_rng(1)
    found = whole_way(pipeline, _every(pipeline, mix))
    texts = 3_000
    stops = {
        node.name: run(node.rule, random.choice(3, size=(texts, 30), p=mix).astype(np.uint8)) for node in pipeline.nodes
    }
    ended, wrong, calls = dict.fromkeys(OUTCOMES, 0), 0, 0
    for text in range(texts):
        target, misled = pipeline.nodes[0].name, False
        while target not in OUTCOMES:
            node, (labels, _, taken) = pipeline.node(target), stops[target]
            label = int(labels[text])
            calls += int(taken[text])
            misled |= label not in (NONE, int(np.argmax(mix)))
            target = node.target(None if label == NONE else LABELS[label])
        ended[target] += 1
        wrong += misled
    assert found is not None
    assert {name: ended[name] / texts for name in ended} == pytest.approx(dict(found.ends), abs=0.03)
    assert wrong / texts == pytest.approx(found.wrong, abs=0.02) and calls / texts == pytest.approx(
        found.calls, rel=0.05
    )


def test_no_mix_errs_more_than_the_bound_and_all_ends_add_up() -> None:
    pipeline = preset("certified", budget=40)
    bound = chain_bound(pipeline)
    assert bound == pytest.approx(0.15) and most_calls(pipeline) == 120
    assert most_calls(pipeline, read_off=True) == 123  # each agent may be asked for its probabilities first
    for mixes in product([(0.5, 0.49, 0.01), (0.34, 0.33, 0.33), (0.3, 0.3, 0.4)], repeat=3):
        found = whole_way(pipeline, dict(zip(("worker", "risk", "legal"), mixes, strict=True)))
        assert found is not None and sum(found.ends.values()) == pytest.approx(1)
        assert 0 <= found.wrong <= bound


def test_the_longest_way_is_the_dearest_and_a_flagged_text_called_safe_is_asked_again() -> None:
    pipeline = preset("certified")
    late, early = {"worker": 1.0, "risk": 2.0, "legal": 4.0}, {"worker": 10.0, "risk": 1.0, "legal": 1.0}
    assert longest(pipeline, late) == 7 and longest(pipeline, early) == 12
    assert longest(pipeline, late, flagged=True) == 1 + 2 + 4 + 4, "on to the last agent, which is asked twice"
    assert longest(pipeline, early, flagged=True) == 10 + 10, "the first is asked twice, and no other"
    body = pipeline.model_dump(mode="json")
    body["nodes"][0]["routes"]["safe"] = "risk"
    confirmed = PipelineConfig.model_validate(body)
    assert longest(confirmed, early, flagged=True) == 10 + 1 + 1 + 1, "its safe is no outcome: another agent looks"


def test_calls_and_bound_follow_from_each_agents_own_rule() -> None:
    body = preset("paper", budget=100).model_dump(mode="json")
    for node, (budget, delta) in zip(body["nodes"], [(80, 0.2), (100, 0.1), (120, 0.3)], strict=True):
        node["rule"] |= {"budget": budget, "delta": delta}
    pipeline = PipelineConfig.model_validate(body)
    assert most_calls(pipeline) == 300 and most_calls(pipeline, flagged=True) == 420
    assert chain_bound(pipeline) == pytest.approx(0.6)
    assert promises(pipeline).split(" | ") == [
        f"Algorithm 1: a label other than the model's most frequent answer: at most {delta}% in all"
        for delta in (20, 10, 30)
    ]
    body["nodes"][0]["rule"] |= {"delta": 0.8}
    assert chain_bound(PipelineConfig.model_validate(body)) == 1.0, "a probability"
    body["nodes"][1]["rule"] = {"kind": "majority-vote", "n": 3}
    assert chain_bound(PipelineConfig.model_validate(body)) is None, "one agent without a bound"


def test_a_label_as_probable_as_the_mode_is_no_error() -> None:
    found = whole_way(_votes(), _every(_votes(), (0.5, 0.5, 0.0)))
    assert found is not None and found.wrong == 0.0


def test_each_preset_says_which_contract_holds() -> None:
    safe = "safe when it mostly says unsafe: at most 0.1%"
    wrong = "a label other than the model's most frequent answer: at most 5% in all"
    for name, source in (("certified", "certified"), ("recommended", "Ville's bound")):
        words = promises(preset(name, budget=100))
        assert words.startswith(f"{source}: {wrong}; ") and safe in words
    assert promises(preset("paper", budget=100)) == f"Algorithm 1: {wrong}"
    assert promises(_votes()) == "a majority vote has no error bound"


def test_what_would_take_long_is_left_out() -> None:
    assert whole_way(preset("certified", budget=10_000), _every(preset("certified"), (1.0, 0.0, 0.0))) is None
    assert whole_way(_votes(60), _every(_votes(), (1.0, 0.0, 0.0))) is not None
    assert whole_way(_votes(301), _every(_votes(), (1.0, 0.0, 0.0))) is None
    with pytest.raises(ValueError, match="adding up to 1"):
        whole_way(_votes(), _every(_votes(), (0.5, 0.5, 0.5)))
