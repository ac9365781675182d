"""Commands of whoever runs a site: settings, erase, retention and verify-audit; and of a database that is away."""

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update

import worker
from screening.review.actors import LOCAL_USER
from screening.review.policy import Action
from screening.settings import Settings
from storage.audit_log import record_refusal
from storage.database import Database
from storage.review.evidence import reveal_text
from storage.schema import ERASED, audit_events
from storage.settings_store import SiteSettings, change, start, stop
from tests.commands.conftest import Run
from tests.databases import write
from tests.storage.batch_of import batch, decide, waiting
from tests.storage.people import NOW

NOBODY = "postgresql://user:a-secret@127.0.0.1:1/second_look"


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


def test_look_then_erase_by_one_name_alone(site: tuple[str, str], run: Run) -> None:
    erase = ("erase", "--database", site[0])
    for named in ([], ["--case", "a", "--group", "b"]):
        assert run(*erase, *named).code == 2 and _text(*site) == "one text"
    found = run(*erase, "--external-id", "p1", "--dry-run").report
    assert (found["erased"], found["cases"], _text(*site)) == (False, 1, "one text")
    said = run(*erase, "--external-id", "p1", "--reason", "letter")
    assert (said.code, said.report["erased"], said.report["backups_that_may_still_hold_it"]) == (0, True, [])
    assert _text(*site) == ERASED
    said = run(*erase, "--external-id", "p1", "--reason", "letter")
    assert said.code == 2 and "nothing of this name" in said.err


def test_two_people_means_exit_code_3(site: tuple[str, str], run: Run) -> None:
    _set(site[0], SiteSettings(erasure_by_two=True))
    said = run("erase", "--database", site[0], "--case", site[1], "--reason", "letter")
    assert (said.code, said.report["erased"], _text(*site)) == (3, False, "one text")
    said = run("erase", "--database", site[0], "--confirm", said.report["waits_for"])
    assert said.code == 2 and "somebody else" in said.err


def test_retention_says_what_goes_and_does_it(site: tuple[str, str], run: Run) -> None:
    retention = ("retention", "--database", site[0])
    assert run(*retention).report == {"dry_run": False, "gone": {}}
    _set(site[0], SiteSettings(keep_texts_days=1))
    assert (run(*retention, "--dry-run").report["gone"], _text(*site)) == ({"texts": 1}, "one text")
    assert (run(*retention).report["gone"], _text(*site)) == ({"texts": 1}, ERASED)


def test_a_whole_log_is_proven_by_an_anchor_alone_which_also_finds_a_cut_off_end_and_a_changed_event_is_named(
    sqlite_url: str, tmp_path: Path, run: Run
) -> None:
    verify, kept = ("verify-audit", "--database", sqlite_url), str(tmp_path / "anchor.json")
    with closing(Database(sqlite_url)) as db:
        for does in (stop, start, stop, start):
            does(db, LOCAL_USER.at(NOW))
        record_refusal(db, LOCAL_USER.at(NOW), Action.ERASE)  # names no row, so that nothing else tells of it
        code, *_ = said = run(*verify, "--write-anchor", kept)
        found = said.report
        assert (code, found["verdict"], found["events"], found["anchors"]) == (3, "not proven", 5, 0)
        assert run(*verify, "--anchor", kept).code == 0, "whole, and proven to be"
        write(db, audit_events.delete().where(audit_events.c.seq == 5))
        assert run(*verify).code == 3
        said = run(*verify, "--anchor", kept)
        assert said.code == 1 and "cut off" in said.report["problem"]
        write(db, update(audit_events).where(audit_events.c.seq == 2).values(details="{}"))
        said = run(*verify)
        assert (said.code, said.report["event"], said.report["problem"]) == (1, 2, "was changed")
    (tmp_path / "not.json").write_text("{}")
    assert run("verify-audit", "--anchor", tmp_path / "not.json").code == 2
    assert run("verify-audit", "--database", f"sqlite:///{tmp_path}/none.db").code == 2
    assert not (tmp_path / "none.db").exists(), "what is not there is not called whole"


def test_every_option_has_a_row_and_a_sentence_and_no_key_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:password@host/name")
    said = run("settings").out
    rows = [line.split(" | ") for line in said.splitlines()[2:]]
    assert len(rows) == len(Settings.model_fields) and all(len(row) == 4 and len(row[3]) > 10 for row in rows)
    assert {row[0] for row in rows if row[2].strip() == "yes"} >= {"| `ANTHROPIC_API_KEY`", "| `DATABASE_URL`"}
    assert "sk-secret" not in said and "me:password@host" not in said


def test_where_the_database_is_away_each_ends_with_a_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DATABASE_URL", NOBODY)
    for words in (["batches"], ["verify-audit"], ["retention"], ["pipelines", "list"], ["api"]):
        said = run(*words)
        assert said.code == 2, "1 is what a changed audit log ends with"
        assert said.err == "python -m screening: nothing more was done: the database is away\n"
    monkeypatch.setattr("jobs.process.set_up_log", lambda _format: None)
    caplog.clear()
    with pytest.raises(SystemExit, match="1"):
        worker.main()
    assert worker.alive() == 1
    assert [one.getMessage() for one in caplog.records] == ["the database is away"]


def test_an_address_that_cannot_be_read_is_refused_without_a_part_of_it() -> None:
    for url in ("second_look", "postgresql://user:p@a-:secret/rd@127.0.0.1/second_look"):
        with pytest.raises(ValueError, match="no address of a database") as refused:
            Database(url)
        assert "secret" not in str(refused.value) and "a-" not in str(refused.value)
