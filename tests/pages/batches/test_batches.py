"""Batches: what a file is refused for, what is said before the first call, and what can be done while it runs."""

import json
from pathlib import Path

import pytest
from sqlalchemy import select
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Radio

from pages.batches.intake_runs import intake_runs
from screening.labels import Outcome
from screening.pipeline.config import chain, preset
from screening.review.actors import LOCAL_USER, Actor
from screening.review.reach import Reach
from screening.stopping.rules import MajorityVote
from storage.batches import batches
from storage.batches.batch_state import BatchState
from storage.batches.configurations import activate, keep_version, load_configuration
from storage.database import Database
from storage.schema import cases
from tests.pages.conftest import Opener, choose_rows, html_on, in_address, press, start, upload, words_on
from tests.pages.working import work
from tests.storage.batch_of import LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import ANN

FILES = Path(__file__).parents[2] / "fixtures" / "bad_csv"


@pytest.mark.parametrize(
    ("name", "words", "starts"),
    [
        ("extra_comma_all", "3 cells where the header has 2", False),
        ("missing_text", "Not read as it is", False),
        ("extra_comma_one", "2 rows: 1 accepted, 1 rejected", True),
        ("bad_labels", "2 label values are not recognized", True),
    ],
)
def test_a_file_that_could_be_misread_is_refused_with_why_and_rows_are_accounted_for_before_the_start(
    open_page: Opener, name: str, words: str, starts: bool
) -> None:
    page = upload(open_page, (FILES / f"{name}.csv").read_bytes(), f"{name}.csv")
    assert words in words_on(page) and "Another file" in {button.label for button in page.button}
    assert _can_start(page) is starts


def _can_start(page: AppTest) -> bool:
    return any(button.label.startswith("Start") for button in page.button)


def test_two_columns_of_text_are_asked_about_and_may_be_joined(open_page: Opener, page_database: Database) -> None:
    page = upload(open_page, b"id,text,text\n1,a quiet day,I want to kill myself tonight\n")
    assert "2 columns could be the text" in words_on(page)
    assert not _can_start(page)
    page.multiselect(key="column_text").set_value(["text (column 2)", "text (column 3)"]).run()
    assert "2 columns could be the text" not in words_on(page), "it was said"
    assert "1 row: 1 accepted, 0 rejected" in words_on(page)
    batch_id = start(page)
    stored = page_database.value(select(cases.c.text).where(cases.c.batch_id == batch_id))
    assert stored == "a quiet day\n\nI want to kill myself tonight"


def test_the_name_of_a_file_is_only_a_label(open_page: Opener, page_database: Database, tmp_path: Path) -> None:
    page = upload(open_page, b"id,text\n1,a quiet day\n", "../../etc/<i>x.csv")
    assert page.title[0].value == "\\<i\\>x.csv"
    kept = sorted(path.name for path in (tmp_path / "data" / "uploads").iterdir())
    assert len(kept) == 2 and all(len(name.removesuffix(".json")) == 32 for name in kept)


def test_the_price_is_said_and_a_setting_that_cannot_decide_is_refused(open_page: Opener) -> None:
    page = upload(open_page, b"id,text\n1,a quiet day\n2,another\n")
    estimate = page.table[0].value.loc["AI responses"]
    assert estimate["At most"] == "600"  # two texts, three agents, 100 calls each
    # a fairly sure agent takes 16.76 calls on average (exact, spec); simulated here with 200 runs
    assert 28 <= int(estimate["Expected"]) <= 39
    page.selectbox(key="batch_preset").set_value("paper")
    page.number_input(key="batch_budget").set_value(50)
    page.run()
    assert "the minimum is 72 calls" in page.error[0].value
    assert not _can_start(page)


