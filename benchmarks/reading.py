"""Rows per second and peak memory of reading a CSV file strictly, at growing sizes.

    python -m benchmarks.reading [--rows 100000] [--repeated 0.01]

Each size runs in a process of its own, so its peak is its own. The first pass describes the file (encoding, cells,
duplicates); the second accepts or rejects each row and normalises its text.
"""

import argparse
import csv
import multiprocessing
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.figures import Figure, tell
from screening.datasets.reader import read_table

PHRASES = (
    "I had a long day at work and then I went home to sleep",
    "nobody called me today, but the walk was nice",
    'my brother said "it gets better", and I hope so',
    "so tired of this exam… can't wait until it's over",
    "this homework is killing me lol",
)


def write_rows(path: Path, rows: int, repeated: float) -> None:
    """A file of short texts in which a share of the ids comes again, half of them with another text."""
    every = round(1 / repeated) if repeated else 0
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("id", "text", "label"))
        for number in range(rows):
            again = bool(every) and number > 0 and number % every == 0
            same = number - 1 if again else number
            text = f"{PHRASES[same % len(PHRASES)]} {number if again and number % (2 * every) else same}"
            writer.writerow((f"case-{same}", text, "safe"))


def measure(path: Path) -> None:
    """Read the file twice, as the program does, and print one line."""
    before = _peak_mb()
    started = time.perf_counter()
    table = read_table(path, path.name)
    described = time.perf_counter()
    kinds = Counter(type(row).__name__ for row in table.rows())
    ended = time.perf_counter()
    rows = table.report.rows
    if sum(kinds.values()) != rows:
        raise SystemExit("rows were lost")
    name, parts = f"{rows:,} rows", ", ".join(f"{kinds[kind]:,} {kind}" for kind in sorted(kinds))
    tell(Figure(name=f"{name}: described a second", value=rows / (described - started)))
    tell(Figure(name=f"{name}: read a second", value=rows / (ended - described), note=parts))
    tell(Figure(name=f"{name}: peak memory", value=_peak_mb(), unit="MB", note=f"{before:,.0f} MB at the start"))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run every size and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000])
    parser.add_argument("--repeated", type=float, default=0.01)
    options = parser.parse_args()
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        for rows in options.rows:
            path = Path(folder) / f"{rows}.csv"
            write_rows(path, rows, options.repeated)
            process = processes.Process(target=measure, args=(path,))
            process.start()
            process.join()


if __name__ == "__main__":
    main()
