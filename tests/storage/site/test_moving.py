"""From SQLite to PostgreSQL: every row, in its type, with the audit chain whole and life going on there."""

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select, update

from commands.__main__ import main
from jobs.local import only_worker
from screening.labels import Outcome
from storage import audit_log
from storage.batches.batches import progress
from storage.batches.pending import record_error
from storage.database import Database
from storage.schema import audit_events, metadata
from storage.site import audit_check
from storage.site.moving import PLACED_IN_ANOTHER_DATABASE, MoveRefused, move
from tests.databases import write
from tests.storage.batch_of import LATER, NOW, batch, decide, record_start, waiting

TEXTS = ("A walk in the rain.", 'Zwölf "Boxkämpfer", \u2028 jagen\n\n=1+1', "nul \x00 and \ud83d alone", "four")


@pytest.fixture
def site(sqlite_url: str) -> str:
    """A site with a bit of everything; its URL."""
    with closing(Database(sqlite_url)) as db:
        batch(db, TEXTS, audit_rate=1.0, references="SU--")
        first, second, third, _ = waiting(db)
        decide(db, first)
        decide(db, second, Outcome.HUMAN_REVIEW)
        record_start(db, third, "worker", NOW)
        record_error(db, third, "timeout", "no answer", LATER)
    return sqlite_url


def _rows(db: Database) -> dict[str, list[tuple[object, ...]]]:
    return {
        table.name: [tuple(row) for row in db.rows(select(table).order_by(*table.primary_key.columns))]
        for table in metadata.sorted_tables
        if table.name not in (*PLACED_IN_ANOTHER_DATABASE, "audit_events")
    }


def test_every_row_arrives_and_life_goes_on(site: str, postgresql_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["move", "--database", site, "--to", postgresql_url]) == 0
    assert "moved and checked" in capsys.readouterr().out
    with closing(Database(site)) as old, closing(Database(postgresql_url)) as new:
        assert _rows(new) == _rows(old)
        assert audit_check.verify(new, [audit_log.anchor(old)]).ok
        (batch_id,) = _rows(new)["batches"][0][:1]
        assert progress(new, str(batch_id)) == progress(old, str(batch_id))
        another = batch(new, ["five"])
        decide(new, waiting(new)[-1])
        assert progress(new, another).accepted == 1


def test_a_mistyped_path_leaves_nothing_behind_and_the_new_database_empty(
    site: str, postgresql_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mistyped"
    folder.mkdir()
    assert main(["move", "--database", f"sqlite:///{folder / 'site.db'}", "--to", postgresql_url]) == 2
    assert "no such database" in capsys.readouterr().err and list(folder.iterdir()) == []
    assert main(["move", "--database", site, "--to", postgresql_url]) == 0


def test_while_a_worker_works_it_is_refused_in_words(
    site: str, postgresql_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(Database(site)) as old, only_worker(old.lock_file):
        assert main(["move", "--database", site, "--to", postgresql_url]) == 2
    assert "stop app and worker first" in capsys.readouterr().err


def test_a_changed_audit_log_is_found(site: str, postgresql_url: str) -> None:
    with closing(Database(site)) as old, closing(Database(postgresql_url)) as new:
        write(old, update(audit_events).where(audit_events.c.seq == 1).values(action="nothing"))
        with pytest.raises(MoveRefused, match="not whole"):
            move(old, new, LATER)


def test_a_database_in_use_is_left_alone(site: str, postgresql_db: Database) -> None:
    batch(postgresql_db, ["here already"])
    before = _rows(postgresql_db)
    with closing(Database(site)) as old, pytest.raises(MoveRefused, match="not empty"):
        move(old, postgresql_db, LATER)
    assert _rows(postgresql_db) == before


def test_only_an_embedded_database_moves_and_only_to_a_postgresql(
    site: str, postgresql_db: Database, tmp_path: Path
) -> None:
    with closing(Database(site)) as old:
        for source, target in (
            (postgresql_db, old),
            (old, old),
            (Database(f"sqlite:///{tmp_path / 'no.db'}"), postgresql_db),
        ):
            with pytest.raises(MoveRefused):
                move(source, target, LATER)
