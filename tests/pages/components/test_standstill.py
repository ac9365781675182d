"""The banner says in plain words what keeps texts from being screened, only while it does."""

from datetime import timedelta
from html import escape

import pytest
from sqlalchemy import update

from jobs.port import system_clock
from pages.components.standstill import banner_html
from pages.components.words import ERROR_WORDS
from storage.batches.batch_state import BatchState
from storage.batches.pending import record_error
from storage.batches.unscreened import NO_WORKER, Standstill
from storage.database import Database
from storage.schema import pending_cases
from storage.site.heartbeats import beat
from storage.site.settings_store import SiteSettings
from tests.jobs.running import batch
from tests.pages.conftest import Opener
from tests.storage.batch_of import NOW, waiting

SITE = SiteSettings()


def still(cause: str, state: BatchState | None = BatchState.RUNNING, waiting: int = 3) -> Standstill:
    return Standstill(batch_id="b", cause=cause, since=NOW, waiting=waiting, state=state)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (still(NO_WORKER), "start the worker"),
        (still("connection"), "by itself"),
        (still("authentication", BatchState.PAUSED), "An administrator mends it"),
        (still("max_cost", BatchState.CAPPED), "Go on without a cap"),
        (still("server_error", None), "presses Retry"),
        (still("server_error", BatchState.PAUSED), "presses Resume"),
    ],
)
def test_it_says_what_broke_since_when_how_many_wait_and_what_to_press(one: Standstill, said: str) -> None:
    html = banner_html([one], SITE, NOW + timedelta(minutes=5))
    assert escape(ERROR_WORDS[one.cause])[1:] in html
    assert all(escape(words) in html for words in ("since 12:00 UTC", "3 texts wait", said, "After 15 minutes"))


def test_causes_are_added_up_each_in_one_paragraph() -> None:
    html = banner_html([still(NO_WORKER, waiting=120), still(NO_WORKER, waiting=1)], SITE, NOW)
    assert "121 texts wait" in html and html.count("No worker is running") == 1
    assert banner_html([], SITE, NOW) == ""


@pytest.mark.parametrize("page", [None, "batches", "inbox"])
def test_the_three_pages_carry_it_while_it_lasts(open_page: Opener, page_database: Database, page: str | None) -> None:
    batch(page_database, 2)
    with_fault = waiting(page_database)[0]
    record_error(page_database, with_fault, "server_error", "no", system_clock())
    opened = open_page(page) if page else open_page()
    assert "1 text waits undecided" in _all(opened) and "sl-standstill" in _all(opened)
    with page_database.write() as conn:
        conn.execute(update(pending_cases).values(ready_at=system_clock()))
    assert "sl-standstill" not in _all(opened.run())


def test_a_batch_without_a_living_worker_says_so(open_page: Opener, page_database: Database) -> None:
    batch_id = batch(page_database, 2)
    assert "no worker is running" in _all(open_page("batches", batch=batch_id))
    beat(page_database, "w1", "worker", system_clock())
    shown = _all(open_page("batches", batch=batch_id))
    assert "Running" in shown and "no worker is running" not in shown


def _all(page: object) -> str:
    return " ".join(element.proto.body for element in page.get("html"))  # type: ignore[attr-defined]
