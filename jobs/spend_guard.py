"""What a case asks for and pays, and whether it may ask for its next draw batch.

The tables, which are read a few times a second, know a node's calls only once its run is committed. This module adds
what its process has asked for since, so that a batch exceeds its cap by about one draw batch.
"""

import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from jobs.agents import Agents
from jobs.process import system_clock
from screening.pipeline.draws import Bill, Draw, DrawRequest, DrawSource, LabelDistribution, SamplerError, Usage
from screening.pipeline.engine import DistributionSource
from storage.batches import batch_state
from storage.batches.batch_state import STOPPED, BatchState, Caps, Standing
from storage.batches.counts import Totals
from storage.batches.screenings import CaseForScreening
from storage.database import Database
from storage.site.health import live_workers

FRESH_S = 0.2
"""Seconds within which a pause, a cancellation or a reached cap is noticed."""
CALLS_A_CASE = 10
"""What a case is taken to need before one of its batch has ended."""


T = TypeVar("T")


class Withdrawn(Exception):
    """The batch was paused, cancelled or capped, or another start was first: the case stays as it is."""


@dataclass(slots=True, eq=False)
class CaseSpend:
    """What one case has asked for since its last committed run: ``asked`` in the draw batch under way, ``drawn``
    before; ``stored`` are its calls in the tables. With ``all_requests`` those of what was broken off count too.
    """

    all_requests: bool = False
    asked: int = 0
    bill: Bill = field(default_factory=Bill)
    drawn: Totals = field(default_factory=Totals)
    stored: int = 0

    def ask(self, count: int, bill: Bill | None = None) -> Bill:
        """A draw batch begins; returns its bill, which is the one given if there is one."""
        self.asked, self.bill = count, bill or Bill()
        return self.bill

    def drew(self, calls: int, cost_usd: float | None) -> None:
        """The draw batch brought its draws; attempts of a whole one that brought none are lost."""
        lost = max(0, self.bill.requests - calls) if self.all_requests or calls >= self.asked else 0
        unpriced = calls if cost_usd is None else 0
        more = Totals(calls=calls, lost_calls=lost, unpriced_calls=unpriced, cost_usd=cost_usd or 0.0)
        self.drawn, self.asked, self.bill = self.drawn + more, 0, Bill()

    @property
    def lost_calls(self) -> int:
        """Calls that would be paid for nothing if the case's job ended now."""
        return self.drawn.calls + self.drawn.lost_calls + self.bill.requests

    @property
    def calls(self) -> int:
        """All that this process has made for the case; none before it begins."""
        return self.stored + self.drawn.calls + self.asked

    def still_needs(self, each: int) -> int:
        """Calls to its end, where a case takes about ``each``; one that took them and goes on is reckoned anew."""
        return each - self.calls % each


@dataclass(slots=True, kw_only=True)
class Metered:
    """The agents of one case: each draw batch is permitted, asked for and paid, one after the other."""

    agents: Agents
    case: CaseForScreening
    sampler: DrawSource
    spend: CaseSpend
    urgent: bool = False

    async def permit(self, calls: int) -> None:
        """Returns when a draw batch of so many calls may begin."""

    async def wait_for(self, request: DrawRequest, work: Awaitable[T], bill: Bill) -> T:
        """The result of this draw batch; its bill has what came in so far."""
        return await work

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        await self.permit(request.count)
        bill = self.spend.ask(request.count)
        draws = await self.wait_for(request, self.sampler.draw(self._with_bill(request, bill)), bill)
        self._pay(request, len(draws), sum((draw.usage for draw in draws), Usage()))
        return draws

    def distribution(self, request: DrawRequest) -> Awaitable[LabelDistribution] | None:
        """The node's whole distribution where its server gives one, as one call."""
        if not isinstance(self.sampler, DistributionSource):
            return None
        bill = Bill()
        found = self.sampler.distribution(self._with_bill(request, bill))
        return None if found is None else self._await_distribution(request, found, bill)

    async def _await_distribution(
        self, request: DrawRequest, found: Awaitable[LabelDistribution], bill: Bill
    ) -> LabelDistribution:
        await self.permit(1)
        self.spend.ask(1, bill)
        told = await self.wait_for(request, found, bill)
        self._pay(request, 1, told.usage)
        return told

    def _with_bill(self, request: DrawRequest, bill: Bill) -> DrawRequest:
        return replace(request, urgent=self.urgent, bill=bill)

    def _pay(self, request: DrawRequest, calls: int, usage: Usage) -> None:
        self.spend.drew(calls, self.agents.cost_usd(self.case.configuration, usage, request.node))


@dataclass(slots=True)
class _Account:
    """One batch: its open spends, and what was written to the tables since they were last read."""

    standing: Standing | None = None
    workers: int = 1
    looked_at: float = 0.0
    looking_since: float = float("-inf")
    spends: list[CaseSpend] = field(default_factory=list)
    settled: list[tuple[float, Totals]] = field(default_factory=list)


