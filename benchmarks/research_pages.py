"""Processor time of every page that tells of many cases against the size of a batch, each with its aim.

    python -m benchmarks.research_pages [--sizes 100000] [--database sqlite postgresql|URL ...] [--only WORD]

A page is run whole in Streamlit's own test harness, in this process: *first* with nothing kept, *again* the median of
three more runs. The harness asks a thousand times a second whether a run has ended, and puts together what a browser
would: its own thread is left out. A tab that is computed only when it is chosen counts like a page: its first run is
the one that opens it. What a page has computed by the process beside the server is told apart, the first time with the
start of that process. *memory* is the most this process held after a tour of all. Each database has a process of its
own. Nothing is asserted; the numbers are for reading.
"""

import argparse
import multiprocessing
import os
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from time import process_time, thread_time
from typing import TYPE_CHECKING

from sqlalchemy import Engine, event

from benchmarks.databases import throwaway_url
from benchmarks.figures import Figure, tell
from benchmarks.processes import ROOT
from benchmarks.screened_batch import fill
from screening.review.actors import LOCAL_USER
from storage.batches.batches import list_batches
from storage.database import Database

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

FIRST, AGAIN, MEMORY = 1.0, 0.3, 400
"""Seconds of processor time at 100,000 cases, and megabytes; at a million twice the seconds."""
BATCH = "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What is opened: a page with its address, the tab that is open, and what is then chosen in its first list."""

    name: str
    page: str
    address: Mapping[str, str] = field(default_factory=dict)
    tab: Mapping[str, str] = field(default_factory=dict)
    choice: str | None = None


def _tabs(title: str, page: str, key: str, *names: str) -> Iterator[Visit]:
    """The page with its first tab, and each of the others."""
    yield Visit(name=title, page=page)
    for name in names:
        yield Visit(name=f"{title}, {name}", page=page, tab={key: name})


def _lists(**addresses: str) -> Iterator[Visit]:
    """The page of results, narrowed."""
    for name, value in addresses.items():
        yield Visit(name=f"Results, {name}: {value}", page="results", address={"batch": BATCH, name: value})


