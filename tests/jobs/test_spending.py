"""What is paid for counts, also where its draws are lost; a cap holds to about a draw batch, a cancellation at once."""

import asyncio
import contextlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from jobs.process import system_clock
from jobs.spend_guard import FRESH_S, Account, CaseSpend, Withdrawn
from screening.labels import Outcome
from screening.pipeline.draws import SamplerError
from storage.batches import batches
from storage.batches.batch_state import BatchState, Caps, standing
from storage.batches.batches import change_caps, progress
from storage.batches.counts import Totals
from storage.database import Database
from storage.schema import case_errors, cases, node_runs
from storage.site import health
from tests.jobs.running import Watched, batch, job_of, me, running, unended, until
from tests.storage import batch_of
from tests.storage.recount import recount

SCRIPTS = tomllib.loads((Path(__file__).parent / "spending.toml").read_text(encoding="utf-8"))["script"]
AMBIGUOUS = "My friend says she wants to disappear"
"""Its first node takes several draw batches and sends it on to the next."""


def _ambiguous(db: Database, rows: int = 1) -> tuple[str, list[str]]:
    return batch(db, [AMBIGUOUS] * rows), _column(db, cases.c.id)


def _column(db: Database, column) -> list[str]:  # type: ignore[no-untyped-def]
    return db.values(select(column))


def _totals(db: Database, batch_id: str) -> Totals:
    with db.read() as conn:
        return standing(conn, batch_id).totals


def _require_accounted(db: Database, batch_id: str, calls: int) -> None:
    """Every call is in the sums, and the sums are those of the facts."""
    assert progress(db, batch_id).calls == calls
    with db.read() as conn:
        assert recount(conn, batch_id) == _totals(db, batch_id)


@pytest.mark.parametrize(
    ("caps", "why"), [(Caps(max_calls=50), "max_calls"), (Caps(max_cost_usd=50 * 2**-10), "max_cost")]
)
async def test_a_cap_is_passed_by_less_than_a_draw_batch_for_all_cases_in_flight(
    db: Database, caps: Caps, why: str
) -> None:
    batch_id, agents = batch(db, 30), Watched(price=2**-10)
    change_caps(db, me(), batch_id, caps)
    async with running(db, agents):
        await until(lambda: progress(db, batch_id).state is BatchState.CAPPED and unended(db) == 0)
    assert agents.calls < 50 + max(request.count for request in agents.asked) and progress(db, batch_id).why == why
    assert _totals(db, batch_id).ended >= 2, "it pays for cases that end, not for the beginnings of sixteen"
    _require_accounted(db, batch_id, agents.calls)


@pytest.mark.parametrize(("price", "why"), [(0.02, "max_cost"), (None, "cost_unknown")])
async def test_a_cap_on_cost_below_the_first_price_stops_at_the_first_draw_batch(
    db: Database, price: float | None, why: str
) -> None:
    """What was lost has no price in the tables: such batches had gone on until a thousand calls were lost."""
    (batch_id, _), agents = _ambiguous(db, 20), Watched(price=price)
    change_caps(db, me(), batch_id, Caps(max_cost_usd=0.05))
    async with running(db, agents):
        await until(lambda: progress(db, batch_id).state is BatchState.PAUSED and unended(db) == 0)
        found = progress(db, batch_id)
        assert len(agents.asked) == 1 and (found.why, found.failed, found.at_cap) == (why, 0, True)
        assert found.cost_usd is None, "what was lost is paid for, and unknown is not free"
        _require_accounted(db, batch_id, agents.calls)
        change_caps(db, me(), batch_id, Caps(max_calls=30))
        await until(lambda: progress(db, batch_id).state is BatchState.CAPPED)


async def test_a_cancelled_batch_breaks_off_a_draw_batch_however_long_it_would_take_and_counts_it(db: Database) -> None:
    (batch_id, (case_id,)), agents = _ambiguous(db), Watched(lambda _: len(agents.asked) > 1)
    task = asyncio.ensure_future(job_of(db, agents).screen_case(case_id))
    await until(lambda: len(agents.asked) == 2)
    batches.cancel(db, me(), batch_id)
    await asyncio.wait_for(task, 60)
    assert agents.broken_off == 1 and unended(db) == 0
    assert (_column(db, case_errors.c.kind), _column(db, case_errors.c.calls)) == (["withdrawn"], [agents.calls])
    assert progress(db, batch_id).failed == 0
    _require_accounted(db, batch_id, agents.calls)


