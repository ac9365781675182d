"""Results in a real browser: what was missed is read and tagged from the keyboard, and taken along."""

import io
import json
import re
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import violations
from tests.browser.conftest import RunningApp, await_run, screenshot

pytestmark = pytest.mark.browser

LABELS = {"Supportive": "safe", "Ideation": "unsafe", "Attempt": "unsafe"}
ROWS = [("Ideation", "I read a book about the moon."), ("Attempt", "The tram was late again."),
        ("Ideation", "We planted beans in the garden."), ("Supportive", "We walked by the lake and had tea."),
        ("Ideation", "I read a book about the sea."),
        ("Attempt", "The bus was late again."), ("Ideation", "My sister called about the garden."),
        ("Supportive", "I cooked soup for the neighbours."), ("Attempt", "I read a book about the hills.")]  # fmt: skip
MAPPING = (
    '{"second_look_mapping": 1, "columns": {"text": "Post", "id": "nr", "label": "Severity"},'
    ' "labels": {"Supportive": "safe", "Ideation": "unsafe", "Attempt": "unsafe"}}'
)


def test_what_was_missed_is_read_tagged_and_taken_along(page: Page, running_app: RunningApp) -> None:
    content = "nr,Post,Severity\n" + "".join(f"p{n},{text},{label}\n" for n, (label, text) in enumerate(ROWS, 1))
    page.goto("/batches")
    page.locator("input[type=file]").set_input_files(
        files=[{"name": "severity.csv", "mimeType": "text/csv", "buffer": content.encode()}]
    )
    expect(page.get_by_text("File uploads › Check")).to_be_visible()
    page.get_by_text("More columns, conversations, column mapping").click()
    page.get_by_test_id("stExpanderDetails").locator("input[type=file]").first.set_input_files(
        files=[{"name": "mapping.json", "mimeType": "application/json", "buffer": MAPPING.encode()}]
    )
    page.get_by_role("button", name="Use this mapping").click()
    page.get_by_role("button", name="Start screening 9 texts").click()
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=60_000)
    batch_id = page.url.partition("batch=")[2][:32]
    page.goto(f"/results?batch={batch_id}&outcome=safe&reference=unsafe")
    expect(page.get_by_text(re.compile(r"^\d cases?\."))).to_be_visible()
    missed = int(page.get_by_text(re.compile(r"^\d cases?\.")).inner_text().split()[0])
    assert missed >= 3, "the simulated agents call harmless words safe"
    _first_row(page)
    expect(page.get_by_text(f"1 of {missed}")).to_be_visible()
    page.get_by_role("textbox", name="New tag").fill("harmless words")
    page.get_by_role("button", name="Tag", exact=True).click()
    expect(page.get_by_text("✕ harmless words")).to_be_visible()
    for place in range(2, missed + 1):
        _press(page, "j")
        expect(page.get_by_text(f"{place} of {missed}")).to_be_visible()
        _press(page, "1")
        expect(page.get_by_text("✕ harmless words")).to_be_visible()
    _press(page, "k")
    expect(page.get_by_text(f"{missed - 1} of {missed}")).to_be_visible()
    screenshot(page, "results-reader")
    assert violations(page) == []
    with sqlite3.connect(running_app.database_url.removeprefix("sqlite:///")) as db:
        assert db.execute("SELECT count(*) FROM case_tags WHERE tag = 'harmless words'").fetchone() == (missed,)
    with page.expect_download() as started:
        page.get_by_role("link", name="Results (Parquet)").click()
    frame = pd.read_parquet(io.BytesIO(Path(started.value.path()).read_bytes()))
    assert list(frame["id"]) == [f"p{n}" for n in range(1, 10)]
    assert list(frame["reference"]) == [LABELS[label] for label, _ in ROWS]
    assert list(frame["reference_value"]) == [label for label, _ in ROWS]
    assert frame["tags"].map(json.loads).map(len).sum() == missed
    with page.expect_download() as started:
        page.get_by_role("link", name="Results (JSON lines)").click()
    lines = Path(started.value.path()).read_text(encoding="utf-8").splitlines()
    assert frame.astype(object).where(frame.notna(), None).to_dict("records") == [json.loads(line) for line in lines]


def _press(page: Page, key: str) -> None:
    await_run(page)
    page.keyboard.press(key)


def _first_row(page: Page) -> None:
    """Choose the first row of the table by its box."""
    box = page.get_by_test_id("stDataFrame").first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 17, box["y"] + 35 + 17)
