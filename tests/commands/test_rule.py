"""`rule`: the pinned stopping times, as somebody at a terminal would check them."""

import json

import pytest

from commands.__main__ import main


def _rule(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str | None, str, int]:
    assert main(["rule", *arguments]) == 0
    printed = json.loads(capsys.readouterr().out)
    return printed["verdict"], printed["ended"], printed["calls"]


ELIMINATION = ("successive-elimination", "--budget", "100", "--delta")
MIXTURE = ("pairwise-mixture", "--budget", "100", "--delta")
VILLE, CERTIFIED = ("--method", "ville"), ("--method", "certified")
CONTRACT = ("pairwise-mixture", "--contract")


@pytest.mark.parametrize(
    ("asked", "draws", "found"),
    [
        # Every call answers safe; only those that pulled the arm safe are successes, so 3 calls make a round.
        *(((*ELIMINATION, delta), "safe " * 120, ("safe", "identified", calls))
          for delta, calls in (("0.2", 63), ("0.05", 72), ("0.01", 84), ("0.001", 99))),
        *(((*MIXTURE, delta, *VILLE), "unsafe " * 30, ("unsafe", "identified", calls))
          for delta, calls in (("0.2", 4), ("0.05", 6), ("0.01", 9), ("0.001", 12), ("1e-6", 23))),
        # E(5, 0) = 20.98: above 1/0.0903 = 11.07, the certified level, and below 1/0.025 = 40, Ville's
        ((*MIXTURE, "0.05"), "safe " * 5, ("safe", "identified", 5)),
        ((*MIXTURE, "0.05", *CERTIFIED), "safe " * 5, ("safe", "identified", 5)),
        ((*MIXTURE, "0.05", *VILLE), "safe " * 5, (None, "needs_draws", 5)),
        # Saying safe at level .00177 takes E(11, 0) > 565
        *(((*CONTRACT, *contract), f"{label} " * 20, (label, "identified", calls))
          for contract, safe, unsafe in ((("any",), 5, 5), (("default",), 11, 5), (("default", *VILLE), 11, 6))
          for label, calls in (("safe", safe), ("unsafe", unsafe))),
        # E(8, 1) = 8.74 < 40; six unanimous draws decide before an unsafe one that comes last is seen
        ((*MIXTURE, "0.05", *VILLE), "safe " * 8 + "unsafe", ("safe", "identified", 6)),
        ((*MIXTURE, "0.05", *VILLE), "unsafe " + "safe " * 8, (None, "needs_draws", 9)),
        (("majority-vote", "--n", "3"), "safe unsafe unsafe", ("unsafe", "identified", 3)),
        (("majority-vote", "--n", "3"), "safe unsafe escalate", ("escalate", "exhausted", 3)),
        (("majority-vote", "--n", "3"), "safe safe", (None, "needs_draws", 2)),
    ],
)  # fmt: skip
def test_the_pinned_stopping_times(
    capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], draws: str, found: tuple[str | None, str, int]
) -> None:
    assert _rule(capsys, *asked, "--draws", draws) == found


def test_without_a_certificate_it_is_ville_s_rule_and_asking_for_one_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    beyond = ("pairwise-mixture", "--delta", "0.05", "--budget", "5000", "--draws", "safe " * 6)
    assert _rule(capsys, *beyond) == ("safe", "identified", 6)
    assert main(["rule", *beyond, "--method", "certified"]) == 2
    assert "no certificate covers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("contract", "method", "safe", "unsafe"),
    [
        ("any", None, 5, 5),
        ("default", None, 11, 5),
        ("default", "ville", 11, 6),
    ],
)
def test_the_contract_says_how_many_unanimous_draws_it_takes(
    capsys: pytest.CaptureFixture[str], contract: str, method: str | None, safe: int, unsafe: int
) -> None:
    """Saying safe at level .00177 takes E(11, 0) > 565; E(5, 0) = 20.98 lies below 1/.025, E(6, 0) above."""
    asked = ("pairwise-mixture", "--contract", contract, *(("--method", method) if method else ()), "--draws")
    assert _rule(capsys, *asked, "safe " * 20) == ("safe", "identified", safe)
    assert _rule(capsys, *asked, "unsafe " * 20) == ("unsafe", "identified", unsafe)


def test_a_contract_with_levels_of_its_own_takes_no_delta(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["rule", "pairwise-mixture", "--contract", "default", "--delta", "0.01", "--draws", "safe"]
    assert main(asked) == 2 and "leave out --delta" in capsys.readouterr().err


def test_eight_to_one_is_not_yet_enough_and_draws_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    # E(8, 1) = 8.74 < 40 = 1/0.025
    ville = ("pairwise-mixture", "--method", "ville", "--delta", "0.05", "--budget", "100", "--draws")
    arguments = (*ville, "safe " * 8 + "unsafe")
    # six unanimous draws decide before the unsafe one is seen, so it must come first to matter
    assert _rule(capsys, *arguments) == ("safe", "identified", 6)
    arguments = (*ville, "unsafe " + "safe " * 8)
    assert _rule(capsys, *arguments) == (None, "needs_draws", 9)


def test_a_hopeless_budget_costs_nothing_and_says_what_it_would_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "successive-elimination", "--delta", "0.05", "--budget", "50", "--draws", "safe"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"verdict": None, "ended": "curtailed", "calls": 0}
    assert "72 needed" in printed.err


def test_a_majority_vote_and_its_tie(capsys: pytest.CaptureFixture[str]) -> None:
    assert _rule(capsys, "majority-vote", "--n", "3", "--draws", "safe unsafe unsafe") == ("unsafe", "identified", 3)
    assert _rule(capsys, "majority-vote", "--n", "3", "--draws", "safe unsafe escalate") == ("escalate", "exhausted", 3)
    assert _rule(capsys, "majority-vote", "--n", "3", "--draws", "safe safe") == (None, "needs_draws", 2)


@pytest.mark.parametrize("draws", ["safely", "safe maybe", "SAFE?"])
def test_a_word_that_is_no_label_is_refused(capsys: pytest.CaptureFixture[str], draws: str) -> None:
    assert main(["rule", "pairwise-mixture", "--draws", draws]) == 2
    assert "is not one of safe, unsafe, escalate" in capsys.readouterr().err
