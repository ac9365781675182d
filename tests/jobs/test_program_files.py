"""A program's file that was answered with 202 is taken in whole, though the service is killed in the middle of it."""

import urllib.parse
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import func, select

from screening.datasets.mapping import ColumnMapping, FileMapping, mapping_json
from screening.labels import Label
from screening.review.actors import LOCAL_USER
from storage.batches.intake import takes_rows
from storage.database import Database
from storage.schema import cases
from storage.site.programs import Scope, make_program
from tests.free_port import free_port
from tests.jobs.processes import Workers, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
ROWS = 3_000
VALUES = ("quiet", "grave")
"""Of the label column: what they stand for is in the mapping that the program sends with the file."""
MAPPING = mapping_json(
    FileMapping(
        columns=ColumnMapping(text="text", id="id", label="label"), labels={"quiet": Label.SAFE, "grave": Label.UNSAFE}
    )
)


def _is_up(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _rows_in(db: Database) -> int:
    return db.value(select(func.count()).select_from(cases))


def test_a_file_goes_on_where_the_service_was_killed(
    db: Database, database_url: str, workers: Workers, tmp_path: Path
) -> None:
    made = make_program(db, LOCAL_USER.at(datetime.now(UTC)), "chat", set(Scope), 100)
    port, folder = free_port(), tmp_path / "data" / "programs"
    address, options = f"http://127.0.0.1:{port}", {"sampler": "simulated", "data_directory": tmp_path / "data"}

    def start() -> None:
        workers.start(database_url, options, ("-m", "screening", "api", "--port", str(port)))
        wait_for(lambda: _is_up(address), 120)

    start()
    lines = (f"p{row},a quiet day by the river,{VALUES[row % 2]}" for row in range(ROWS))
    headers = {"Authorization": f"Bearer {made.token}", "Idempotency-Key": "f1"}
    asked = urllib.request.Request(
        f"{address}/api/v1/batches?name=a.csv&mapping={urllib.parse.quote(MAPPING)}",
        data="\n".join(("id,text,label", *lines)).encode(),
        headers=headers,
    )
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert answer.status == 202
    wait_for(lambda: _rows_in(db) > 0, 60)
    workers.kill()
    assert _rows_in(db) < ROWS, "it was killed in the middle"
    start()
    wait_for(lambda: _rows_in(db) == ROWS and not list(folder.iterdir()), 120)
    found = dict(db.rows(select(cases.c.reference, func.count()).group_by(cases.c.reference)))
    (batch_id,) = db.values(select(cases.c.batch_id).distinct())
    assert found == {"safe": ROWS // 2, "unsafe": ROWS // 2} and not takes_rows(db, batch_id)
