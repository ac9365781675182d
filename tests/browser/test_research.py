"""A researcher's day: what was missed is read, tagged and sent to review, figures are opened, files taken along; and a
procedure of one's own is written, put in force and compared.
"""

import asyncio
import io
import json
import re
from collections.abc import Iterator
from threading import Thread

import pandas as pd
import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import delete, func, select

from jobs import intake, process
from pages.research.comparing import differing_pairs
from screening.datasets.reader import read_table
from screening.pipeline.config import preset
from screening.review.policy import LOCAL_USER
from screening.settings import Settings
from storage.batches.batches import NewBatch, progress
from storage.database import Database
from storage.research.comparisons import list_comparisons, paired_outcomes
from storage.schema import case_tags, cases, inbox_entries, pipeline_activations
from tests.browser import desk
from tests.browser.conftest import EXPECT_MS, RunningApp, await_run, require_well, worker_at_rest
from tests.databases import write
from tests.pages.researched import SAMPLE, review, sample_rows, screening_of

pytestmark = pytest.mark.browser

HOSTILE = "![x](http://outside.example/b.png) <img src=http://outside.example/a.png>"
LABELS = {"Supportive": "safe", "Ideation": "unsafe", "Attempt": "unsafe"}
ROWS = [("Ideation", "I read a book about the moon."), ("Attempt", "The tram was late again."),
        ("Ideation", "We planted beans in the garden."), ("Supportive", "We walked by the lake and had tea."),
        ("Ideation", "I read a book about the sea."), ("Attempt", "The bus was late again.")]  # fmt: skip
MAPPING = {"second_look_mapping": 1, "columns": {"text": "Post", "id": "nr", "label": "Severity"}, "labels": LABELS}


THROUGH_ALL = "Our dog died and the house is so quiet now. I miss him at the door."
"""The simulated agents escalate it one after another."""
FEW_CALLS = 20
"""So few for the Worker that it settles less of the sample than the pipeline in force: some texts part."""


def _press(page: Page, key: str) -> None:
    await_run(page)
    page.keyboard.press(key)


def test_what_was_missed_is_read_tagged_and_taken_along(page: Page, db: Database) -> None:
    """A file with a mapping of its own columns and labels."""
    content = "nr,Post,Severity\n" + "".join(f"p{n},{text},{label}\n" for n, (label, text) in enumerate(ROWS, 1))
    page.goto("/batches")
    desk.hand_in(page, "severity.csv", content)
    desk.sees(page, "File uploads › Check")
    page.get_by_text("More columns, conversations, column mapping").click()
    desk.hand_in(page.get_by_test_id("stExpanderDetails"), "mapping.json", json.dumps(MAPPING))
    desk.click(page, "Use this mapping")
    page.get_by_role("button", name=f"Start screening {len(ROWS)} texts").click()
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=60_000)
    batch_id = page.url.partition("batch=")[2][:32]
    page.goto(f"/results?batch={batch_id}&outcome=safe&reference=unsafe")
    desk.sees(page, re.compile(r"^\d cases?\."))
    missed = int(page.get_by_text(re.compile(r"^\d cases?\.")).inner_text().split()[0])
    assert missed >= 3, "the simulated agents call harmless words safe"
    desk.click_table(page, 0, 17, 17)
    desk.sees(page, f"1 of {missed}")
    page.get_by_role("textbox", name="New tag").fill("harmless words")
    page.get_by_role("button", name="Tag", exact=True).click()
    desk.sees(page, "✕ harmless words")
    for place in range(2, missed + 1):
        _press(page, "j")
        desk.sees(page, f"{place} of {missed}")
        _press(page, "1")
        desk.sees(page, "✕ harmless words")
    _press(page, "k")
    desk.sees(page, f"{missed - 1} of {missed}")
    require_well(page, "results-reviewer")
    tagged = select(func.count()).select_from(case_tags).where(case_tags.c.tag == "harmless words")
    assert db.value(tagged) == missed
    desk.click(page, "Export")
    frame = pd.read_parquet(io.BytesIO(desk.taken(page, "Results (Parquet)")))
    assert list(frame["id"]) == [f"p{n}" for n in range(1, len(ROWS) + 1)]
    assert list(frame["reference"]) == [LABELS[label] for label, _ in ROWS]
    assert list(frame["reference_value"]) == [label for label, _ in ROWS]
    assert frame["tags"].map(json.loads).map(len).sum() == missed
    lines = desk.taken(page, "Results (JSON lines)").decode().splitlines()
    assert frame.astype(object).where(frame.notna(), None).to_dict("records") == [json.loads(line) for line in lines]
    _is_in_review_within_three_clicks(page, db, batch_id, missed)


