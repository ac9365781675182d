"""The cases of overnight batches: each is decided by the very steps that decide it live, as far as its answers lead."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from jobs.agents import Agents
from jobs.model_health import FirstAnswers
from jobs.patience import retry_in_thread
from jobs.port import Clock
from screening.models.batches import next_wave, rounds_left
from screening.pipeline.draws import TOO_LONG, Draw, DrawRequest, SamplerError, Usage
from screening.pipeline.engine import NodeRun, Reason, Screening, guard_for, screen, to_a_human
from storage.batches import overnight, screenings
from storage.batches.overnight import CaseAnswers, DrawWanted
from storage.batches.pending import record_error
from storage.batches.runs import EndedRun
from storage.batches.screenings import CaseForScreening, case_for_screening, committed_runs
from storage.database import Database, passing_fault

MOST_TRIES = 3
"""Failures of one request after which the case waits for a person."""
HALF = 0.5
"""The share of its list price that the service charges."""

T = TypeVar("T")
log = logging.getLogger(__name__)


class _DrawsMissing(Exception):
    """Raised when a case needs draws that have not come back yet."""

    def __init__(self, request: DrawRequest) -> None:
        super().__init__(request.node)
        self.request = request


@dataclass(frozen=True, slots=True)
class _KnownDraws:
    """The draws that came back, by number; what is missing is asked for in the next round."""

    answers: CaseAnswers

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        known = self.answers.in_order(request.node, request.variant)
        wave = known[request.first : request.first + request.count]
        if len(wave) == request.count:
            return wave
        failed = [kinds for key, kinds in self.answers.failures.items() if key[:2] == (request.node, request.variant)]
        if any(TOO_LONG in kinds for kinds in failed):
            raise SamplerError(TOO_LONG, "The text is too long for the model.")
        if failed and max(map(len, failed)) >= MOST_TRIES * (1 + self.answers.parked):
            kind = max(failed, key=len)[-1]
            raise SamplerError(kind, f"A request failed {MOST_TRIES} times in message batches.")
        raise _DrawsMissing(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What a case needs before its next step, and what came back for it so far."""

    case: CaseForScreening
    answers: CaseAnswers
    request: DrawRequest

    def next_draws(self, times: Sequence[int]) -> tuple[list[DrawWanted], int | None]:
        """The draws to ask for now, and the rounds left after that, about; None where ``times`` are too few to tell."""
        node, variant = self.request.node, self.request.variant
        have, known = len(self.answers.in_order(node, variant)), self.answers.draws.get((node, variant), {})
        least = self.request.first + self.request.count - have
        wave = next_wave(times, have, least, self.case.pipeline.node(node).rule.budget)
        left = rounds_left(times, have, least)
        wanted = [
            DrawWanted(case_id=self.case.case_id, node=node, variant=variant, number=number)
            for number in range(have, have + wave)
            if number not in known
        ]
        return wanted, None if left is None else left - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OvernightCases:
    """One process's deciding of overnight cases."""

    db: Database
    agents: Agents
    clock: Clock
    first: FirstAnswers = field(default_factory=FirstAnswers)

    async def decide(self, case_id: str) -> Needed | None:
        """The case as far as its answers lead: None when it has come to its end, else what it needs next.

        A case that fails is set aside with its error. SamplerError where the batch should stop; faults of the database
        that pass by themselves are raised.
        """
        return await self._guard(case_id, self._decide)

    async def give_to_a_person(self, case_id: str) -> None:
        """Leave the case to a person, because the stop button is pressed. Errors as in `decide`."""
        await self._guard(case_id, self._stop)

    async def _guard(self, case_id: str, work: Callable[[str], Awaitable[T]]) -> T | None:
        try:
            return await work(case_id)
        except SamplerError as error:
            if error.stops_batch:
                raise
            await self._leave(case_id, error.kind, str(error))
        except Exception as error:  # a bug must leave the case pending and visible, never decided
            if passing_fault(error) is not None:
                raise
            log.error("case %s failed: %s", case_id, type(error).__name__)
            await self._leave(case_id, "internal_error", type(error).__name__)
        return None

    async def _stop(self, case_id: str) -> None:
        if (case := await retry_in_thread(case_for_screening, self.db, case_id)) is not None:
            runs = await retry_in_thread(committed_runs, self.db, case_id)
            await retry_in_thread(self._conclude, case, to_a_human(Reason.STOPPED, runs))

    async def _decide(self, case_id: str) -> Needed | None:
        case = await retry_in_thread(case_for_screening, self.db, case_id)
        if case is None:
            return None
        if not await retry_in_thread(overnight.has_reference, self.db, case_id):
            raise SamplerError("no_reference", "It has no reference label: it is not sent this way.")
        answers = await retry_in_thread(overnight.answers_of, self.db, case_id)
        runs = await retry_in_thread(committed_runs, self.db, case_id)
        keeping = _RunStore(job=self, case=case, answers=answers, position=len(runs))
        try:
            found = await screen(
                case.text,
                guard_for(case.flags),
                case.pipeline,
                _KnownDraws(answers),
                committed=runs,
                commit=keeping.commit,
            )
        except _DrawsMissing as more:
            return Needed(case=case, answers=answers, request=more.request)
        await retry_in_thread(self._conclude, case, found)
        self.first.look_at(case.batch_id, found)  # the case has its outcome: what is wrong is wrong with the batch
        return None

    async def _leave(self, case_id: str, kind: str, message: str) -> None:
        """Set the case aside with what failed, until somebody asks for a retry."""
        await retry_in_thread(record_error, self.db, case_id, kind, message, self.clock())

    def _conclude(self, case: CaseForScreening, found: Screening) -> None:
        kept = overnight.costs_of(self.db, case.case_id)
        cost = None if None in kept else sum(one or 0.0 for one in kept)
        screenings.commit_outcome(self.db, case.case_id, found, cost, case.configuration.version, self.clock())

    def cost_of(self, case: CaseForScreening, usage: Usage, node: str) -> float | None:
        """The cost at half the list price."""
        cost = self.agents.cost_usd(case.configuration, usage, node)
        return None if cost is None else HALF * cost


@dataclass(slots=True, kw_only=True)
class _RunStore:
    """Commits a case's runs; a run costs what all answers bought for it cost, needed or not."""

    job: OvernightCases
    case: CaseForScreening
    answers: CaseAnswers
    position: int

    async def commit(self, run: NodeRun) -> None:
        bought = self.answers.draws.get((run.node, run.variant), {}).values()
        cost = self.job.cost_of(self.case, sum((draw.usage for draw in bought), Usage()), run.node)
        now = self.job.clock()
        ended = EndedRun(position=self.position, run=run, cost_usd=cost, started_at=now, ended_at=now)
        if not await retry_in_thread(screenings.commit_run, self.job.db, self.case.case_id, ended):
            raise SamplerError("run_lost", "Another start was first.")
        self.position += 1
