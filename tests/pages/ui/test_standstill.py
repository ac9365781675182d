"""The banner says what keeps texts from being screened, only while it does."""

from datetime import timedelta
from itertools import product

from sqlalchemy import update

from jobs.process import system_clock
from pages.review.routes import View, snapshot
from pages.ui.labels import error_words
from pages.ui.shell import banner_lines, file_lines, standing_still, standstill_lines
from screening.pipeline.errors import NO_LABEL
from screening.review.actors import LOCAL_USER
from storage.batches.batch_state import BatchState
from storage.batches.entries import NO_WORKER, Standstill, files_halted_since
from storage.batches.intake import resume_intake, stop_intake
from storage.batches.pending import record_error
from storage.database import Database
from storage.schema import pending_cases
from storage.settings_store import SiteSettings
from storage.site.health import Fault, beat
from storage.site.outbox import keep_fault
from tests.databases import write
from tests.jobs.running import batch, open_batch_of
from tests.pages.conftest import Opener, words_on
from tests.storage.batch_of import NOW, waiting


def test_each_standstill_is_told_in_its_own_words_with_since_when_and_how_many_wait() -> None:
    states = (BatchState.RUNNING, BatchState.PAUSED, BatchState.CAPPED, None)
    causes = (NO_WORKER, "connection", "authentication", "max_cost", "server_error", "preflight_failed")
    for cause, state in product(causes, states):
        still = Standstill(batch_id="b", cause=cause, since=NOW, waiting=3, state=state)
        told = " ".join(banner_lines([still], SiteSettings(), NOW + timedelta(minutes=5)))
        assert all(words in told for words in (error_words(cause)[1:], "since 12:00 UTC", "3 texts are not screened"))


def test_rows_that_nobody_takes_in_are_told_of_on_every_page_that_has_the_banner(
    open_page: Opener, page_database: Database
) -> None:
    """And in the inbox, whose own poll carries it, as texts are that wait for a person."""
    batch_id, now = open_batch_of(page_database)
    stop_intake(page_database, LOCAL_USER.at(now), batch_id, "file_refused")
    other = batch(page_database, 2)
    record_error(page_database, waiting(page_database)[0], "server_error", "no", system_clock())

    def shown() -> list[str]:
        standing_still.forget()  # else a look of three seconds ago serves
        polled = snapshot(page_database, LOCAL_USER.at(system_clock()), View())["still"]
        return [" ".join(polled), *(words_on(open_page(page)) for page in (None, "screen", "batches"))]

    for words in ("Part of 1 file was not imported, since", "1 text is not screened"):
        assert all(words in page for page in shown()), (words, other)
    resume_intake(page_database, LOCAL_USER.at(now), batch_id)
    write(page_database, update(pending_cases).values(ready_at=system_clock()))
    assert not any(words in page for words in ("was not imported", "1 text is not") for page in shown())


def test_files_are_counted_and_one_look_serves_everybody_for_a_few_seconds(page_database: Database) -> None:
    now = system_clock()
    assert standstill_lines(page_database, now) == ()
    for _ in range(2):
        batch_id, _ = open_batch_of(page_database)
        stop_intake(page_database, LOCAL_USER.at(now), batch_id, "file_refused")
    (both,) = file_lines(files_halted_since(page_database), now)
    assert "Part of 2 files" in both
    assert standstill_lines(page_database, now + timedelta(seconds=1)) == ()
    assert len(standstill_lines(page_database, now + timedelta(seconds=4))) == 1


def test_a_batch_without_worker_or_model_says_so(open_page: Opener, page_database: Database) -> None:
    batch_id = batch(page_database, 2)
    assert "no background service is running" in words_on(open_page("batches", batch=batch_id))
    beat(page_database, "w1", "worker", system_clock())
    shown = words_on(open_page("batches", batch=batch_id))
    assert "Running" in shown and "no background service is running" not in shown
    for cause, said in (
        ("connection", "! The model cannot be reached"),
        (NO_LABEL, "! The model gives no usable answers"),
    ):
        keep_fault(page_database, Fault.MODEL, system_clock(), down=True, cause=cause)
        assert said in words_on(open_page("batches", batch=batch_id))
        (table,) = open_page("batches").dataframe
        assert list(table.value["State"]) == [said]
