"""`screen --overnight`: refused in words until everything allows it, then the same file by message batches."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from commands.__main__ import main
from screening.review.actors import LOCAL_USER
from storage.database import Database
from storage.settings_store import change, current
from tests.stub_server.plan import StubPlan
from tests.stub_server.server import StubServer

LABELLED = "text,label\n" + "".join(f"Lecture {number} was moved to the afternoon.,safe\n" for number in range(6))
StartStub = Callable[[StubPlan], StubServer]


@pytest.fixture
def site(tmp_path: Path) -> str:
    """The URL of an empty site's database."""
    return f"sqlite:///{tmp_path / 'site.db'}"


def allow(url: str) -> None:
    db = Database(url)
    db.prepare()
    now = current(db)
    change(
        db, LOCAL_USER.at(datetime.now(UTC)), now.settings.model_copy(update={"overnight_allowed": True}), now.version
    )
    db.close()


def screen(tmp_path: Path, site: str, content: str) -> int:
    file = tmp_path / "posts.csv"
    file.write_text(content, encoding="utf-8")
    out = ["--out", str(tmp_path / "out.jsonl"), "--json", "--database", site]
    return main(["screen", str(file), *out, "--sampler", "anthropic", "--overnight", "--patience", "0"])


@pytest.mark.parametrize(
    ("allowed", "more", "words"),
    [
        (False, "", "an administrator has not allowed message batches"),
        (True, "A day at sea.,\n", "1 row has no reference label"),
    ],
)
def test_nothing_is_sent_until_it_is_allowed_and_every_row_has_a_label(
    stub: StartStub, tmp_path: Path, site: str, capsys: pytest.CaptureFixture[str], allowed: bool, more: str, words: str
) -> None:
    server = stub(StubPlan(weights={"safe": 1.0}))
    if allowed:
        allow(site)
    assert screen(tmp_path, site, LABELLED + more) == 2
    assert words in capsys.readouterr().err and server.counters.requests == 0


def test_a_research_file_comes_back_whole(
    stub: StartStub, tmp_path: Path, site: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOND_LOOK_OVERNIGHT_POLL_S", "0.05")
    stub(StubPlan(weights={"safe": 1.0}, batch_s=0.05))
    allow(site)
    assert screen(tmp_path, site, LABELLED) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (summary["rows_in"], summary["safe"], summary["pending"]) == (6, 6, 0)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {(row["outcome"], row["reference"]) for row in rows} == {("safe", "safe")}
