"""`metrics` and `rule`: what is undefined, what is compared, the pinned stopping times; and how soon they begin."""

import argparse
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from commands.__main__ import COMMANDS
from commands.options import add_command
from tests.commands.conftest import Run

HEAVY = ("anthropic", "pandas", "procrastinate", "scipy.optimize", "scipy.stats", "sqlalchemy", "streamlit")
_RUN = """
import sys
from commands.__main__ import main
try:
    main(sys.argv[1:])
finally:
    print("imported", *sys.modules, file=sys.stderr)
"""


def test_what_is_undefined_is_null_and_not_zero_and_a_carriage_return_makes_no_second_row(
    tmp_path: Path, run: Run
) -> None:
    file = tmp_path / "outcomes.csv"
    file.write_text("reference,outcome\nsafe,human_review\nunsafe,human_review\n")
    found = run("metrics", file).report
    for name in ("accuracy", "fpr", "fnr"):
        assert (found[name]["value"], found[name]["low"], found[name]["denominator"]) == (None, None, 0)
    assert found["escalation_rate"]["value"] == 1.0
    file.write_bytes(b"id,reference,outcome,text\n1,safe,safe,a day\rin two lines\n2,unsafe,unsafe,b\n")
    found = run("metrics", file).report
    assert (found["n"], found["pending"], found["without_reference"]) == (2, 0, 0)


def test_a_faulty_file_is_refused_with_its_row(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "outcomes.csv"
    for content, words in {
        "reference,outcome\nsafe,maybe\n": "row 1: outcome",
        "reference,outcome\nsafe,safe\nunsfae,safe\n": "row 2: reference",
        "label,outcome\nsafe,safe\n": "no column reference",
        "reference,outcome\nsafe,safe,\n": "row 1 does not fit",
        "reference,outcome\nsafe,safe\nsafe,safe\n": "every row needs an id of its own",
    }.items():
        file.write_text(content)
        said = run("metrics", file, "--against", file)
        assert said.code == 2 and words in said.err


def test_another_file_of_the_same_cases_is_compared_case_by_case(tmp_path: Path, run: Run) -> None:
    """Ten unsafe texts: the first file misses four, the other two of these; one case is in one file alone."""
    first, other = tmp_path / "first.csv", tmp_path / "other.jsonl"
    lines = [f"u{place},unsafe,{'safe' if place < 4 else 'unsafe'},10" for place in range(10)]
    first.write_text("id,reference,outcome,calls\n" + "\n".join([*lines, "x,safe,safe,10"]) + "\n", encoding="utf-8")
    rows = [
        {"id": f"u{place}", "reference": None, "outcome": "safe" if place < 2 else "unsafe", "calls": 13}
        for place in range(10)
    ]
    other.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = run("metrics", first, "--against", other).report["against"]
    assert (found["shared"], found["not_in_both"]) == (10, 1)
    assert (found["right_in_the_first_alone"], found["right_in_the_other_alone"]) == (0, 2)
    assert found["mcnemar_p"] == 0.5  # 2 of 2 either way: 2 / 4
    missed = found["differences"]["False negative (missed)"]
    assert missed["value"] == pytest.approx(-0.2) and missed["low"] < -0.2 < missed["high"]
    calls = found["differences"]["Calls a text"]
    assert (calls["value"], calls["low"], calls["high"]) == (3, None, None), "files do not say how many it can be"


ELIMINATION = ("successive-elimination", "--delta", "0.05", "--budget")
MIXTURE = ("pairwise-mixture", "--budget", "100")
VOTE = ("majority-vote", "--budget", "3")


@pytest.mark.parametrize(
    ("asked", "draws", "found"),
    [
        # Every call answers safe; only those that pulled the arm safe are successes, so 3 calls make a round.
        ((*ELIMINATION, "100"), "safe " * 120, ("safe", "identified", 72)),
        ((*ELIMINATION, "50"), "safe", (None, "futility", 0)),
        # E(5, 0) = 20.98: above 1/0.0903 = 11.07, the certified level
        ((*MIXTURE, "--delta", "0.05"), "safe " * 5, ("safe", "identified", 5)),
        # Without δ the default contract: saying safe at level .00177 takes E(11, 0) > 565
        (MIXTURE, "safe " * 20, ("safe", "identified", 11)),
        (VOTE, "safe unsafe escalate", ("escalate", "exhausted", 3)),
        (VOTE, "safe safe", (None, "needs_draws", 2)),
        # no certificate covers 5,000 draws, so Ville's levels decide
        (("pairwise-mixture", "--delta", "0.05", "--budget", "5000"), "safe " * 6, ("safe", "identified", 6)),
    ],
)
def test_the_pinned_stopping_times(
    run: Run, asked: tuple[str, ...], draws: str, found: tuple[str | None, str, int]
) -> None:
    said = run("rule", *asked, "--draws", draws)
    assert (said.report["verdict"], said.report["ended"], said.report["calls"]) == found
    assert found[1] != "futility" or "72 needed" in said.err


def test_a_word_that_is_no_label_is_refused(run: Run) -> None:
    for draws in ("safely", "safe maybe", "SAFE?"):
        said = run("rule", "pairwise-mixture", "--draws", draws)
        assert said.code == 2 and "is not one of safe, unsafe, escalate" in said.err


@pytest.mark.parametrize(
    "arguments",
    [("rule", *MIXTURE, "--draws", "safe safe safe"), ("metrics", "x"), ("--help",)],
    ids=lambda each: each[0],
)
def test_a_command_imports_what_it_needs_and_arithmetic_waits_for_no_large_library(arguments: tuple[str, ...]) -> None:
    command, root = [sys.executable, "-c", _RUN, *arguments], Path(__file__).parents[2]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    (line,) = (line for line in ended.stderr.splitlines() if line.startswith("imported "))
    imported = set(line.split())
    assert not imported.intersection(HEAVY)
    if arguments == ("--help",):
        assert not imported.intersection({"numpy", "pydantic", *(f"commands.{name}" for name in ("rule", "screen"))})
    else:
        assert f"commands.{arguments[0]}" in imported


def test_every_command_of_the_list_runs_something() -> None:
    for place, _ in COMMANDS.values():
        module, name = place.split(".")
        command, parser = getattr(import_module(f"commands.{module}"), name), argparse.ArgumentParser()
        add_command(parser, command)
        for given in command if isinstance(command, dict) else ():
            assert given in parser.format_help()
        assert isinstance(command, dict) or callable(parser.get_default("run"))
