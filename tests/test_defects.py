"""The table of defects that `make defects` puts back speaks of the program as it is."""

from tests.defects.__main__ import DEFECTS, ROOT


def test_each_stands_where_it_says_and_names_tests_that_exist() -> None:
    assert len(DEFECTS) >= 30 and len({one["name"] for one in DEFECTS}) == len(DEFECTS)
    moved = [one["name"] for one in DEFECTS if (ROOT / one["file"]).read_text(encoding="utf-8").count(one["old"]) != 1]
    assert moved == []
    named = [name for one in DEFECTS for name in one["tests"] if name.startswith("tests/")]
    assert [name for name in named if not (ROOT / name).exists()] == []
