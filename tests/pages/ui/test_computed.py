"""What is computed beside the server without anybody waiting: there when it has ended, the last one shown meanwhile."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.computing import NotComputed
from pages.research.claims_today import UNDER_WAY, agreement_figure
from pages.ui.compute import compute, compute_again, compute_meanwhile
from screening.review.actors import LOCAL_USER
from storage.database import Database
from tests.pages.conftest import Opener, words_on


def named(_db: Database, folder: str) -> str:
    """What stands in the file, once it is there; it is taken away."""
    file, until = Path(folder) / "now", time.monotonic() + 60
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.01)
    words = file.read_text(encoding="utf-8")
    file.unlink()
    return words


def thing(_db: Database) -> object:
    """Another one each time."""
    return object()


def broken(_db: Database) -> None:
    """A computation with a fault of its own."""
    raise ValueError("the words of a text")


def eventually(look: Callable[[], object]) -> object:
    """What is found within a minute."""
    until = time.monotonic() + 60
    while (found := look()) is None and time.monotonic() < until:
        time.sleep(0.05)
    return found


def test_nobody_waits_and_values_are_kept(page_database: Database, tmp_path: Path) -> None:
    """What is computed for an earlier moment is not taken for that of a later one."""
    folder = str(tmp_path)

    def put(words: str) -> None:
        (tmp_path / "next").write_text(words, encoding="utf-8")
        (tmp_path / "next").rename(tmp_path / "now")  # whole from the first moment

    for words in ("one", "two"):
        put(words)
        assert [compute(named, folder, standing=words, cases=1) for _ in range(2)] == [words] * 2
    assert compute_meanwhile(named, folder, standing=3) is compute_meanwhile(named, folder, standing=4) is None
    for standing, words in ((3, "three"), (4, "four")):
        put(words)
        assert eventually(lambda: compute_meanwhile(named, folder, standing=standing)) == words  # noqa: B023
    put("five")
    assert [compute_again(named, folder, standing=standing) for standing in (5, 6)] == ["five", "five"]
    put("six")
    assert eventually(lambda: compute_again(named, folder, standing=6) == "six" or None)
    assert compute_meanwhile(thing, cases=1) is not None, "few cases are counted here and now"


def test_a_computation_that_fails_is_told_and_tried_again(page_database: Database) -> None:
    for _ in range(2):
        with pytest.raises(NotComputed, match="ValueError"):
            eventually(lambda: compute_meanwhile(broken))


def test_the_first_page_is_painted_while_a_figure_is_computed(
    open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pages.ui.compute.AT_ONCE", -1)
    monkeypatch.setattr("pages.ui.compute.LOOK_S", 0.0)
    assert agreement_figure(LOCAL_USER)[1] == UNDER_WAY
    page = open_page()
    assert eventually(lambda: UNDER_WAY not in words_on(page.run()) or None), "it comes by itself"
