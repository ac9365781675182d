"""SIGKILL at any moment: nothing is lost, nothing is committed twice, nothing committed is asked again."""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from storage import tallies
from storage.batches import progress
from storage.database import Database
from storage.schema import case_starts, cases, inbox_entries, node_runs, pending_cases, screenings
from tests.jobs.files import batch_from, settings, write_posts
from tests.jobs.processes import NotingStub, Workers, wait_for
from tests.stub_server import StubPlan, TextRule

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROWS, KILLS = 300, 20
PLAN = StubPlan(
    latency_s=0.08,
    jitter_s=0.08,
    weights={"safe": 0.97, "escalate": 0.03},
    texts=(
        TextRule(contains="want to die", weights={"unsafe": 0.97, "escalate": 0.03}),
        TextRule(contains="pointless", weights={"unsafe": 0.15, "escalate": 0.8, "safe": 0.05}),
    ),
)


def test_twenty_kills_over_one_batch(
    db: Database,
    database_url: str,
    workers: Workers,
    stub: Callable[[StubPlan], NotingStub],
    tmp_path: Path,
) -> None:
    service = stub(PLAN)
    options = {
        "ANTHROPIC_BASE_URL": service.url,
        "ANTHROPIC_API_KEY": "k",
        "requests_per_minute": 1_000_000,
        "cases_in_flight": 8,
    }
    accepted = write_posts(tmp_path / "posts.csv", ROWS)
    batch_id = batch_from(db, tmp_path / "posts.csv", settings(database_url, options))
    at_once = 1 if db.kind == "sqlite" else 2
    started = time.monotonic()
    _kill_again_and_again(workers, database_url, options, at_once, random.Random(20))
    assert progress(db, batch_id).pending > 0, "the batch was over before the last kill"
    killed = time.monotonic() - started
    service.plan = PLAN.model_copy(update={"latency_s": 0.0, "jitter_s": 0.0})
    workers.start(database_url, options)
    wait_for(lambda: progress(db, batch_id).finished_at is not None, 120)
    _each_row_once(db, batch_id, accepted)
    asked_in_vain = _nothing_committed_asked_again(db, service)
    print(f"{db.kind}: {KILLS} kills in {killed:.0f} s, done after {time.monotonic() - started:.0f} s,", asked_in_vain)


def _kill_again_and_again(
    workers: Workers, url: str, options: dict[str, Any], at_once: int, rng: random.Random
) -> None:
    for number in range(KILLS):
        while len(workers.alive) < at_once:
            workers.start(url, options)
        if number % 5:
            workers.up(0)
            time.sleep(rng.uniform(0.0, 0.9))
        else:
            time.sleep(rng.uniform(0.0, 2.0))  # while it starts
        workers.kill(0)
    workers.end()


def _each_row_once(db: Database, batch_id: str, accepted: int) -> None:
    found = progress(db, batch_id)
    assert (found.accepted, found.rejected) == (accepted, ROWS - accepted)
    assert found.safe + found.unsafe + found.human_review + found.pending == accepted
    with db.read() as conn:
        outcomes = Counter(dict(conn.execute(select(screenings.c.case_id, func.count()).group_by("case_id")).all()))
        assert set(outcomes.values()) == {1} and len(outcomes) == accepted == len(set(_ids(conn, cases.c.id)))
        assert not _ids(conn, pending_cases.c.case_id)
        to_people = select(screenings.c.case_id).where(screenings.c.outcome == "human_review")
        assert set(conn.execute(to_people).scalars()) <= set(_ids(conn, inbox_entries.c.case_id))
        assert tallies.recount(conn, batch_id) == tallies.totals(conn, [batch_id])[batch_id]
        reasons = Counter(conn.execute(select(screenings.c.reason)).scalars())
    assert reasons["repeated_failure"] <= accepted * 0.05, f"kills from outside are blamed on the cases: {reasons}"
    assert reasons["identified"] > accepted / 2


def _nothing_committed_asked_again(db: Database, service: NotingStub) -> str:
    """No request for a node's draws on a text after the run that stands was complete."""
    query = select(cases.c.text, node_runs.c.node, node_runs.c.calls, node_runs.c.ended_at).join(
        cases, cases.c.id == node_runs.c.case_id
    )
    with db.read() as conn:
        runs = conn.execute(query).all()
        deaths = conn.execute(select(func.count()).where(case_starts.c.ended_at.is_(None))).scalar_one()
    assert len(runs) >= ROWS * 0.9
    for run in runs:
        asked = service.asked_at[run.node, run.text]
        assert len(asked) >= run.calls
        assert max(asked) <= run.ended_at.timestamp() + 0.001, f"{run.node} asked again after its run was committed"
    committed = sum(run.calls for run in runs)
    asked_for = sum(map(len, service.asked_at.values()))
    return f"{asked_for} calls for {committed} committed, {deaths} starts without an end"


def _ids(conn: Any, column: Any) -> list[str]:
    return list(conn.execute(select(column)).scalars())
