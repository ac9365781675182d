"""What goes wrong with one overnight batch, and what stops it: people see it, and nothing else is held up by it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from jobs.agents import Agents
from screening.pipeline.cost import cost_usd
from screening.pipeline.draws import Usage
from screening.review.actors import LOCAL_USER, Acting
from storage.batches import batches, overnight
from storage.batches.batch_state import BatchState, Caps
from storage.batches.configurations import Configuration
from storage.batches.entries import standstills
from storage.batches.overnight import overnight_progress
from storage.database import Database
from storage.schema import batches as table
from storage.schema import case_errors, configurations, screenings
from storage.settings_store import start, stop
from tests.jobs.test_overnight import PLAN, Stub, labelled_batch, settings_for, work
from tests.stub_server import StubPlan
from tests.stub_server.batches import StubBatch


def _begun_under(db: Database, batch_id: str, **changes: Any) -> None:
    """Make it a batch that another version of the program began, with these parts of its configuration."""
    with db.write() as conn:
        version = conn.execute(select(table.c.configuration).where(table.c.id == batch_id)).scalar_one()
        body = conn.execute(select(configurations.c.body).where(configurations.c.version == version)).scalar_one()
        row = {"version": "other", "body": body | changes, "created_at": datetime.now(UTC)}
        conn.execute(configurations.insert(), row)
        conn.execute(update(table).where(table.c.id == batch_id).values(configuration="other"))


def _told(db: Database) -> set[str]:
    """Why something stands still, a day later."""
    return {one.cause for one in standstills(db, datetime.now(UTC) + timedelta(days=1))} - {"no_worker"}


@pytest.mark.parametrize(
    ("changes", "state"),
    [({"texts": {"masking": "0"}}, BatchState.NEEDS_RETRY), ({"pipeline": {"nodes": []}}, BatchState.PAUSED)],
)
async def test_a_batch_that_cannot_go_on_is_told_and_the_next_one_goes_on(
    db: Database, stub: Stub, changes: dict[str, Any], state: BatchState
) -> None:
    settings = settings_for(stub(PLAN))
    first, second = labelled_batch(db, settings, 2), labelled_batch(db, settings, 2)
    _begun_under(db, first, **changes)
    await work(db, settings).until_over(second)
    assert batches.batch_state(db, second) is BatchState.FINISHED
    assert batches.batch_state(db, first) is state and _told(db) == {"internal_error"}


async def test_a_reply_that_names_a_list_of_models_is_an_answer_that_cannot_be_used(db: Database, stub: Stub) -> None:
    server = stub(PLAN)
    made = server.batches._answer
    server.batches._answer = lambda body: made(body) | {"model": [settings.model]}
    settings = settings_for(server)
    batch_id = labelled_batch(db, settings, 2)
    await work(db, settings).until_over(batch_id)
    ends = db.rows(select(screenings.c.outcome, screenings.c.reason))
    assert not db.rows(select(case_errors))
    assert batches.batch_state(db, batch_id) is BatchState.FINISHED
    assert [tuple(end) for end in ends] == [("human_review", "no_answer")] * 2


def _me() -> Acting:
    return LOCAL_USER.at(datetime.now(UTC))


def _ends(db: Database) -> set[tuple[str, str]]:
    return {tuple(row) for row in db.rows(select(screenings.c.outcome, screenings.c.reason))}


async def test_while_the_stop_button_is_pressed_nothing_is_sent_and_people_decide(db: Database, stub: Stub) -> None:
    server = stub(PLAN)
    settings = settings_for(server)
    batch_id = labelled_batch(db, settings, 3)
    stop(db, _me())
    await work(db, settings).until_over(batch_id)
    assert batches.batch_state(db, batch_id) is BatchState.FINISHED and not server.batches.all
    assert _ends(db) == {("human_review", "stopped")}


async def test_what_is_under_way_at_the_stop_button_is_kept_as_lost_and_decides_nothing(
    db: Database, stub: Stub
) -> None:
    server = stub(PLAN.model_copy(update={"batch_s": 60.0}))
    settings = settings_for(server)
    batch_id, own = labelled_batch(db, settings, 3), work(db, settings)
    await own.round()
    stop(db, _me())
    await own.round()
    assert _ends(db) == {("human_review", "stopped")} and server.batches.all[0].cancelled
    start(db, _me())
    for _ in range(2):
        await own.round()
    told, answered = batches.progress(db, batch_id), len(server.batches.bodies)
    assert (told.state, told.lost_calls, overnight_progress(db, batch_id).answers) == ("finished", answered, answered)
    assert len(server.batches.all) == 1 and not overnight.open_message_batches(db, batch_id)
    assert _ends(db) == {("human_review", "stopped")}


class _Priced(Agents):
    """The agents at the paid service's prices."""

    def cost_usd(self, configuration: Configuration, usage: Usage, node: str | None = None) -> float | None:
        return float(cost_usd("claude-sonnet-4-6", usage) or 0)


