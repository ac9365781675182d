"""Whatever fails, wherever it fails: nothing that was not safe ends safe, and every case is accounted for.

The real job on a real database. Faults come in through the port alone: a sampler that fails before the one it wraps,
tasks that are really cancelled. What befalls a database is in the table of faults.
"""

import asyncio
from contextlib import closing
from typing import Any

import pytest

from jobs.agents import Agents
from jobs.process import system_clock
from screening.labels import Outcome
from screening.pipeline.draws import Answer, SamplerError, unusable
from screening.review.policy import LOCAL_USER, SYSTEM
from screening.settings import Settings
from storage.batches.batch_state import BatchState
from storage.batches.batches import progress, resume, retry_failed
from storage.batches.pending import pending_cases
from storage.database import Database
from tests.jobs.running import agents, batch, job_of
from tests.storage.batch_of import NOW, results

MANY_CALLS = ("I want to die.", "Our dog died and the house is so quiet now.")
"""Texts that pass through several nodes."""
TEXTS = (*MANY_CALLS, "We walked the dog by the river.")
MOST_PASSES = 8
"""A case whose every attempt was broken off goes to a human after a few; more passes than this are never needed."""
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
}


class Failing(Agents):
    """The simulated agents, and before their sampler one that fails in this way at this call."""

    task: asyncio.Task[Any]

    def __init__(self, fault, at):
        super().__init__(Settings(_env_file=None, sampler="simulated"))
        self.fault, self.at, self.calls = fault, at, 0

    def sampler(self, configuration, seed):
        self.behind = super().sampler(configuration, seed)
        return self

    async def draw(self, request):
        draws = await self.behind.draw(request)
        self.calls += 1
        if self.calls - 1 != self.at:
            return draws
        if self.fault == ENDED:
            asyncio.get_running_loop().call_soon_threadsafe(self.task.cancel)
        fault = FAULTS[self.fault]
        if isinstance(fault, Exception):
            raise fault
        return fault(draws)


def outcomes(db, batch_id):
    """Outcome or "pending" by text, each of them once."""
    found = {result.row: str(result.outcome) for result in results(db, SYSTEM.at(NOW), batch_id)}
    assert len(found) == progress(db, batch_id).accepted
    return found


async def one_pass(db, made_of):
    """Start every pending case once, one after the other, each as a task that may be cancelled."""
    job = job_of(db, made_of)
    for case_id in pending_cases(db, 100):
        made_of.task = asyncio.ensure_future(job.screen_case(case_id))
        await asyncio.gather(made_of.task, return_exceptions=True)


def retried(db, batch_id):
    """What becomes of all when a person does what is to be done once the fault is gone."""
    for _ in range(MOST_PASSES):
        if progress(db, batch_id).state is BatchState.PAUSED:
            resume(db, LOCAL_USER.at(system_clock()), batch_id)
        retry_failed(db, LOCAL_USER.at(system_clock()), batch_id)
        asyncio.run(one_pass(db, agents()))
        if progress(db, batch_id).pending == 0:
            return outcomes(db, batch_id)
    raise AssertionError("cases stay pending though nothing fails any more")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the texts end as when nothing fails; there is every outcome among them."""
    with closing(Database(f"sqlite:///{tmp_path_factory.mktemp('undisturbed')}/all.db")) as db:
        db.prepare()
        found = retried(db, batch(db, TEXTS))
    assert {str(outcome) for outcome in Outcome} == set(found.values())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_anywhere_makes_a_case_safe_and_a_retry_settles_all(sqlite_url, undisturbed, fault):
    """The fault comes at one call, then at the next, to the last: each case ends as without it or with a human."""
    with closing(Database(sqlite_url, repeatable=True)) as db:
        for at in range(1_000):
            batch_id, failing = batch(db, MANY_CALLS), Failing(fault, at)
            asyncio.run(one_pass(db, failing))
            for row, outcome in outcomes(db, batch_id).items():
                assert outcome in {undisturbed[row], str(Outcome.HUMAN_REVIEW), "pending"}
            for row, outcome in retried(db, batch_id).items():
                assert outcome in {undisturbed[row], str(Outcome.HUMAN_REVIEW)}
            if failing.calls <= at:
                break
    assert at > 2 * len(MANY_CALLS)
