"""Replay against the engine itself, draw by draw on the same records."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.evaluation.experiments import Condition, our_conditions, paper_conditions
from screening.evaluation.replay import Record, Replay, replay
from screening.labels import LABELS, Outcome
from screening.pipeline.config import NodeConfig, PipelineConfig, chain
from screening.pipeline.draws import Answer, Draw, DrawRequest, ScreenedText, decode_draws, encode_draws, unusable
from screening.pipeline.engine import Guard, Screening, screening_steps
from screening.stopping.rules import (
    ENDS,
    Ended,
    MajorityVote,
    PairwiseMixture,
    StoppingRule,
    SuccessiveElimination,
    conclude,
    label_numbers,
)

NODES = ("worker", "risk", "legal")
Codes = dict[str, list[str]]


class TooShort(Exception):
    """The engine asked for more draws than were recorded."""


def live(pipeline: PipelineConfig, codes: dict[str, str]) -> Screening:
    """The engine's own steps, answered from one case's record."""
    steps = screening_steps(ScreenedText(text="x"), Guard(), pipeline)
    answer: Sequence[Draw] | None = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as ended:
            result: Screening = ended.value
            return result
        answer = None
        if isinstance(step, DrawRequest):
            answer = decode_draws(codes[step.node])[step.first : step.first + step.count]
            if len(answer) < step.count and not (step.enough and step.enough(answer)):
                steps.close()
                raise TooShort


def ends_at(found: Replay, node: str) -> list[Ended | None]:
    """How each case ended at this node; None where it was not visited or not settled."""
    place = [config.name for config in found.pipeline.nodes].index(node)
    return [None if code < 0 else ENDS[code] for code in found.ended[place]]


def assert_same(pipeline: PipelineConfig, codes: Codes) -> int:
    """Every case's outcome, last node, calls and ends are the engine's; returns how many cases are unsettled."""
    found = replay(pipeline, Record.from_codes(codes))
    outcomes, ends = found.outcomes(), {node.name: ends_at(found, node.name) for node in pipeline.nodes}
    names = [node.name for node in pipeline.nodes]
    for case, outcome in enumerate(outcomes):
        own = {node: cases[case] for node, cases in codes.items()}
        try:
            expected = live(pipeline, own)
        except TooShort:
            assert outcome is None
            continue
        assert outcome is expected.outcome
        assert names[found.node[case]] == expected.node
        assert int(found.total_calls[case]) <= expected.calls
        visited = {run.node: run for run in expected.runs}
        for place, name in enumerate(names):
            assert ends[name][case] is (visited[name].verdict.ended if name in visited else None)
            drawn = label_numbers(draw.label for draw in visited[name].draws) if name in visited else None
            # without hope a live run may have paid for the rest of its batch, the replay counts what it took
            counted = 0 if drawn is None else conclude(pipeline.node(name).rule, drawn).calls
            assert found.calls[place, case] == counted
            assert drawn is None or counted == len(drawn) or ends[name][case] is Ended.FUTILITY
    assert found.unsettled == outcomes.count(None)
    return found.unsettled


def random_codes(cases: int, most: int, seed: int, shortest: int | None = None) -> Codes:
    """Records of models that are unanimous, clear, undecided between two labels, or between three."""
    random = np.random.default_rng(seed)
    shapes = np.array([[0.02] * 3, [0.2] * 3, [1.0] * 3, [30.0] * 3])
    codes = {}
    for node in NODES:
        p = np.stack([random.dirichlet(shapes[random.integers(len(shapes))]) for _case in range(cases)])
        lengths = random.integers(most if shortest is None else shortest, most + 1, cases)
        codes[node] = ["".join(random.choice(list("SUE"), n, p=q)) for n, q in zip(lengths, p, strict=True)]
    return codes


def hasty(condition: Condition) -> Condition:
    """The same, whose nodes abstain as soon as nothing can be decided any more."""
    nodes = (
        node.model_copy(update={"rule": node.rule.model_copy(update={"stop_for_futility": True})})
        for node in condition.pipeline.nodes
    )
    return replace(condition, pipeline=condition.pipeline.model_copy(update={"nodes": tuple(nodes)}))


HASTY = tuple(hasty(each) for each in paper_conditions() if each.name.startswith("B="))
ALL_CONDITIONS = [*paper_conditions(), *HASTY, *our_conditions()]


@pytest.fixture(scope="module")
def full_record() -> Codes:
    return random_codes(cases=40, most=150, seed=1)


@pytest.mark.parametrize("condition", ALL_CONDITIONS, ids=lambda condition: condition.name)
def test_a_replayed_condition_gives_what_the_engine_gives_live(condition: Condition, full_record: Codes) -> None:
    assert assert_same(condition.pipeline, full_record) == 0
    assert_same(condition.pipeline, random_codes(cases=12, most=130, seed=2, shortest=0))  # some of it is too short


def test_the_records_exercise_every_end_and_all_outcomes(full_record: Codes) -> None:
    """Otherwise the comparison above would show little."""
    record = Record.from_codes(full_record)
    both = [replay(each.pipeline, record) for each in (*paper_conditions(), *HASTY) if each.name == "B=124"]
    assert {end for found in both for end in ends_at(found, "risk")} == {*Ended, None} - {
        Ended.NO_ANSWER,
        Ended.TOO_CLOSE,
    }
    assert set(both[1].outcomes()) == set(Outcome)


rule_configs = st.one_of(
    st.builds(
        SuccessiveElimination,
        budget=st.integers(1, 110),
        delta=st.sampled_from([0.01, 0.05, 0.4, 0.9]),
        stop_for_futility=st.booleans(),
    ),
    st.builds(
        PairwiseMixture,
        budget=st.integers(1, 60),
        default_error=st.sampled_from([0.001, 0.025, 0.3]),
        errors=st.sampled_from([{}, {"safe|unsafe": 0.001}, {"unsafe|safe": 0.5, "escalate|safe": 0.2}]),
        stop_for_futility=st.booleans(),
    ),
    st.builds(MajorityVote, n=st.integers(1, 7)),
)


@given(rule=rule_configs, on_abstain=st.sampled_from(["next", "human_review"]), seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_any_rule_is_replayed_as_the_engine_runs_it(rule: StoppingRule, on_abstain: str, seed: int) -> None:
    assert_same(chain("any", rule, on_abstain), random_codes(cases=12, most=110, seed=seed, shortest=20))


def test_routes_are_followed_as_the_pipeline_says() -> None:
    """A procedure of its own: Worker's safe must be confirmed by Risk, and Worker's doubts skip to Legal."""
    routes = [("risk", "unsafe", "legal"), ("safe", "legal", "legal"), ("human_review", "unsafe", "human_review")]
    nodes = tuple(
        NodeConfig(
            name=name, title=name, question="", rule=MajorityVote(n=1), routes=dict(zip(LABELS, to, strict=True))
        )
        for name, to in zip(NODES, routes, strict=True)
    )
    codes = {"worker": list("SSUEE"), "risk": list("SUEEE"), "legal": list("EUESU")}
    pipeline = PipelineConfig(name="confirm", nodes=nodes)
    found = replay(pipeline, Record.from_codes(codes))
    assert found.outcomes() == ["safe", "unsafe", "unsafe", "human_review", "unsafe"]
    assert found.total_calls.tolist() == [2, 3, 1, 2, 2]
    assert_same(pipeline, codes)


def test_an_unknown_node_or_an_empty_record_settles_nothing() -> None:
    pipeline = our_conditions()[1].pipeline
    for codes, outcomes in (({"another": ["SSS", "UUU"]}, [None, None]), ({"worker": []}, []), ({}, [])):
        found = replay(pipeline, Record.from_codes(codes))  # type: ignore[arg-type]
        assert (found.outcomes(), found.unsettled) == (outcomes, len(outcomes))


def test_every_draw_code_counts_as_its_label_and_what_is_none_is_refused_without_showing_it() -> None:
    answers = [Draw(label=label) for label in LABELS] + [unusable(answer) for answer in Answer if answer != "label"]
    record = Record.from_codes({"worker": [encode_draws(answers)]}).nodes["worker"]
    assert [LABELS[number] for number in record.draws[0]] == [*LABELS, *["escalate"] * 6]
    for codes in ("SX", "S ", "Sé"):
        with pytest.raises(ValueError, match=r"^not a draw code$"):
            Record.from_codes({"worker": [codes]})
    with pytest.raises(ValueError, match="one string for each case"):
        Record.from_codes({"worker": ["S"], "risk": []})


@pytest.mark.parametrize("condition", ALL_CONDITIONS[::3], ids=lambda condition: condition.name)
def test_sequences_drawn_twice_and_run_a_few_at_a_time_give_what_each_case_gives_alone(
    condition: Condition, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = random_codes(cases=25, most=130, seed=3, shortest=0)
    places = np.random.default_rng(4).integers(0, 25, 40)
    codes = {node: [cases[at] for at in places] for node, cases in some.items()}
    alone = [
        replay(condition.pipeline, Record.from_codes({n: [one[c]] for n, one in codes.items()})) for c in range(40)
    ]
    monkeypatch.setattr("screening.stopping.rules.AT_ONCE", 7)
    record = Record.from_codes(codes)
    together = replay(condition.pipeline, record)
    assert len(record.nodes["worker"].sizes) <= 25
    for name in ("outcome", "node", "calls", "ended"):
        assert (np.concatenate([getattr(one, name) for one in alone], axis=-1) == getattr(together, name)).all()
