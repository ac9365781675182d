"""The exercise of docs/architecture.md, done: a rule of one class and one line of registration works everywhere."""

import json
from typing import ClassVar, Literal

import numpy as np
import pytest

from commands.__main__ import main
from pages.ui.engine_view import State, node_view
from screening.evaluation.replay import Record, replay
from screening.labels import Label, Outcome
from screening.pipeline.config import RULES, chain
from screening.pipeline.draws import ScreenedText
from screening.pipeline.engine import Guard, screen
from screening.pipeline.files import read_pipeline, write_pipeline
from screening.stopping.rules import NO_DRAW, Draws, Integers, StoppingRule, first_named
from tests.evaluation.test_replay import Recorded


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
