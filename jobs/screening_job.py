"""One case's job: go on from the first node without a committed run, and commit what it ends as.

It may be started twice, on any machine, after any crash: runs and outcomes are idempotent inserts.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.agents import Agents
from jobs.port import Clock
from screening.draws import Draw, DrawRequest, SamplerError, encode_draws
from screening.guard import guard_for
from screening.labels import Outcome
from screening.screen import NodeRun, Reason, Screening, screen
from storage import live, screenings
from storage.database import Database
from storage.screenings import CaseForScreening
from storage.settings_store import stopped

MOST_STARTS = 3
"""Starts without an end after which a case goes to a human instead of killing another worker."""

log = logging.getLogger(__name__)


class Withdrawn(Exception):
    """The batch was paused, cancelled or capped, or another start was first: the case stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreeningJob:
    """Everything a case's job needs; ``worker`` names the process in the records."""

    db: Database
    agents: Agents
    clock: Clock
    worker: str

    async def screen_case(self, case_id: str) -> None:
        """Bring one case to its outcome, or leave it pending with its error. Never raises for a case's own fault."""
        case = await asyncio.to_thread(screenings.case_for_screening, self.db, case_id)
        if case is None:
            return
        starts = await asyncio.to_thread(screenings.record_start, self.db, case_id, self.worker, self.clock())
        try:
            await self._screen(case, starts)
        except Withdrawn:
            await asyncio.to_thread(screenings.record_withdrawal, self.db, case_id, self.clock())
        except SamplerError as error:
            await self._keep_error(case, error.kind, str(error), stops_batch=error.stops_batch)
        except asyncio.CancelledError:
            screenings.record_withdrawal(self.db, case_id, self.clock())
            raise
        except Exception as error:  # a bug must leave the case pending and visible, never decided
            log.error("case %s failed: %s", case_id, type(error).__name__)
            await self._keep_error(case, "internal_error", type(error).__name__, stops_batch=False)

    async def _screen(self, case: CaseForScreening, starts: int) -> None:
        if starts > MOST_STARTS:
            await self._conclude(case, _to_a_human(Reason.REPEATED_FAILURE))
            return
        if await asyncio.to_thread(stopped, self.db):
            await self._conclude(case, _to_a_human(Reason.STOPPED))
            return
        sampler = self.agents.sampler(case.configuration, case.seed)
        committed = await asyncio.to_thread(screenings.committed_runs, self.db, case.case_id)
        progress = _NodeProgress(job=self, case=case, position=len(committed), started_at=self.clock())
        result = await screen(
            case.text,
            guard_for(case.flags),
            case.configuration.pipeline,
            sampler,
            committed=committed,
            commit=progress.commit,
            progress=progress.wave,
        )
        await self._conclude(case, result)

    async def _conclude(self, case: CaseForScreening, result: Screening) -> None:
        costs = [self.agents.cost_usd(case.configuration, run.usage) for run in result.runs]
        cost = None if any(one is None for one in costs) else sum(one or 0.0 for one in costs)
        if await asyncio.to_thread(stopped, self.db) and result.outcome is not Outcome.HUMAN_REVIEW:
            result = _to_a_human(Reason.STOPPED, result)
        await asyncio.to_thread(
            screenings.commit_outcome, self.db, case.case_id, result, cost, case.configuration.version, self.clock()
        )

    async def _keep_error(self, case: CaseForScreening, kind: str, message: str, *, stops_batch: bool) -> None:
        await asyncio.to_thread(
            screenings.record_error, self.db, case.case_id, kind, message, self.clock(), stops_batch=stops_batch
        )


@dataclass(slots=True, kw_only=True)
class _NodeProgress:
    """Keeps what a case has done so far: the live view after each wave, the run when its node ends."""

    job: ScreeningJob
    case: CaseForScreening
    position: int
    started_at: datetime
    codes: str = ""

    async def wave(self, request: DrawRequest, draws: Sequence[Draw]) -> None:
        self.codes = encode_draws(draws) if request.first == 0 else self.codes + encode_draws(draws)
        if self.case.interactive:
            await asyncio.to_thread(
                live.update_live,
                self.job.db,
                self.case.case_id,
                request.node,
                request.variant,
                self.codes,
                self.job.clock(),
            )

    async def commit(self, run: NodeRun) -> None:
        ended_at = self.job.clock()
        cost = self.job.agents.cost_usd(self.case.configuration, run.usage)
        ours = await asyncio.to_thread(
            screenings.commit_run,
            self.job.db,
            self.case.case_id,
            self.position,
            run,
            cost,
            self.started_at,
            ended_at,
        )
        self.position += 1
        self.started_at = ended_at
        if not ours:  # another start committed this node first: its run stands, and the next start goes on from it
            raise Withdrawn
        if not await asyncio.to_thread(screenings.may_continue, self.job.db, self.case.case_id):
            raise Withdrawn


def _to_a_human(reason: Reason, result: Screening | None = None) -> Screening:
    runs = result.runs if result else ()
    node = result.node if result else None
    return Screening(outcome=Outcome.HUMAN_REVIEW, node=node, reason=reason, runs=runs, delta=None)
