"""What speaks against a safe: the largest doubt that fits, from draws, agents and findings alone."""

from dataclasses import replace

import pytest

from screening.engine.distribution import LabelDistribution
from screening.engine.doubt import Doubt, doubt_of
from screening.engine.screen import NodeRun
from screening.labels import LABELS, Label, Outcome
from tests.storage.batch_of import run, screening

ESCALATED = run("EEEEE", Label.ESCALATE)


@pytest.mark.parametrize(
    ("runs", "flags", "doubt"),
    [
        ((run("S" * 11),), (), Doubt.NONE),
        ((run("S" * 12 + "E"),), (), Doubt.OTHER_DRAW),
        ((run("S" * 12 + "?"),), (), Doubt.OTHER_DRAW),
        ((run("S" * 11),), ("altered",), Doubt.FINDING),
        ((ESCALATED, run("S" * 11, node="risk")), ("altered",), Doubt.LATER_AGENT),
        ((run("S" * 14 + "U"),), ("altered",), Doubt.UNSAFE_DRAW),
        ((run("EEEEEEEUE", Label.ESCALATE), run("S" * 11, node="risk")), (), Doubt.UNSAFE_DRAW),
        ((run("S" * 20 + "U" * 6),), (), Doubt.CLOSE),  # (20 - 6)/26 = .54
        ((run("S" * 16 + "U" * 4),), (), Doubt.UNSAFE_DRAW),  # (16 - 4)/20 = .6
    ],
)
def test_the_largest_doubt_that_fits(runs: tuple[NodeRun, ...], flags: tuple[str, ...], doubt: Doubt) -> None:
    assert doubt_of(screening(Outcome.SAFE, *runs), flags) is doubt


def test_at_most_six_values_of_the_probability_follow() -> None:
    assert len(Doubt) == 6


@pytest.mark.parametrize(
    ("draws", "shares", "doubt"),
    [
        ("", (0.75, 0.125, 0.125), Doubt.NONE),  # read off: .75 - .125 is a clear lead
        ("", (0.5, 0.25, 0.25), Doubt.CLOSE),
        ("S" * 11, (0.5, 0.25, 0.25), Doubt.NONE),  # too much was unknown: the draws decided, and all agree
        ("S" * 20 + "U" * 6, (0.75, 0.125, 0.125), Doubt.CLOSE),
        ("", None, Doubt.CLOSE),  # a safe that rests on nothing
    ],
)
def test_a_lead_is_one_of_probabilities_only_where_the_verdict_was_read_off_them(
    draws: str, shares: tuple[float, ...] | None, doubt: Doubt
) -> None:
    told = None if shares is None else LabelDistribution(labels=dict(zip(LABELS, shares, strict=True)), unknown=0.0)
    made = replace(run(draws, Label.SAFE), distribution=told)
    assert doubt_of(screening(Outcome.SAFE, made), ()) is doubt
