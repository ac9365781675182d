"""`erase` and `retention`: look, erase, two people, and what is refused."""

import json

import pytest

from commands.__main__ import main
from screening.review.actors import LOCAL_USER
from storage.database import Database
from storage.review.evidence import reveal_text
from storage.schema import ERASED
from storage.settings_store import SiteSettings, change
from tests.storage.batch_of import batch, decide, waiting
from tests.storage.inbox_cases import NOW


@pytest.fixture
def site(sqlite_url: str) -> tuple[str, str]:
    """A database with one decided case, and its id."""
    db = Database(sqlite_url)
    batch(db, ["one text"])
    (case_id,) = waiting(db)
    decide(db, case_id)
    db.close()
    return sqlite_url, case_id


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = main([*arguments])
    return code, json.loads(capsys.readouterr().out)


def _text(url: str, case_id: str) -> str:
    db = Database(url)
    found = reveal_text(db, LOCAL_USER.at(NOW), case_id).text
    db.close()
    return found


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
    db = Database(url)
    change(db, LOCAL_USER.at(NOW), SiteSettings(erasure_by_two=True), 0)
    db.close()
    code, found = _run(capsys, "erase", "--database", url, "--case", case_id, "--reason", "letter")
    assert (code, found["erased"], _text(url, case_id)) == (3, False, "one text")
    assert main(["erase", "--database", url, "--confirm", str(found["waits_for"])]) == 2
    assert "somebody else" in capsys.readouterr().err


def test_retention_says_what_goes_and_does_it(site: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    url, case_id = site
    assert _run(capsys, "retention", "--database", url) == (0, {"dry_run": False, "gone": {}})
    db = Database(url)
    change(db, LOCAL_USER.at(NOW), SiteSettings(keep_texts_days=1), 0)
    db.close()
    code, found = _run(capsys, "retention", "--database", url, "--dry-run")
    assert (code, found["gone"], _text(url, case_id)) == (0, {"texts": 1}, "one text")
    assert _run(capsys, "retention", "--database", url)[1]["gone"] == {"texts": 1}
    assert _text(url, case_id) == ERASED
