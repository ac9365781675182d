"""One case's job: go on from the first node without a committed run, and commit what it ends as.

It may be started twice, on any machine, after any crash: runs and outcomes are idempotent inserts.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ParamSpec, TypeVar

from jobs.agents import Agents
from jobs.allowance import Allowance
from jobs.port import Clock
from screening.draws import Draw, DrawRequest, Sampler, SamplerError, encode_draws
from screening.guard import guard_for
from screening.labels import Outcome
from screening.screen import NodeRun, Reason, Screening, screen
from storage import live, screenings
from storage.configurations import Configurations
from storage.database import Database
from storage.screenings import CaseForScreening
from storage.settings_store import stopped
from storage.starting import Started, Suspect, start_case

MOST_STARTS = 3
"""Starts without an end after which a case goes to a human instead of killing another worker."""
ALONE_AFTER = 2
"""Starts without an end after which a case runs alone among its like: so a case that kills workers takes no
others with it, and those that were only in flight when it did are not blamed again."""

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)


class Withdrawn(Exception):
    """The batch was paused, cancelled or capped, or another start was first: the case stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreeningJob:
    """Everything a case's job needs; ``worker`` names the process in the records. Belongs to one event loop."""

    db: Database
    agents: Agents
    clock: Clock
    worker: str
    known: Configurations = field(default_factory=Configurations)
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    allowance: Allowance = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowance", Allowance(self.db))

    async def screen_case(self, case_id: str) -> None:
        """Bring one case to its outcome, or leave it pending with its error. Never raises for a case's own fault."""
        try:
            await self._screen_case(case_id, suspect_after=ALONE_AFTER)
        except Suspect:
            async with self.alone:
                await self._screen_case(case_id, suspect_after=None)

    async def _screen_case(self, case_id: str, suspect_after: int | None) -> None:
        try:
            started = await to_the_end(self._start, case_id, suspect_after)
            if started is not None:
                await self._keep_errors(*started)
        except asyncio.CancelledError:
            await to_the_end(screenings.record_withdrawal, self.db, case_id, self.clock())
            raise

    def _start(self, case_id: str, suspect_after: int | None) -> tuple[Started, bool] | None:
        """The begun case, and whether its batch allows calls; None where it has its outcome."""
        found = start_case(self.db, self.known, case_id, self.worker, self.clock(), suspect_after=suspect_after)
        return None if found is None else (found, self.allowance.allows(found.case.batch_id))

    async def _keep_errors(self, started: Started, allowed: bool) -> None:
        case = started.case
        try:
            await self._screen(started, allowed)
        except Withdrawn:
            await to_the_end(screenings.record_withdrawal, self.db, case.case_id, self.clock())
        except SamplerError as error:
            await self._keep_error(case, error.kind, str(error), stops_batch=error.stops_batch)
        except Exception as error:  # a bug must leave the case pending and visible, never decided
            log.error("case %s failed: %s", case.case_id, type(error).__name__)
            await self._keep_error(case, "internal_error", type(error).__name__, stops_batch=False)

    async def _screen(self, started: Started, allowed: bool) -> None:
        case = started.case
        if started.starts > MOST_STARTS:
            await to_the_end(self._conclude, case, _to_a_human(Reason.REPEATED_FAILURE))
            return
        if started.stopped:
            await to_the_end(self._conclude, case, _to_a_human(Reason.STOPPED))
            return
        progress = _NodeProgress(
            job=self,
            case=case,
            sampler=self.agents.sampler(case.configuration, case.seed),
            position=len(started.runs),
            started_at=self.clock(),
            allowed=allowed,
        )
        result = await screen(
            case.text,
            guard_for(case.flags),
            case.configuration.pipeline,
            progress,
            committed=started.runs,
            commit=progress.commit,
            progress=progress.wave,
        )
        await to_the_end(self._conclude, case, result)

    def _conclude(self, case: CaseForScreening, result: Screening) -> None:
        costs = [self.agents.cost_usd(case.configuration, run.usage) for run in result.runs]
        cost = None if any(one is None for one in costs) else sum(one or 0.0 for one in costs)
        if result.outcome is not Outcome.HUMAN_REVIEW and stopped(self.db):
            result = _to_a_human(Reason.STOPPED, result)
        screenings.commit_outcome(self.db, case.case_id, result, cost, case.configuration.version, self.clock())

    async def _keep_error(self, case: CaseForScreening, kind: str, message: str, *, stops_batch: bool) -> None:
        await to_the_end(
            screenings.record_error, self.db, case.case_id, kind, message, self.clock(), stops_batch=stops_batch
        )


@dataclass(slots=True, kw_only=True)
class _NodeProgress:
    """Keeps what a case has done so far: the live view after each wave, the run when its node ends.

    It stands before the sampler: a node begins only while its batch allows calls. What needs no further call is
    concluded even then.
    """

    job: ScreeningJob
    case: CaseForScreening
    sampler: Sampler
    position: int
    started_at: datetime
    allowed: bool
    codes: str = ""

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        if not self.allowed:
            raise Withdrawn
        return await self.sampler.draw(replace(request, urgent=self.case.interactive))

    async def wave(self, request: DrawRequest, draws: Sequence[Draw]) -> None:
        self.codes = encode_draws(draws) if request.first == 0 else self.codes + encode_draws(draws)
        if not self.case.interactive:
            return
        where = (self.case.case_id, request.node, request.variant)
        if not await to_the_end(live.update_live, self.job.db, *where, self.codes, self.job.clock()):
            raise Withdrawn  # nobody watches any more

    async def commit(self, run: NodeRun) -> None:
        if not await to_the_end(self._commit, run, self.job.clock()):
            raise Withdrawn

    def _commit(self, run: NodeRun, ended_at: datetime) -> bool:
        """Whether this run is the one that stands; False when another start was first with a different one."""
        db, case_id = self.job.db, self.case.case_id
        cost = self.job.agents.cost_usd(self.case.configuration, run.usage)
        ours = screenings.commit_run(db, case_id, self.position, run, cost, self.started_at, ended_at)
        self.position += 1
        self.started_at = ended_at
        self.allowed = self.job.allowance.allows(self.case.batch_id)
        return ours


async def to_the_end(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do blocking work in a thread; a cancellation waits until it is done, so that nothing is noted after it."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _to_a_human(reason: Reason, result: Screening | None = None) -> Screening:
    runs = result.runs if result else ()
    node = result.node if result else None
    return Screening(outcome=Outcome.HUMAN_REVIEW, node=node, reason=reason, runs=runs, delta=None)
