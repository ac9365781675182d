"""Commands of whoever runs a site: settings, erase, retention and verify-audit."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update

from commands.__main__ import main
from screening.review.actors import LOCAL_USER
from screening.review.policy import Action
from screening.settings import Settings
from storage.audit_log import record_refusal
from storage.database import Database
from storage.review.evidence import reveal_text
from storage.schema import ERASED, audit_events
from storage.settings_store import SiteSettings, change, start, stop
from tests.databases import write
from tests.storage.batch_of import batch, decide, waiting
from tests.storage.inbox_cases import NOW


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = main([*arguments])
    return code, json.loads(capsys.readouterr().out)


@pytest.fixture
def site(sqlite_url: str) -> tuple[str, str]:
    """A database with one decided case, and its id."""
    with closing(Database(sqlite_url)) as db:
        batch(db, ["one text"])
        (case_id,) = waiting(db)
        decide(db, case_id)
    return sqlite_url, case_id


def _set(url: str, settings: SiteSettings) -> None:
    with closing(Database(url)) as db:
        change(db, LOCAL_USER.at(NOW), settings, 0)


def _text(url: str, case_id: str) -> str:
    with closing(Database(url)) as db:
        return reveal_text(db, LOCAL_USER.at(NOW), case_id).text


def test_look_then_erase(site: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    url, case_id = site
    code, found = _run(capsys, "erase", "--database", url, "--external-id", "p1", "--dry-run")
    assert (code, found["erased"], found["cases"], _text(url, case_id)) == (0, False, 1, "one text")
    code, found = _run(capsys, "erase", "--database", url, "--external-id", "p1", "--reason", "letter")
    assert (code, found["erased"], found["backups_that_may_still_hold_it"]) == (0, True, [])
    assert _text(url, case_id) == ERASED
    assert main(["erase", "--database", url, "--external-id", "p1", "--reason", "letter"]) == 2
    assert "nothing of this name" in capsys.readouterr().err


def test_two_people_means_exit_code_3(site: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    url, case_id = site
    _set(url, SiteSettings(erasure_by_two=True))
    code, found = _run(capsys, "erase", "--database", url, "--case", case_id, "--reason", "letter")
    assert (code, found["erased"], _text(url, case_id)) == (3, False, "one text")
    assert main(["erase", "--database", url, "--confirm", str(found["waits_for"])]) == 2
    assert "somebody else" in capsys.readouterr().err


@pytest.mark.parametrize("named", [[], ["--case", "a", "--group", "b"]])
def test_what_is_to_be_erased_is_named_in_one_way(site: tuple[str, str], named: list[str]) -> None:
    assert main(["erase", "--database", site[0], *named]) == 2 and _text(*site) == "one text"


def test_retention_says_what_goes_and_does_it(site: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    url, case_id = site
    assert _run(capsys, "retention", "--database", url) == (0, {"dry_run": False, "gone": {}})
    _set(url, SiteSettings(keep_texts_days=1))
    code, found = _run(capsys, "retention", "--database", url, "--dry-run")
    assert (code, found["gone"], _text(url, case_id)) == (0, {"texts": 1}, "one text")
    assert _run(capsys, "retention", "--database", url)[1]["gone"] == {"texts": 1}
    assert _text(url, case_id) == ERASED


@pytest.fixture
def log_url(sqlite_url: str) -> str:
    """A database with five events; the last names no row, so that nothing but an anchor tells of it."""
    with closing(Database(sqlite_url)) as db:
        for does in (stop, start, stop, start):
            does(db, LOCAL_USER.at(NOW))
        record_refusal(db, LOCAL_USER.at(NOW), Action.ERASE)
    return sqlite_url


def test_a_whole_log_without_an_anchor_is_not_proven_and_a_changed_event_is_named(
    log_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = _run(capsys, "verify-audit", "--database", log_url)
    assert (code, found["verdict"], found["events"], found["anchors"]) == (3, "not proven", 5, 0)
    with closing(Database(log_url)) as db:
        write(db, update(audit_events).where(audit_events.c.seq == 2).values(details="{}"))
    code, found = _run(capsys, "verify-audit", "--database", log_url)
    assert (code, found["ok"], found["event"], found["problem"]) == (1, False, 2, "was changed")


def test_only_the_anchor_finds_a_cut_off_end(log_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked, kept = ("verify-audit", "--database", log_url), str(tmp_path / "anchor.json")
    assert _run(capsys, *asked, "--write-anchor", kept)[0] == 3
    assert _run(capsys, *asked, "--anchor", kept)[0] == 0, "whole, and proven to be"
    with closing(Database(log_url)) as db:
        write(db, audit_events.delete().where(audit_events.c.seq == 5))
    assert _run(capsys, *asked)[0] == 3
    code, found = _run(capsys, *asked, "--anchor", kept)
    assert code == 1 and "cut off" in str(found["problem"])


def test_what_is_not_there_is_not_called_whole(tmp_path: Path) -> None:
    assert main(["verify-audit", "--database", f"sqlite:///{tmp_path}/none.db"]) == 2
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "not.json").write_text("{}")
    assert main(["verify-audit", "--anchor", str(tmp_path / "not.json")]) == 2


def test_every_option_has_a_row_and_a_sentence_and_no_key_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:password@host/name")
    assert main(["settings"]) == 0
    said = capsys.readouterr().out
    rows = [line.split(" | ") for line in said.splitlines()[2:]]
    assert len(rows) == len(Settings.model_fields) and all(len(row) == 4 and len(row[3]) > 10 for row in rows)
    assert {row[0] for row in rows if row[2].strip() == "yes"} >= {"| `ANTHROPIC_API_KEY`", "| `DATABASE_URL`"}
    assert "sk-secret" not in said and "me:password@host" not in said
