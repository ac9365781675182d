"""The researcher's pages in a real browser: cases read and tagged by keyboard, cells opened, charts drawn, files taken
along, hostile words as text.
"""

import asyncio
import io
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Locator, Page, expect

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.review.actors import LOCAL_USER
from screening.text.received import receive
from storage.batches.batches import NewBatch, create_batch
from storage.batches.configurations import save_configuration
from storage.batches.intake import add_rows, close_intake
from storage.database import Database
from tests.browser.accessibility import violations
from tests.browser.conftest import EXPECT_MS, RunningApp, await_run, require_well, screenshot, screenshots
from tests.pages.researched import review, sample_rows, screening_of
from tests.storage.batch_of import CONFIGURATION, NOW, decide, waiting

pytestmark = pytest.mark.browser

HOSTILE = "![x](http://outside.example/b.png) <img src=http://outside.example/a.png>"


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


CELLS = (("S", Outcome.SAFE, 31), ("S", Outcome.UNSAFE, 4), ("S", Outcome.HUMAN_REVIEW, 3), ("U", Outcome.SAFE, 6),
         ("U", Outcome.UNSAFE, 12), ("U", Outcome.HUMAN_REVIEW, 5), ("U", None, 2))  # fmt: skip


def click_table(within: Page | Locator, table: int, x: float, y: float) -> None:
    """At this place of a table, which is drawn on a canvas; x below 1 is a share of its width."""
    grid = within.get_by_test_id("stDataFrame").nth(table)
    expect(grid).to_be_visible()
    box = grid.bounding_box()
    assert box is not None
    grid.page.mouse.click(box["x"] + (x * box["width"] if x < 1 else x), box["y"] + 35 + y)


def _press(page: Page, key: str) -> None:
    await_run(page)
    page.keyboard.press(key)


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
    click_table(page, 0, 17, 17)
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
    screenshot(page, "results-reviewer")
    assert violations(page) == []
    with sqlite3.connect(running_app.database_url.removeprefix("sqlite:///")) as db:
        assert db.execute("SELECT count(*) FROM case_tags WHERE tag = 'harmless words'").fetchone() == (missed,)
    page.get_by_role("button", name="Export").click()
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


@pytest.fixture(scope="module")
def batch_id(running_app: RunningApp) -> Iterator[str]:
    """The sample data screened, half of it under audit, and most of what waits read blind."""
    running_app.stop("worker")
    db = Database(running_app.database_url)
    # Not asyncio.run: the browser's own loop is at work in this thread.
    made: list[str] = []
    _in_thread(lambda: made.append(asyncio.run(screening_of(db, sample_rows(), audit_rate=0.5, provenance=HOSTILE))))
    review(db, "safe", most=45)
    yield made[0]
    db.close()


def _in_thread(work) -> None:  # type: ignore[no-untyped-def]
    from threading import Thread

    thread = Thread(target=work)
    thread.start()
    thread.join()


@pytest.fixture(scope="module")
def matrix(running_app: RunningApp) -> Iterator[str]:
    """A batch with cases in every cell, decided by hand."""
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


def test_a_cell_is_chosen_by_pointer_and_keys_and_a_row_of_it_leads_to_its_case(page: Page, matrix: str) -> None:
    page.goto(f"/errors?batch={matrix}")
    expect(page.get_by_role("button", name="Export")).to_be_visible()
    expect(page.get_by_text("a jury of three")).to_be_visible()
    click_table(page, 0, 0.3, 28)
    expect(page.get_by_role("heading", name="Original label safe, labeled safe")).to_be_visible()
    page.keyboard.press("ArrowDown")
    missed = page.get_by_role("heading", name="Original label unsafe, labeled safe: false negative")
    expect(missed).to_be_visible()
    assert "cell=unsafe.safe" in page.url
    page.reload()
    expect(missed).to_be_visible()
    expect(page.get_by_text("6 cases.")).to_be_visible()
    page.get_by_text("Show the start of each text").click()
    await_run(page)
    require_well(page, "errors")
    click_table(page, 1, 17, 17)
    page.get_by_role("link", name="Open this case").click()
    expect(page).to_have_url(re.compile(r"/case\?case=[0-9a-f]{32}$"))
    expect(page.get_by_text("A quiet day, number 39").first).to_be_visible()


