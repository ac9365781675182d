"""Times of the inbox against the number of open cases, on SQLite and PostgreSQL, each with its aim.

    python -m benchmarks.inbox [--sizes 1000,100000,1000000]

Each size has a database of its own, and they are measured in turns. *poll* is what an open inbox asks every few
seconds. On SQLite, which is in this process, all is processor time; on PostgreSQL all but the poll is wall time. The
last lines tell the largest size against the smallest. Nothing is asserted; the numbers are for reading.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from time import perf_counter, process_time

import psycopg
from sqlalchemy import insert, text

from benchmarks.databases import throwaway_url
from benchmarks.figures import tell
from pages.review.routes import View, snapshot
from screening.review.policy import Actor, Role
from screening.review.review_form import ReviewForm
from screening.review.triage import TARGETS, Priority
from storage.database import Database
from storage.review import claims
from storage.review.queue import counts, queue
from storage.review.reviews import submit_review
from storage.schema import batches, cases, configurations, inbox_entries
from storage.schema.columns import new_id

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
WHO = Actor(id="bench", name="Bench", roles=frozenset({Role.REVIEWER, Role.SENIOR}))
ROUNDS, REPEATS, WARMING_UP = 9, 5, 1
CHUNK = 5_000
LONG_TEXT = "A text of some length, which no list may touch. " * 8
POLL_MS = 5.0
FLAT = 2.0
"""How much longer a step may take at the largest size than at the smallest, beyond half a millisecond."""
STEPS = ("claim", "claim P3", "save", "page 1", "page 10", "counts", "poll")
Figures = Mapping[str, float]


def add_cases(db: Database, first: int, number: int, priority: Priority | None = None) -> None:
    """So many open cases more, of one priority or of all, entered over the last hours, their texts about half a kB."""
    if first == 0:
        _begin_batch(db)
    for start in range(first, first + number, CHUNK):
        rows = range(start, min(start + CHUNK, first + number))
        # each chunk in its own transaction, as at a site: moved a million times in one, a tally bloats its table
        with db.write() as conn:
            conn.execute(insert(cases), [_case(row) for row in rows])
            conn.execute(insert(inbox_entries), [_entry(row, priority) for row in rows])
    analyse(db)


def _begin_batch(db: Database) -> None:
    with db.write() as conn:
        conn.execute(insert(configurations).values(version="bench", body={"pipeline": {}}, created_at=NOW))
        conn.execute(
            insert(batches).values(
                id="bench", name="bench", kind="batch", configuration="bench", seed=0, intake={},
                created_by="bench", created_at=NOW,
            )
        )  # fmt: skip


def _case(row: int) -> dict[str, object]:
    return {
        "id": f"{row:032d}", "batch_id": "bench", "row": row, "external_id": str(row), "text": LONG_TEXT,
        "text_sha256": "0" * 64, "flags": [], "created_at": NOW,
    }  # fmt: skip


def _entry(row: int, only: Priority | None) -> dict[str, object]:
    priority = only if only is not None else Priority.P0 if row % 50 == 0 else Priority(1 + row % 3)
    entered = NOW - timedelta(seconds=row * 7919 % 86_400)
    return {
        "case_id": f"{row:032d}", "batch_id": "bench", "priority": priority, "why": "unsettled",
        "entered_at": entered, "due_at": entered + TARGETS[priority],
    }  # fmt: skip


def analyse(db: Database) -> None:
    """The planner's statistics, and on PostgreSQL which pages hold only what all may see: both databases keep them up
    by themselves within minutes.
    """
    if db.kind == "postgresql":
        with psycopg.connect(db.conninfo, autocommit=True) as conn:
            conn.execute("VACUUM ANALYZE")
    else:
        with db.write() as conn:
            conn.execute(text("ANALYZE"))


def measure(made: Mapping[int, Database]) -> dict[int, Figures]:
    """The figures of each size, in turns: where the machine is slow for a while, it is for all of them."""
    runs = {size: list(_runs(db)) for size, db in made.items()}
    found: dict[int, dict[str, list[float]]] = {size: {} for size in made}
    for _ in range(ROUNDS):
        for size, each in runs.items():
            for name, timed in each:
                found[size].setdefault(name, []).extend(timed())
    return {size: {name: 1_000 * median(times) for name, times in steps.items()} for size, steps in found.items()}


def _runs(db: Database) -> Iterator[tuple[str, Callable[[], list[float]]]]:
    """Each step of `STEPS` with what times it: in processor time where the database is in this process, else by the
    wall's clock; the poll in this process's own time on all its threads.
    """
    clock = process_time if db.kind == "sqlite" else perf_counter
    for name, step in _steps(db).items():
        yield name, partial(_times, step, clock)
    yield "poll", partial(_times, partial(poll, db), process_time, WARMING_UP)


def _steps(db: Database) -> dict[str, Callable[[], object]]:
    who, hour = WHO.at(NOW), timedelta(hours=1)
    claimed = iter([claims.claim_next(db, who, lease=hour) for _ in range(ROUNDS * REPEATS)])
    return {
        "claim": lambda: claims.claim_next(db, who, lease=hour),
        "claim P3": lambda: claims.claim_next(db, who, lease=hour, priorities=[Priority.P3]),
        "save": partial(save_next, db, claimed),
        "page 1": lambda: queue(db, who, limit=50),
        "page 10": lambda: queue(db, who, limit=50, offset=450),
        "counts": lambda: counts(db, who, priorities=[Priority.P0, Priority.P1]),
    }


def _times(step: Callable[[], object], clock: Callable[[], float], warming_up: int = 0) -> list[float]:
    """Seconds that each of several runs took, behind some that do not count."""
    times = []
    for _ in range(warming_up + REPEATS):
        start = clock()
        step()
        times.append(clock() - start)
    return times[warming_up:]


def poll(db: Database) -> None:
    """As an open inbox is answered: all reads share one moment."""
    with db.one_snapshot():
        snapshot(db, WHO.at(NOW), View())


def save_next(db: Database, claimed: Iterator[claims.Claim | None]) -> None:
    """Store a review of the next of these cases."""
    if (claim := next(claimed)) is not None:
        form = ReviewForm.model_validate({"label": "unsafe", "certainty": 4, "disposition": "none"})
        submit_review(db, WHO.at(NOW), claim.case_id, claim.token, form, submission_id=new_id(NOW))


def report(kind: str, found: Mapping[int, Figures]) -> None:
    """Tell the poll at each size, and how each step grows from the smallest to the largest."""
    least, most = min(found), max(found)
    for size, figures in found.items():
        tell(f"{kind}, poll at {size:,}", figures["poll"], "ms", POLL_MS)
    for step, before in found[least].items():
        after = found[most][step]
        grown, note = max(0.0, after - 0.5) / before, f"{before:.1f} to {after:.1f} ms"
        tell(f"{kind}, {step}: {most:,} against {least:,}", grown, "×", FLAT, note)


@contextmanager
def filled(kind: str, sizes: Iterable[int]) -> Iterator[dict[int, Database]]:
    """A database of its own for each size."""
    with ExitStack() as stack:
        made = {}
        for size in sizes:
            made[size] = db = Database(stack.enter_context(throwaway_url(kind)))
            stack.callback(db.close)
            db.prepare()
            add_cases(db, 0, size)
        yield made


def main() -> None:
    """Print one table, in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--sizes", default="1000,100000,1000000")
    sizes = sorted(int(size) for size in parser.parse_args().sizes.split(","))
    line = "{:<11}{:>10}" + "{:>10}" * len(STEPS)
    print(f"median of {ROUNDS * REPEATS} runs in {ROUNDS} rounds, milliseconds")
    print(line.format("", "open", *STEPS))
    for kind in ("sqlite", "postgresql"):
        with filled(kind, sizes) as made:
            found = measure(made)
        for size, figures in found.items():
            shown = (f"{figures[step]:.2f}" for step in STEPS)
            print(line.format(kind, f"{size:,}", *shown), flush=True)
        report(kind, found)


if __name__ == "__main__":
    main()