@pytest.mark.parametrize(("cap", "sends"), [(0.02, False), (0.2, True)])
async def test_a_cap_on_cost_holds_against_all_that_was_bought_before_a_round_is_sent(
    db: Database, stub: Stub, cap: float, sends: bool
) -> None:
    server = stub(PLAN)
    settings = settings_for(server)
    batch_id = labelled_batch(db, settings, 20)
    batches.change_caps(db, _me(), batch_id, Caps(max_cost_usd=cap))
    own = work(db, settings, _Priced(settings))
    await own.until_over(batch_id)
    spent = overnight_progress(db, batch_id)
    bought = float(cost_usd("claude-sonnet-4-6", spent.usage) or 0) / 2
    assert batches.progress(db, batch_id).why == "max_cost"
    assert bool(server.batches.all) is sends and bought <= cap
    assert spent.answers == len(server.batches.bodies)


async def test_under_a_cap_on_cost_nothing_of_unknown_price_is_sent(db: Database, stub: Stub) -> None:
    server = stub(PLAN)
    settings = settings_for(server)
    batch_id = labelled_batch(db, settings, 2)
    batches.change_caps(db, _me(), batch_id, Caps(max_cost_usd=100.0))
    await work(db, settings).until_over(batch_id)
    assert batches.progress(db, batch_id).why == "cost_unknown" and not server.batches.all


@pytest.mark.parametrize("old", [True, False])
async def test_a_foreign_message_batch_on_the_account_holds_nothing_up(db: Database, stub: Stub, old: bool) -> None:
    """Its results are gone; it is of the size of ours, and from last winter or of this very moment."""
    server = stub(PLAN.model_copy(update={"batch_lost": (False, True)}))
    settings = settings_for(server)
    batch_id = labelled_batch(db, settings, 3)
    foreign = StubBatch(id="msgbatch_gone", results=[{"custom_id": "x-1"}] * 15, ends_at=0.0, gone=True)
    foreign.created_at = "2026-01-01T00:00:00Z" if old else foreign.created_at
    server.batches.all.append(foreign)
    await work(db, settings).until_over(batch_id)
    assert batches.batch_state(db, batch_id) is BatchState.FINISHED
    assert foreign.looked_into == (0 if old else 1)


@pytest.mark.parametrize("lost", [False, True])
async def test_what_a_cancelled_batch_was_answered_by_then_counts_as_lost(db: Database, stub: Stub, lost: bool) -> None:
    """Also where the reply to handing it in was lost: it is found by its results, once it has ended."""
    server = stub(PLAN.model_copy(update={"batch_s": 60.0, "batch_lost": (lost,)}))
    settings = settings_for(server)
    batch_id, own = labelled_batch(db, settings, 3), work(db, settings)
    await own.round()
    batches.cancel(db, _me(), batch_id)
    await own.round()
    assert server.batches.all[0].cancelled is not lost and len(overnight.open_message_batches(db, batch_id)) == 1
    server.batches.all[0].ends_at = 0.0
    for _ in range(2):
        await own.round()
    told = batches.progress(db, batch_id)
    assert (told.state, told.calls, told.lost_calls) == ("cancelled", 15, 15) and not overnight.open_message_batches(
        db, batch_id
    )


async def test_a_batch_cancelled_between_two_rounds_counts_what_no_agent_needs_any_more_once(
    db: Database, stub: Stub
) -> None:
    settings = settings_for(stub(StubPlan(weights={"safe": 0.5, "unsafe": 0.5}, batch_s=0.0)))
    batch_id, own = labelled_batch(db, settings, 3), work(db, settings)
    await own.round()
    batches.pause(db, _me(), batch_id)
    await own.round()
    assert overnight_progress(db, batch_id).answers == 15 and not overnight.open_message_batches(db, batch_id)
    batches.cancel(db, _me(), batch_id)
    assert not overnight.overnight_batches(db), "nothing is left to do"
    for process in (own, work(db, settings)):
        assert not await process.round()
    assert batches.progress(db, batch_id).lost_calls == 15
