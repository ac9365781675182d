"""The banner says in plain words what keeps texts from being screened, only while it does."""

from datetime import timedelta

import pytest
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

SITE = SiteSettings()


def still(cause: str, state: BatchState | None = BatchState.RUNNING, waiting: int = 3) -> Standstill:
    return Standstill(batch_id="b", cause=cause, since=NOW, waiting=waiting, state=state)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (still(NO_WORKER), "start the worker"),
        (still("connection"), "by itself"),
        (still("authentication", BatchState.PAUSED), "An administrator fixes it"),
        (still("max_cost", BatchState.CAPPED), "Continue without a limit"),
        (still("server_error", None), "presses Retry"),
        (still("server_error", BatchState.PAUSED), "presses Resume"),
        (still("max_calls", BatchState.PAUSED), "Continue without a limit"),
        (still("preflight_failed", BatchState.PAUSED), "can allow the model in writing, in Settings; then"),
        (still("internal_error", None), "looks at the worker's log; then whoever began the upload presses Retry"),
    ],
)
def test_it_says_what_broke_since_when_how_many_wait_and_what_to_press(one: Standstill, said: str) -> None:
    told = " ".join(banner_lines([one], SITE, NOW + timedelta(minutes=5)))
    assert error_words(one.cause)[1:] in told
    assert all(words in told for words in ("since 12:00 UTC", "3 texts are not screened", said, "After 15 minutes"))


def test_rows_that_nobody_takes_in_are_told_of_on_every_page_that_has_the_banner(
    open_page: Opener, page_database: Database
) -> None:
    batch_id, now = open_batch_of(page_database)
    stop_intake(page_database, LOCAL_USER.at(now), batch_id, "file_refused")
    for page in (None, "screen", "batches"):
        standing_still.forget()
        shown = words_on(open_page(page) if page else open_page())
        assert "Part of 1 file was not imported, since" in shown, page
    other, _now = open_batch_of(page_database)
    stop_intake(page_database, LOCAL_USER.at(now), other, "file_refused")
    (both,) = file_lines(files_halted_since(page_database), now)
    assert "Part of 2 files" in both and both.endswith("The page of each upload says why.")
    resume_intake(page_database, LOCAL_USER.at(now), other)
    resume_intake(page_database, LOCAL_USER.at(now), batch_id)
    standing_still.forget()
    assert not standstill_lines(page_database, system_clock() + timedelta(seconds=5))


@pytest.mark.parametrize("page", [None, "screen", "batches", "inbox"])
def test_the_pages_carry_it_while_it_lasts(open_page: Opener, page_database: Database, page: str | None) -> None:
    batch(page_database, 2)
    with_fault = waiting(page_database)[0]
    record_error(page_database, with_fault, "server_error", "no", system_clock())
    said = "1 text is not screened"

    def shown() -> str:
        standing_still.forget()  # else a look of three seconds ago serves
        if page == "inbox":  # whose own poll carries it
            return " ".join(snapshot(page_database, LOCAL_USER.at(system_clock()), View())["still"])
        return words_on(open_page(page) if page else open_page())

    assert said in shown()
    write(page_database, update(pending_cases).values(ready_at=system_clock()))
    assert said not in shown()


def test_one_look_serves_everybody_for_a_few_seconds(page_database: Database) -> None:
    now = system_clock()
    assert standstill_lines(page_database, now) == ()
    batch(page_database, 2)
    record_error(page_database, waiting(page_database)[0], "server_error", "no", now)
    assert standstill_lines(page_database, now + timedelta(seconds=1)) == ()
    assert len(standstill_lines(page_database, now + timedelta(seconds=4))) == 2


def test_a_batch_without_a_living_worker_or_a_model_that_answers_says_so(
    open_page: Opener, page_database: Database
) -> None:
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
        assert "Running" not in (shown := words_on(open_page("batches", batch=batch_id)))
        assert said in shown
        (table,) = open_page("batches").dataframe
        assert list(table.value["State"]) == [said]
