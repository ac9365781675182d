"""Processor time of screening a call, against a bare loop over the same library in the same run.

    python -m benchmarks.screening [--cases 300] [--rounds 3] [--database sqlite postgresql]

Both sides ask the local stub from a process of their own, which keeps what it has loaded from the garbage collector:
this program's libraries count for neither. The bare loop keeps as many calls in flight and stores nothing; the worker
does all it does for a batch. Statements are counted apart from this, where the database receives
them; those that begin and end transactions are not among them.
"""

import argparse
import asyncio
import gc
import logging
import multiprocessing
import re
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from sqlalchemy import event, func, select

from benchmarks.databases import log_statements, server_log, throwaway_url
from benchmarks.figures import tell
from benchmarks.processes import ask_bare, stub_server
from jobs.intake import configuration
from jobs.process import DATABASE_THREADS, spare_loaded_objects
from jobs.runner import runner_for
from jobs.screening_job import open_job
from screening.datasets.rows import NewCase
from screening.pipeline.config import preset
from screening.pipeline.files import load_prompts
from screening.review.policy import LOCAL_USER
from screening.settings import Settings
from screening.text.received import receive
from storage.batches.batches import NewBatch, create_batch
from storage.batches.configurations import save_configuration
from storage.batches.intake import add_rows, close_intake
from storage.database import Database
from storage.schema import pending_cases, screenings

PLACES = 16
CALLS_AT_ONCE = 64
PIPELINE = preset("certified")
TEXTS = (
    "We walked along the river and talked about nothing in particular",
    "I want to die and nobody would notice",
    "My sister visited and we cooked soup",
    "The bus was late again and I walked home in the rain",
)
AIM_RATIO, AIM_STATEMENTS, AIM_COMMITS = 1.5, 15.0, 3.0


Cost = tuple[float, int]
"""Seconds of processor time that a run took, and calls."""


