"""Replay against the engine itself, draw by draw on the same records. And the library for notebooks: the notebook
prints what it says, and each function is what the program itself does.
"""

import contextlib
import io
import json
import tomllib
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import screening
from commands.__main__ import main
from pages.ui.engine_view import State, node_view
from screening import screen_texts
from screening.evaluation.experiments import Record, our_conditions, paper_conditions, replay
from screening.labels import LABELS, Label, Outcome
from screening.pipeline.config import RULES, NodeConfig, PipelineConfig, chain
from screening.pipeline.draws import Answer, Draw, ScreenedText, decode_draws, encode_draws, unusable
from screening.pipeline.engine import Guard, Reason, screen
from screening.pipeline.files import read_pipeline, write_pipeline
from screening.stopping.rules import (
    NO_DRAW,
    Draws,
    Ended,
    Integers,
    MajorityVote,
    StoppingRule,
    conclude,
    first_named,
    label_numbers,
)
from tests.stopping.test_rules import rules

NODES = ("worker", "risk", "legal")
CONDITIONS = pytest.mark.parametrize("condition", [*paper_conditions(), *our_conditions()], ids=lambda each: each.name)


class TooShort(Exception):
    """The engine asked for more draws than were recorded."""


class Recorded:
    """One case's record."""

    def __init__(self, codes):
        self.codes = codes

    async def draw(self, request):
        found = decode_draws(self.codes[request.node])[request.first : request.first + request.count]
        if len(found) < request.count and not request.enough(found):
            raise TooShort
        return found


async def assert_same(pipeline, codes):
    """Every case's outcome, last node, calls and ends are the engine's; returns the replay and the ends."""
    found = replay(pipeline, Record.from_codes(codes))
    names, ends = [node.name for node in pipeline.nodes], set[Ended]()
    for case, outcome in enumerate(found.outcomes()):
        try:
            source = Recorded({node: cases[case] for node, cases in codes.items()})
            expected = await screen(ScreenedText(text="x"), Guard(), pipeline, source)
        except TooShort:
            assert outcome is None
            continue
        assert (outcome, names[found.node[case]]) == (expected.outcome, expected.node)
        assert int(found.total_calls[case]) <= expected.calls
        visited = {run.node: run for run in expected.runs}
        for place, name in enumerate(names):
            if name not in visited:
                assert found.calls[place, case] == 0
                continue
            ended, drawn = visited[name].verdict.ended, label_numbers(draw.label for draw in visited[name].draws)
            ends.add(ended)
            # without hope a live run may have paid for the rest of its batch, the replay counts what it took
            counted = conclude(pipeline.node(name).rule, drawn).calls
            assert found.calls[place, case] == counted
            assert counted == len(drawn) or ended is Ended.FUTILITY
    return found, ends


def random_codes(cases, most, seed, shortest=None):
    """Records of models that are unanimous, clear, undecided between two labels, or between three."""
    random = np.random.default_rng(seed)
    shapes = np.array([[0.02] * 3, [0.2] * 3, [1.0] * 3, [30.0] * 3])
    codes = {}
    for node in NODES:
        p = np.stack([random.dirichlet(shapes[random.integers(len(shapes))]) for _case in range(cases)])
        lengths = random.integers(most if shortest is None else shortest, most + 1, cases)
        codes[node] = ["".join(random.choice(list("SUE"), n, p=q)) for n, q in zip(lengths, p, strict=True)]
    return codes


@CONDITIONS
async def test_a_replayed_condition_gives_what_the_engine_gives_live(condition):
    whole, ends = await assert_same(condition, random_codes(cases=40, most=150, seed=1))
    assert None not in whole.outcomes()
    if condition.name in ("B=124", "recommended"):  # otherwise the comparison would show little
        abstained = {"B=124": Ended.EXHAUSTED, "recommended": Ended.FUTILITY}[condition.name]
        assert ends == {Ended.IDENTIFIED, abstained}
        assert set(whole.outcomes()) == set(Outcome)
    await assert_same(condition, random_codes(cases=12, most=130, seed=2, shortest=0))  # some is too short


