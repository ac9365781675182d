"""The model stops during a batch: what is undecided reaches people with the cause, and is decided later."""

from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
from sqlalchemy import select

from jobs.notify import Notifier
from jobs.process import system_clock
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches.batch_state import BatchState
from storage.batches.batches import batch_state, progress, resume, retry_failed
from storage.batches.entries import bring_in
from storage.clock import new_id
from storage.database import Database
from storage.review.claims import claim_next
from storage.review.reviews import submit_review
from storage.schema import inbox_entries, pending_cases, reviews, screenings
from storage.settings_store import SiteSettings, change
from tests.jobs.running import MakeAgents, batch, count, running, settings_of, until
from tests.storage.inbox_cases import form
from tests.stub_server import StubPlan, StubServer

TEXTS = 30
PLAN = StubPlan(latency_s=0.02)


def _all_in_the_inbox(db: Database) -> bool:
    """Whether every undecided case has its entry, and some are left."""
    waiting = count(db, pending_cases)
    entered = select(inbox_entries.c.case_id).where(inbox_entries.c.cause.is_not(None))
    return 0 < waiting == count(db, pending_cases, pending_cases.c.case_id.in_(entered))


def _done(db: Database, batch_id: str) -> Callable[[], bool]:
    def look() -> bool:
        retry_failed(db, LOCAL_USER.at(system_clock()), batch_id)
        if batch_state(db, batch_id) is BatchState.PAUSED:
            resume(db, LOCAL_USER.at(system_clock()), batch_id)
        return progress(db, batch_id).finished_at is not None

    return look


@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.usefixtures("short_pauses")
async def test_the_model_stops_during_a_batch_and_comes_back(
    db: Database, agents_of: MakeAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.notify.BRING_IN_EVERY_S", 0.5)
    change(db, LOCAL_USER.at(system_clock()), SiteSettings(unscreened_minutes=0.1), 0)  # longer than a breaker pauses
    async with AsyncExitStack() as to_the_end:
        notifier = Notifier(db=db, settings=Settings(_env_file=None), name="w1", kind="worker", clock=system_clock)
        to_the_end.callback(notifier.stop)
        async with StubServer(PLAN) as server:
            made_of = agents_of(settings_of(server.url, call_timeout_s=1, node_deadline_s=2))
            notifier.start()
            batch_id = batch(db, TEXTS, made_of=made_of)
            await to_the_end.enter_async_context(running(db, made_of))
            await until(lambda: count(db, screenings) >= 10)
        await until(lambda: _all_in_the_inbox(db), within_s=120)
        undecided = count(db, pending_cases)
        assert undecided + count(db, screenings) == TEXTS
        causes = set(db.values(select(inbox_entries.c.cause))) - {None}
        assert causes <= {"not_yet", "no_progress", "connection", "timeout", "deadline"}, causes
        by = LOCAL_USER.at(system_clock())
        claim = claim_next(db, by)
        while claim is not None and not claim.why.startswith("not_screened:"):
            claim = claim_next(db, by)
        assert claim is not None
        submit_review(db, by, claim.case_id, claim.token, form("unsafe"), new_id(system_clock()))
        async with StubServer(PLAN, port=int(server.url.rpartition(":")[2])):
            await until(_done(db, batch_id), within_s=200)
    assert count(db, screenings) == TEXTS and count(db, pending_cases) == 0
    assert count(db, reviews, reviews.c.case_id == claim.case_id) == 1, "no review is lost"
    assert count(db, inbox_entries, inbox_entries.c.cause.is_not(None)) == 0
    assert count(db, inbox_entries, inbox_entries.c.case_id == claim.case_id) == 1
    assert bring_in(db, system_clock()) == 0, "nothing twice"
