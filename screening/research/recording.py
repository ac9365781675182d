"""Recording draws for an experiment: what no condition has asked for yet is fetched once, nothing is asked twice."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from screening.engine.draws import (
    Draw,
    DrawRequest,
    DrawSource,
    SamplerError,
    ScreenedText,
    Usage,
    decode_draws,
    encode_draws,
)
from screening.engine.screen import Guard, screen
from screening.labels import Label
from screening.research.conditions import Condition
from screening.research.replay import Record, replay

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
    """One case's draws at one node so far, and the tokens and dollars they took; None where those are unknown."""

    codes: str = ""
    tokens: int | None = None
    cost_usd: float | None = None

    def add(self, draws: Sequence[Draw], price: Price | None = None) -> None:
        """Append draws; one part of unknown cost makes the whole cost unknown."""
        usage = reduce(lambda total, draw: total + draw.usage, draws, Usage())
        spent, cost = usage.input_tokens + usage.output_tokens, price(usage) if price else None
        unknown = cost is None or (self.codes and self.cost_usd is None)
        self.cost_usd = None if unknown else (self.cost_usd or 0.0) + (cost or 0.0)
        self.codes += encode_draws(draws)
        self.tokens = (self.tokens or 0) + spent if spent or self.tokens else None


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


@dataclass(frozen=True, slots=True)
class _Extending:
    """A sampler of one case: recorded draws first, and the rest asked for and recorded. Offline it asks nobody."""

    book: DrawBook
    case: int
    live: DrawSource | None
    price: Price | None = None

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        kept = self.book.of(self.case, request.node)
        missing = request.first + request.count - len(kept.codes)
        if missing > 0:
            if self.live is None:
                raise SamplerError("not_recorded", f"{missing} more draws are needed at {request.node}")
            asked = DrawRequest(node=request.node, text=request.text, first=len(kept.codes), count=missing)
            kept.add(await self.live.draw(asked), self.price)
        return decode_draws(kept.codes)[request.first : request.first + request.count]


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
) -> Recorded:
    """Fetch the draws that these conditions still need, for all items; what is recorded is not asked again.

    Each case is run live on the conditions that its record does not settle, the costliest first, so that a wave
    asked for one condition serves the others. A case whose sampler gives up stays short of draws and is counted;
    an error that makes going on pointless ends the pass.
    """
    before, failed = book.draws, dict[str, int]()
    gate, stop = asyncio.Semaphore(concurrency), asyncio.Event()

    async def run_case(case: int, pending: Sequence[Condition]) -> None:
        async with gate:
            for condition in pending if not stop.is_set() else ():
                try:
                    await screen(items[case].text, Guard(), condition.pipeline, _Extending(book, case, sampler, price))
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
    return sum(node.rule.rule().budget for node in condition.pipeline.nodes)


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
