"""Files that were handed in: what is forgotten after a day, and what is told of one that nobody takes in."""

import io
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from queue import Queue

import pytest

from jobs import intake
from jobs.intake import KEPT_S, LOOKS, NOBODY, OpenFiles, Upload, fill_batch
from screening.datasets.mapping import ColumnMapping
from screening.datasets.reader import read_table
from screening.datasets.rows import NewCase
from screening.review.policy import LOCAL_USER
from screening.settings import Settings
from screening.text.received import receive
from storage.batches import batches
from storage.batches.batch_state import BatchState
from storage.batches.intake import add_rows, open_files
from storage.database import Database
from tests.storage.batch_of import NOW, batch

MAPPING = ColumnMapping(text="text", id="id")
LINES = [f"p{row},a quiet day number {row} by the lake" for row in range(1, 4)]


def _add(db: Database, batch_id: str, row: int) -> None:
    add_rows(db, batch_id, [NewCase(row=row, external_id=f"p{row}", text=receive(LINES[row - 1]))], NOW)


def _look(db: Database, seen: OpenFiles, times: int) -> str | None:
    """So many looks; what is said then of the one file there is."""
    for _ in range(times):
        seen.look(db, NOW)
    (found,) = open_files(db).values()
    return found.missing


def test_a_file_counts_as_given_up_after_so_many_looks_without_a_row_and_its_rest_is_taken_in(
    db: Database, tmp_path: Path
) -> None:
    file = tmp_path / "day.csv"
    file.write_text("\n".join(("id,text", *LINES)), encoding="utf-8")
    batch_id, seen = batch(db, closed=False), OpenFiles()
    _add(db, batch_id, 1)
    assert _look(db, seen, LOOKS) is None
    assert _look(db, OpenFiles(), LOOKS) is None, "who looks first knows nothing yet"
    assert _look(db, seen, 1) == NOBODY
    _add(db, batch_id, 2)
    assert _look(db, seen, 1) is None, "it was slow, not dead"
    assert _look(db, seen, LOOKS - 1) is None, "counted anew"
    assert _look(db, seen, 2) == NOBODY
    states = []

    def clock() -> datetime:
        states.append(batches.batch_state(db, batch_id))
        return NOW

    fill_batch(db, LOCAL_USER, batch_id, read_table(file, file.name), Settings(), clock)
    assert states == [BatchState.ROWS_MISSING, BatchState.TAKING_IN, BatchState.TAKING_IN]
    found = batches.progress(db, batch_id)
    assert (found.state, found.rows_in, found.rows_missing) == (BatchState.RUNNING, 3, None)
    assert open_files(db) == {}


def _kept(folder: Path, name: str) -> Upload:
    return intake.keep(folder, name, io.BytesIO(b"id,text\n1,a quiet day\n"), "ann")


def _days_ago(folder: Path) -> None:
    for path in folder.iterdir():
        os.utime(path, times=(time.time() - 2 * KEPT_S,) * 2)


def test_a_file_becomes_one_batch_from_however_many_windows_it_is_started(tmp_path: Path) -> None:
    kept, opened = replace(_kept(tmp_path, "begun.csv"), mapping=MAPPING, label_values={}), Queue[str]()

    def start(name: str) -> Upload:
        return intake.begin(kept, lambda: opened.put(name) or name * 32)

    with ThreadPoolExecutor(8) as windows:
        begun = list(windows.map(start, "abcdefgh"))
    assert opened.qsize() == 1 and set(map(repr, begun)) == {repr(next(intake.unfinished_uploads(tmp_path)))}
    intake.discard(begun[0])
    with pytest.raises(FileNotFoundError):
        start("i")
    assert opened.qsize() == 1 and not list(tmp_path.iterdir())


def test_a_day_later_only_files_of_batches_are_left(tmp_path: Path) -> None:
    begun = intake.begin(_kept(tmp_path, "begun.csv"), lambda: "b" * 32)
    _kept(tmp_path, "only looked at.csv")
    died_while_writing, died_while_removing = _kept(tmp_path, "a.csv"), _kept(tmp_path, "b.csv")
    died_while_writing.path.with_suffix(".json").rename(died_while_writing.path.with_suffix(".part"))
    died_while_removing.path.unlink()
    _days_ago(tmp_path)
    young = _kept(tmp_path, "young.csv")
    assert {path.stem for path in tmp_path.iterdir()} == {begun.token, young.token}
    assert list(intake.unfinished_uploads(tmp_path)) == [begun]
