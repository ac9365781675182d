"""Files that were handed in: what is forgotten after a day, and what never is."""

import io
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import Queue

import pytest

from jobs import uploads
from jobs.uploads import KEPT_S, Upload
from screening.datasets.mapping import ColumnMapping
from screening.labels import Label

MAPPING = ColumnMapping(text="text", id="id")


def _kept(folder: Path, name: str) -> Upload:
    return uploads.keep(folder, name, io.BytesIO(b"id,text\n1,a quiet day\n"), "ann")


def _days_ago(folder: Path) -> None:
    for path in folder.iterdir():
        os.utime(path, times=(time.time() - 2 * KEPT_S,) * 2)


def test_a_file_that_was_begun_comes_back_as_it_was_confirmed(tmp_path: Path) -> None:
    _kept(tmp_path, "only looked at.csv")
    confirmed = replace(_kept(tmp_path, "begun.csv"), mapping=MAPPING, label_values={"ok": Label.SAFE, "?": None})
    begun = uploads.begin(confirmed, lambda: "b" * 32)
    assert list(uploads.unfinished_uploads(tmp_path)) == [begun]
    uploads.discard(begun)
    assert not list(uploads.unfinished_uploads(tmp_path)) and not begun.path.exists()


def test_a_file_becomes_one_batch_from_however_many_windows_it_is_started(tmp_path: Path) -> None:
    kept, opened = replace(_kept(tmp_path, "begun.csv"), mapping=MAPPING, label_values={}), Queue[str]()

    def start(name: str) -> Upload:
        return uploads.begin(kept, lambda: opened.put(name) or name * 32)

    with ThreadPoolExecutor(8) as windows:
        begun = list(windows.map(start, "abcdefgh"))
    assert opened.qsize() == 1 and set(map(repr, begun)) == {repr(next(uploads.unfinished_uploads(tmp_path)))}
    uploads.discard(begun[0])
    with pytest.raises(FileNotFoundError):
        start("i")
    assert opened.qsize() == 1 and not list(tmp_path.iterdir())


def test_a_day_later_only_files_of_batches_are_left(tmp_path: Path) -> None:
    begun = uploads.begin(_kept(tmp_path, "begun.csv"), lambda: "b" * 32)
    _kept(tmp_path, "only looked at.csv")
    died_while_writing, died_while_removing = _kept(tmp_path, "a.csv"), _kept(tmp_path, "b.csv")
    died_while_writing.path.with_suffix(".json").rename(died_while_writing.path.with_suffix(".part"))
    died_while_removing.path.unlink()
    _days_ago(tmp_path)
    young = _kept(tmp_path, "young.csv")
    assert {path.stem for path in tmp_path.iterdir()} == {begun.token, young.token}
    assert list(uploads.unfinished_uploads(tmp_path)) == [begun]


def test_what_is_known_of_a_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = _kept(tmp_path, "begun.csv")

    def dies(self: Path, target: Path) -> Path:
        raise OSError("the process ends here")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="ends here"):
        patched.setattr(Path, "replace", dies)
        uploads.remember(replace(kept, batch_id="b" * 32))
    assert uploads.find(tmp_path, kept.token, "ann") == kept
