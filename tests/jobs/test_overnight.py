"""Batches by message batches: the outcomes are those of live draws, whatever is lost, and faults hold up nothing."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from jobs.agents import Agents
from jobs.intake import configuration
from jobs.overnight import MOST_TRIES, Answers, OvernightRunner
from jobs.process import system_clock
from jobs.screening_job import ScreeningJob
from screening.labels import Label
from screening.pipeline.config import preset
from screening.pipeline.draws import Draw, DrawRequest, ScreenedText, Usage, cost_usd, encode_draws
from screening.pipeline.engine import guard_for, screen
from screening.review.policy import LOCAL_USER
from screening.settings import Settings
from storage.batches import batches, overnight
from storage.batches.batch_state import BatchState, Caps
from storage.batches.configurations import Configuration, load_configuration
from storage.batches.entries import stalled_batches
from storage.batches.overnight import overnight_progress
from storage.batches.pending import pending_cases
from storage.batches.screenings import case_of, case_row, committed_runs
from storage.database import Database
from storage.schema import pending_cases as waiting
from storage.schema.engine import case_errors, message_batches, message_requests, node_runs, screenings
from storage.schema.intake import cases
from storage.settings_store import start, stop
from tests.jobs.processes import NotingStub
from tests.jobs.running import batch, began_under, me, settings_of
from tests.stub_server import StubPlan, TextRule
from tests.stub_server.batches import StubBatch

PLAN = StubPlan(
    weights={"safe": 0.9, "escalate": 0.1},
    texts=(
        TextRule(contains="day 1", weights={"unsafe": 0.9, "escalate": 0.1}),
        TextRule(contains="day 2", weights={"unsafe": 0.3, "escalate": 0.6, "safe": 0.1}),
    ),
    batch_s=0.1,
)
Stub = Callable[[StubPlan], NotingStub]


def settings_for(stub: NotingStub) -> Settings:
    return settings_of(stub.url, overnight_poll_s=0.05)


def labelled_batch(db: Database, settings: Settings, rows: int, *, unlabelled: int = 0) -> str:
    made = configuration(settings, preset("certified"))
    return batch(db, rows, configured=made, reference=Label.SAFE, unlabelled=unlabelled, overnight=True)


def work(db: Database, settings: Settings, agents: Agents | None = None) -> OvernightRunner:
    agents = agents or Agents(settings)
    return OvernightRunner(ScreeningJob(db=db, agents=agents, clock=system_clock, worker="w1"), 0.05)


class _Bought:
    """Gives the draws that were bought; the engine refuses a draw batch that lacks some."""

    def __init__(self, bought: Mapping[tuple[str, str], Mapping[int, Draw]]) -> None:
        self.bought = bought

    async def draw(self, request: DrawRequest) -> list[Draw]:
        known = self.bought.get((request.node, request.variant), {})
        draw_batch = range(request.first, request.first + request.count)
        return [known[number] for number in draw_batch if number in known]


async def as_live(db: Database, batch_id: str) -> Counter[str]:
    """Screens every case live on the draws that came back, by number, and holds it against what was committed."""
    found: Counter[str] = Counter()
    ids = db.values(select(cases.c.id).where(cases.c.batch_id == batch_id))
    for case_id in ids:
        with db.read() as conn:
            row = case_row(conn, case_id)
            kept = conn.execute(select(screenings).where(screenings.c.case_id == case_id)).one()
            committed = committed_runs(conn, case_id)
        made = batches.find_batch(db, LOCAL_USER, batch_id)
        case = case_of(row, load_configuration(db, made.configuration_version))
        bought = Answers(overnight.requests_of(db, case_id), 0).draws
        live = await screen(case.text, guard_for(case.flags), case.pipeline, _Bought(bought))
        assert (live.outcome.value, live.reason.value, live.calls) == (kept.outcome, kept.reason, kept.calls)
        assert [encode_draws(run.draws) for run in live.runs] == [encode_draws(run.draws) for run in committed]
        found[kept.outcome] += 1
    return found


def each_draw_once(db: Database, batch_id: str) -> None:
    """Every draw number of a node has one answer, and every answer a reply of its own."""
    asked = message_requests.c
    rows = db.rows(
        select(asked.case_id, asked.node, asked.variant, asked.number, asked.reply_id)
        .join(message_batches, message_batches.c.id == asked.message_batch)
        .where(message_batches.c.batch_id == batch_id, asked.code.is_not(None))
    )
    assert len({row[:4] for row in rows}) == len(rows) == len({row.reply_id for row in rows})


async def done(db: Database, server: NotingStub, rows: int, **more: Any) -> tuple[NotingStub, str, OvernightRunner]:
    settings = settings_for(server)
    batch_id, own = labelled_batch(db, settings, rows, **more), work(db, settings)
    await own.until_over(batch_id)
    return server, batch_id, own


def test_a_round_asks_for_half_as_many_again_as_are_there() -> None:
    def wanted(drawn: int, count: int = 1) -> list[int]:
        answers, text = Answers([], 0), ScreenedText(text="")
        answers.draws["worker", "main"] = dict.fromkeys(range(drawn), Draw(label=Label.SAFE))
        asked = DrawRequest(node="worker", text=text, first=drawn, count=count)
        return [draw.number for draw in answers.next_wanted("", asked, 100)]

    assert [len(wanted(drawn)) for drawn in (0, 5, 16, 90)] == [1, 2, 8, 10]
    assert (wanted(0, 5), wanted(5)) == ([0, 1, 2, 3, 4], [5, 6])


async def test_rounds_give_the_same_outcomes_as_live_on_the_same_draws(db: Database, stub: Stub) -> None:
    server = stub(PLAN)
    settings = settings_for(server)
    batch_id = labelled_batch(db, settings, 24)
    assert pending_cases(db, 10) == []  # nothing of it goes live
    await work(db, settings).until_over(batch_id)
    assert batches.batch_state(db, batch_id) is BatchState.FINISHED
    ends = await as_live(db, batch_id)
    each_draw_once(db, batch_id)
    told = overnight_progress(db, batch_id)
    used = db.value(select(func.sum(node_runs.c.calls)))
    assert sum(ends.values()) == 24 and len(ends) == 3
    assert told.answers == used + told.unneeded == len(server.batches.bodies)
    assert told.failed == told.waiting == 0 and not told.under_way
    assert told.round == len(server.batches.all) < 25
    assert server.counters.requests == 0  # not one live call


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        (20, {"batch_faults": dict.fromkeys(("errored", "expired", "canceled", "garbled"), 0.02)}),
        # The first batch arrives, but the answer to handing it in does not: it is not handed in a second time, also
        # where it ends just after the account's list was read.
        (5, {"batch_lost": (True,), "batch_s": 0.3}),
        (5, {"batch_lost": (True,), "batch_s": 0.3, "batch_lost_ends_when_listed": True}),
    ],
)
async def test_what_fails_is_asked_for_again_and_a_batch_whose_reply_was_lost_is_found_by_the_ids_recorded(
    db: Database, stub: Stub, rows: int, changes: dict[str, Any]
) -> None:
    server, batch_id, _ = await done(db, stub(PLAN.model_copy(update=changes)), rows)
    told = overnight_progress(db, batch_id)
    assert batches.batch_state(db, batch_id) is BatchState.FINISHED and (told.failed > 0) is ("batch_faults" in changes)
    assert told.answers + told.failed == len(server.batches.bodies)
    await as_live(db, batch_id)
    each_draw_once(db, batch_id)


async def test_a_request_that_keeps_failing_leaves_its_case_to_a_person(db: Database, stub: Stub) -> None:
    server, batch_id, own = await done(db, stub(PLAN.model_copy(update={"batch_faults": {"expired": 1.0}})), 3)
    assert batches.batch_state(db, batch_id) is BatchState.NEEDS_RETRY and len(server.batches.all) == MOST_TRIES
    server.plan = PLAN
    assert batches.retry_failed(db, me(), batch_id) == 3
    await own.until_over(batch_id)
    assert batches.batch_state(db, batch_id) is BatchState.FINISHED
    await as_live(db, batch_id)


async def test_a_reply_from_a_batch_passes_the_same_checks_as_a_live_one(db: Database, stub: Stub) -> None:
    """The stub repeats one reply's id, names another model or a list of them, adds a block: none of it ends safe."""
    server = stub(StubPlan(weights={"safe": 1.0}))
    made = server.batches._answer

    def spoilt(body: dict[str, Any]) -> dict[str, Any]:
        message = made(body)
        kind = len(server.batches.bodies) % 4
        spoilt = ({"id": "msg_same"}, {"model": "other"}, {"content": [*message["content"]] * 2}, {"model": ["other"]})
        return message | spoilt[kind]

    server.batches._answer = spoilt
    await done(db, server, 4)
    assert set(db.values(select(screenings.c.outcome))) == {"human_review"} and not db.rows(select(case_errors))


