"""What a section tells takes its place in docs/benchmarks.md, and what else stands there stays."""

import subprocess
import sys

from benchmarks.__main__ import FIGURES, HEAD, PROFILES, RUNS, SECTIONS, TABLE, with_section
from benchmarks.figures import Figure, read, row


def test_a_section_takes_its_place_and_everything_else_stays() -> None:
    tables = f"## Figures\n\n{FIGURES}| b | as it was |\n\n## Runs\n\n{RUNS}| b | long ago |\n"
    after = with_section(
        f"# Old\n\n{tables}\n{PROFILES}\n\n- kept\n", "a", "| a | now |", ["| a | new |", "| a | newer |"]
    )
    figures, runs = "| a | new |\n| a | newer |\n| b | as it was |\n", "| a | now |\n| b | long ago |\n"
    tables = f"## Figures\n\n{FIGURES}{figures}\n## Runs\n\n{RUNS}{runs}"
    assert after == f"{HEAD}\n{tables}\n{PROFILES}\n\n- kept\n", "in the order of their names"
    again = with_section(after, "a", "| a | today |", ["| a | newest |"])
    expected = after.replace("| a | new |\n| a | newer |", "| a | newest |").replace("| a | now |", "| a | today |")
    assert again == expected, "its earlier figures are gone"


def test_the_table_can_be_written_into() -> None:
    text = TABLE.read_text()
    assert text.startswith(HEAD) and PROFILES in text
    written = with_section(text, "zzz", "| zzz | now |", ["| zzz | new |"])
    assert set(written.splitlines()) - set(text.splitlines()) == {"| zzz | now |", "| zzz | new |"}
    assert set(text.splitlines()) <= set(written.splitlines()), "what stands there is kept"


def test_what_a_figure_prints_is_read_again() -> None:
    for figure in (
        Figure(name="poll, 1,000 open", value=2.41, unit="ms", aim=5, note="n = 300"),
        Figure(name="rows a second", value=1234.5),
        Figure(name="of the bare loop's", value=0.5, aim=0.85, at_least=True),
    ):
        assert read(f"{row(figure)}\n") == row(figure)


def test_every_section_can_be_asked_for() -> None:
    parts = {"idle", "inbox", "inbox_keys", "results_table", "screening", "side_by_side", "start"}
    assert parts <= set(SECTIONS), "all that have an aim"
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.replay", "--help"]
    assert "usage" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
