"""Processor time of the research pages against the size of a batch, first and repeated runs, each with its aim.

    python -m benchmarks.research_pages [--sizes 100000] [--database sqlite|postgresql|URL]

A page is run whole in Streamlit's own test harness, in this process: *first* right after the app has started, with
nothing kept, *again* the median of three more runs. What a page has computed by the process beside the server is told
apart, the first time with the start of that process. *memory* is the most this process held after a tour of all pages.
Nothing is asserted; the numbers are for reading.
"""

import argparse
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import process_time

from sqlalchemy import Engine, event

from benchmarks.databases import throwaway_url
from benchmarks.figures import Figure, tell
from benchmarks.screened_batch import fill
from screening.review.actors import LOCAL_USER
from storage.batches.batches import list_batches
from storage.database import Database

ROOT = Path(__file__).parent.parent
PAGES = {"evaluation": "Evaluation", "label_noise": "Labels", "reliability": "Reliability", "errors": "Errors",
         "agreement": "Agreement"}  # fmt: skip
FIRST, AGAIN, MEMORY = 1.0, 0.3, 400
"""Seconds of processor time at 100,000 cases, and megabytes; at a million twice the seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One page: seconds of processor time of a first and a repeated run, what the first took beside the server, and the
    statements that each sent.
    """

    first: float
    beside: float
    again: float
    statements: tuple[int, int]


def measure(url: str) -> Iterator[tuple[str, Figures]]:
    """Each page, right after the app has started, and again."""
    os.environ.update(DATABASE_URL=url, SECOND_LOOK_SAMPLER="simulated")
    import streamlit as st
    from streamlit.testing.v1 import AppTest

    from pages.components.singletons import forget_all
    from pages.research.computed import BESIDE

    st.cache_data.clear()
    st.cache_resource.clear()
    forget_all()
    sent = [0]
    event.listen(Engine, "before_cursor_execute", lambda *_: sent.append(sent.pop() + 1))
    for page in PAGES:
        app = AppTest.from_file(str(ROOT / "pages" / "shell.py"), default_timeout=1200).run()
        sent[0], beside = 0, BESIDE.spent_s
        began = process_time()
        app.switch_page(str(ROOT / "pages" / f"{page}.py")).run()
        first, statements = process_time() - began, sent[0]
        if app.exception:
            raise RuntimeError(f"{page}: {app.exception[0].value}")
        sent[0] = 0
        again = median(_again(app) for _ in range(3))
        beside = BESIDE.spent_s - beside
        yield page, Figures(first=first, beside=beside, again=again, statements=(statements, sent[0] // 3))
    BESIDE.stop()


def _again(app: object) -> float:
    began = process_time()
    app.run()  # type: ignore[attr-defined]
    return process_time() - began


def figures(kind: str, size: int, page: str, found: Figures) -> Iterator[Figure]:
    """The two runs of a page, each with its aim."""
    times = 1 if size <= 100_000 else 2
    for words, aim, got, beside, sent in zip(
        ("first", "again"), (FIRST, AGAIN), (found.first, found.again), (found.beside, 0), found.statements, strict=True
    ):
        elsewhere = f"{beside:.2f} s beside the server, " if beside else ""
        name, note = f"{kind}, {size:,} cases, {PAGES[page]}: {words}", f"{elsewhere}{sent} statements"
        yield Figure(name=name, value=got, unit="s", aim=times * aim, note=note)


def _ensure_filled(url: str, size: int) -> None:
    """Fill the database unless it is (one that was named and filled before)."""
    db = Database(url)
    db.prepare()
    if not list_batches(db, LOCAL_USER, 1):
        fill(db, size)
    db.close()


def main() -> None:
    """Print the figures of each size."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sizes", default="100000")
    options.add_argument("--database", default="sqlite", help="sqlite, postgresql, or a URL, filled where it is empty")
    chosen = options.parse_args()
    for size in map(int, chosen.sizes.split(",")):
        with throwaway_url(chosen.database) as url:
            _ensure_filled(url, size)
            kind = url.partition(":")[0].partition("+")[0]
            for page, found in measure(url):
                for figure in figures(kind, size, page, found):
                    tell(figure)
        held, beside = (
            resource.getrusage(who).ru_maxrss // 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        note = f"{beside} MB for a while in the process beside the server"
        name = f"{kind}, {size:,} cases, memory after the tour"
        tell(Figure(name=name, value=held, unit="MB", aim=MEMORY, note=note))


if __name__ == "__main__":
    main()
