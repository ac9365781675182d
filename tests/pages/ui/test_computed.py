"""What is computed beside the server without anybody waiting: there when it has ended, the last one shown meanwhile."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.computing import NotComputed
from pages.research.claims_today import UNDER_WAY, agreement_figure
from pages.ui.compute import MOST_KEPT, compute, compute_again, compute_meanwhile, compute_numbers
from screening.review.actors import LOCAL_USER
from storage.database import Database
from tests.jobs.test_computing import broken, own_process
from tests.pages.conftest import Opener, words_on


def named(_db: Database, folder: str) -> str:
    """What stands in the file, once it is there; it is taken away."""
    file, until = Path(folder) / "now", time.monotonic() + 60
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.01)
    words = file.read_text(encoding="utf-8")
    file.unlink()
    return words


def put(folder: Path, words: str) -> None:
    """The file, whole from the first moment."""
    (folder / "next").write_text(words, encoding="utf-8")
    (folder / "next").rename(folder / "now")


def eventually(look: Callable[[], object]) -> object:
    """What is found within a minute."""
    until = time.monotonic() + 60
    while (found := look()) is None and time.monotonic() < until:
        time.sleep(0.05)
    return found


def test_nobody_waits_and_the_value_is_there_when_it_has_come(page_database: Database, tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert compute_meanwhile(named, folder) is None, "its file is not there yet"
    put(tmp_path, "one")
    assert eventually(lambda: compute_meanwhile(named, folder)) == "one"
    assert compute_meanwhile(own_process, "few", cases=1) is not None, "few cases are counted here and now"


def test_what_was_found_last_is_shown_until_the_next_is_there(page_database: Database, tmp_path: Path) -> None:
    folder = str(tmp_path)
    put(tmp_path, "one")
    assert compute_again(named, folder, standing=1) == "one"
    assert compute_again(named, folder, standing=2) == "one"
    put(tmp_path, "two")
    assert eventually(lambda: compute_again(named, folder, standing=2) == "two" or None)


def test_a_value_is_kept_while_things_stand_as_they_stood(page_database: Database, tmp_path: Path) -> None:
    """And what is computed beside the server for an earlier moment is not taken for that of a later one."""
    folder = str(tmp_path)
    for words in ("one", "two"):
        put(tmp_path, words)
        for _ in range(2):
            assert compute(named, folder, standing=words, cases=1) == words
    assert compute_meanwhile(named, folder, standing=3) is None
    assert compute_meanwhile(named, folder, standing=4) is None
    put(tmp_path, "three")
    assert eventually(lambda: compute_meanwhile(named, folder, standing=3)) == "three"
    put(tmp_path, "four")
    assert eventually(lambda: compute_meanwhile(named, folder, standing=4)) == "four"


def thing(_db: Database) -> object:
    """Another one each time."""
    return object()


def test_however_many_numbers_a_slider_asks_for_what_came_of_data_is_kept(page_database: Database) -> None:
    of_data = compute(thing, cases=1)
    for number in range(MOST_KEPT + 1):
        assert compute_numbers(abs, -number) == number
    assert compute(thing, cases=1) is of_data


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
