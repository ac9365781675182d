"""Cases a second through the engine, against the same waves on a bare asyncio loop in the same run.

    python -m benchmarks.jobs [--cases 200] [--latency 0.2] [--rounds 2] [--database sqlite postgresql]

The sampler waits a fixed time for each wave. The bare loop keeps as many cases in flight and stores nothing. Workers
are processes of their own; the clock runs from the first case begun to the last one ended. Trust the ratios.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Event

from sqlalchemy import func, select

from benchmarks.databases import throwaway_url
from benchmarks.figures import Figure, tell
from jobs.agents import Agents
from jobs.local import LocalRunner
from jobs.patience import DATABASE_THREADS
from jobs.port import Runner, system_clock
from jobs.procrastinate import ProcrastinateRunner
from jobs.screening_job import ScreeningJob
from screening.datasets.rows import NewCase
from screening.engine.draws import ScreenedText
from screening.engine.pipeline import preset
from screening.engine.screen import Guard, screen
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from screening.text.received import receive
from storage.batches.batches import NewBatch, create_batch, progress
from storage.batches.configurations import Configuration, save_configuration
from storage.batches.intake import add_rows, close_intake
from storage.database import Database
from storage.schema import case_starts, screenings

PLACES = 16
TEXTS = (
    "The bus was late again and I walked home in the rain",
    "I want to die and nobody would notice",
    "My sister visited and we cooked soup",
    "Everything feels pointless since the move",
)
PIPELINE = preset("recommended")


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Cases a second of wall time, and milliseconds of the workers' CPU a case."""

    per_second: float
    cpu_ms: float


def main() -> None:
    """Print a line for each database and number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--database", nargs="+", default=["sqlite", "postgresql"])
    arguments = parser.parse_args()
    print(
        f"jobs: {arguments.cases} cases, {arguments.latency:g} s a wave, {PLACES} cases in flight a worker", flush=True
    )
    for kind in arguments.database:
        for workers in (1,) if kind == "sqlite" else (1, 2):
            rounds = [
                (_bare(arguments.cases, arguments.latency, workers), _engine(kind, arguments, workers))
                for _ in range(arguments.rounds)
            ]
            _report(kind, workers, rounds)


def _report(kind: str, workers: int, rounds: list[tuple[Speed, Speed]]) -> None:
    ratio = statistics.median(ours.per_second / bare.per_second for bare, ours in rounds)
    alone, ours = (statistics.median(pair[side].per_second for pair in rounds) for side in (0, 1))
    spent = statistics.median(engine.cpu_ms for _, engine in rounds)
    name = f"{kind}, {workers} worker{'s' if workers > 1 else ''}"
    rates = f"{ours:.1f} against {alone:.1f}"
    tell(Figure(name=f"{name}: cases a second, of the bare loop's", value=ratio, note=rates))
    tell(Figure(name=f"{name}: processor time a case", value=spent, unit="ms"))


def _bare(cases: int, latency: float, workers: int) -> Speed:
    share = cases // workers
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool:
        pool.map(_warm, range(workers))
        sides = pool.starmap(_bare_loop, [(first * share, share, latency) for first in range(workers)])
    return Speed(
        per_second=share * workers / max(side[0] for side in sides),
        cpu_ms=1_000 * sum(side[1] for side in sides) / (share * workers),
    )


def _warm(_number: int) -> None:
    time.sleep(0.05)


def _bare_loop(first: int, cases: int, latency: float) -> tuple[float, float]:
    """Seconds of wall time and of CPU."""

    async def run() -> None:
        sampler = _agents(latency).sampler(_configuration(), 0)
        slots = asyncio.Semaphore(PLACES)

        async def one(row: int) -> None:
            async with slots:
                await screen(ScreenedText(text=_text(row)), Guard(), PIPELINE, sampler)

        await asyncio.gather(*(one(row) for row in range(first + 1, first + cases + 1)))

    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(run())
    return time.perf_counter() - wall, time.process_time() - cpu


def _engine(kind: str, arguments: argparse.Namespace, workers: int) -> Speed:
    context = multiprocessing.get_context("spawn")
    with throwaway_url(kind) as url:
        db = Database(url)
        db.prepare()
        done, ready = context.Event(), context.Barrier(workers + 1)
        cpu = context.Array("d", workers)
        processes = [
            context.Process(target=_worker, args=(number, url, arguments.latency, ready, done, cpu))
            for number in range(workers)
        ]
        for process in processes:
            process.start()
        ready.wait(120)
        batch_id = _batch(db, arguments.cases)
        while progress(db, batch_id).finished_at is None:
            time.sleep(0.1)
        done.set()
        for process in processes:
            process.join()
        took = _span(db).total_seconds()
        db.close()
    return Speed(per_second=arguments.cases / took, cpu_ms=1_000 * sum(cpu) / arguments.cases)


def _span(db: Database) -> timedelta:
    with db.read() as conn:
        first = conn.execute(select(func.min(case_starts.c.at))).scalar_one()
        last = conn.execute(select(func.max(screenings.c.completed_at))).scalar_one()
    return last - first


def _batch(db: Database, cases: int) -> str:
    now = datetime.now(UTC)
    version = save_configuration(db, _configuration(), now)
    batch_id = create_batch(db, LOCAL_USER.at(now), NewBatch(name="bench", configuration_version=version, seed=0))
    rows = (NewCase(row=row, external_id=str(row), text=receive(_text(row))) for row in range(1, cases + 1))
    add_rows(db, batch_id, rows, now)
    close_intake(db, LOCAL_USER.at(now), batch_id)
    return batch_id


def _worker(number: int, url: str, latency: float, ready, done: Event, cpu) -> None:  # type: ignore[no-untyped-def]
    """As `worker.py` does it, until told that all is done."""
    db = Database(url, repeatable=True)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(DATABASE_THREADS))
        job = ScreeningJob(db=db, agents=_agents(latency), clock=system_clock, worker=f"w{number}")
        runner: Runner = (LocalRunner if db.kind == "sqlite" else ProcrastinateRunner)(job, PLACES)
        task = asyncio.create_task(runner.run())
        await asyncio.sleep(1.0)  # connections are open, listeners listen
        ready.wait(120)
        before = time.process_time()
        while not done.is_set():  # noqa: ASYNC110 - another process sets it
            await asyncio.sleep(0.1)
        cpu[number] = time.process_time() - before
        runner.stop()
        await task

    asyncio.run(run())
    db.close()


def _agents(latency: float) -> Agents:
    return Agents(Settings(_env_file=None, sampler="simulated", simulated_latency_s=latency))


def _configuration() -> Configuration:
    return Configuration(pipeline=PIPELINE, sampler=_agents(0.0).describe(0))


def _text(row: int) -> str:
    return f"{TEXTS[row % len(TEXTS)]}, day {row}."


if __name__ == "__main__":
    main()