def test_a_batch_runs_is_shown_and_downloaded(open_page: Opener, page_database: Database, tmp_path: Path) -> None:
    rows = (
        b"id,text,label\na,The weather was nice.,safe\nb,I want to die and have a plan for tonight.,unsafe\nc,,safe\n"
    )
    page = upload(open_page, rows)
    batch_id = start(page)
    assert not list((tmp_path / "data" / "uploads").iterdir())
    work(page_database)
    page.run()
    assert "✓ Finished" in words_on(page) and "3 rows: 2 accepted, 1 rejected" in words_on(page)
    offered = (
        "Results (CSV)",
        "Results (JSON lines)",
        "Rejected rows",
        "Corrected labels (CSV)",
        "Corrected labels (JSON lines)",
    )
    assert all(f"⤓ {label}" in words_on(page) for label in offered)
    found = batches.progress(page_database, batch_id)
    assert (found.safe, found.unsafe, found.human_review) == (1, 1, 0)


@pytest.mark.parametrize("who", [LOCAL_USER, ANN], ids=["everybody's", "a reviewer's"])
def test_the_counts_are_what_the_ai_did(
    open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch, who: Actor
) -> None:
    """In the list and on the batch's own page, in review or not; links are for those who may see outcomes."""
    monkeypatch.setattr("pages.ui.context.actor", lambda: who)
    batch_id = batch(page_database, ["one", "two"], audit_rate=1.0)
    for case_id, outcome in zip(waiting(page_database), (Outcome.SAFE, Outcome.UNSAFE), strict=True):
        decide(page_database, case_id, outcome)
    (line,) = open_page("batches").dataframe[0].value.to_dict("records")
    assert (line["Safe"], line["Unsafe"], line["Escalated"]) == (1, 1, 0)
    page = open_page("batches", batch=batch_id)
    html = html_on(page)
    assert (html.count('href="/results?') > 5) is ('href="/results?' in html) is (who == LOCAL_USER)  # counts and ways
    shown = words_on(page)
    assert "1safe1unsafe0escalated" in shown and "safe → safe: 1" in shown


def test_the_row_that_is_pressed_is_the_batch_that_opens(open_page: Opener, page_database: Database) -> None:
    """Another batch has begun since the list was drawn, and stands above."""
    batch(page_database, ["one"])
    page = open_page("batches")
    (shown,) = batches.list_batches(page_database, LOCAL_USER)
    later = batches.NewBatch(name="later.csv", configuration_version=shown.configuration_version, seed=7)
    batches.create_batch(page_database, LOCAL_USER.at(LATER), later)
    choose_rows(page, page.dataframe[0], [0])
    assert in_address(page, "batch") == shown.id
    assert "posts.csv" in words_on(page)
    press(page, "All uploads")
    assert list(page.dataframe[0].value["File"]) == ["later.csv", "posts.csv"], "and nothing is chosen"


def test_pause_resume_and_cancel(open_page: Opener, page_database: Database) -> None:
    page = upload(open_page, b"id,text\n1,a quiet day\n")
    batch_id = start(page)
    press(page.run(), "Pause")
    assert batches.batch_state(page_database, batch_id) is BatchState.PAUSED and "Paused" in words_on(page)
    work(page_database)
    assert batches.progress(page_database, batch_id).pending == 1
    press(page, "Resume")
    assert batches.batch_state(page_database, batch_id) is BatchState.RUNNING
    press(page, "Cancel this upload")
    assert batches.batch_state(page_database, batch_id) is BatchState.CANCELLED
    assert "1" in words_on(page) and "not screened" in words_on(page)


def test_a_cap_stops_the_batch_and_says_so(open_page: Opener, page_database: Database) -> None:
    lines = "\n".join(f"{number},a quiet day number {number} by the lake" for number in range(40))
    page = upload(open_page, f"id,text\n{lines}\n".encode())
    page.number_input(key="most_calls").set_value(30)
    page.run()
    batch_id = start(page)
    work(page_database)
    page.run()
    found = batches.progress(page_database, batch_id)
    assert found.state is BatchState.CAPPED and found.pending > 0
    assert "Stopped at its cap" in words_on(page)