class SpendGuard:
    """Asked for every draw batch; remembers each batch's state for ``fresh_s`` seconds. Threads may share it."""

    def __init__(self, db: Database, *, fresh_s: float = FRESH_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._fresh_s = fresh_s
        self._clock = clock
        self._lock = threading.Lock()
        self._accounts: dict[str, _Account] = {}

    @contextmanager
    def spend(self, batch_id: str) -> Iterator[CaseSpend]:
        """A spend for one case of the batch, open within the block; by its end all of it must be in the tables."""
        spend = CaseSpend()
        with self._lock:
            self._accounts.setdefault(batch_id, _Account()).spends.append(spend)
        try:
            yield spend
        finally:
            self.settle(batch_id, spend)
            with self._lock:
                account = self._accounts[batch_id]
                account.spends.remove(spend)
                if not account.spends:
                    del self._accounts[batch_id]

    def settle(self, batch_id: str, spend: CaseSpend) -> None:
        """Clear the spend: all that is on it was written to the tables a moment ago."""
        with self._lock:
            written = spend.drawn + Totals(lost_calls=spend.bill.requests)
            self._accounts[batch_id].settled.append((self._clock(), written))
            spend.stored += spend.drawn.calls
            spend.asked, spend.bill, spend.drawn = 0, Bill(), Totals()

    def must_look(self, batch_id: str) -> bool:
        """Whether it is the caller's turn to read the tables."""
        now = self._clock()
        with self._lock:
            account = self._accounts[batch_id]
            others_turn = now - account.looking_since < self._fresh_s
            if account.standing is not None and now - account.looked_at < (1 + others_turn) * self._fresh_s:
                return False
            account.looking_since = now
            return True

    def look(self, batch_id: str) -> None:
        """Look at the tables again; blocking. Raises UnknownBatch."""
        begun = self._clock()
        standing = batch_state.standing(self._db, batch_id)
        workers = 1 if standing.caps == Caps() else self._count_workers()
        with self._lock:
            account = self._accounts[batch_id]
            account.standing, account.workers, account.looked_at = standing, workers, begun
            # What was written while we looked may be in what we saw: counted twice for a moment rather than not at all.
            account.settled = [(at, written) for at, written in account.settled if at > begun]

    def _count_workers(self) -> int:
        """How many workers share what is left: an embedded database has one."""
        if self._db.kind == "sqlite":
            return 1
        with self._db.read() as conn:
            return max(1, live_workers(conn, system_clock()))

    def is_cancelled(self, batch_id: str) -> bool:
        return self._standing(batch_id).state is BatchState.CANCELLED

    def admits(self, batch_id: str, spend: CaseSpend) -> bool:
        """Whether the case may ask for its next draw batch now, or waits: others of this process may still use up the
        cap. Withdrawn where it may not.

        A paused batch ends the nodes that have begun, as their draws are paid for; a cancelled or capped one does not.
        Where only calls of this process that are not in the tables yet make up the cap, a case that has drawn nothing
        waits for what becomes of them; one that has gives up, so that some case always goes on or ends. A case also
        waits while those before it may need what is left: a small cap is spent on a few cases that end.

        SamplerError, which pauses the batch, for a cap on cost that this process alone knows to be reached, for no call
        in the tables has a price: what gives up now is lost there at no cost, and so would be whatever followed.
        """
        standing, begun = self._standing(batch_id), spend.drawn.calls > 0
        reached = self._reached_cap(batch_id, standing)
        if standing.state is not BatchState.CANCELLED and (begun or standing.state is not BatchState.PAUSED):
            if reached is None:
                return self._leaves_enough(batch_id, standing, spend)
            if not begun and standing.state is not BatchState.CAPPED:
                return False
        alone = standing.state not in STOPPED and not self._sum_written(batch_id, standing).calls
        if alone and reached in ("max_cost", "cost_unknown"):
            raise SamplerError(reached, "The cap on cost came before the first price.", stops_batch=True)
        raise Withdrawn

    def _standing(self, batch_id: str) -> Standing:
        standing = self._accounts[batch_id].standing
        if standing is None:
            raise RuntimeError("look first")
        return standing

    def _reached_cap(self, batch_id: str, standing: Standing) -> str | None:
        if standing.caps == Caps():
            return None
        known, asked = self._sum_spent(batch_id, standing)
        return standing.caps.reached_cap(known) or _would_reach(standing.caps, known, asked)

    def _leaves_enough(self, batch_id: str, standing: Standing, spend: CaseSpend) -> bool:
        """Whether the caps leave what this case needs beside the begun cases before it, in every worker alike; for the
        first they always do. Before a begun case are those that this process took up earlier, before another all of
        them. Until a call's price stands in the tables a cap on cost leaves enough for the first case only.
        """
        if standing.caps == Caps():
            return True
        with self._lock:
            account = self._accounts[batch_id]
            spends = account.spends[: account.spends.index(spend)] if spend.calls else account.spends
            before = [one for one in spends if one.calls]
        if not before:
            return True
        if standing.caps.max_cost_usd is not None and not self._sum_written(batch_id, standing).calls:
            return False
        known, asked = self._sum_spent(batch_id, standing)
        each = max(1, round(known.calls / known.ended)) if known.ended else CALLS_A_CASE
        needed = sum(one.still_needs(each) for one in (*before, spend))
        return _would_reach(standing.caps, known, asked + account.workers * needed - 1) is None

    def _sum_written(self, batch_id: str, standing: Standing) -> Totals:
        with self._lock:
            return sum((written for _, written in self._accounts[batch_id].settled), standing.totals)

    def _sum_spent(self, batch_id: str, standing: Standing) -> tuple[Totals, int]:
        """What is drawn, in the tables or not yet, and how many calls are under way."""
        with self._lock:
            spends = list(self._accounts[batch_id].spends)
        asked = sum(max(spend.asked, spend.bill.requests) for spend in spends)
        return sum((spend.drawn for spend in spends), self._sum_written(batch_id, standing)), asked


def _would_reach(caps: Caps, known: Totals, more: int) -> str | None:
    """The cap that so many calls more reach, at the mean price or, before there is one, by their number alone."""
    reached = caps.reached_cap(replace(known, lost_calls=known.lost_calls + more))
    return None if reached == "cost_unknown" else reached