@given(rule=rules, on_abstain=st.sampled_from(["next", "human_review"]), seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
async def test_any_rule_is_replayed_as_the_engine_runs_it(rule, on_abstain, seed):
    await assert_same(chain("any", rule, on_abstain), random_codes(cases=12, most=110, seed=seed, shortest=20))


async def test_routes_are_followed_as_the_pipeline_says():
    """A procedure of its own: Worker's safe must be confirmed by Risk, and Worker's doubts skip to Legal."""
    routes = [("risk", "unsafe", "legal"), ("safe", "legal", "legal"), ("human_review", "unsafe", "human_review")]
    one, to = MajorityVote(n=1), [dict(zip(LABELS, each, strict=True)) for each in routes]
    nodes = [NodeConfig(name=n, title=n, question="", rule=one, routes=r) for n, r in zip(NODES, to, strict=True)]
    pipeline = PipelineConfig(name="confirm", nodes=tuple(nodes))
    found, _ = await assert_same(pipeline, {"worker": list("SSUEE"), "risk": list("SUEEE"), "legal": list("EUESU")})
    assert found.outcomes() == ["safe", "unsafe", "unsafe", "human_review", "unsafe"]
    assert found.total_calls.tolist() == [2, 3, 1, 2, 2]


def test_an_unknown_node_or_an_empty_record_settles_nothing():
    pipeline = our_conditions()[1]
    for codes, outcomes in (({"another": ["SSS", "UUU"]}, [None, None]), ({"worker": []}, []), ({}, [])):
        found = replay(pipeline, Record.from_codes(codes))
        assert found.outcomes() == outcomes


def test_what_a_text_forbids_is_forbidden_in_the_replay():
    """Of four texts labeled safe after eleven calls and one labeled unsafe after five."""
    guards = {
        0: Guard(refuse_screening=Reason.TOO_LONG),
        1: Guard(refuse_safe=Reason.TOO_LONG),
        4: Guard(refuse_safe=Reason.TOO_LONG),
    }
    record = Record.from_codes({"worker": ["S" * 11] * 4 + ["U" * 11]})
    found = replay(our_conditions()[-1], record, guards)
    assert found.outcomes() == ["human_review", "human_review", "safe", "safe", "unsafe"]
    assert found.total_calls.tolist() == [0, 11, 11, 11, 5]


def test_every_draw_code_counts_as_its_label_and_what_is_none_is_refused_without_showing_it():
    answers = [Draw(label=label) for label in LABELS] + [unusable(answer) for answer in Answer if answer != "label"]
    record = Record.from_codes({"worker": [encode_draws(answers)]}).nodes["worker"]
    assert [LABELS[number] for number in record.draws[0]] == [*LABELS, *["escalate"] * 6]
    for codes in ("SX", "S ", "Sé"):
        with pytest.raises(ValueError, match=r"^not a draw code$"):
            Record.from_codes({"worker": [codes]})
    with pytest.raises(ValueError, match="one string for each case"):
        Record.from_codes({"worker": ["S"], "risk": []})


ROOT = Path(__file__).parents[2]


def test_the_notebook_prints_what_is_written_in_it(monkeypatch):
    monkeypatch.chdir(ROOT)
    cells = json.loads((ROOT / "docs" / "library.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    ran = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec("".join(cell["source"]), names)
            assert printed.getvalue() == "".join(line for out in cell["outputs"] for line in out["text"])
            ran += 1
    assert ran >= 6


async def test_what_a_text_forbids_is_applied_and_an_index_is_kept_also_where_a_loop_runs_already():
    texts = pd.Series(["A quiet day at the lake.", "A quiet \u202eday at the lake."], index=["a", "b"])
    found = screen_texts(texts)
    assert found["outcome"].to_dict() == {"a": "safe", "b": "human_review"}
    assert (found.loc["b", "reason"], found.loc["b", "flags"]) == ("hidden_characters", "bidi_control")
    assert screening.replay(found)["outcome"].tolist() == ["safe", "safe"]  # the rule alone
    assert screen_texts([]).empty
    with pytest.raises(ValueError, match="one reply"):
        screen_texts(["a"], replies=[])
    with pytest.raises(ValueError, match="no pipeline 'best'"):
        screen_texts(["a"], pipeline="best")


def test_too_few_draws_leave_a_row_without_an_outcome():
    found = screening.replay(pd.DataFrame({"draws_worker": ["SSSSSSSSSSSSSSSS", "SU", None]}), "recommended")
    assert found["outcome"].isna().tolist() == [False, True, True] and found.loc[0, "outcome"] == "safe"
    with pytest.raises(ValueError, match="no column of draws"):
        screening.replay(pd.DataFrame({"draws": ["S"]}))
    with pytest.raises(ValueError, match="not a draw code"):
        screening.replay(pd.DataFrame({"draws_worker": ["safe"]}))


def test_the_package_has_the_project_s_version_and_no_other_names() -> None:
    with pytest.raises(AttributeError):
        _ = screening.no_such_name
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert screening.__version__ == project["version"]


# --- the exercise of docs/architecture.md, done: a rule of one class and one line of registration works everywhere


class Streak(StoppingRule):
    """Names a label once it was drawn so many times in a row."""

    title: ClassVar[str] = "a streak"
    kind: Literal["streak"] = "streak"
    length: int = 4
    stop_for_futility: bool = True

    def stops(self, draws: Draws) -> tuple[Integers, Integers]:
        streak = np.zeros(draws[:, : self.budget].shape, dtype=np.int64)
        for at in range(streak.shape[1]):
            again = draws[:, at] == draws[:, at - 1] if at else np.zeros(len(draws), dtype=bool)
            streak[:, at] = np.where(again, streak[:, at - 1], 0) + 1
        named = (streak == self.length) & (draws[:, : self.budget] < 3)
        return first_named(np.where(named, draws[:, : self.budget], NO_DRAW), self.budget)


@pytest.mark.parametrize(
    ("codes", "outcome", "calls"),
    [
        ("SSUUUU", Outcome.UNSAFE, 6),
        ("SSSS", Outcome.SAFE, 4),
        ("SUSUSUSU", Outcome.HUMAN_REVIEW, 7),  # eight calls: after the sixth nothing can be named any more
    ],
)
async def test_a_rule_of_one_class_runs_live_replayed_and_by_command(monkeypatch, capsys, codes, outcome, calls):
    monkeypatch.setitem(RULES, "streak", Streak)
    pipeline = read_pipeline(write_pipeline(chain("streaks", Streak(budget=8), "human_review")))
    assert pipeline.nodes[0].rule == Streak(budget=8)

    live = await screen(ScreenedText(text="a text"), Guard(), pipeline, Recorded({"worker": codes}))
    assert (live.outcome, live.delta, live.calls) == (outcome, None, calls)

    replayed = replay(pipeline, Record.from_codes({"worker": [codes]}))
    assert replayed.outcomes() == [outcome] and replayed.total_calls[0] == min(calls, 6)

    words = [{"S": "safe", "U": "unsafe"}[code] for code in codes]
    assert main(["rule", "streak", "--budget", "8", "--draws", " ".join(words)]) == 0
    label = None if outcome is Outcome.HUMAN_REVIEW else outcome.value
    ended = "futility" if label is None else "identified"
    assert json.loads(capsys.readouterr().out) == {"verdict": label, "ended": ended, "calls": min(calls, 6)}

    shown = node_view(pipeline.nodes[0], codes, ended=True)
    assert shown.label == (label and Label(label)) and shown.state is (State.IDENTIFIED if label else State.FUTILITY)
