"""A command imports what it needs: a rule or a table of metrics does not wait for the model library."""

import argparse
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from commands.__main__ import COMMANDS
from commands.options import add_command

ROOT = Path(__file__).parents[2]
HEAVY = ("anthropic", "pandas", "procrastinate", "scipy.optimize", "scipy.stats", "sqlalchemy", "streamlit")
_RUN = """
import sys
from commands.__main__ import main
try:
    main(sys.argv[1:])
finally:
    print("imported", *sys.modules, file=sys.stderr)
"""


def _imported(*arguments: str) -> set[str]:
    """The modules that a command has imported by its end."""
    ended = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    (line,) = (line for line in ended.stderr.splitlines() if line.startswith("imported "))
    return set(line.split()[1:])


@pytest.mark.parametrize(
    "arguments",
    [("rule", "pairwise-mixture", "--delta", "0.05", "--budget", "100", "--draws", "safe safe safe"), ("metrics", "x")],
    ids=["rule", "metrics"],
)
def test_arithmetic_waits_for_no_large_library(arguments: tuple[str, ...]) -> None:
    imported = _imported(*arguments)
    assert f"commands.{arguments[0]}" in imported and not imported.intersection(HEAVY)


def test_help_imports_no_command() -> None:
    imported = _imported("--help")
    assert not imported.intersection((*HEAVY, "numpy", "pydantic"))
    assert not any(name.startswith("commands.") and name != "commands.__main__" for name in imported)


def test_every_command_of_the_list_runs_something() -> None:
    for place, _ in COMMANDS.values():
        module, name = place.split(".")
        command, parser = getattr(import_module(f"commands.{module}"), name), argparse.ArgumentParser()
        add_command(parser, command)
        for given in command if isinstance(command, dict) else ():
            assert given in parser.format_help()
        assert isinstance(command, dict) or callable(parser.get_default("run"))
