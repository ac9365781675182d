"""Draws, outcomes, refusals, exports and the interface for programs are what they were: see `tests.golden`."""

from itertools import zip_longest

import pytest

from tests.golden.__main__ import GOLDEN, HERE

SLOW = [name for name in GOLDEN if name != "files.jsonl"]


@pytest.mark.parametrize("name", ["files.jsonl", *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)])
def test_it_is_as_it_was(name: str) -> None:
    before, now = (HERE / name).read_text(encoding="utf-8").splitlines(), GOLDEN[name]().splitlines()
    changed = [(line, other) for line, other in zip_longest(before, now) if line != other]
    assert changed[:3] == [], "if it should be so: python -m tests.golden"
