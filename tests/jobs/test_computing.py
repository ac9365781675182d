"""Long computations beside the server: the same answers, told on the way, and an end in words whatever happens."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.computing import NotComputed, SideProcess, tell
from screening.review.policy import LOCAL_USER, Actor, Role
from storage.batches.batches import list_batches
from storage.database import Database
from storage.research.recordings import case_names
from tests.storage.batch_of import batch


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('beside') / 'some.db'}"
    db = Database(url)
    db.prepare()
    batch(db, ["one", "two"], references="SU")
    db.close()
    return url


@pytest.fixture(scope="module")
def beside() -> Iterator[SideProcess]:
    found = SideProcess()
    yield found
    found.stop()


def own_process(_db: Database, *_args: object) -> int:
    return os.getpid()


def broken(_db: Database) -> None:
    raise ValueError("the words of a text")


def killed(_db: Database) -> None:
    """As the system ends a process that takes too much memory."""
    os._exit(9)


def slow(_db: Database, until: str) -> int:
    """Says what it does, and waits for a file."""
    tell("Waiting for the file")
    while not Path(until).exists():
        time.sleep(0.01)
    return os.getpid()


def test_what_is_computed_beside_is_what_is_computed_here(beside: SideProcess, url: str) -> None:
    db = Database(url)
    (only,) = list_batches(db, LOCAL_USER, 1)
    found = beside.begin(case_names, url, LOCAL_USER, only.id, (1,)).result()
    assert found == case_names(db, LOCAL_USER, only.id, (1,))
    assert beside.begin(own_process, url).result() not in (os.getpid(), None)
    reviewer = Actor(id="ann", name="Ann", roles=frozenset({Role.REVIEWER}))
    with pytest.raises(NotComputed, match="Forbidden"):
        beside.begin(case_names, url, reviewer, "any", (1,)).result()
    db.close()


def test_one_process_does_it_all_one_after_the_other(beside: SideProcess, url: str, tmp_path: Path) -> None:
    there = str(tmp_path / "there")
    one = beside.begin(slow, url, there)
    try:
        while one.words != "Waiting for the file" and not one.done():  # starting takes long on a busy machine
            time.sleep(0.01)
        other = beside.begin(own_process, url)
        assert one.words == "Waiting for the file" and not one.wait(0) and not other.wait(0)
    finally:
        Path(there).touch()  # the next test shares the process
    assert one.result() == other.result()
    anew = beside.begin(slow, url, there)
    assert anew is not one and anew.result() == one.result()  # ended before the file goes with the test


@pytest.mark.parametrize(("function", "words"), [(broken, "ValueError"), (killed, "ended before it was done")])
def test_a_failure_is_told_in_words_and_the_next_one_is_computed(
    beside: SideProcess, url: str, function: object, words: str
) -> None:
    with pytest.raises(NotComputed, match=words) as told:
        beside.begin(function, url).result()  # type: ignore[arg-type]
    assert "words of a text" not in str(told.value)
    assert beside.begin(own_process, url, words).result() > 0
