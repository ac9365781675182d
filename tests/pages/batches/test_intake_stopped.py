"""A file that could not be taken in to its end: the batch says so and why, and a button goes on."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from jobs.intake import NOBODY
from pages.batches.intake_runs import intake_runs
from screening.review.actors import LOCAL_USER, SYSTEM
from storage.batches import batches
from storage.batches.batch_state import BatchState
from storage.batches.configurations import save_configuration
from storage.batches.intake import stop_intake
from storage.database import Database
from tests.pages.conftest import Opener, press, upload, words_on
from tests.storage.batch_of import CONFIGURATION

ROWS = b"id,text\n" + b"".join(b"%d,a quiet day number %d by the lake\n" % (row, row) for row in range(1, 301))
DAMAGED = ROWS + b'301,"a quote that is never closed\n'


def _stopped(open_page: Opener, database: Database, folder: Path) -> tuple[AppTest, str, Path]:
    """A batch whose file is damaged when the app goes on with it: its page, its id, and the file."""
    page = upload(open_page, ROWS)
    intake_runs().start = lambda upload, table: None  # type: ignore[method-assign]  # the process dies here
    press(page, "Start screening")
    (file,) = (path for path in (folder / "data" / "uploads").iterdir() if not path.suffix)
    file.write_bytes(DAMAGED)
    intake_runs.forget()
    intake_runs().wait()
    (batch,) = batches.list_batches(database, LOCAL_USER)
    assert (batch.progress.state, batch.progress.why) == (BatchState.ROWS_MISSING, "file_refused")
    return open_page("batches", batch=batch.id), batch.id, file


def test_the_page_says_why_and_a_button_goes_on(open_page: Opener, page_database: Database, tmp_path: Path) -> None:
    page, batch_id, file = _stopped(open_page, page_database, tmp_path)
    assert "Import stopped after 0 rows" in words_on(page) and "a quote opens here" in words_on(page)
    file.write_bytes(ROWS)
    press(page, "Continue importing rows")
    intake_runs().wait()
    assert "stopped after" not in words_on(page.run()) and not file.exists()
    found = batches.progress(page_database, batch_id)
    assert (found.state, found.rows_in) == (BatchState.RUNNING, 300)


@pytest.mark.parametrize(
    ("intake", "way_on"), [({"program": "chat"}, "comes again under its key"), ({}, "when the app that has the file")]
)
def test_rows_that_another_process_left_out_are_said_without_a_button(
    open_page: Opener, page_database: Database, intake: dict[str, str], way_on: str
) -> None:
    batch_id = _open_batch(page_database, intake, "file_refused")
    page = open_page("batches", batch=batch_id)
    shown = words_on(page)
    assert "Import stopped after 0 rows" in shown and way_on in shown
    assert "Its file cannot be read any further" in shown and "The file is kept" in shown
    assert "! Rows are missing" in shown and not [one for one in page.button if "rows in" in one.label]
    assert list(open_page("batches").dataframe[0].value["State"]) == ["! Rows are missing"]


def _open_batch(database: Database, intake: Mapping[str, Any], why: str) -> str:
    """A batch whose rows stopped coming in, begun with this of its file."""
    now = datetime.now(UTC)
    version = save_configuration(database, CONFIGURATION, now)
    new = batches.NewBatch(name="night.csv", configuration_version=version, seed=1, intake=intake)
    batch_id = batches.create_batch(database, LOCAL_USER.at(now), new)
    stop_intake(database, SYSTEM.at(now), batch_id, why)
    return batch_id


def test_an_evaluation_that_stopped_is_not_gone_on_with(open_page: Opener, page_database: Database) -> None:
    intake: dict[str, Any] = {"provenance": "a jury", "steps": [], "call": "sample(5)", "sha256": ["0"]}
    shown = words_on(open_page("batches", batch=_open_batch(page_database, intake, NOBODY)))
    assert "begins a batch of its own" in shown
    assert "--resume" not in shown and "the app that has the file" not in shown


def test_the_file_of_a_cancelled_batch_is_put_away(open_page: Opener, page_database: Database, tmp_path: Path) -> None:
    page, _, file = _stopped(open_page, page_database, tmp_path)
    press(page, "Cancel this upload")
    assert "stopped after" not in words_on(page.run()) and not file.exists()