async def test_text_without_a_reference_label_never_leaves_this_way(db: Database, stub: Stub) -> None:
    server, _, _ = await done(db, stub(PLAN), 6, unlabelled=2)
    kept = db.values(select(cases.c.row).join(waiting, waiting.c.case_id == cases.c.id))
    assert sorted(kept) == [1, 2]
    assert not any("day 1." in str(body) or "day 2." in str(body) for _, body in server.batches.bodies)


async def test_broken_off_again_and_again_every_draw_counts_once(db: Database, stub: Stub) -> None:
    """As by the end of a worker at any moment, while some replies to handing in get lost as well."""
    server = stub(PLAN.model_copy(update={"batch_lost": (False, True, False, False, True)}))
    settings = settings_for(server)
    batch_id = labelled_batch(db, settings, 12)
    for after_s in (0.05, 0.2, 0.4, 0.8):
        with suppress(TimeoutError):
            await asyncio.wait_for(work(db, settings).until_over(batch_id), after_s)
    await work(db, settings).until_over(batch_id)
    assert sum((await as_live(db, batch_id)).values()) == 12
    each_draw_once(db, batch_id)
    assert overnight_progress(db, batch_id).answers == len(server.batches.bodies)


def _told(db: Database) -> set[str]:
    return {one.cause for one in stalled_batches(db, datetime.now(UTC) + timedelta(days=1))} - {"no_worker"}


