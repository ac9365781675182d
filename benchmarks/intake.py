"""A file into a batch, as the upload page and the command line take it in: rows a second and peak memory.

    python -m benchmarks.intake [--rows 100000] [--database sqlite postgresql]

Read strictly, checked, received, flagged and enqueued, each size in a process of its own, so its peak is its own.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

from benchmarks.databases import throwaway_url
from benchmarks.figures import Figure, tell
from benchmarks.reading import write_rows
from jobs.agents import Agents
from jobs.intake import BatchRequest, fill_batch, open_batch
from jobs.port import system_clock
from screening.datasets.reader import read_table
from screening.engine.pipeline import preset
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches.batches import progress
from storage.database import Database


def main() -> None:
    """Print one line a size and kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000])
    parser.add_argument("--database", nargs="+", default=["sqlite", "postgresql"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for rows in arguments.rows:
            path = Path(folder) / f"{rows}.csv"
            write_rows(path, rows, 0.01)
            for kind in arguments.database:
                with throwaway_url(kind) as url, multiprocessing.get_context("spawn").Pool(1) as pool:
                    pool.apply(_measure, (kind, url, path, rows))


def _measure(kind: str, url: str, path: Path, rows: int) -> None:
    settings = Settings(_env_file=None, DATABASE_URL=url, sampler="simulated")
    db = Database(url)
    db.prepare()
    started = time.perf_counter()
    table = read_table(path, path.name)
    request = BatchRequest(name=path.name, pipeline=preset("recommended"))
    batch_id = open_batch(db, LOCAL_USER, request, settings, Agents(settings), system_clock)
    fill_batch(db, LOCAL_USER, batch_id, table, settings, system_clock)
    took = time.perf_counter() - started
    if progress(db, batch_id).rows_in != rows:
        raise SystemExit("rows were lost")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    note = f"{took:.0f} s in all, peak memory {peak:.0f} MB"
    tell(Figure(name=f"{kind}, {rows:,} rows: from file to batch a second", value=rows / took, note=note))
    db.close()


if __name__ == "__main__":
    main()
