"""Recording draws for an experiment: what no condition has asked for yet is fetched once, nothing is asked twice."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from screening.evaluation.conditions import Condition
from screening.evaluation.replay import Record, replay
from screening.labels import Label
from screening.pipeline.draws import (
    Bill,
    Draw,
    DrawRequest,
    DrawSource,
    SamplerError,
    ScreenedText,
    Usage,
    decode_draws,
    encode_draws,
)
from screening.pipeline.engine import Guard, screen

Price = Callable[[Usage], float | None]
"""Dollars for so many tokens; None where the price is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One text of a data set with its reference label, where it has one, and its group (such as a subreddit)."""

    id: str
    text: ScreenedText
    reference: Label | None = None
    group: str | None = None


@dataclass(slots=True, kw_only=True)
class NodeDraws:
    """One case's draws at one node so far, and the tokens and dollars they took; None where those are unknown.

    ``ahead`` are answers that came before one with a lower number did, by their number: paid for, and taken in as soon
    as those before them are there.
    """

    codes: str = ""
    tokens: int | None = None
    cost_usd: float | None = None
    ahead: "dict[int, NodeDraws]" = field(default_factory=dict)

    @classmethod
    def of(cls, draws: Sequence[Draw], price: Price | None = None) -> "NodeDraws":
        """These draws, with their tokens and what they cost at this price."""
        usage = reduce(lambda total, draw: total + draw.usage, draws, Usage())
        spent = usage.input_tokens + usage.output_tokens
        return cls(codes=encode_draws(draws), tokens=spent or None, cost_usd=price(usage) if price else None)

    def append(self, more: "NodeDraws") -> None:
        """Add draws at the end; one part of unknown cost makes the whole cost unknown."""
        unknown = more.cost_usd is None or (self.codes and self.cost_usd is None)
        self.cost_usd = None if unknown else (self.cost_usd or 0.0) + (more.cost_usd or 0.0)
        self.codes += more.codes
        self.tokens = (self.tokens or 0) + (more.tokens or 0) if more.tokens or self.tokens else None

    def keep(self, number: int, answer: "NodeDraws") -> None:
        """Take in one answer by its number, and those it was waited for; one that is known already changes nothing."""
        if number >= len(self.codes):
            self.ahead.setdefault(number, answer)
        while (following := self.ahead.pop(len(self.codes), None)) is not None:
            self.append(following)


@dataclass(slots=True)
class DrawBook:
    """All draws of an experiment by case (its place in the data set) and node. It grows at the end and only there."""

    cases: int
    nodes: dict[tuple[int, str], NodeDraws] = field(default_factory=dict)

    def of(self, case: int, node: str) -> NodeDraws:
        """The draws of this case at this node; empty ones where there are none yet."""
        return self.nodes.setdefault((case, node), NodeDraws())

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes that have been asked, in the order of their names."""
        return tuple(sorted({node for _, node in self.nodes}))

    @property
    def draws(self) -> int:
        """Draws recorded in all."""
        return sum(len(each.codes) for each in self.nodes.values())

    def record(self, cases: Sequence[int] | None = None) -> Record:
        """The draws in the form that is replayed, of all cases or of these."""
        chosen = range(self.cases) if cases is None else cases
        return Record.from_codes({node: [self._codes(case, node) for case in chosen] for node in self.names})

    def _codes(self, case: int, node: str) -> str:
        found = self.nodes.get((case, node))
        return found.codes if found else ""

    def cost_per_draw(self, node: str) -> list[float | None]:
        """Each case's mean dollars a draw at this node; None where they are unknown."""
        found = [self.nodes.get((case, node)) for case in range(self.cases)]
        return [
            each.cost_usd / len(each.codes) if each and each.cost_usd is not None and each.codes else None
            for each in found
        ]

    def tokens_per_draw(self, node: str) -> list[float | None]:
        """Each case's mean tokens a draw at this node; None where they are unknown."""
        found = [self.nodes.get((case, node)) for case in range(self.cases)]
        return [each.tokens / len(each.codes) if each and each.tokens and each.codes else None for each in found]


Keep = Callable[[int, str, int, NodeDraws], None]
"""What is told of every answer at once: its case, node and number, and the answer."""


@dataclass(slots=True, kw_only=True)
class Purse:
    """What a recording may spend, asked before each wave: what was spent, what is under way, and this wave at most.

    ``per_call`` is a cautious guess of one call's dollars until there is a mean.
    """

    most_usd: float
    per_call: float
    spent_usd: float = 0.0
    calls: int = 0
    _under_way: int = 0

    def begin(self, calls: int) -> None:
        """Set money aside for a wave. SamplerError where it would not suffice."""
        if self.spent_usd + (self._under_way + calls) * self._each > self.most_usd:
            raise SamplerError("max_usd", f"one more wave could cost more than {self.most_usd:.2f}", stops_batch=True)
        self._under_way += calls

    def end(self, calls: int) -> None:
        """A wave is over."""
        self._under_way -= calls

    def pay(self, cost_usd: float | None) -> None:
        """An answer came; one of unknown cost counts as much as the guess."""
        self.spent_usd += self._each if cost_usd is None else cost_usd
        self.calls += 1

    @property
    def _each(self) -> float:
        return max(self.per_call, self.spent_usd / self.calls if self.calls else 0.0)


