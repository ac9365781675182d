"""The model stops during a batch: what is undecided reaches people with the cause, and is decided later."""

from collections.abc import Callable

import pytest
from sqlalchemy import func, select

from jobs.agents import Agents
from jobs.notifications import Notifier
from jobs.port import system_clock
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches.batch_state import BatchState
from storage.batches.batches import batch_state, progress, resume, retry_failed
from storage.batches.unscreened import bring_in
from storage.database import Database
from storage.identifiers import new_id
from storage.review.claims import claim_next
from storage.review.ratings import submit_rating
from storage.schema import inbox_entries, pending_cases, ratings, screenings
from storage.settings_store import SiteSettings, change
from tests.jobs.running import batch, running, until
from tests.storage.inbox_cases import form
from tests.stub_server import StubPlan, StubServer

TEXTS = 50
PLAN = StubPlan(latency_s=0.02)


def _agents(url: str) -> Agents:
    return Agents(
        Settings(
            _env_file=None, sampler="anthropic", anthropic_base_url=url, anthropic_api_key="k", call_timeout_s=1,
            node_deadline_s=2,
        )
    )  # fmt: skip


def _count(db: Database, table, *where: object) -> int:  # type: ignore[no-untyped-def]
    return db.value(select(func.count()).select_from(table).where(*where))  # type: ignore[arg-type]


def _all_in_the_inbox(db: Database) -> bool:
    """Whether every undecided case has its entry, and some are left."""
    waiting = _count(db, pending_cases)
    entered = select(inbox_entries.c.case_id).where(inbox_entries.c.cause.is_not(None))
    return 0 < waiting == _count(db, pending_cases, pending_cases.c.case_id.in_(entered))


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
async def test_the_model_stops_during_a_batch_and_comes_back(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.notifications.BRING_IN_EVERY_S", 0.5)
    change(db, LOCAL_USER.at(system_clock()), SiteSettings(unscreened_minutes=0.5), 0)  # longer than a breaker pauses
    server = StubServer(PLAN)
    async with server:
        url, port = server.url, int(server.url.rpartition(":")[2])
        made_of = _agents(url)
        notifier = Notifier(db=db, settings=Settings(_env_file=None), name="w1", kind="worker", clock=system_clock)
        notifier.start()
        batch_id = batch(db, TEXTS, made_of=made_of)
        runner = running(db, made_of)
        await runner.__aenter__()
        await until(lambda: _count(db, screenings) >= 15)
    await until(lambda: _all_in_the_inbox(db), within_s=120)
    undecided = _count(db, pending_cases)
    assert undecided + _count(db, screenings) == TEXTS
    causes = set(db.values(select(inbox_entries.c.cause))) - {None}
    assert causes <= {"connection", "timeout", "deadline"}, causes
    claim = claim_next(db, LOCAL_USER.at(system_clock()))
    while claim is not None and not claim.why.startswith("not_screened:"):
        claim = claim_next(db, LOCAL_USER.at(system_clock()))
    assert claim is not None
    submit_rating(db, LOCAL_USER.at(system_clock()), claim.case_id, claim.token, form("unsafe"), new_id(system_clock()))
    async with StubServer(PLAN, port=port):
        await until(_done(db, batch_id), within_s=200)
        await runner.__aexit__(None, None, None)
    notifier.stop()
    await made_of.aclose()
    assert _count(db, screenings) == TEXTS and _count(db, pending_cases) == 0
    assert _count(db, ratings, ratings.c.case_id == claim.case_id) == 1, "no reading is lost"
    assert _count(db, inbox_entries, inbox_entries.c.cause.is_not(None)) == 0
    assert _count(db, inbox_entries, inbox_entries.c.case_id == claim.case_id) == 1
    assert bring_in(db, system_clock()) == 0, "nothing twice"