def main() -> None:
    """Print a line for each figure, with its aim."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", nargs="+", default=["sqlite", "postgresql"])
    given = parser.parse_args()
    with stub_server(0.05) as server:
        for kind in given.database:
            pairs = []
            for _ in range(given.rounds):
                ours = in_a_process(worker_cost, kind, server, given.cases)
                pairs.append((in_a_process(bare_cost, server, ours[1]), ours))
            report(kind, pairs)
            tell_statements(kind, server, min(given.cases, 100))


def report(kind: str, pairs: "list[tuple[Cost, Cost]]") -> None:
    """The medians, and the median ratio of the rounds."""
    rounds = [[1_000 * seconds / calls for seconds, calls in pair] for pair in pairs]
    ratio = statistics.median(ours / bare for bare, ours in rounds)
    alone, ours = (statistics.median(side) for side in zip(*rounds, strict=True))
    note = f"{ours:.2f} ms of processor time a call, bare loop {alone:.2f} ms"
    tell(f"{kind}: a call against the bare loop", ratio, "×", AIM_RATIO, note)


def tell_statements(kind: str, server: str, cases: int) -> None:
    """Statements and commits a case."""
    found = in_a_process(count_statements, kind, server, cases)
    for words, count, aim in (("statements", found[0], AIM_STATEMENTS), ("commits", found[1], AIM_COMMITS)):
        tell(f"{kind}: {words} a case", count / cases, aim=aim)


def in_a_process(work, *arguments):  # type: ignore[no-untyped-def]
    """What it returns, made in a new process."""
    with ThreadPoolExecutor(1) as waiting, multiprocessing.get_context("spawn").Pool(1) as pool:
        return waiting.submit(pool.apply, work, arguments).result()


def bare_cost(server: str, calls: int) -> Cost:
    """The library alone: the same prompt, model and number of calls at once."""
    from anthropic import AsyncAnthropic, DefaultAioHttpClient

    asked = _settings(server)
    prompt, slots = load_prompts().system("worker"), asyncio.Semaphore(CALLS_AT_ONCE)

    async def call(client: AsyncAnthropic, number: int) -> None:
        async with slots:
            await ask_bare(client, asked.model, prompt, _text(number), asked.temperature)

    async def run() -> float:
        async with AsyncAnthropic(api_key="k", base_url=server, http_client=DefaultAioHttpClient()) as client:
            await call(client, 0)
            gc.collect()
            gc.freeze()
            before = time.process_time()
            await asyncio.gather(*(call(client, number) for number in range(calls)))
            return time.process_time() - before

    return asyncio.run(run()), calls


def worker_cost(kind: str, server: str, cases: int) -> Cost:
    """A worker with a batch of so many texts."""
    logging.disable()
    with throwaway_url(kind) as url:
        db = Database(url, repeatable=True)
        db.prepare()
        made = asyncio.run(_screen(db, _settings(server), cases))
        db.close()
    return made


def count_statements(kind: str, server: str, cases: int) -> tuple[int, int]:
    """Statements and commits of all who talk to the database while a batch is screened, from begin to end."""
    logging.disable()
    with throwaway_url(kind) as url:
        db = Database(url, repeatable=True)
        db.prepare()
        seen = list[str]()
        if kind == "sqlite":
            event.listen(db._engine, "before_cursor_execute", lambda *given: seen.append(given[2]))
            event.listen(db._engine, "commit", lambda _: seen.append("COMMIT"))
            asyncio.run(_screen(db, _settings(server), cases, seen.clear))
        else:
            log = server_log(db)
            log_statements(db, "all")
            time.sleep(1.0)
            asyncio.run(_screen(db, _settings(server), cases, lambda: seen.append(str(log.stat().st_size))))
            log_statements(db, "none")
            seen = _logged_statements(log.read_bytes()[int(seen[0]) :].decode(errors="replace"))
        db.close()
    return _counts(seen)


def _logged_statements(log: str) -> list[str]:
    """Several connections write at once: an entry begins with LOG wherever that stands."""
    return re.findall(r"LOG:  (?:statement|execute [^:]*):[ \t]*([^\n]*)", log)


def _counts(statements: list[str]) -> tuple[int, int]:
    firsts = [statement.split(None, 1)[0].rstrip(";").upper() for statement in statements if statement.strip()]
    ends = ("BEGIN", "COMMIT", "ROLLBACK", "SET", "SHOW", "SAVEPOINT")
    return sum(first not in ends for first in firsts), firsts.count("COMMIT")


async def _screen(db: Database, settings: Settings, cases: int, begins: Callable[[], None] = int) -> Cost:
    """As `worker.py` does it, until all is done."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(DATABASE_THREADS))
    async with open_job(settings, db, "w") as job:
        runner = runner_for(job, PLACES)
        task = asyncio.create_task(runner.run())
        await asyncio.sleep(1.0)  # connections are open, listeners listen
        asked = configuration(settings, PIPELINE)
        await job.health.try_configuration(asked, 0)
        gc.collect()
        spare_loaded_objects()
        batch_id = await asyncio.to_thread(_batch, db, asked, cases)
        begins()
        before = time.process_time()
        await asyncio.to_thread(close_intake, db, LOCAL_USER.at(datetime.now(UTC)), batch_id)
        while not await asyncio.to_thread(_is_done, db):  # noqa: ASYNC110 - the database knows it
            await asyncio.sleep(0.5)
        took = time.process_time() - before
        runner.stop()
        await task
    calls = db.value(select(func.sum(screenings.c.calls)))
    return took, int(calls)


def _is_done(db: Database) -> bool:
    """Whether nothing waits any more."""
    with db.read() as conn:
        return conn.execute(select(pending_cases.c.case_id).limit(1)).first() is None


def _batch(db: Database, asked, cases: int) -> str:  # type: ignore[no-untyped-def]
    now = datetime.now(UTC)
    version = save_configuration(db, asked, now)
    batch_id = create_batch(db, LOCAL_USER.at(now), NewBatch(name="bench"), version, seed=0)
    rows = (NewCase(row=row, external_id=str(row), text=receive(_text(row))) for row in range(1, cases + 1))
    add_rows(db, batch_id, rows, now)
    return batch_id


def _settings(server: str) -> Settings:
    return Settings(
        _env_file=None, sampler="anthropic", model="claude-sonnet-4-6", temperature=0.7, anthropic_api_key="k",
        anthropic_base_url=server,
        requests_per_minute=10_000_000, concurrency=CALLS_AT_ONCE, cases_in_flight=PLACES,
    )  # fmt: skip


def _text(row: int) -> str:
    return f"{TEXTS[row % len(TEXTS)]}, day {row}."


if __name__ == "__main__":
    main()
