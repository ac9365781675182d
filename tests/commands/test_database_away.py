"""What commands and workers say where the database cannot be used: a sentence, no traceback, and no password."""

import pytest

import worker
from commands.__main__ import main
from storage.database import Database

NOBODY = "postgresql://user:a-secret@127.0.0.1:1/second_look"


@pytest.mark.parametrize("words", [["batches"], ["verify-audit"], ["retention"], ["pipelines", "list"], ["api"]])
def test_a_command_ends_with_2_and_a_sentence(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", NOBODY)
    assert main(words) == 2, "1 is what a changed audit log ends with"
    assert capsys.readouterr().err == "python -m screening: nothing more was done: the database is away\n"


def test_a_worker_ends_with_1_and_a_sentence(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("DATABASE_URL", NOBODY)
    monkeypatch.setattr("jobs.process.set_up_log", lambda _format: None)
    with pytest.raises(SystemExit, match="1"):
        worker.main()
    assert worker.alive() == 1
    assert [one.getMessage() for one in caplog.records] == ["the database is away"]


@pytest.mark.parametrize("url", ["second_look", "postgresql://user:p@a-:secret/rd@127.0.0.1/second_look"])
def test_an_address_that_cannot_be_read_is_refused_without_a_part_of_it(url: str) -> None:
    with pytest.raises(ValueError, match="no address of a database") as refused:
        Database(url)
    assert "secret" not in str(refused.value) and "a-" not in str(refused.value)
