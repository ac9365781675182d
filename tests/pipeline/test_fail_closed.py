"""Whatever fails, wherever it fails: nothing that was not safe ends safe, and every case is accounted for.

The real job on a real database. Faults come in through the ports alone: a sampler that fails before the one it wraps,
a database whose answer to a commit is lost, tasks that are really cancelled. What else befalls a database is in the
table of faults.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from jobs.agents import Agents
from jobs.intake import BatchRequest, open_batch, receiver
from jobs.process import system_clock
from jobs.screening_job import ScreeningJob
from screening.datasets.rows import NewCase
from screening.labels import Outcome
from screening.pipeline.config import preset
from screening.pipeline.draws import Answer, Draw, DrawRequest, DrawSource, SamplerError, unusable
from screening.review.actors import LOCAL_USER, SYSTEM
from screening.settings import Settings
from storage.batches.batch_state import BatchState
from storage.batches.batches import progress, resume, retry_failed
from storage.batches.configurations import Configuration
from storage.batches.intake import add_rows, close_intake
from storage.batches.pending import pending_cases
from storage.batches.results import results
from storage.database import Database
from tests.storage.batch_of import NOW

SITE = Settings(_env_file=None, sampler="simulated", audit_rate=0.3)  # type: ignore[call-arg]
TEXTS = {1: "We walked the dog by the river.", 2: "I want to die.", 3: "Our dog died and the house is so quiet now."}
MANY_CALLS = (2, 3)
"""Rows that pass through several nodes."""
MOST_PASSES = 8
"""A case whose every attempt was broken off goes to a human after a few; more passes than this are never needed."""
LOST = "the commit succeeds and its answer is lost"
ENDED = "the process is told to end"
FAULTS: dict[str, Any] = {
    "the service fails for one case": SamplerError("server_error", "The service failed."),
    "the service fails for all": SamplerError("spend_cap", "The service refuses.", stops_batch=True),
    "an exception nobody thought of": RecursionError("a bug"),
    "a timeout of the event loop": TimeoutError(),
    "one draw too few": lambda draws: draws[:-1],
    "one draw too many": lambda draws: [*draws, draws[0]],
    "no draws at all": lambda _draws: None,
    "draws that are no draws": lambda draws: ["safe"] * len(draws),
    "answers that are no label": lambda draws: [unusable(Answer.REFUSAL, "I cannot help")] * len(draws),
    ENDED: lambda draws: draws,
    LOST: ConnectionResetError("the answer to the commit was lost"),
}


@dataclass(kw_only=True)
class Plan:
    """Which fault comes, and at which call, of the sampler or of the database."""

    fault: str
    at: int
    task: "asyncio.Task[Any] | None" = None
    calls: int = 0

    def is_due(self) -> bool:
        """Whether this call, which is counted, is the one."""
        self.calls += 1
        return self.calls - 1 == self.at


@dataclass(frozen=True, kw_only=True)
class FailingSampler:
    """A sampler in front of another."""

    behind: DrawSource
    plan: Plan

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        """What the one behind answers, unless something is due to fail."""
        draws = await self.behind.draw(request)
        if self.plan.fault == LOST or not self.plan.is_due():
            return draws
        if self.plan.fault == ENDED and self.plan.task is not None:
            asyncio.get_running_loop().call_soon_threadsafe(self.plan.task.cancel)
        fault = FAULTS[self.plan.fault]
        if isinstance(fault, Exception):
            raise fault
        given: Sequence[Draw] = fault(draws)
        return given


class FailingAgents(Agents):
    """The site's agents, their sampler failing as planned."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(SITE)
        self._plan = plan

    def sampler(self, configuration: Configuration, seed: int) -> DrawSource:
        """The real one behind one that fails."""
        return FailingSampler(behind=super().sampler(configuration, seed), plan=self._plan)