@dataclass(slots=True)
class _Keeping(Bill):
    """A wave's bill that keeps every answer in the book as it comes: a wave that fails, or is stopped, loses none."""

    took: Callable[[int, Draw], None] = field(default=lambda _place, _draw: None)

    def record_answer(self, place: int, draw: Draw) -> None:
        if place not in self.answers:
            self.took(place, draw)
        self.answers[place] = draw


@dataclass(frozen=True, slots=True)
class _Extending:
    """A sampler of one case: recorded draws first, and the rest asked for and recorded. Offline it asks nobody."""

    book: DrawBook
    case: int
    live: DrawSource | None
    price: Price | None = None
    keep: Keep | None = None
    purse: Purse | None = None

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        kept, end = self.book.of(self.case, request.node), request.first + request.count
        while len(kept.codes) < end:
            if self.live is None:
                raise SamplerError("not_recorded", f"{end - len(kept.codes)} more draws are needed at {request.node}")
            await self._ask(self.live, request, kept, min(end, *kept.ahead, end))
        return decode_draws(kept.codes)[request.first : end]

    async def _ask(self, live: DrawSource, request: DrawRequest, kept: NodeDraws, end: int) -> None:
        first = len(kept.codes)

        def took(place: int, draw: Draw) -> None:
            answer = NodeDraws.of([draw], self.price)
            if self.purse:
                self.purse.pay(answer.cost_usd)
            if self.keep:
                self.keep(self.case, request.node, first + place, answer)
            kept.keep(first + place, answer)

        bill = _Keeping(took=took)
        if self.purse:
            self.purse.begin(end - first)
        try:
            asked = replace(request, first=first, count=end - first, bill=bill, enough=None)
            for place, draw in enumerate(await live.draw(asked)):
                bill.record_answer(place, draw)  # for a source that keeps no bill
        finally:
            if self.purse:
                self.purse.end(end - first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a pass of recording did: draws fetched, and the errors by kind of cases that remain short of draws."""

    fetched: int
    failed: Mapping[str, int]


async def record_draws(
    items: Sequence[Item],
    conditions: Sequence[Condition],
    book: DrawBook,
    sampler: DrawSource,
    *,
    concurrency: int = 16,
    price: Price | None = None,
    keep: Keep | None = None,
    purse: Purse | None = None,
    after_case: Callable[[int, int], None] | None = None,
) -> Recorded:
    """Fetch the draws that these conditions still need, for all items; what is recorded is not asked again.

    Each case is run live on the conditions that its record does not settle, the costliest first, so that a wave
    asked for one condition serves the others. A case whose sampler gives up stays short of draws and is counted;
    an error that makes going on pointless ends the pass. ``keep`` is told each answer as it comes, ``after_case`` how
    many of how many cases are done; ``purse`` ends the pass before it costs too much.
    """
    before, failed, done = book.draws, dict[str, int](), list[int]()
    gate, stop = asyncio.Semaphore(concurrency), asyncio.Event()

    async def run_case(case: int, pending: Sequence[Condition]) -> None:
        async with gate:
            await fetch(case, pending)
        done.append(case)
        if after_case is not None:
            after_case(len(done), len(waiting))

    async def fetch(case: int, pending: Sequence[Condition]) -> None:
        for condition in pending if not stop.is_set() else ():
            try:
                extending = _Extending(book, case, sampler, price, keep, purse)
                await screen(items[case].text, Guard(), condition.pipeline, extending)
            except SamplerError as error:
                failed[error.kind] = failed.get(error.kind, 0) + 1
                if error.stops_batch:
                    stop.set()
                return

    waiting = find_unsettled(conditions, book)
    await asyncio.gather(*(run_case(case, needed) for case, needed in waiting.items()))
    return Recorded(fetched=book.draws - before, failed=failed)


def find_unsettled(conditions: Sequence[Condition], book: DrawBook) -> dict[int, list[Condition]]:
    """For each case that some condition cannot settle on the record: those conditions, largest budget first."""
    record = book.record() if book.names else Record(cases=book.cases, nodes={})
    waiting: dict[int, list[Condition]] = {}
    for condition in sorted(conditions, key=_most_calls, reverse=True):
        for case in (~replay(condition.pipeline, record).settled).nonzero()[0]:
            waiting.setdefault(int(case), []).append(condition)
    return waiting


def _most_calls(condition: Condition) -> int:
    return sum(node.rule.budget for node in condition.pipeline.nodes)


async def fill_draws(
    items: Sequence[Item], nodes: Sequence[str], draws: int, book: DrawBook, sampler: DrawSource
) -> int:
    """Bring every case to at least so many draws at each of these nodes; returns how many were fetched.

    For agents whose draws cost nothing: any condition within this budget can then be replayed, whatever its routes.
    Raises SamplerError.
    """
    before = book.draws
    for case, item in enumerate(items):
        for node in nodes:
            await _Extending(book, case, sampler).draw(DrawRequest(node=node, text=item.text, first=0, count=draws))
    return book.draws - before
