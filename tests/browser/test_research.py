"""The researcher's pages in a real browser: charts drawn, a cell opened, a report downloaded, hostile words as text."""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from screening.review.actors import LOCAL_USER
from storage.database import Database
from storage.identifiers import new_id
from storage.review.claims import claim_next
from storage.review.ratings import submit_rating
from tests.browser.accessibility import violations
from tests.browser.conftest import RunningApp, await_run, require_well, screenshot, screenshots
from tests.pages.researched import sample_rows, screening_of
from tests.storage.inbox_cases import form

pytestmark = pytest.mark.browser

HOSTILE = "![x](http://outside.example/b.png) <img src=http://outside.example/a.png>"


@pytest.fixture(scope="module")
def batch_id(running_app: RunningApp) -> Iterator[str]:
    """The sample data screened, half of it under audit, and most of what waits read blind."""
    running_app.stop("worker")
    db = Database(running_app.database_url)
    # Not asyncio.run: the browser's own loop is at work in this thread.
    made: list[str] = []
    _in_thread(lambda: made.append(asyncio.run(screening_of(db, sample_rows(), audit_rate=0.5, provenance=HOSTILE))))
    now = datetime.now(UTC)
    for _ in range(45):
        claim = claim_next(db, LOCAL_USER.at(now))
        if claim is not None:
            submit_rating(db, LOCAL_USER.at(now), claim.case_id, claim.token, form("safe"), new_id(now))
    yield made[0]
    db.close()


def _in_thread(work) -> None:  # type: ignore[no-untyped-def]
    from threading import Thread

    thread = Thread(target=work)
    thread.start()
    thread.join()


def test_evaluation_shows_the_table_the_curves_and_the_sliders(page: Page, batch_id: str) -> None:
    page.goto(f"/evaluation?batch={batch_id}")
    expect(page.get_by_role("button", name="Export")).to_be_visible()
    expect(page.get_by_text("outside.example")).to_be_visible()  # as text
    require_well(page, "evaluation-results")
    for tab, shown in (("Budget sweep", ".js-plotly-plot"), ("Calls and tokens", ".js-plotly-plot")):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel").locator(f"{shown}:visible").first).to_be_visible()
        page.wait_for_timeout(700)
        screenshots(page, f"evaluation-{tab.split()[0].lower()}")
    page.get_by_role("tab", name="What if").click()
    expect(page.get_by_text("Reviews a day")).to_be_visible()
    require_well(page, "evaluation-what-if")


def test_a_cell_of_the_matrix_lists_its_cases(page: Page, batch_id: str) -> None:
    page.goto(f"/evaluation?batch={batch_id}")
    page.get_by_role("tab", name="Cases").click()
    panel = page.get_by_role("tabpanel").filter(has_text="Click a cell")
    grid = panel.get_by_test_id("stDataFrame").first
    expect(grid).to_be_visible()
    box = grid.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.45, box["y"] + 35 + 18)
    expect(panel.get_by_text("cases: original label safe")).to_be_visible()
    screenshot(page, "evaluation-cases")


def test_the_results_come_as_csv_and_latex(page: Page, batch_id: str, tmp_path: Path) -> None:
    page.goto(f"/evaluation?batch={batch_id}")
    await_run(page)  # what is drawn above an open list moves it out of sight
    page.get_by_role("button", name="Export").click()
    page.get_by_role("radio", name="LaTeX").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).click()
    download.value.save_as(tmp_path / "table.tex")
    assert r"B=50 & ---" in (tmp_path / "table.tex").read_text(encoding="utf-8")


def test_reliability_leads_with_the_missed(page: Page, batch_id: str) -> None:
    page.goto("/reliability")
    expect(page.get_by_text("Missed cases per 1,000 labeled safe", exact=True)).to_be_visible()
    expect(page.get_by_text("cannot be guaranteed yet")).to_be_visible()
    require_well(page, "reliability")
    for tab in ("Confidence sequence", "Planner", "Drift"):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_timeout(700)
        screenshots(page, f"reliability-{tab.split()[0].lower()}")
    page.get_by_role("tab", name="Configuration measured").click()
    page.wait_for_timeout(700)
    require_well(page, "reliability-what")


def test_the_report_is_one_page_that_fetches_nothing(page: Page, batch_id: str, tmp_path: Path) -> None:
    page.goto("/reliability")
    with page.expect_download() as download:
        page.get_by_role("button", name="Report to print").click()
    download.value.save_as(tmp_path / "report.html")
    page.set_content((tmp_path / "report.html").read_text(encoding="utf-8"))
    expect(page.get_by_role("heading", name="Reliability of automatic labels")).to_be_visible()
    screenshot(page, "reliability-report")


def test_labels_and_theory_open(page: Page, batch_id: str) -> None:
    page.goto(f"/label_noise?batch={batch_id}")
    expect(page.get_by_role("button", name="Send to review")).to_be_visible()
    require_well(page, "labels")
    page.goto("/theory")
    expect(page.get_by_role("heading", name="The paper's claims beside what the code shows")).to_be_visible()
    page.wait_for_timeout(700)
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


def test_on_a_phone_the_names_of_a_figure_s_lines_stand_clear_of_its_title_and_axis(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/theory")
    expect(page.locator(".js-plotly-plot .legend")).to_have_count(3)
    page.wait_for_timeout(700)
    assert page.evaluate(APART) == [True, True, True]


def test_on_a_phone_a_crowd_of_conditions_is_drawn_under_a_whole_title_without_names_on_one_another(
    page: Page, batch_id: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/evaluation?batch={batch_id}")
    for tab in ("Budget sweep", "Calls and tokens"):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(".js-plotly-plot .legend:visible")).to_have_count(1)
        page.wait_for_timeout(700)
        assert page.evaluate(f"({APART.replace('.map((figure)', '.slice(0, 1).map((figure)')})()") == [True], tab
    expect(page.locator(".js-plotly-plot .textpoint:visible")).to_have_count(0)