def test_a_batch_begins_with_the_version_in_force_that_stood_beside_the_button(
    open_page: Opener, page_database: Database
) -> None:
    by = LOCAL_USER.at(NOW)
    for number, budget in enumerate((60, 90)):
        made = preset("recommended", budget=budget).model_copy(update={"name": "ours"})
        keep_version(page_database, by, made, "", number)
    activate(page_database, by, "ours", 1, "ours")
    page = upload(open_page, b"id,text\n1,a quiet day\n2,another one\n")
    activate(page_database, by, "ours", 2, "a larger budget")
    press(page, "Start screening")
    assert [one.value for one in page.warning] == [
        "Nothing was started: ours v2 became active meanwhile. Look again, and press once more."
    ]
    assert not batches.list_batches(page_database, LOCAL_USER)
    batch_id = start(page)
    version = batches.find_batch(page_database, LOCAL_USER, batch_id).configuration_version
    assert load_configuration(page_database, version).pipeline.nodes[0].rule.budget == 90


def test_a_file_is_offered_with_agents_that_take_fewer_calls_than_the_presets_need(
    open_page: Opener, page_database: Database
) -> None:
    by = LOCAL_USER.at(NOW)
    keep_version(page_database, by, chain("votes", MajorityVote(n=3), "next"), "", 0)
    activate(page_database, by, "votes", 1, "cheap")
    page = upload(open_page, b"id,text\n1,a quiet day\n2,another one\n")
    assert _can_start(page)


def test_unsafe_texts_are_reviewed_unless_a_person_chooses_otherwise_and_is_told_how_many_nobody_sees(
    open_page: Opener, page_database: Database
) -> None:
    page = upload(open_page, b"id,text,label\n1,a quiet day,safe\n2,another one,unsafe\n")
    choice = _reach(page)
    said = dict(zip(Reach, choice.proto.captions, strict=True))
    assert choice.value is Reach.READ and "About 0 cases" in said[Reach.READ]
    for other in (Reach.LIST, Reach.COUNT):
        assert said[other].startswith(":red[") and "about 0 expected" in said[other]
        assert "1 labeled unsafe in your file" in said[other]
    _reach(page).set_value(Reach.LIST).run()
    assert batches.find_batch(page_database, LOCAL_USER, start(page)).reach is Reach.LIST


def _reach(page: AppTest) -> Radio:
    return next(radio for radio in page.radio if radio.key.startswith("reach_"))


def test_a_file_that_was_started_leads_to_its_batch(open_page: Opener, page_database: Database) -> None:
    """The browser's Back button or a second window: there is nothing to start or to put away any more."""
    page = upload(open_page, b"id,text\n1,a quiet day\n2,another one\n")
    token = in_address(page, "upload")
    runs = intake_runs()
    usual, runs.start = runs.start, lambda upload, table: None  # type: ignore[method-assign]  # for now nothing is taken in
    press(page, "Start screening")
    (batch,) = batches.list_batches(page_database, LOCAL_USER)
    again = open_page("batches", upload=token)
    assert in_address(again, "batch") == batch.id and "upload" not in again.query_params
    assert not [button for button in again.button if button.label.startswith(("Start", "Another"))]
    runs.start = usual  # type: ignore[method-assign]
    runs.resume()
    runs.wait()
    assert [one.progress.rows_in for one in batches.list_batches(page_database, LOCAL_USER)] == [2]


def test_somebody_elses_upload_is_not_served(open_page: Opener, tmp_path: Path) -> None:
    page = upload(open_page, b"id,text\n1,a quiet day\n")
    token = in_address(page, "upload")
    described = tmp_path / "data" / "uploads" / f"{token}.json"
    described.write_text(json.dumps(json.loads(described.read_text()) | {"owner": "somebody"}))
    assert "File uploads › Check" not in words_on(open_page("batches", upload=token))
