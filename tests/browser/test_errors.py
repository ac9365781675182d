"""The Errors page in a real browser: a cell by keyboard and by pointer, the files it gives, hostile names as text."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.review.actors import LOCAL_USER
from screening.text.received import receive
from storage.batches.batches import NewBatch, create_batch
from storage.batches.configurations import save_configuration
from storage.batches.intake import add_rows, close_intake
from storage.database import Database
from tests.browser.accessibility import violations
from tests.browser.conftest import RunningApp, require_well
from tests.storage.batch_of import CONFIGURATION, NOW, decide, waiting

pytestmark = pytest.mark.browser

HOSTILE = "![x](http://outside.example/b.png) <img src=http://outside.example/a.png>"
CELLS = (("S", Outcome.SAFE, 31), ("S", Outcome.UNSAFE, 4), ("S", Outcome.HUMAN_REVIEW, 3), ("U", Outcome.SAFE, 6),
         ("U", Outcome.UNSAFE, 12), ("U", Outcome.HUMAN_REVIEW, 5), ("U", None, 2))  # fmt: skip


@pytest.fixture(scope="module")
def batch_id(running_app: RunningApp) -> Iterator[str]:
    """A batch with cases in every cell, decided by hand."""
    running_app.stop("worker")
    db = Database(running_app.database_url)
    new = NewBatch(
        name=f"{HOSTILE}.csv",
        configuration_version=save_configuration(db, CONFIGURATION, NOW),
        seed=7,
        intake={"provenance": "a jury of three", "label_column": "y"},
    )
    made = create_batch(db, LOCAL_USER.at(NOW), new)
    wanted = [(label, outcome) for label, outcome, count in CELLS for _ in range(count)]
    rows = [
        NewCase(
            row=row, external_id=f"{HOSTILE}{row}", text=receive(f"A quiet day, number {row}. {HOSTILE}"),
            reference={"S": Label.SAFE, "U": Label.UNSAFE}[label], group="letters" if row % 3 else "posts",
        )
        for row, (label, _) in enumerate(wanted, start=1)
    ]  # fmt: skip
    add_rows(db, made, rows, NOW)
    close_intake(db, LOCAL_USER.at(NOW), made)
    for case_id, (_, outcome) in zip(waiting(db), wanted, strict=True):
        if outcome is not None:
            decide(db, case_id, outcome)
    yield made
    db.close()


def _open(page: Page, batch_id: str, cell: str = "") -> None:
    page.goto(f"/errors?batch={batch_id}{cell}")
    expect(page.get_by_role("button", name="Export")).to_be_visible()


def test_the_empty_page_says_where_to_begin(page: Page) -> None:
    page.goto("/errors")
    expect(page.get_by_text("No file uploaded yet")).to_be_visible()
    assert violations(page) == []


def test_a_cell_opens_its_cases(page: Page, batch_id: str) -> None:
    _open(page, batch_id, "&cell=unsafe.safe")
    expect(page.get_by_role("heading", name="Original label unsafe, labeled safe: false negative")).to_be_visible()
    expect(page.get_by_text("6 cases.")).to_be_visible()
    expect(page.get_by_text("a jury of three")).to_be_visible()
    page.get_by_text("Show the start of each text").click()
    page.wait_for_timeout(1500)
    require_well(page, "errors")


def test_the_pointer_and_the_arrow_keys_choose_a_cell(page: Page, batch_id: str) -> None:
    _open(page, batch_id)
    grid = page.get_by_test_id("stDataFrame").first
    expect(grid).to_be_visible()
    box = grid.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.3, box["y"] + 35 + 28)
    expect(page.get_by_role("heading", name="Original label safe, labeled safe")).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("heading", name="Original label unsafe, labeled safe: false negative")).to_be_visible()
    assert "cell=unsafe.safe" in page.url
    page.reload()
    expect(page.get_by_role("heading", name="Original label unsafe, labeled safe: false negative")).to_be_visible()


def test_a_row_of_the_list_leads_to_its_case(page: Page, batch_id: str) -> None:
    _open(page, batch_id, "&cell=unsafe.safe")
    expect(page.get_by_text("6 cases.")).to_be_visible()
    box = page.get_by_test_id("stDataFrame").nth(1).bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 17, box["y"] + 35 + 17)
    page.get_by_role("link", name="Open this case").click()
    expect(page).to_have_url(re.compile(r"/case\?case=[0-9a-f]{32}$"))
    expect(page.get_by_text("A quiet day, number 39").first).to_be_visible()


def test_the_relabelled_files_come_whole(page: Page, batch_id: str, tmp_path: Path) -> None:
    _open(page, batch_id)
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as jsonl:
        page.get_by_role("link", name="Relabelled (JSON lines)").click()
    jsonl.value.save_as(tmp_path / "found.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert len(rows) == sum(count for _, _, count in CELLS)
    assert rows[0]["reference"] == "safe" and rows[0]["provenance"]["provenance"] == "a jury of three"
    with page.expect_download() as table:
        page.get_by_role("link", name="Relabelled (CSV)").click()
    table.value.save_as(tmp_path / "found.csv")
    assert (tmp_path / "found.csv").read_text(encoding="utf-8-sig").startswith('"id","row"')