class LosingDatabase(Database):
    """A real database of which the answer to one commit is lost."""

    plan: Plan

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction, if the connection holds to its end."""
        with super().write() as connection:
            yield connection
        if self.plan.fault == LOST and self.plan.is_due():
            raise FAULTS[LOST]


def new_batch(db: Database, rows: Sequence[int]) -> str:
    """A closed batch of these rows of `TEXTS`, nothing of it screened."""
    request = BatchRequest(name=f"{uuid4()}.csv", pipeline=preset("recommended"))
    batch_id = open_batch(db, LOCAL_USER, request, SITE, Agents(SITE), system_clock)
    take = receiver(SITE)
    cases = [NewCase(row=row, external_id=str(row), text=take(TEXTS[row])) for row in rows]
    add_rows(db, batch_id, cases, system_clock())
    close_intake(db, LOCAL_USER.at(system_clock()), batch_id)
    return batch_id


def outcomes(db: Database, batch_id: str) -> dict[int, str]:
    """Outcome or "pending" by row; and that all rows add up."""
    found = {result.row: str(result.outcome) for result in results(db, SYSTEM.at(NOW), batch_id)}
    sums = progress(db, batch_id)
    ended = {Outcome.SAFE: sums.safe, Outcome.UNSAFE: sums.unsafe, Outcome.HUMAN_REVIEW: sums.human_review}
    assert len(found) == sums.accepted
    assert {**ended, "pending": sums.pending} == {
        name: list(found.values()).count(str(name)) for name in (*ended, "pending")
    }
    return found


async def one_pass(db: Database, job: ScreeningJob, plan: Plan | None = None) -> None:
    """Start every pending case once, one after the other, each as a task that may be cancelled."""
    for case_id in pending_cases(db, 100):
        task = asyncio.ensure_future(job.screen_case(case_id))
        if plan is not None:
            plan.task = task
        await asyncio.gather(task, return_exceptions=True)


def retried(db: Database, batch_id: str) -> dict[int, str]:
    """What becomes of all when a person does what is to be done once the fault is gone."""
    job = ScreeningJob(db=db, agents=Agents(SITE), clock=system_clock, worker="sound")
    for _ in range(MOST_PASSES):
        if progress(db, batch_id).state is BatchState.PAUSED:
            resume(db, LOCAL_USER.at(system_clock()), batch_id)
        retry_failed(db, LOCAL_USER.at(system_clock()), batch_id)
        asyncio.run(one_pass(db, job))
        if progress(db, batch_id).pending == 0:
            return outcomes(db, batch_id)
    raise AssertionError("cases stay pending though nothing fails any more")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What the texts end as when nothing fails; there is every outcome among them."""
    with closing(Database(f"sqlite:///{tmp_path_factory.mktemp('undisturbed')}/all.db")) as db:
        db.prepare()
        found = retried(db, new_batch(db, list(TEXTS)))
    assert {str(outcome) for outcome in Outcome} == set(found.values())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_anywhere_makes_a_case_safe_and_a_retry_settles_all(
    sqlite_url: str, undisturbed: dict[int, str], fault: str
) -> None:
    """The fault comes at one call, then at the next, to the last: each case ends as without it or with a human."""
    with closing(Database(sqlite_url, repeatable=True)) as db, closing(LosingDatabase(sqlite_url)) as losing:
        for at in range(1_000):
            batch_id, plan = new_batch(db, MANY_CALLS), Plan(fault=fault, at=at)
            losing.plan = plan
            job = ScreeningJob(db=losing, agents=FailingAgents(plan), clock=system_clock, worker="failing")
            asyncio.run(one_pass(db, job, plan))
            for row, outcome in outcomes(db, batch_id).items():
                assert outcome in {undisturbed[row], str(Outcome.HUMAN_REVIEW), "pending"}
            for row, outcome in retried(db, batch_id).items():
                assert outcome in {undisturbed[row], str(Outcome.HUMAN_REVIEW)}
            if plan.calls <= at:
                break
    assert at > 2 * len(MANY_CALLS)
