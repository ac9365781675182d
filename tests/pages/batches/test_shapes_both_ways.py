"""The shapes that research files really have go in through the page and the command line with the same rows."""

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from commands.__main__ import main
from pages.batches.intake_runs import intake_runs
from screening.review.actors import LOCAL_USER
from storage.batches.batches import progress
from storage.batches.results import results
from storage.database import Database
from tests.pages.batches.test_mapping import SHAPES, press, upload, use_mapping
from tests.pages.conftest import Opener, words_on
from tests.storage.batch_of import NOW

SEVERITIES = "Supportive=safe,Indicator=safe,Ideation=unsafe,Behavior=unsafe,Attempt=unsafe"
WAYS = {
    "users_with_severity.csv": (("--join-lists", "--labels", SEVERITIES), 15, 1),
    "posts_five_models.csv": ((), 12, 0),
    "chatbot_replies.json": ((), 10, 0),
    "conversations.jsonl": (("--conversations", "messages"), 6, 1),
    "turns.csv": (("--conversations", "rows"), 6, 1),
    "transcripts.csv": (
        ("--conversations", "transcript", "--text-column", "transcript", "--speakers", "Visitor=user,Helper=assistant"),
        6,
        1,
    ),
}


def by_page(page: AppTest, db: Database) -> tuple[str, list[tuple[str, str | None, str | None]]]:
    press(page, "Start screening")
    intake_runs().wait()
    named = page.query_params["batch"]
    batch_id = named if isinstance(named, str) else named[0]
    return batch_id, [(row.external_id, row.reference, row.group) for row in results(db, LOCAL_USER.at(NOW), batch_id)]


@pytest.mark.parametrize("file", WAYS)
def test_it_comes_in_alike_both_ways(
    open_page: Opener, page_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    options, accepted, rejected = WAYS[file]
    out, mapping = tmp_path / "out.jsonl", tmp_path / "mapping.json"
    assert main(["screen", str(SHAPES / file), *options, "--out", str(out), "--save-mapping", str(mapping)]) == 0
    counts = f"rows_in: {accepted + rejected}\naccepted: {accepted}\nrejected: {rejected}\n"
    assert counts in capsys.readouterr().out
    by_command = [json.loads(line) for line in out.read_text().splitlines()]
    page = use_mapping(upload(open_page, (SHAPES / file).read_bytes(), file), json.loads(mapping.read_text()))
    assert f"{accepted + rejected} rows: {accepted} accepted, {rejected} rejected" in words_on(page)
    batch_id, rows = by_page(page, page_database)
    assert rows == [(row["id"], row["reference"], row["group"]) for row in by_command]
    found = progress(page_database, batch_id)
    assert (found.accepted, found.rejected) == (accepted, rejected)