async def test_a_paused_batch_ends_the_nodes_that_have_begun_and_begins_none(db: Database) -> None:
    (batch_id, (case_id,)), agents = _ambiguous(db), Watched(lambda _: True)
    task = asyncio.ensure_future(job_of(db, agents).screen_case(case_id))
    await until(lambda: len(agents.asked) == 1)
    batches.pause(db, me(), batch_id)
    await asyncio.sleep(2 * FRESH_S)
    agents.go.set()
    await asyncio.wait_for(task, 60)
    assert len(agents.asked) > 1, "a node of one draw batch tests nothing"
    assert agents.nodes == {"worker"}
    assert _column(db, node_runs.c.node) == ["worker"] and unended(db) == 0
    assert progress(db, batch_id).lost_calls == 0
    _require_accounted(db, batch_id, agents.calls)


class Guarded:
    """Cases of one batch under its caps, and a time that the test turns; `spending.toml` says what the steps are."""

    def __init__(self, db: Database, caps: Caps) -> None:
        self.db, self.now = db, 0.0
        limits = {"max_calls": caps.max_calls, "max_cost_usd": caps.max_cost_usd}
        self.batch_id = batch_of.batch(db, ["a", "b", "c"], **limits)  # type: ignore[arg-type]
        self.account = Account(clock=lambda: self.now)
        self.stack = contextlib.ExitStack()
        self.spends: dict[str, CaseSpend] = {}

    def play(self, script: str) -> None:
        for name in sorted(set(re.findall(r"\b([a-c])[-+=.?]", script))):
            self.spends[name] = self.stack.enter_context(self.account.spend())
        self.look()
        for step in script.split():
            if re.fullmatch(r"[\d.]+s", step):
                self.now = float(step[:-1])
            elif step in ("commit", "end", "look"):
                getattr(self, step)()
            else:
                self.do(step, self.spends[step[0]], step[1], step[2:])
        self.stack.close()

    def do(self, step: str, spend: CaseSpend, sign: str, what: str) -> None:
        if sign == "+":
            count, _, attempts = what.partition("x")
            spend.ask(int(count)).requests = int(attempts or 0)
        elif sign == "=":
            count, _, cost = what.partition("@")
            spend.drew(int(count), None if cost == "?" else float(cost or 0))
        elif sign == ".":
            self.account.settle(spend)
        else:
            try:
                found = "go" if self.account.admits(spend) else "wait"
            except (Withdrawn, SamplerError) as end:
                found = end.kind if isinstance(end, SamplerError) else "none"
            assert found == what, step

    def look(self) -> None:
        self.account.look(self.db, self.batch_id)

    def commit(self) -> None:
        """Six draws of the first case that waits are in the tables."""
        batch_of.commit_run(self.db, batch_of.waiting(self.db)[0], 0, batch_of.run("EEEEEE", None))

    def end(self) -> None:
        batch_of.decide(self.db, batch_of.waiting(self.db)[0], Outcome.UNSAFE)


@pytest.mark.parametrize("script", [pytest.param(each, id=each["name"]) for each in SCRIPTS])
def test_calls_that_the_tables_do_not_know_yet_count_towards_a_cap(db: Database, script: dict[str, Any]) -> None:
    Guarded(db, Caps(**script["caps"])).play(script["steps"])


@pytest.mark.parametrize(("kind", "shared"), [("sqlite", "go"), ("postgresql", "wait")])
def test_workers_share_what_is_left_of_a_cap_where_there_may_be_several(
    request: pytest.FixtureRequest, kind: str, shared: str
) -> None:
    """3 + 7 + 10, and 17 for the other worker; an embedded database has one, whatever its earlier ones left."""
    with contextlib.closing(Database(request.getfixturevalue(f"{kind}_url"))) as db:
        for name in ("w1", "w2"):
            health.beat(db, name, "worker", system_clock())
        Guarded(db, Caps(max_calls=30)).play(f"a?go a+3 b?{shared}")
