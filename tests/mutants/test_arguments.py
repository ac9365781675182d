"""What `make mutants` is asked for and tries: what it names exists, and what it does not know it refuses in words."""

import ast
from functools import cache
from typing import Any

import pytest

from tests.mutants.__main__ import DECIDING, MODULES, ROOT, chosen, undecorated


def test_modules_are_chosen_by_name_or_all_and_what_is_unknown_is_refused_in_words(capsys):
    assert chosen([]) == (list(MODULES), None)
    assert chosen(["storage/visibility.py", "--sample", "100"]) == (["storage/visibility.py"], 100)
    for arguments, code in ((["--help"], 0), (["storage/visibility"], 2), (["--all"], 2)):
        with pytest.raises(SystemExit) as ended:
            chosen(arguments)
        said = capsys.readouterr()
        assert ended.value.code == code and "python -m tests.mutants" in said.out + said.err
        assert arguments != ["storage/visibility"] or "no tests are named for storage/visibility:" in said.err


def test_everything_that_is_named_exists():
    named = {*MODULES, *(test for tests in MODULES.values() for test in tests)}
    assert {path for path in named if not (ROOT / path).exists()} == set()
    for module, functions in DECIDING.items():
        tree = ast.parse((ROOT / module).read_text())
        assert set(functions) <= {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}, module


def test_decorated_functions_are_tried_as_the_same_program_without_decorators() -> None:
    """mutmut leaves them alone: the verdict on a guarantee and most validators would never be changed."""
    written = undecorated("class A:\n    @staticmethod\n    @cache\n    def of(n):\n        return n, 1\n")
    assert "    of = staticmethod(cache(of_plain))\n" in written
    space: dict[str, Any] = {"cache": cache}
    exec(written, space)
    assert space["A"].of(3) is space["A"].of(3)
    kept = "class A:\n    @classmethod\n    def three(cls):\n        return 3\n"
    assert undecorated(kept) == kept, "mutmut can do with these"
