"""Recording draws for an experiment: what no condition has asked for yet is fetched once, nothing is asked twice.

They are kept as JSON lines, one case and node a line, so that an experiment can be repeated offline. While it is
recorded each answer is appended as it comes, with its number (``at``); at the end the file is written anew.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from screening.evaluation.experiments import SUICIDE_WATCH, Record, node_record, replay
from screening.evaluation.metrics import NONE, Metrics, Told, reference_codes
from screening.labels import Label
from screening.pipeline.config import PipelineConfig
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
    """One text of a data set; its group is such as a subreddit."""

    id: str
    text: ScreenedText
    reference: Label | None = None
    group: str | None = None


@dataclass(slots=True, kw_only=True)
class NodeDraws:
    """One case's draws at one node so far, and the tokens and dollars they took, None where unknown. ``ahead`` are
    answers by their number that came before one with a lower number did, and are taken in after it.
    """

    codes: str = ""
    tokens: int | None = None
    cost_usd: float | None = None
    ahead: "dict[int, NodeDraws]" = field(default_factory=dict)

    @classmethod
    def of(cls, draw: Draw, price: Price | None) -> "NodeDraws":
        spent, cost = draw.usage.input_tokens + draw.usage.output_tokens, price(draw.usage) if price else None
        return cls(codes=encode_draws([draw]), tokens=spent or None, cost_usd=cost)

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
    """All draws of an experiment by item (its place in the data set) and node. It grows at the end and only there."""

    items: Sequence[Item]
    nodes: dict[tuple[int, str], NodeDraws] = field(default_factory=dict)

    def of(self, case: int, node: str) -> NodeDraws:
        return self.nodes.setdefault((case, node), NodeDraws())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({node for _, node in self.nodes}))

    @property
    def draws(self) -> int:
        return sum(len(each.codes) for each in self.nodes.values())

    def record(self) -> Record:
        nothing, nodes = NodeDraws(), {}
        for name in self.names:
            drawn = [self.nodes.get((case, name), nothing) for case in range(len(self.items))]
            tokens, costs = np.array([(each.tokens, each.cost_usd) for each in drawn], float).reshape(-1, 2).T
            nodes[name] = node_record([each.codes for each in drawn], tokens, costs)  # None is NaN
        references = reference_codes([item.reference for item in self.items])
        subset = np.array([item.group == SUICIDE_WATCH for item in self.items], bool)
        return Record(references=references, nodes=nodes, subset=subset)


def run_book(conditions: Sequence[PipelineConfig], book: DrawBook) -> tuple[tuple[Metrics, ...], tuple[Told, ...]]:
    """Each condition replayed: its metrics, and what it made of each case."""
    record = book.record()
    results = [record.measure(condition) for condition in conditions]
    return tuple(measured for measured, _ in results), tuple(told for _, told in results)


Keep = Callable[[int, str, int, NodeDraws], None]
"""What is told of every answer at once: its case, node and number, and the answer."""


@dataclass(slots=True, kw_only=True)
class Purse:
    """What a recording may spend. ``per_call`` is a cautious guess of one call's dollars until there is a mean."""

    most_usd: float = inf
    per_call: float = 0.0
    spent_usd: float = 0.0
    calls: int = 0
    _under_way: int = 0

    @contextmanager
    def set_aside(self, calls: int) -> Iterator[None]:
        """Money for a draw batch, as long as it is under way. SamplerError where it would not suffice."""
        if self.spent_usd + (self._under_way + calls) * self._each > self.most_usd:
            words = f"one more draw batch could cost more than {self.most_usd:.2f}"
            raise SamplerError("max_usd", words, stops_batch=True)
        self._under_way += calls
        try:
            yield
        finally:
            self._under_way -= calls

    def pay(self, cost_usd: float | None) -> None:
        """An answer came; one of unknown cost counts as much as the guess."""
        self.spent_usd += self._each if cost_usd is None else cost_usd
        self.calls += 1

    @property
    def _each(self) -> float:
        return max(self.per_call, self.spent_usd / self.calls if self.calls else 0.0)


@dataclass(frozen=True, slots=True)
class _Extending:
    """A sampler of one case: recorded draws first, and the rest asked for and recorded."""

    book: DrawBook
    case: int
    live: DrawSource
    purse: Purse
    price: Price | None = None
    keep: Keep | None = None

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        kept, end = self.book.of(self.case, request.node), request.first + request.count
        while len(kept.codes) < end:
            await self._ask(request, kept, min(end, *kept.ahead, end))
        return decode_draws(kept.codes)[request.first : end]

    async def _ask(self, request: DrawRequest, kept: NodeDraws, end: int) -> None:
        first = len(kept.codes)

        def took(place: int, draw: Draw) -> None:
            answer = NodeDraws.of(draw, self.price)
            self.purse.pay(answer.cost_usd)
            if self.keep:
                self.keep(self.case, request.node, first + place, answer)
            kept.keep(first + place, answer)

        bill = Bill(took=took)  # so that a draw batch that fails, or is stopped, loses none
        asked = replace(request, first=first, count=end - first, bill=bill, enough=None)
        with self.purse.set_aside(end - first):
            for place, draw in enumerate(await self.live.draw(asked)):
                bill.record_answer(place, draw)  # for a source that keeps no bill


