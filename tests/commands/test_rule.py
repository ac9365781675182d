"""`rule`: the pinned stopping times, as somebody at a terminal would check them."""

import json

import pytest

from commands.__main__ import main


def _rule(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str | None, str, int]:
    assert main(["rule", *arguments]) == 0
    printed = json.loads(capsys.readouterr().out)
    return printed["verdict"], printed["ended"], printed["calls"]


ELIMINATION = ("successive-elimination", "--budget", "100", "--delta")
MIXTURE = ("pairwise-mixture", "--budget", "100")
VOTE = ("majority-vote", "--budget", "3")


@pytest.mark.parametrize(
    ("asked", "draws", "found"),
    [
        # Every call answers safe; only those that pulled the arm safe are successes, so 3 calls make a round.
        ((*ELIMINATION, "0.05"), "safe " * 120, ("safe", "identified", 72)),
        # E(5, 0) = 20.98: above 1/0.0903 = 11.07, the certified level
        ((*MIXTURE, "--delta", "0.05"), "safe " * 5, ("safe", "identified", 5)),
        # Without δ the default contract: saying safe at level .00177 takes E(11, 0) > 565
        (MIXTURE, "safe " * 20, ("safe", "identified", 11)),
        (MIXTURE, "unsafe " * 20, ("unsafe", "identified", 5)),
        (VOTE, "safe unsafe unsafe", ("unsafe", "identified", 3)),
        (VOTE, "safe unsafe escalate", ("escalate", "exhausted", 3)),
        (VOTE, "safe safe", (None, "needs_draws", 2)),
        # no certificate covers 5,000 draws, so Ville's levels decide
        (("pairwise-mixture", "--delta", "0.05", "--budget", "5000"), "safe " * 6, ("safe", "identified", 6)),
    ],
)
def test_the_pinned_stopping_times(
    capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], draws: str, found: tuple[str | None, str, int]
) -> None:
    assert _rule(capsys, *asked, "--draws", draws) == found


def test_a_hopeless_budget_costs_nothing_and_says_what_it_would_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "successive-elimination", "--delta", "0.05", "--budget", "50", "--draws", "safe"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"verdict": None, "ended": "futility", "calls": 0}
    assert "72 needed" in printed.err


@pytest.mark.parametrize("draws", ["safely", "safe maybe", "SAFE?"])
def test_a_word_that_is_no_label_is_refused(capsys: pytest.CaptureFixture[str], draws: str) -> None:
    assert main(["rule", "pairwise-mixture", "--draws", draws]) == 2
    assert "is not one of safe, unsafe, escalate" in capsys.readouterr().err