def _is_in_review_within_three_clicks(page: Page, db: Database, batch_id: str, missed: int) -> None:
    """From the matrix: a cell, a case, the button."""
    page.goto(f"/errors?batch={batch_id}")
    desk.sees(page, page.get_by_role("button", name="Export"))
    desk.click_table(page, 0, 0.3, 28)
    desk.sees(page, page.get_by_role("heading", name="Original label safe, labeled safe"))
    desk.press(page, "ArrowDown")
    heading = page.get_by_role("heading", name="Original label unsafe, labeled safe: false negative")
    expect(heading).to_be_visible()
    page.reload()
    expect(heading).to_be_visible()
    desk.sees(page, f"{missed} cases.")
    page.get_by_text("Show the start of each text").click()
    await_run(page)
    require_well(page, "errors")
    desk.click_table(page, 1, 17, 17)
    desk.sees(page, page.get_by_role("button", name="Send 1 to review"))
    desk.click(page, "Review it now")
    page.wait_for_url(lambda url: "/inbox" in url)
    desk.sees(page, desk.case_text(page))
    of_these = select(cases.c.id).where(cases.c.batch_id == batch_id)
    holders = db.values(select(inbox_entries.c.assignee).where(inbox_entries.c.case_id.in_(of_these)))
    assert sum(holder is not None for holder in holders) == 1


@pytest.fixture
def studied(running_app: RunningApp, db: Database) -> str:
    """The sample data screened, half of it under audit, and most of what waits reviewed blinded."""
    made: list[str] = []
    work = screening_of(db, sample_rows(), audit_rate=0.5, provenance=HOSTILE)
    thread = Thread(target=lambda: made.append(asyncio.run(work)))  # the browser's own loop is at work in this one
    with worker_at_rest(running_app, db):
        thread.start()
        thread.join()
    review(db, "safe", most=45)
    return made[0]


APART = """(figure) => {
  const [title, axis, names] = [".gtitle", ".xtitle", ".legend"].map(
    (part) => figure.querySelector(part).getBoundingClientRect());
  const within = title.right <= figure.getBoundingClientRect().right;
  return within && title.bottom <= axis.top && axis.bottom <= names.top;
}"""
"""Whether a figure has a whole title, and no names on one another."""


def test_figures_are_opened_printed_and_corrected_labels_taken_along(page: Page, studied: str) -> None:
    page.goto(f"/evaluation?batch={studied}")
    desk.sees(page, page.get_by_role("button", name="Export"))
    expect(page.get_by_text("outside.example")).to_be_visible()  # as text
    require_well(page, "evaluation-results")
    await_run(page)  # what is drawn above an open list moves it out of sight
    desk.click(page, "Export")
    page.get_by_role("radio", name="LaTeX").click()
    await_run(page)  # until then the button gives what was chosen before
    assert rb"B=50 & ---" in desk.taken(page, re.compile("^Download$"), "button")
    desk.press(page, "Escape")
    desk.click(page, "What if", role="tab")
    desk.sees(page, "Reviews a day")
    require_well(page, "evaluation-what-if")
    desk.click(page, "Cases", role="tab")
    panel = page.get_by_role("tabpanel").filter(has_text="Click a cell")
    desk.click_table(panel, 0, 0.45, 18)
    desk.sees(panel, "cases: original label safe")
    page.set_viewport_size({"width": 390, "height": 844})
    for tab in ("Budget sweep", "Calls and tokens"):
        page.get_by_role("tab", name=tab).click()
        expect(page.locator(".js-plotly-plot .legend:visible")).to_have_count(1)
        await_run(page)
        assert page.locator(".js-plotly-plot").filter(visible=True).first.evaluate(APART), tab
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/theory")
    expect(page.locator(".js-plotly-plot .legend")).to_have_count(3)
    await_run(page)
    require_well(page, "theory")

    page.goto(f"/label_noise?batch={studied}")
    expect(page.get_by_role("button", name="Send to review")).to_be_visible(timeout=2 * EXPECT_MS)
    require_well(page, "labels")

    page.goto("/reliability")
    expect(page.get_by_text("Missed cases per 1,000 labeled safe", exact=True)).to_be_visible()
    desk.sees(page, "cannot be guaranteed yet")
    for tab in ("Confidence sequence", "Planner"):
        page.get_by_role("tab", name=tab).click()
        await_run(page)
    require_well(page, "reliability")
    page.set_content(desk.taken(page, "Report to print", "button").decode())
    page.emulate_media(media="print")
    desk.sees(page, page.get_by_role("heading", name="Reliability of automatic labels"))
    page.emulate_media(media="screen")