VISITS = (
    Visit(name="Home", page="home"),
    *_tabs("Evaluation", "evaluation", "evaluation_tab", "Compare", "Budget sweep", "Calls and tokens", "What if",
           "Cases"),
    *_tabs("Labels", "label_noise", "labels_tab", "Relabelled data set", "Ledger"),
    *_tabs("Reliability", "reliability", "reliability_tab", "Confidence sequence", "Planner", "Allocation",
           "Switch rate", "Drift", "What was measured"),
    Visit(name="Errors", page="errors"),
    Visit(name="Errors, a cell", page="errors", address={"batch": BATCH, "cell": "unsafe.safe"}),
    Visit(name="Agreement", page="agreement"),
    Visit(name="Agreement, one batch", page="agreement", choice=BATCH),
    Visit(name="Results", page="results", address={"batch": BATCH}),
    *_lists(outcome="human_review", node="risk", gap="0.2 or less", way="risk:unsafe", sort="gap"),
    Visit(name="Batches", page="batch_list"),
    Visit(name="Batches, one batch", page="batch_list", address={"batch": BATCH}),
    Visit(name="Pipelines", page="pipelines"),
    Visit(name="Theory", page="theory"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One visit: seconds of processor time of a first and a repeated run, what the first took beside the server, and
    the statements that each sent.
    """

    first: float
    beside: float
    again: float
    statements: tuple[int, int]


class Tour:
    """One page after the other, each in a new browser, by somebody who may see all."""

    def __init__(self, url: str) -> None:
        os.environ.update(DATABASE_URL=url, SECOND_LOOK_SAMPLER="simulated")
        self._sent = 0
        event.listen(Engine, "before_cursor_execute", self._count)

    def visit(self, one: Visit) -> Figures:
        """Open it, and run it three times more."""
        from pages.components.computed import SIDE_PROCESS

        app, before = self._page(one), SIDE_PROCESS.spent_s
        first, statements = self._time(app)
        if app.exception:
            raise RuntimeError(f"{one.name}: {app.exception[0].value}")
        times = [self._time(app) for _ in range(3)]
        again, sent = (median(each) for each in zip(*times, strict=True))
        return Figures(
            first=first, beside=SIDE_PROCESS.spent_s - before, again=again, statements=(statements, round(sent))
        )

    def end(self) -> None:
        """Nothing is computed beside this process any more."""
        from pages.components.computed import SIDE_PROCESS

        SIDE_PROCESS.stop()

    def _page(self, one: Visit) -> "AppTest":
        """The page, ready to be run as the visit means it."""
        from streamlit.testing.v1 import AppTest

        app = AppTest.from_file(str(ROOT / "pages" / "shell.py"), default_timeout=1200)
        if one.page == "home":
            return app
        app.run()  # a script is switched to from another
        for name, value in one.address.items():
            app.query_params[name] = value
        for name, value in one.tab.items():
            app.session_state[name] = value
        app.switch_page(str(ROOT / "pages" / f"{one.page}.py"))
        if one.choice is not None:
            app.run().selectbox[0].set_value(one.choice)
        return app

    def _time(self, app: "AppTest") -> tuple[float, int]:
        """Seconds of processor time of a run, in all threads but the harness's, and its statements."""
        self._sent, began = 0, process_time() - thread_time()
        app.run()
        return process_time() - thread_time() - began, self._sent

    def _count(self, *_: object) -> None:
        self._sent += 1


def visit_figures(kind: str, size: int, name: str, found: Figures) -> Iterator[Figure]:
    """The two runs of a visit, each with its aim."""
    times = 1 if size <= 100_000 else 2
    for words, aim, got, beside, sent in zip(
        ("first", "again"), (FIRST, AGAIN), (found.first, found.again), (found.beside, 0), found.statements, strict=True
    ):
        elsewhere = f"{beside:.2f} s beside the server, " if beside else ""
        note = f"{elsewhere}{sent} statements"
        yield Figure(name=f"{kind}, {size:,} cases, {name}: {words}", value=got, unit="s", aim=times * aim, note=note)


def tour(url: str, size: int, only: str) -> None:
    """Tell the figures of all pages, in a process of its own."""
    kind, made = url.partition(":")[0].partition("+")[0], Tour(url)
    for one in VISITS:
        if only in one.name:
            for figure in visit_figures(kind, size, one.name, made.visit(one)):
                tell(figure)
    made.end()
    held, beside = (
        resource.getrusage(who).ru_maxrss // 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    note = f"{beside} MB for a while in the process beside the server"
    tell(Figure(name=f"{kind}, {size:,} cases: memory after the tour", value=held, unit="MB", aim=MEMORY, note=note))


def ensure_filled(url: str, size: int) -> None:
    """Fill the database unless it is (one that was named and filled before)."""
    db = Database(url)
    db.prepare()
    if not list_batches(db, LOCAL_USER, 1):
        fill(db, size, BATCH)
    db.close()


def main() -> None:
    """Print the figures of each size."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--sizes", type=int, nargs="+", default=[100_000])
    options.add_argument("--database", nargs="+", default=["sqlite", "postgresql"], help="or a URL; filled where empty")
    options.add_argument("--only", default="", help="only what has this word in its name")
    chosen, context = options.parse_args(), multiprocessing.get_context("spawn")
    for size in chosen.sizes:
        for database in chosen.database:
            with throwaway_url(database) as url:
                for step, given in ((ensure_filled, (url, size)), (tour, (url, size, chosen.only))):
                    process = context.Process(target=step, args=given)
                    process.start()
                    process.join()
                    if process.exitcode:
                        raise SystemExit(process.exitcode)


if __name__ == "__main__":
    main()
