"""A δ schedule of a node: the levels of each case by hand, what is refused, and the screening of case after case."""

from math import pi

import pytest

from screening.engine.draws import ScreenedText, decode_draws
from screening.engine.pipeline import PipelineConfig, last_decidable, preset
from screening.engine.pipeline_file import PipelineRefused, check, read_pipeline, write_pipeline
from screening.engine.screen import Guard, NodeRun, screening_steps
from screening.labels import Label
from screening.statistics.bounds import Schedule, expected_wrong_commits
from screening.statistics.rules.evidence import least_count

VILLE, PAPER = preset("recommended"), preset("paper")


def _with(pipeline: PipelineConfig, schedule: str) -> PipelineConfig:
    values = pipeline.model_dump(mode="json")
    nodes = [node | {"schedule": schedule} for node in values["nodes"]]
    return check({"name": "scheduled", "node": nodes})


@pytest.mark.parametrize(
    ("schedule", "number", "share"),
    [
        ("constant", 1, 1.0),
        ("constant", 1_000, 1.0),
        ("harmonic", 1, 1.0),
        ("harmonic", 8, 1 / 8),
        ("summable", 1, 6 / pi**2),
        ("summable", 3, 6 / (9 * pi**2)),
    ],
)
def test_every_level_of_the_case_is_its_share(schedule: str, number: int, share: float) -> None:
    ville, paper = _with(VILLE, schedule).at(number), _with(PAPER, schedule).at(number)
    for node in ville.nodes:
        assert node.rule.default_error == pytest.approx(0.025 * share, rel=1e-12)  # type: ignore[union-attr]
        assert node.rule.errors["safe|unsafe"] == pytest.approx(0.001 * share, rel=1e-12)  # type: ignore[union-attr]
        assert node.rule.rule().delta == pytest.approx(0.05 * share, rel=1e-12)  # two rivals at 0.025, or one at 0.001
    assert all(node.rule.rule().delta == pytest.approx(0.05 * share, rel=1e-12) for node in paper.nodes)


def test_the_levels_spent_over_many_cases_add_up_to_what_is_promised() -> None:
    for schedule, most in (("harmonic", 0.05 * 7.485470860550345), ("summable", 0.05)):  # H(1000) = 7.48547...
        deltas = [_with(PAPER, schedule).at(number).nodes[0].rule.rule().delta or 1.0 for number in range(1, 1_001)]
        assert sum(deltas) == pytest.approx(expected_wrong_commits(Schedule(schedule), 0.05, 1_000))
        assert sum(deltas) <= most + 1e-9


def test_a_later_case_needs_more_evidence_for_the_same_label() -> None:
    pipeline = _with(VILLE, "harmonic")
    calls = {}
    for number in (1, 100):
        steps = screening_steps(ScreenedText(text="x"), Guard(), pipeline.at(number))
        step = next(steps)
        while not isinstance(step, NodeRun):
            step = steps.send(decode_draws("U" * step.count))
        assert step.verdict.label is Label.UNSAFE
        calls[number] = step.verdict.calls
    assert calls == {1: least_count(0, 0.025), 100: least_count(0, 0.00025)} and calls[100] > calls[1]


@pytest.mark.parametrize("schedule", ["harmonic", "summable"])
def test_certified_levels_and_votes_take_no_schedule_and_the_sentence_says_why(schedule: str) -> None:
    with pytest.raises(PipelineRefused, match=f"node worker: the rule takes no {schedule} δ schedule: a certificate"):
        _with(preset("certified"), schedule)
    votes = VILLE.model_dump(mode="json")
    votes["nodes"] = [
        node | {"rule": {"kind": "majority-vote", "n": 3}, "schedule": schedule} for node in votes["nodes"]
    ]
    with pytest.raises(PipelineRefused, match="a majority vote has no δ"):
        check(votes)


def test_it_is_written_to_the_file_and_a_constant_one_is_not() -> None:
    scheduled = _with(VILLE, "summable")
    written = write_pipeline(scheduled)
    assert 'schedule = "summable"' in written and read_pipeline(written) == scheduled
    assert scheduled.scheduled and not VILLE.scheduled
    assert "schedule =" not in write_pipeline(_with(VILLE, "constant"))
    assert _with(VILLE, "constant").model_copy(update={"name": "recommended"}).version == VILLE.version


def test_the_last_text_that_a_budget_decides() -> None:
    paper = _with(PAPER, "harmonic").nodes[0]
    last = last_decidable(paper)
    assert last is not None and last >= 1
    assert paper.at(last).rule.rule().minimum_budget() <= 100 < paper.at(last + 1).rule.rule().minimum_budget()
    assert last_decidable(_with(VILLE, "harmonic").nodes[0]) is None  # evidence grows with every call
    assert last_decidable(paper, last) is None and last_decidable(paper, last + 1) == last


def test_a_scheduled_node_becomes_the_constant_one_of_its_case() -> None:
    node = _with(PAPER, "harmonic").nodes[0]
    assert node.at(2).schedule is Schedule.CONSTANT and node.at(2).at(2) == node.at(2)
    assert VILLE.nodes[0].at(7) == VILLE.nodes[0]
