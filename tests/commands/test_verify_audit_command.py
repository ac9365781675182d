"""`verify-audit`: whole, changed, cut off, and a database that is not there."""

import json
from pathlib import Path

import pytest
from sqlalchemy import update

from commands.__main__ import main
from screening.review.actors import LOCAL_USER
from screening.review.policy import Action
from storage.audit_log import record_refusal
from storage.database import Database
from storage.schema import audit_events
from storage.settings_store import start, stop
from tests.databases import write
from tests.storage.inbox_cases import NOW


@pytest.fixture
def log_url(sqlite_url: str) -> str:
    """A database with five events."""
    db = Database(sqlite_url)
    for _ in range(2):
        stop(db, LOCAL_USER.at(NOW))
        start(db, LOCAL_USER.at(NOW))
    record_refusal(db, LOCAL_USER.at(NOW), Action.ERASE)
    db.close()
    return sqlite_url


def _verify(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = main(["verify-audit", *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_a_whole_log_without_an_anchor_is_not_proven(log_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = _verify(capsys, "--database", log_url)
    assert (code, found["verdict"], found["events"], found["anchors"]) == (3, "not proven", 5, 0)


def test_a_changed_event_is_named(log_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    db = Database(log_url)
    write(db, update(audit_events).where(audit_events.c.seq == 2).values(details="{}"))
    db.close()
    code, found = _verify(capsys, "--database", log_url)
    assert (code, found["ok"], found["event"], found["problem"]) == (1, False, 2, "was changed")


def test_only_the_anchor_finds_a_cut_off_end(log_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = str(tmp_path / "anchor.json")
    assert _verify(capsys, "--database", log_url, "--write-anchor", kept)[0] == 3
    assert _verify(capsys, "--database", log_url, "--anchor", kept)[0] == 0, "whole, and proven to be"
    db = Database(log_url)
    write(db, audit_events.delete().where(audit_events.c.seq == 5))
    db.close()
    assert _verify(capsys, "--database", log_url)[0] == 3
    code, found = _verify(capsys, "--database", log_url, "--anchor", kept)
    assert code == 1 and "cut off" in str(found["problem"])


def test_what_is_not_there_is_not_called_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify-audit", "--database", f"sqlite:///{tmp_path}/none.db"]) == 2
    assert "there is no such database" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "not.json").write_text("{}")
    assert main(["verify-audit", "--anchor", str(tmp_path / "not.json")]) == 2