async def record_draws(
    pipelines: Sequence[PipelineConfig],
    book: DrawBook,
    sampler: DrawSource,
    *,
    concurrency: int = 16,
    price: Price | None = None,
    keep: Keep | None = None,
    purse: Purse | None = None,
    after_case: Callable[[int, int], None] | None = None,
) -> tuple[int, dict[str, int]]:
    """Fetch the draws that these pipelines still need, for all items; what is recorded is not asked again. Returns the
    draws fetched, and how many cases remain short of draws by the kind of their error.

    Each case is run live on the pipelines that its record does not settle, the costliest first: its draws serve the
    others. An error that makes going on pointless ends the pass. ``keep`` is told each answer as it comes,
    ``after_case`` how many of how many cases are done; ``purse`` ends the pass before it costs too much.
    """
    before, failed, done = book.draws, Counter[str](), 0
    gate, stop, purse = asyncio.Semaphore(concurrency), asyncio.Event(), purse or Purse()

    async def run_case(case: int, pending: Sequence[PipelineConfig]) -> None:
        nonlocal done
        extending = _Extending(book, case, sampler, purse, price, keep)
        async with gate:
            try:
                for pipeline in pending if not stop.is_set() else ():
                    await screen(book.items[case].text, Guard(), pipeline, extending)
            except SamplerError as error:
                failed[error.kind] += 1
                if error.stops_batch:
                    stop.set()
        done += 1
        if after_case is not None:
            after_case(done, len(waiting))

    waiting = find_unsettled(pipelines, book)
    await asyncio.gather(*(run_case(case, needed) for case, needed in waiting.items()))
    return book.draws - before, failed


def find_unsettled(pipelines: Sequence[PipelineConfig], book: DrawBook) -> dict[int, list[PipelineConfig]]:
    """For each case that some pipeline cannot settle on the record: those pipelines, largest budget first."""
    record, waiting = book.record(), dict[int, list[PipelineConfig]]()
    budgets = [sum(node.rule.budget for node in pipeline.nodes) for pipeline in pipelines]
    for place in np.argsort(budgets, kind="stable")[::-1]:
        for case in np.flatnonzero(replay(pipelines[place], record).outcome == NONE).tolist():
            waiting.setdefault(case, []).append(pipelines[place])
    return waiting


async def fill_draws(nodes: Sequence[str], draws: int, book: DrawBook, sampler: DrawSource) -> int:
    """Bring every case to so many draws at each of these nodes, of agents that cost nothing; how many were fetched."""
    before, purse = book.draws, Purse()
    for case, item in enumerate(book.items):
        extending = _Extending(book, case, sampler, purse)
        for node in nodes:
            await extending.draw(DrawRequest(node=node, text=item.text, first=0, count=draws))
    return book.draws - before


class DrawLine(BaseModel):
    """An item's draws at a node as codes, with tokens and cost where known; with ``at`` one answer of this number."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    node: str
    draws: str
    tokens: int | None = Field(default=None, ge=0)
    cost_usd: float | None = Field(default=None, ge=0)
    at: int | None = Field(default=None, ge=0)

    @field_validator("draws")
    @classmethod
    def _codes(cls, draws: str) -> str:
        decode_draws(draws)
        return draws


def read_draws(lines: Iterable[str], items: Sequence[Item]) -> DrawBook:
    """Lines of other ids are passed over; ValueError for a line that is none or a repeat, and two items with one id."""
    book, places = DrawBook(items), {item.id: place for place, item in enumerate(items)}
    if len(places) != len(items):
        raise ValueError("two items share an id")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            read = DrawLine.model_validate_json(line)
        except ValidationError as problem:
            raise ValueError(f"line {number} is no record of draws: {problem.errors()[0]['msg']}") from None
        if read.id not in places:
            continue
        drawn = NodeDraws(codes=read.draws, tokens=read.tokens or None, cost_usd=read.cost_usd)
        if read.at is not None:
            if len(read.draws) != 1:
                raise ValueError(f"line {number} has a number (at) and {len(read.draws)} draws instead of one")
            book.of(places[read.id], read.node).keep(read.at, drawn)
        elif (places[read.id], read.node) in book.nodes:
            raise ValueError(f"line {number}: {read.node} stands twice for one id")
        else:
            book.nodes[places[read.id], read.node] = drawn
    return book


def draw_lines(book: DrawBook) -> Iterator[str]:
    for (case, node), drawn in sorted(book.nodes.items(), key=lambda each: each[0]):
        if drawn.codes:
            yield _line(book.items[case].id, node, drawn)
        for at, answer in sorted(drawn.ahead.items(), key=lambda each: each[0]):
            yield _line(book.items[case].id, node, answer, at)


def _line(identity: str, node: str, drawn: NodeDraws, at: int | None = None) -> str:
    line = DrawLine(id=identity, node=node, draws=drawn.codes, tokens=drawn.tokens, cost_usd=drawn.cost_usd, at=at)
    return line.model_dump_json(exclude={"at"} if at is None else None) + "\n"


@contextmanager
def growing_file(path: Path, book: DrawBook) -> Iterator[Keep]:
    """Appends every answer it is told to a file, before anything else happens, and writes it anew when all are there. A
    process that is killed leaves what it was answered, and at most half a last line, which `read_growing` passes over.
    """

    def rewrite() -> None:
        beside = path.with_name(f"{path.name}.new")  # the file is never without the whole book
        beside.write_text("".join(draw_lines(book)), encoding="utf-8")
        beside.replace(path)

    def keep(case: int, node: str, number: int, answer: NodeDraws) -> None:
        file.write(_line(book.items[case].id, node, answer, number))
        file.flush()

    rewrite()
    try:
        with path.open("a", encoding="utf-8") as file:
            yield keep
    finally:
        rewrite()


def read_growing(path: Path, items: Sequence[Item]) -> DrawBook:
    """The draws in a file that a recording may have been cut off in."""
    lines = path.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    return read_draws(lines if not lines or lines[-1].endswith("\n") else lines[:-1], items)
