"""A runner in this process, for as long as a test needs it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Table, func, select

from jobs.agents import Agents, describe_agents
from jobs.model_health import ModelHealth
from jobs.process import system_clock
from jobs.runner import LocalRunner, runner_for
from jobs.screening_job import ScreeningJob
from screening.datasets.rows import NewCase
from screening.labels import Label
from screening.pipeline.config import preset
from screening.pipeline.draws import Draw, DrawRequest, DrawSource, Usage
from screening.review.policy import LOCAL_USER, Acting
from screening.settings import Settings
from screening.text.received import receive
from storage.batches.batches import NewBatch, create_batch
from storage.batches.configurations import Configuration, save_configuration
from storage.batches.intake import add_rows, close_intake
from storage.database import Database
from storage.schema import batches, configurations, pending_cases
from tests.jobs.files import SENTENCES

PLACES = 8


def agents(latency_s: float = 0.0) -> Agents:
    """Simulated agents that take so long for each draw batch."""
    return Agents(Settings(_env_file=None, sampler="simulated", simulated_latency_s=latency_s))


def settings_of(url: str, **more: Any) -> Settings:
    usual = {"sampler": "anthropic", "anthropic_api_key": "k", "requests_per_minute": 100_000}
    return Settings(_env_file=None, anthropic_base_url=url, **usual | more)


class Watched(Agents):
    """The simulated agents at ``price`` a draw, with a note of what is asked. Draw batches that ``holds`` says end when
    `go` is set, and with what ``fails`` says.
    """

    def __init__(
        self,
        holds: Callable[[DrawRequest], bool] = lambda _: False,
        fails: Callable[[DrawRequest], Exception | None] = lambda _: None,
        price: float | None = 0.0,
    ) -> None:
        super().__init__(Settings(_env_file=None, sampler="simulated"))
        self.holds, self.fails, self.price = holds, fails, price
        self.asked: list[DrawRequest] = []
        self.broken_off, self.go = 0, asyncio.Event()

    def sampler(self, configuration: Configuration, seed: int) -> DrawSource:
        self.inner = super().sampler(configuration, seed)
        return self

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        self.asked.append(request)
        if request.bill is not None:
            request.bill.requests += request.count
        try:
            await (self.go.wait() if self.holds(request) else asyncio.sleep(0.01))
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        if (fault := self.fails(request)) is not None:
            raise fault
        return [replace(draw, usage=Usage(input_tokens=1)) for draw in await self.inner.draw(request)]

    def cost_usd(self, configuration: Configuration, usage: Usage, node: str | None = None) -> float | None:
        return None if self.price is None else self.price * usage.input_tokens

    @property
    def calls(self) -> int:
        return sum(request.count for request in self.asked)

    @property
    def nodes(self) -> set[str]:
        return {request.node for request in self.asked}


def batch(
    db: Database,
    texts: int | Sequence[str],
    *,
    made_of: Agents | None = None,
    configured: Configuration | None = None,
    reference: Label | None = None,
    unlabelled: int = 0,
    **more: Any,
) -> str:
    """A batch of these posts, or of so many, for simulated agents where nothing else is said; all but the first
    ``unlabelled`` have this reference label.
    """
    batch_id, now = open_batch_of(db, made_of, configured, **more)
    if isinstance(texts, int):
        texts = [f"{SENTENCES[row % 4]}, day {row}." for row in range(1, texts + 1)]
    posts = [NewCase(row=row, external_id=f"p{row}", text=receive(text)) for row, text in enumerate(texts, 1)]
    labelled = [replace(post, reference=reference) for post in posts[unlabelled:]]
    add_rows(db, batch_id, [*posts[:unlabelled], *labelled], now)
    close_intake(db, LOCAL_USER.at(now), batch_id)
    return batch_id


def open_batch_of(
    db: Database, made_of: Agents | None = None, configured: Configuration | None = None, **more: Any
) -> tuple[str, datetime]:
    """An empty batch for these agents, else simulated ones, and when it was made."""
    now, pipeline = datetime.now(UTC), preset("recommended")
    usual = Configuration(pipeline=pipeline, sampler=describe_agents((made_of or agents()).settings, pipeline))
    version = save_configuration(db, configured or usual, now)
    return create_batch(db, LOCAL_USER.at(now), NewBatch(name="posts", **more), version, seed=0), now


def began_under(db: Database, batch_id: str, **changes: Any) -> None:
    """Make it a batch that another version of the program began, with these parts of its configuration."""
    with db.write() as conn:
        body = conn.execute(select(configurations.c.body).join(batches).where(batches.c.id == batch_id)).scalar_one()
        row = {"version": "other", "body": body | changes, "created_at": datetime.now(UTC)}
        conn.execute(configurations.insert(), row)
        conn.execute(batches.update().where(batches.c.id == batch_id).values(configuration="other"))


def me() -> Acting:
    return LOCAL_USER.at(system_clock())


def job_of(db: Database, made_of: Agents, health: ModelHealth | None = None) -> ScreeningJob:
    """A worker's job with these agents; nothing is tried on the probes where no ``health`` is given."""
    return ScreeningJob(db=db, agents=made_of, clock=system_clock, worker="w", health=health)


def count(db: Database, table: Table, *where: ColumnElement[bool]) -> int:
    return db.value(select(func.count()).select_from(table).where(*where))


@asynccontextmanager
async def running(db: Database, made_of: Agents, *, worker: str = "w1") -> AsyncIterator[None]:
    """The database's runner at work; told to stop at the end."""
    job = ScreeningJob(db=db, agents=made_of, clock=system_clock, worker=worker)
    runner = runner_for(job, PLACES)
    task = asyncio.create_task(runner.run())
    try:
        yield
    finally:
        runner.stop()
        await task


async def until(condition: Callable[[], bool], within_s: float = 90.0) -> float:
    loop = asyncio.get_running_loop()
    started = loop.time()
    while not await asyncio.to_thread(condition):
        assert loop.time() - started < within_s, "it did not happen in time"
        await asyncio.sleep(0.05)
    return loop.time() - started


def unended(db: Database) -> int:
    return db.value(select(func.coalesce(func.sum(pending_cases.c.starts), 0)))


async def screened(db: Database, rows: int) -> str:
    batch_id = batch(db, rows)
    await LocalRunner(job_of(db, agents()), PLACES).until_done()
    return batch_id
