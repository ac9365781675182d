"""Processor time of the research pages against the size of a batch, first and repeated runs, each with its aim.

    python -m benchmarks.research_pages [--sizes 100000] [--database sqlite|postgresql|URL]

A page is run whole in Streamlit's own test harness, in this process: *first* right after the app has started, with
nothing kept, *again* the median of three more runs. *memory* is the most this process held after a tour of all pages.
Nothing is asserted; the numbers are for reading.
"""

import argparse
import os
import resource
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
from sqlalchemy import insert

from benchmarks.databases import throwaway_url
from benchmarks.inbox import analyse
from screening.engine.pipeline import preset
from screening.statistics.verification import audit_coin
from storage.batches.configurations import Configuration, save_configuration
from storage.database import Database
from storage.schema import (
    adjudications,
    batch_events,
    batch_tallies,
    batches,
    cases,
    inbox_entries,
    node_runs,
    ratings,
    screenings,
)

ROOT = Path(__file__).parent.parent
NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
PAGES = {"evaluation": "Evaluation", "label_noise": "Labels", "reliability": "Reliability", "errors": "Errors",
         "agreement": "Agreement"}  # fmt: skip
FIRST, AGAIN, MEMORY = 1.0, 0.3, 400
"""Seconds of processor time at 100,000 cases, and megabytes; at a million twice the seconds."""
AUDITED = 0.05
CHUNK = 5_000


def fill(db: Database, number: int) -> None:
    """One settled batch of so many cases with reference labels, of which the audited are read."""
    configuration = Configuration(pipeline=preset("certified"), sampler={"sampler": "bench"})
    version = save_configuration(db, configuration, NOW)
    batch = {"id": "bench", "name": "bench.csv", "kind": "batch", "configuration": version, "seed": 0, "intake": {},
             "audit_rate": AUDITED, "reach": "count", "created_by": "local", "created_at": NOW}  # fmt: skip
    closed = {"batch_id": "bench", "event": "intake_closed", "detail": {}, "actor": "system", "at": NOW}
    random = np.random.default_rng(1)
    with db.write() as conn:
        conn.execute(insert(batches), batch)
        conn.execute(insert(batch_events), closed)
        for start in range(0, number, CHUNK):
            rows = [_rows(row, version, random.random(4)) for row in range(start, min(start + CHUNK, number))]
            for table in (cases, screenings, node_runs, inbox_entries, ratings, adjudications):
                values = [row[table.name] for row in rows if table.name in row]
                if values:
                    conn.execute(insert(table), values)
        tally = {"batch_id": "bench", "shard": 0, "accepted": number, "calls": 9 * number, "last_completed_at": NOW}
        conn.execute(insert(batch_tallies), tally | _outcomes(number))
    analyse(db)


def _outcome(row: int) -> str:
    return ("safe", "safe", "safe", "unsafe", "human_review")[row % 5]


def _outcomes(number: int) -> dict[str, int]:
    return {name: sum(_outcome(row) == name for row in range(5)) * number // 5
            for name in ("safe", "unsafe", "human_review")}  # fmt: skip