@pytest.fixture
def waits_for_the_worker(running_app: RunningApp, db: Database) -> Iterator[str]:
    """The sample data, handed in under what comes with the program; the app's own worker screens it."""
    settings, file = Settings(_env_file=None, sampler="simulated"), SAMPLE.name
    pipeline, new = preset(settings.preset), NewBatch(name=file, intake={"label_column": "label"})
    batch_id = intake.open_batch(db, LOCAL_USER, pipeline, new, settings, process.system_clock)
    intake.fill_batch(db, LOCAL_USER, batch_id, read_table(sample_rows(every=3), file), settings, process.system_clock)
    yield batch_id
    write(db, delete(pipeline_activations))


def _filled(page: Page, label: str, text: str) -> None:
    box = page.get_by_label(label, exact=True).first
    box.fill(text)
    box.press("Tab")


def _choose(page: Page, title: str) -> None:
    """Choose an agent, and wait until the inputs of the one before it are gone."""
    page.get_by_test_id("stButtonGroup").get_by_text(title, exact=True).click()
    expect(page.get_by_label("Title", exact=True)).to_have_count(1)
    desk.sees(page, page.locator(f'input[aria-label="Title"][value="{title}"]'))


def test_a_fourth_agent_is_put_in_force_and_compared(page: Page, db: Database, waits_for_the_worker: str) -> None:
    page.goto("/pipelines")
    desk.sees(page, page.get_by_role("heading", name="Pipelines", exact=True))
    agents = page.locator(".sl-dag .n")
    _filled(page, "Calls at most", str(FEW_CALLS))
    expect(agents.filter(has_text=f"≤ {FEW_CALLS}")).to_be_visible()
    _choose(page, "Risk")
    _filled(page, "Add agent after this one", "Cultural context")
    desk.click(page, "Add agent")
    _choose(page, "Cultural context")
    _filled(page, "Instructions", "# Cultural context\n\nDoes idiom or custom change what the words mean?")
    _filled(page, "Model", "claude-haiku-4-5")
    expect(agents.filter(has_text="claude-haiku-4-5")).to_be_visible()
    _filled(page, "Name of the pipeline", "ours")
    desk.sees(page, re.compile(r"Difference to the active pipeline \(\w+\): \d+ lines"))
    require_well(page, "pipelines-draft")
    _filled(page, "What is new in this version", "a fourth agent")
    desk.click(page, "Save as a new version")
    desk.sees(page, "Saved: ours v1.")
    _filled(page, "Why", "tried on the sample")
    desk.click(page, "Activate")
    desk.sees(page, "ours v1 is active for texts submitted from now on.")

    page.goto("/screen")
    expect(agents.filter(has_text="Cultural context")).to_be_visible()
    box = page.get_by_role("textbox", name="Text", exact=True)
    box.fill(THROUGH_ALL)
    box.press("Control+Enter")
    again = page.get_by_role("button", name="Try again")
    expect(page.locator(".sl-dag .o.reached").or_(again).first).to_be_visible()
    if again.is_visible():  # a machine so busy that the page was not heard of for seconds: nobody seemed to watch
        again.click()
    desk.sees(page, page.locator(".sl-dag .o.reached"))
    expect(page.locator(".sl-dag .n.done")).to_have_count(4)

    desk.until(lambda: progress(db, waits_for_the_worker).pending == 0)
    page.goto("/pipelines")
    desk.click(page, "Compare", role="tab")
    page.get_by_role("button", name="Compare", exact=True).click()
    desk.sees(page, re.compile(r"of 40 texts were screened with ours v1"))
    desk.until(lambda: not any(one.running for one in list_comparisons(db, LOCAL_USER)))
    page.reload()
    desk.click(page, "Compare", role="tab")
    desk.sees(page, re.compile(r"40 of 40 texts were screened with ours v1\."), "Paired by text; each interval at 95%")
    apart = differing_pairs(paired_outcomes(db, LOCAL_USER, list_comparisons(db, LOCAL_USER)[0].id))
    assert apart
    desk.sees(page, f"Texts with another outcome: {len(apart)}")
    expect(page.get_by_test_id("stDataFrame").locator("visible=true")).to_have_count(3)
    desk.click_table(page, 2, 17, 17)
    page.get_by_role("link", name="Open this case").click()
    expect(page).to_have_url(re.compile(f"case={apart[0].case_id}"))
