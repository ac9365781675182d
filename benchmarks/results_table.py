"""The table of results: its first page and its filters in a batch of 1,000,000 rows, as the page asks the database.

    python -m benchmarks.results_table [--rows 1000000]

The rows are written by SQL, three in a thousand missed and thirty in all tagged. Medians of three, in seconds of wall
clock, each with its aim; SQLite, no text is read.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import text

from benchmarks.figures import tell
from screening.labels import Label
from screening.review.policy import Actor, Role
from storage.database import Database
from storage.research.cells import Cell, cell_choices, cell_page, confusions

NOW = datetime(2026, 11, 20, tzinfo=UTC)
WHO = Actor(id="rae", name="Rae", roles=frozenset({Role.RESEARCHER}))
BATCH = "b" * 32
FIRST_PAINT_S, FILTER_S = 0.3, 1.0
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows)"
FILL = (
    "INSERT INTO configurations (version, body, created_at) VALUES ('v', '{\"pipeline\": {}}', 0)",
    "INSERT INTO batches (id, name, kind, configuration, seed, audit_rate, intake, created_by, created_at)"
    " VALUES (:batch, 'many.csv', 'batch', 'v', 1, 0, '{}', 'rae', 0)",
    "INSERT INTO cases (id, batch_id, row, external_id, text, text_sha256, flags, reference, group_name,"
    f" audit_probability, created_at) {NUMBERS} SELECT printf('%032d', i), :batch, i, 'post-' || i, 'a text',"
    " '', '{\"text\": [], \"reply\": []}', CASE WHEN i % 4 = 0 THEN 'unsafe' ELSE 'safe' END, 'g' || (i % 5), 0, 0"
    " FROM n",
    "INSERT INTO screenings (case_id, batch_id, configuration, outcome, node, reason, calls, completed_at, row, gap)"
    " SELECT id, :batch, 'v', CASE WHEN row % 1000 IN (4, 8, 12) THEN 'safe' ELSE reference END, 'worker',"
    " 'identified', 11, 0, row, CASE WHEN row % 10007 = 0 THEN 0.1 ELSE 0.8181 END FROM cases",
    "UPDATE screenings SET kind = outcome || '/' || (SELECT reference FROM cases WHERE id = case_id) || '/worker/'"
    " || reason",
    "INSERT INTO batch_counts SELECT batch_id, 0, kind, count(*), 0, 0, 0, 0, NULL FROM screenings"
    " GROUP BY batch_id, kind",
    "INSERT INTO node_runs (case_id, position, node, variant, draws, unusable, ended, calls, input_tokens,"
    " output_tokens, cache_read_tokens, cache_write_tokens, started_at, ended_at, label, batch_id, row) SELECT id, 0,"
    " 'worker', 'main', 'SSSSSSSSUSS', '{}', 'identified', 11, 0, 0, 0, 0, 0, 0, CASE WHEN row % 10007 = 0 THEN"
    " 'escalate' ELSE 'safe' END, batch_id, row FROM cases",
    "INSERT INTO case_tags (case_id, tag, \"by\", at) SELECT id, 'lyrics', 'rae', 0 FROM cases"
    " WHERE row % (:rows / 30) = 0",
)


def fill(folder: Path, rows: int) -> Database:
    """A database with one screened batch of so many rows."""
    db = Database(f"sqlite:///{folder / f'{rows}.db'}")
    db.prepare()
    with db.write() as conn:
        for statement in FILL:
            conn.execute(text(statement), {"rows": rows, "batch": BATCH})
    with db.write() as conn:
        conn.execute(text("ANALYZE"))
    return db


def measure(rows: int, name: str, aim: float, asked: Callable[[], object]) -> None:
    """Ask three times and tell the median."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        asked()
        seconds.append(time.perf_counter() - began)
    tell(f"{rows:,} rows, {name}", statistics.median(seconds), "s", aim)


def run(db: Database, rows: int) -> None:
    """The first page, the choices of its filters, and lists that are narrowed in usual and in rare ways."""
    every = Cell(batch_id=BATCH)
    lists = {
        "missed (3 in 1,000)": Cell(batch_id=BATCH, outcome="safe", reference="unsafe"),
        "an outcome that nothing has": Cell(batch_id=BATCH, outcome="human_review"),
        "a tag of thirty cases": Cell(batch_id=BATCH, tag="lyrics"),
        "search, one case": Cell(batch_id=BATCH, search="post-77777"),
        "search, none": Cell(batch_id=BATCH, search="nothing like it"),
        "a gap that one in 10,000 has": Cell(batch_id=BATCH, gap_at_most=0.2),
        "a way that one in 10,000 took": Cell(batch_id=BATCH, way=("worker", Label.ESCALATE)),
        "a way that nearly all took": Cell(batch_id=BATCH, way=("worker", Label.SAFE)),
        "an agent that all ended at": Cell(batch_id=BATCH, node="worker"),
        "a fifth of all, by their group": Cell(batch_id=BATCH, group="g3"),
        "missed, sorted by gap": Cell(batch_id=BATCH, outcome="safe", reference="unsafe", sort="gap"),
    }
    measure(rows, "first paint: the first 25 of all", FIRST_PAINT_S, lambda: cell_page(db, WHO.at(NOW), every, 25))
    measure(rows, "what can be chosen in the filters", FIRST_PAINT_S, lambda: cell_choices(db, WHO, every))
    for name, wanted in lists.items():
        measure(rows, name, FILTER_S, lambda wanted=wanted: cell_page(db, WHO.at(NOW), wanted, 25))  # type: ignore[misc]
    measure(rows, "both matrices of the Errors page", FILTER_S, lambda: confusions(db, WHO, BATCH))


def main() -> None:
    """Print the figures at each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    for rows in parser.parse_args().rows:
        with tempfile.TemporaryDirectory() as folder:
            db = fill(Path(folder), rows)
            run(db, rows)
            db.close()


if __name__ == "__main__":
    main()