def _rows(row: int, version: str, chances: np.ndarray) -> dict[str, dict[str, object]]:
    """The rows of one case, by table."""
    case_id, outcome = f"{row:032d}", _outcome(row)
    label, at = {"human_review": "escalate"}.get(outcome, outcome), NOW + timedelta(seconds=row)
    audited = audit_coin("0", case_id) < AUDITED
    wrong = chances[0] < 0.05
    reference = "unsafe" if (outcome == "unsafe") is not bool(wrong) else "safe"
    codes = {"safe": "S" * 11, "unsafe": "U" * 5, "escalate": "SUEESUUSE" * 8}[label]
    made: dict[str, dict[str, object]] = {
        "cases": {"id": case_id, "batch_id": "bench", "row": row + 1, "external_id": f"p{row}", "text": "A text.",
                  "text_sha256": "0" * 64, "flags": {"text": [], "reply": []}, "priority": 1, "created_at": NOW,
                  "reference": reference, "audit_probability": AUDITED, "audited": audited},
        "screenings": {"case_id": case_id, "batch_id": "bench", "configuration": version, "outcome": outcome,
                       "node": "worker", "reason": "identified", "calls": len(codes), "cost_usd": 0.0, "delta": 0.05,
                       "first_end": label, "doubt": "none" if outcome == "safe" else None, "audited": audited,
                       "audit_probability": AUDITED, "completed_at": at},
        "node_runs": {"case_id": case_id, "position": 0, "node": "worker", "variant": "main", "draws": codes,
                      "unusable": {}, "label": label, "ended": "identified", "calls": len(codes), "input_tokens": 900,
                      "output_tokens": 20, "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": 0.0,
                      "started_at": at, "ended_at": at},
    }  # fmt: skip
    if not audited and outcome != "human_review":
        return made
    closed = at + timedelta(hours=2) if audited else None
    made["inbox_entries"] = {"case_id": case_id, "tier": 2, "why": "unsettled", "entered_at": at, "due_at": at,
                             "reading": "first", "closed_at": closed}  # fmt: skip
    if audited:
        fields = {"ideation": 3 if reference == "unsafe" else 0}
        made["ratings"] = {"case_id": case_id, "reviewer": f"r{row % 7}", "version": 1, "reading": "first",
                           "blind": True, "label": reference, "certainty": 4, "fields": fields, "id": case_id,
                           "at": closed}  # fmt: skip
        made["adjudications"] = {"case_id": case_id, "version": 1, "label": reference, "method": "single",
                                 "by": f"r{row % 7}", "rating_ids": [], "at": closed}  # fmt: skip
    return made


def measure(url: str) -> Iterator[tuple[str, float, float]]:
    """Each page's first and repeated run, in seconds of processor time."""
    os.environ.update(DATABASE_URL=url, SECOND_LOOK_SAMPLER="simulated")
    import streamlit as st
    from streamlit.testing.v1 import AppTest

    from pages.components.singletons import forget_all

    st.cache_data.clear()
    st.cache_resource.clear()
    forget_all()
    for page in PAGES:
        app = AppTest.from_file(str(ROOT / "pages" / "shell.py"), default_timeout=1200).run()
        began = process_time()
        app.switch_page(str(ROOT / "pages" / f"{page}.py")).run()
        first = process_time() - began
        if app.exception:
            raise RuntimeError(f"{page}: {app.exception[0].value}")
        yield page, first, median(_again(app) for _ in range(3))


def _again(app: object) -> float:
    began = process_time()
    app.run()  # type: ignore[attr-defined]
    return process_time() - began


def lines(size: int, found: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """One line a page and aim."""
    times = 1 if size <= 100_000 else 2
    for page, figures in found.items():
        for words, aim, got in (("first", FIRST, figures[0]), ("again", AGAIN, figures[1])):
            met = "met" if got <= times * aim else "NOT MET"
            yield f"{PAGES[page]}, {size:,} cases, {words}: {got:.2f} s of processor time, aim {times * aim:g} s: {met}"


def main() -> None:
    """Print the figures of each size."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sizes", default="100000")
    options.add_argument("--database", default="sqlite", help="sqlite, postgresql, or a URL that is filled")
    chosen = options.parse_args()
    for size in map(int, chosen.sizes.split(",")):
        with throwaway_url(chosen.database) as url:
            db = Database(url)
            db.prepare()
            fill(db, size)
            found = {page: (first, again) for page, first, again in measure(url)}
            for line in lines(size, found):
                print(line, flush=True)
            db.close()
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        met = "met" if held <= MEMORY else "NOT MET"
        print(f"memory after the tour, {size:,} cases: {held} MB, aim {MEMORY} MB: {met}")


if __name__ == "__main__":
    main()
