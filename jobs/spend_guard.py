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

_UNREAD = Standing(state=BatchState.PAUSED, totals=Totals(), failed=0, caps=Caps(), changed_at=None)
"""Before the tables were read nothing may begin."""

T = TypeVar("T")


class Withdrawn(Exception):
    """The batch was paused, cancelled or capped, or another start was first: the case stays as it is."""


@dataclass(slots=True, eq=False)
class CaseSpend:
    """What one case has asked for since its last committed run: ``asked`` in the draw batch under way, ``drawn``
    before; ``stored`` are its calls in the tables.
    """

    account: "Account"
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
        lost = max(0, self.bill.requests - calls) if calls >= self.asked else 0
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


class Account:
    """A batch or a comparison in this process: its ``standing`` when the tables were last read, the spends of its cases
    under way, and what these wrote since. Threads may share it.
    """

    def __init__(self, standing: Standing = _UNREAD, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.standing, self.spends = standing, list[CaseSpend]()
        self._workers, self._clock = 1, clock
        self._settled = list[tuple[float, Totals]]()
        self._looked_at = self._looking_since = float("-inf")
        self._lock = threading.RLock()

    @contextmanager
    def spend(self) -> Iterator[CaseSpend]:
        """A spend for one case, open within the block; by its end all of it must be in the tables."""
        spend = CaseSpend(self)
        with self._lock:
            self.spends.append(spend)
        try:
            yield spend
        finally:
            with self._lock:
                self.settle(spend)
                self.spends.remove(spend)

    def settle(self, spend: CaseSpend) -> None:
        """Clear the spend: all that is on it was written to the tables a moment ago."""
        with self._lock:
            self._settled.append((self._clock(), spend.drawn + Totals(lost_calls=spend.bill.requests)))
            spend.stored += spend.drawn.calls
            spend.asked, spend.bill, spend.drawn = 0, Bill(), Totals()

    def must_look(self) -> bool:
        """Whether it is the caller's turn to read the tables."""
        now = self._clock()
        with self._lock:
            others_turn = now - self._looking_since < FRESH_S
            if now - self._looked_at < (1 + others_turn) * FRESH_S:
                return False
            self._looking_since = now
            return True

    def look(self, db: Database, batch_id: str) -> None:
        """Look at the tables again; blocking. Raises UnknownBatch."""
        begun = self._clock()
        standing = batch_state.standing(db, batch_id)
        workers = 1
        if standing.caps != Caps() and db.kind != "sqlite":  # they share what is left: an embedded database has one
            with db.read() as conn:
                workers = max(1, live_workers(conn, system_clock()))
        with self._lock:
            self.standing, self._workers, self._looked_at = standing, workers, begun
            # What was written while we looked may be in what we saw: counted twice for a moment rather than not at all.
            self._settled = [(at, written) for at, written in self._settled if at > begun]

    def admits(self, spend: CaseSpend) -> bool:
        """Whether the case may ask for its next draw batch now, or waits: others of this process may still use up the
        cap. Withdrawn where it may not.

        A paused batch ends the nodes that have begun, as their draws are paid for; a cancelled or capped one does not.
        Where only calls of this process that are not in the tables yet make up the cap, a case that has drawn nothing
        waits for what becomes of them; one that has gives up, so that some case always goes on or ends. A case also
        waits while those before it may need what is left: a small cap is spent on a few cases that end.

        SamplerError, which pauses the batch, for a cap on cost that this process alone knows to be reached, for no call
        in the tables has a price: what gives up now is lost there at no cost, and so would be whatever followed.
        """
        with self._lock:
            state, begun, reached = self.standing.state, spend.drawn.calls > 0, self.reached_cap()
            if state is not BatchState.CANCELLED and (begun or state is not BatchState.PAUSED):
                if reached is None:
                    return self._leaves_enough(spend)
                if not begun and state is not BatchState.CAPPED:
                    return False
            if reached in ("max_cost", "cost_unknown") and state not in STOPPED and not self._written().calls:
                raise SamplerError(reached, "The cap on cost came before the first price.", stops_batch=True)
            raise Withdrawn

    def reached_cap(self) -> str | None:
        """The cap that is reached by what was used, calls under way included."""
        if self.standing.caps == Caps():
            return None
        with self._lock:
            known, asked = self._spent()
            return self.standing.caps.reached_cap(known) or self._would_reach(known, asked)

    def _leaves_enough(self, spend: CaseSpend) -> bool:
        """Whether the caps leave what this case needs beside the begun cases before it, in every worker alike; for the
        first they always do. Before a begun case are those that this process took up earlier, before another all of
        them. Until a call's price stands in the tables a cap on cost leaves enough for the first case only.
        """
        earlier = self.spends[: self.spends.index(spend)] if spend.calls else self.spends
        before = [one for one in earlier if one.calls]
        if self.standing.caps == Caps() or not before:
            return True
        if self.standing.caps.max_cost_usd is not None and not self._written().calls:
            return False
        known, asked = self._spent()
        each = max(1, round(known.calls / known.ended)) if known.ended else CALLS_A_CASE
        needed = sum(one.still_needs(each) for one in (*before, spend))
        return self._would_reach(known, asked + self._workers * needed - 1) is None

    def _written(self) -> Totals:
        return sum((written for _, written in self._settled), self.standing.totals)

    def _spent(self) -> tuple[Totals, int]:
        """What is drawn, in the tables or not yet, and how many calls are under way."""
        asked = sum(max(spend.asked, spend.bill.requests) for spend in self.spends)
        return sum((spend.drawn for spend in self.spends), self._written()), asked

    def _would_reach(self, known: Totals, more: int) -> str | None:
        """The cap that so many calls more reach, at the mean price or, before there is one, by their number alone."""
        reached = self.standing.caps.reached_cap(replace(known, lost_calls=known.lost_calls + more))
        return None if reached == "cost_unknown" else reached
