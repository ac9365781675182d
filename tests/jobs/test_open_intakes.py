"""A file of which nothing comes any more is told apart from one that is taken in, and says so until rows come again."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from jobs.intake import LOOKS, NOBODY, OpenFiles, fill_batch
from screening.datasets.reader import read_table
from screening.datasets.rows import NewCase
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from screening.text.received import receive
from storage.batches import batches
from storage.batches.batch_state import BatchState
from storage.batches.configurations import save_configuration
from storage.batches.intake import (
    TEXT_BY_TEXT,
    OpenFile,
    add_rows,
    close_intake,
    close_past_days,
    open_files,
    stop_intake,
)
from storage.database import Database
from tests.storage.batch_of import CONFIGURATION, NOW, batch

LINES = [f"p{row},a quiet day number {row} by the lake" for row in range(1, 4)]


def _add(db: Database, batch_id: str, row: int) -> None:
    add_rows(db, batch_id, [NewCase(row=row, external_id=f"p{row}", text=receive(LINES[row - 1]))], NOW)


def _look(db: Database, seen: OpenFiles, times: int) -> str | None:
    """So many looks; what is said then of the one file there is."""
    for _ in range(times):
        seen.look(db, NOW)
    (found,) = open_files(db).values()
    return found.missing


def test_a_file_counts_as_given_up_after_so_many_looks_without_a_row_and_rows_end_that(db: Database) -> None:
    batch_id, seen = batch(db, ["one"], closed=False), OpenFiles()
    assert _look(db, seen, LOOKS) is None
    assert _look(db, seen, 1) == NOBODY
    assert batches.batch_state(db, batch_id) is BatchState.ROWS_MISSING
    _add(db, batch_id, 2)
    assert _look(db, seen, 1) is None, "it was slow, not dead"
    assert _look(db, seen, LOOKS - 1) is None, "counted anew"
    assert _look(db, seen, 2) == NOBODY
    assert batches.progress(db, batch_id).rows_in == 2


def test_a_row_now_and_then_is_enough_and_who_looks_first_knows_nothing_yet(db: Database) -> None:
    batch_id, seen = batch(db, ["one"], closed=False), OpenFiles()
    for row in (2, 3):
        assert _look(db, seen, LOOKS) is None
        _add(db, batch_id, row)
    assert _look(db, OpenFiles(), LOOKS) is None


def _of_program(db: Database, begun: timedelta) -> str:
    version = save_configuration(db, CONFIGURATION, NOW)
    new = batches.NewBatch(name="a.csv", configuration_version=version, seed=1, intake={"program": "chat"})
    return batches.create_batch(db, LOCAL_USER.at(NOW + begun), new)


def test_a_file_in_the_line_of_the_programs_is_given_up_only_with_those_before_it(db: Database) -> None:
    later, seen = _of_program(db, timedelta(seconds=2)), OpenFiles()
    first = _of_program(db, timedelta(seconds=1))

    def missing(times: int) -> list[str | None]:
        for _ in range(times):
            seen.look(db, NOW)
        return [file.missing for file in open_files(db).values()]

    for row in (1, 2):
        assert missing(LOOKS) == [None, None]
        _add(db, first, row)
    close_intake(db, LOCAL_USER.at(NOW), first)
    assert missing(LOOKS) == [None], "the one before it is in: its own time begins"
    assert missing(1) == [NOBODY]
    after = _of_program(db, timedelta(seconds=3))
    for row in (1, 2):
        _add(db, after, row)
        assert missing(1) == [NOBODY, None], "one that came after it is no sign of it"
    _add(db, later, 1)
    assert missing(1) == [None, None]
    assert missing(LOOKS) == [NOBODY, NOBODY], "the service is gone"


def test_why_a_file_stopped_is_not_said_again_in_other_words(db: Database) -> None:
    batch_id, seen = batch(db, closed=False), OpenFiles()
    stop_intake(db, LOCAL_USER.at(NOW), batch_id, "file_refused")
    assert _look(db, seen, 3 * LOOKS) == "file_refused"
    _add(db, batch_id, 1)
    assert _look(db, seen, 1) == "file_refused", "whoever found it refused says when it goes on"


def test_the_rest_of_a_given_up_file_is_taken_in_and_nothing_is_missing(db: Database, tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    file.write_text("\n".join(("id,text", *LINES)), encoding="utf-8")
    batch_id, seen = batch(db, closed=False), OpenFiles()
    _add(db, batch_id, 1)
    assert _look(db, seen, LOOKS + 1) == NOBODY
    states = []

    def clock() -> datetime:
        states.append(batches.batch_state(db, batch_id))
        return NOW

    fill_batch(db, LOCAL_USER, batch_id, read_table(file, file.name), Settings(), clock)
    assert states == [BatchState.ROWS_MISSING, BatchState.TAKING_IN, BatchState.TAKING_IN]
    found = batches.progress(db, batch_id)
    assert (found.state, found.rows_in, found.rows_missing) == (BatchState.RUNNING, 3, None)
    assert open_files(db) == {}


def test_only_files_are_watched_that_still_take_rows(db: Database) -> None:
    batch(db, ["one"])
    batch(db, ["one"], kind="interactive", closed=False)
    batches.cancel(db, LOCAL_USER.at(NOW), batch(db, closed=False))
    _daily(db)
    watched = batch(db, ["one", "two"], closed=False)
    batches.pause(db, LOCAL_USER.at(NOW), watched)
    assert open_files(db) == {watched: OpenFile(rows=2, missing=None)}


def _daily(db: Database) -> str:
    version = save_configuration(db, CONFIGURATION, NOW)
    intake = {"format": TEXT_BY_TEXT, "program": "chat"}
    new = batches.NewBatch(name="chat, a day", configuration_version=version, seed=1, intake=intake)
    return batches.create_batch(db, LOCAL_USER.at(NOW), new)


@pytest.mark.parametrize(("days", "state"), [(2, BatchState.TAKING_IN), (2.01, BatchState.FINISHED)])
def test_what_a_program_handed_in_on_its_last_day_ends(db: Database, days: float, state: BatchState) -> None:
    daily, file, closed = _daily(db), batch(db, closed=False), _daily(db)
    close_intake(db, LOCAL_USER.at(NOW), closed)
    for _ in range(2):
        close_past_days(db, NOW + timedelta(days=days))
    assert batches.batch_state(db, daily) is state
    assert batches.batch_state(db, file) is BatchState.TAKING_IN