@pytest.mark.parametrize(
    ("changes", "state"),
    [({"texts": {"masking": "0"}}, BatchState.NEEDS_RETRY), ({"pipeline": {"nodes": []}}, BatchState.PAUSED)],
)
async def test_a_batch_that_cannot_go_on_is_told_and_the_next_one_goes_on(
    db: Database, stub: Stub, changes: dict[str, Any], state: BatchState
) -> None:
    settings = settings_for(stub(PLAN))
    first, second = labelled_batch(db, settings, 2), labelled_batch(db, settings, 2)
    began_under(db, first, **changes)
    await work(db, settings).until_over(second)
    assert batches.batch_state(db, second) is BatchState.FINISHED
    assert batches.batch_state(db, first) is state and _told(db) == {"internal_error"}


def _ends(db: Database) -> set[tuple[str, str]]:
    return {tuple(row) for row in db.rows(select(screenings.c.outcome, screenings.c.reason))}


async def test_what_is_under_way_at_the_stop_button_is_kept_as_lost_and_decides_nothing(
    db: Database, stub: Stub
) -> None:
    server = stub(PLAN.model_copy(update={"batch_s": 60.0}))
    settings = settings_for(server)
    batch_id, own = labelled_batch(db, settings, 3), work(db, settings)
    await own.round()
    stop(db, me())
    await own.round()
    assert _ends(db) == {("human_review", "stopped")} and server.batches.all[0].cancelled
    await own.until_over(labelled_batch(db, settings, 1))
    assert len(server.batches.all) == 1, "while it is pressed nothing is sent"
    start(db, me())
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
    """Under it nothing of unknown price is sent."""
    server = stub(PLAN)
    settings = settings_for(server)
    unpriced = labelled_batch(db, settings, 2)
    batches.change_caps(db, me(), unpriced, Caps(max_cost_usd=100.0))
    await work(db, settings).until_over(unpriced)
    assert batches.progress(db, unpriced).why == "cost_unknown" and not server.batches.all
    priced = labelled_batch(db, settings, 20)
    batches.change_caps(db, me(), priced, Caps(max_cost_usd=cap))
    await work(db, settings, _Priced(settings)).until_over(priced)
    spent = overnight_progress(db, priced)
    bought = float(cost_usd("claude-sonnet-4-6", spent.usage) or 0) / 2
    assert batches.progress(db, priced).why == "max_cost"
    assert bool(server.batches.all) is sends and bought <= cap
    assert spent.answers == len(server.batches.bodies)


@pytest.mark.parametrize("lost", [False, True])
async def test_what_a_cancelled_batch_was_answered_by_then_counts_as_lost(db: Database, stub: Stub, lost: bool) -> None:
    """Also where the reply to handing it in was lost: it is found by its results, once it has ended, and not taken for
    another of the account that has its size.
    """
    server = stub(PLAN.model_copy(update={"batch_s": 60.0, "batch_lost": (lost,)}))
    settings = settings_for(server)
    batch_id, own = labelled_batch(db, settings, 3), work(db, settings)
    await own.round()
    theirs = [one | {"custom_id": f"theirs-{at}"} for at, one in enumerate(server.batches.all[0].results)]
    server.batches.all.append(StubBatch(id="msgbatch_of_others", results=theirs, ends_at=0.0))
    batches.cancel(db, me(), batch_id)
    await own.round()
    assert server.batches.all[0].cancelled is not lost and len(overnight.open_message_batches(db, batch_id)) == 1
    server.batches.all[0].ends_at = 0.0
    for _ in range(2):
        await own.round()
    told = batches.progress(db, batch_id)
    assert (told.state, told.calls, told.lost_calls) == ("cancelled", 15, 15)
    assert not overnight.open_message_batches(db, batch_id)