def test_evaluation_shows_table_curves_sliders_and_the_cases_of_a_cell(
    page: Page, batch_id: str, tmp_path: Path
) -> None:
    page.goto(f"/evaluation?batch={batch_id}")
    expect(page.get_by_role("button", name="Export")).to_be_visible()
    expect(page.get_by_text("outside.example")).to_be_visible()  # as text
    require_well(page, "evaluation-results")
    await_run(page)  # what is drawn above an open list moves it out of sight
    page.get_by_role("button", name="Export").click()
    page.get_by_role("radio", name="LaTeX").click()
    await_run(page)  # until then the button gives what was chosen before
    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).click()
    download.value.save_as(tmp_path / "table.tex")
    assert r"B=50 & ---" in (tmp_path / "table.tex").read_text(encoding="utf-8")
    page.keyboard.press("Escape")
    for tab, shown in (("Budget sweep", ".js-plotly-plot"), ("Calls and tokens", ".js-plotly-plot")):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel").locator(f"{shown}:visible").first).to_be_visible()
        await_run(page)
        screenshots(page, f"evaluation-{tab.split()[0].lower()}")
    page.get_by_role("tab", name="What if").click()
    expect(page.get_by_text("Reviews a day")).to_be_visible()
    require_well(page, "evaluation-what-if")
    page.get_by_role("tab", name="Cases").click()
    panel = page.get_by_role("tabpanel").filter(has_text="Click a cell")
    click_table(panel, 0, 0.45, 18)
    expect(panel.get_by_text("cases: original label safe")).to_be_visible()
    screenshot(page, "evaluation-cases")


def test_reliability_leads_with_the_missed_and_prints_a_report_that_fetches_nothing(
    page: Page, batch_id: str, tmp_path: Path
) -> None:
    page.goto("/reliability")
    expect(page.get_by_text("Missed cases per 1,000 labeled safe", exact=True)).to_be_visible()
    expect(page.get_by_text("cannot be guaranteed yet")).to_be_visible()
    require_well(page, "reliability")
    for tab in ("Confidence sequence", "Planner", "Drift"):
        page.get_by_role("tab", name=tab).click()
        await_run(page)
        screenshots(page, f"reliability-{tab.split()[0].lower()}")
    page.get_by_role("tab", name="Configuration measured").click()
    await_run(page)
    require_well(page, "reliability-what")
    with page.expect_download() as download:
        page.get_by_role("button", name="Report to print").click()
    download.value.save_as(tmp_path / "report.html")
    page.set_content((tmp_path / "report.html").read_text(encoding="utf-8"))
    expect(page.get_by_role("heading", name="Reliability of automatic labels")).to_be_visible()
    screenshot(page, "reliability-report")


def test_labels_and_theory_open(page: Page, batch_id: str) -> None:
    page.goto(f"/label_noise?batch={batch_id}")
    expect(page.get_by_role("button", name="Send to review")).to_be_visible(timeout=2 * EXPECT_MS)
    require_well(page, "labels")
    page.goto("/theory")
    expect(page.get_by_role("heading", name="The paper's claims beside what the code shows")).to_be_visible()
    await_run(page)
    require_well(page, "theory")


def test_a_plan_fixed_on_the_settings_page_is_the_one_claimed_by(page: Page, batch_id: str) -> None:
    page.goto("/settings")
    page.get_by_role("tab", name="Site").click()
    expect(page.get_by_text("Never changed.", exact=True)).to_be_visible()
    page.get_by_label("Misses allowed").fill("2")
    page.keyboard.press("Enter")
    needed = page.get_by_test_id("stMetric").filter(has_text="Reviewed unsafe texts needed")
    expect(needed).to_contain_text("124")
    page.get_by_role("button", name="Lock plan").click()
    expect(page.get_by_text("is active.")).to_be_visible()
    screenshot(page, "settings-plan")
    assert violations(page) == []
    page.goto("/reliability")
    expect(page.get_by_text(re.compile("cannot be guaranteed yet: 0 of 124"))).to_be_visible()
    expect(
        page.get_by_text(re.compile("Last changed on .* changed after misses were seen is no guarantee"))
    ).to_be_visible()


APART = """() => [...document.querySelectorAll(".js-plotly-plot")].map((figure) => {
  const [title, axis, names] = [".gtitle", ".xtitle", ".legend"].map(
    (part) => figure.querySelector(part).getBoundingClientRect());
  const within = title.right <= figure.getBoundingClientRect().right;
  return within && title.bottom <= axis.top && axis.bottom <= names.top;
})"""


def test_on_a_phone_figures_have_a_whole_title_and_no_names_on_one_another(page: Page, batch_id: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/theory")
    expect(page.locator(".js-plotly-plot .legend")).to_have_count(3)
    await_run(page)
    assert page.evaluate(APART) == [True, True, True]
    page.goto(f"/evaluation?batch={batch_id}")
    for tab in ("Budget sweep", "Calls and tokens"):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(".js-plotly-plot .legend:visible")).to_have_count(1)
        await_run(page)
        assert page.evaluate(f"({APART.replace('.map((figure)', '.slice(0, 1).map((figure)')})()") == [True], tab
    expect(page.locator(".js-plotly-plot .textpoint:visible")).to_have_count(0)
