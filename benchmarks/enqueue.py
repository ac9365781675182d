"""Time and memory of enqueueing: rows a second and peak memory on both kinds of database.

    python -m benchmarks.enqueue [--rows 100000] [--database sqlite|postgresql|URL]

Each size runs in a process of its own, so its peak is its own. It then times what a page and the worker ask all
the time (progress, the next cases, one outcome) on the batch as it stands.
"""

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from benchmarks.databases import throwaway_url
from benchmarks.figures import Figure, tell
from screening.datasets.rows import NewCase
from screening.engine.draws import Draw
from screening.engine.pipeline import preset
from screening.engine.screen import NodeRun, Reason, Screening
from screening.labels import Label, Outcome
from screening.review.actors import LOCAL_USER
from screening.statistics.rules.protocol import Ended, Verdict
from screening.text.received import receive
from storage.batches import pending, screenings
from storage.batches.batches import NewBatch, create_batch, progress
from storage.batches.configurations import Configuration, save_configuration
from storage.batches.intake import add_rows, close_intake
from storage.batches.runs import EndedRun
from storage.database import Database

TEXT = receive("Long day, short night, and the kitchen light has been flickering since Tuesday. " * 3)
RUN = NodeRun(
    node="worker",
    variant="main",
    draws=(Draw(label=Label.SAFE),) * 6,
    verdict=Verdict(label=Label.SAFE, ended=Ended.IDENTIFIED, calls=6),
)
SCREENING = Screening(outcome=Outcome.SAFE, node="worker", reason=Reason.IDENTIFIED, runs=(RUN,), delta=0.05)


def main() -> None:
    """Print one line a size and kind."""
    parser = argparse.ArgumentParser(description="enqueue benchmark")
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000])
    parser.add_argument("--database", nargs="+", default=["sqlite", "postgresql"])
    arguments = parser.parse_args()
    for kind in arguments.database:
        for rows in arguments.rows:
            with throwaway_url(kind) as url, multiprocessing.get_context("spawn").Pool(1) as pool:
                pool.apply(_measure, (kind, url, rows))


def _measure(kind: str, url: str, rows: int) -> None:
    db = Database(url)
    db.prepare()
    now = datetime.now(UTC)
    configuration = Configuration(pipeline=preset("recommended"), sampler={"sampler": "simulated"})
    version = save_configuration(db, configuration, now)
    batch_id = create_batch(db, LOCAL_USER.at(now), NewBatch(name="bench", configuration_version=version, seed=1))
    started = time.perf_counter()
    add_rows(db, batch_id, _rows(rows), now)
    took = time.perf_counter() - started
    close_intake(db, LOCAL_USER.at(now), batch_id)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    asked = _milliseconds(lambda: progress(db, batch_id), 20)
    following = _milliseconds(lambda: pending.pending_cases(db, 32), 20)
    decided = iter(pending.pending_cases(db, 50))
    one = _milliseconds(lambda: _decide(db, next(decided), version), 50)
    name = f"{kind}, {rows:,} rows"
    tell(Figure(name=f"{name}: enqueued a second", value=rows / took, note=f"peak memory {peak:.0f} MB"))
    for step, took_ms in (("progress", asked), ("the next 32 cases", following), ("one outcome", one)):
        tell(Figure(name=f"{name}: {step}", value=took_ms, unit="ms"))


def _decide(db: Database, case_id: str, version: str) -> None:
    now = datetime.now(UTC)
    pending.record_start(db, case_id, "bench", now)
    screenings.commit_run(db, case_id, EndedRun(position=0, run=RUN, cost_usd=0.001, started_at=now, ended_at=now))
    assert screenings.commit_outcome(db, case_id, SCREENING, 0.001, version, now)


def _rows(count: int) -> Iterator[NewCase]:
    return (NewCase(row=row, external_id=f"row-{row}", text=TEXT) for row in range(1, count + 1))


def _milliseconds(work: Callable[[], object], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        work()
    return 1_000 * (time.perf_counter() - started) / times


if __name__ == "__main__":
    main()
