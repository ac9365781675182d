"""Batches: what a file is refused for, what is said before the first call, and what can be done while it runs."""

import json
from pathlib import Path

import pytest
from sqlalchemy import select
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Button, Radio

from pages.batches.intake_runs import intake_runs
from screening.labels import Outcome
from screening.pipeline.config import preset
from screening.review.actors import LOCAL_USER, Actor
from screening.review.reach import Reach
from storage.batches import batches
from storage.batches.batch_state import BatchState
from storage.batches.configurations import load_configuration
from storage.batches.pipelines import activate, keep_version
from storage.batches.results import results
from storage.database import Database
from storage.schema import cases
from tests.pages.conftest import Opener, choose_rows, words_on
from tests.pages.working import work
from tests.storage.batch_of import LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import ANN

FILES = Path(__file__).parents[2] / "fixtures" / "bad_csv"


def _upload(open_page: Opener, content: bytes, name: str = "texts.csv") -> AppTest:
    page = open_page("batches")
    page.file_uploader[0].set_value((name, content, "text/csv"))
    page.run()
    assert not page.exception, page.exception
    return page


def _bad(open_page: Opener, name: str) -> AppTest:
    return _upload(open_page, (FILES / f"{name}.csv").read_bytes(), f"{name}.csv")


def _button(page: AppTest, label: str) -> Button:
    return next(button for button in page.button if button.label.startswith(label))


def _labels(page: AppTest) -> list[str]:
    return [button.label for button in page.button]


def _started(page: AppTest) -> str:
    _button(page, "Start screening").click().run()
    intake_runs().wait()
    value = page.query_params["batch"]
    return value if isinstance(value, str) else value[0]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("extra_comma_all", "3 cells where the header has 2"),
        ("missing_text", "Not read as it is"),
    ],
)
def test_a_file_that_could_be_misread_is_refused_with_why(open_page: Opener, name: str, sentence: str) -> None:
    page = _bad(open_page, name)
    assert sentence in words_on(page)
    assert not any(label.startswith("Start") for label in _labels(page))
    assert "Another file" in _labels(page)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("cp1252", "1 row: 1 accepted, 0 rejected"),
        ("extra_comma_one", "2 rows: 1 accepted, 1 rejected"),
        ("dup_ids_same", "2 rows: 1 accepted, 1 rejected"),
    ],
)
def test_rows_in_are_accounted_for_before_the_start(open_page: Opener, name: str, counts: str) -> None:
    page = _bad(open_page, name)
    assert counts in words_on(page)


def test_unmapped_label_values_are_shown_and_not_guessed(open_page: Opener, page_database: Database) -> None:
    page = _bad(open_page, "bad_labels")
    assert "2 label values are not recognized" in words_on(page)
    batch_id = _started(page)
    found = list(results(page_database, LOCAL_USER.at(NOW), batch_id))
    assert [row.reference for row in found] == ["safe", None, None, None]
    assert found[1].reference_value == "unsfae"


def test_two_columns_of_text_are_asked_about_and_may_be_joined(open_page: Opener, page_database: Database) -> None:
    page = _upload(open_page, b"id,text,text\n1,a quiet day,I want to kill myself tonight\n")
    assert "2 columns could be the text" in words_on(page)
    assert not any(label.startswith("Start") for label in _labels(page))
    page.multiselect(key="column_text").set_value(["text (column 2)", "text (column 3)"]).run()
    assert "2 columns could be the text" not in words_on(page), "it was said"
    assert "1 row: 1 accepted, 0 rejected" in words_on(page)
    batch_id = _started(page)
    stored = page_database.value(select(cases.c.text).where(cases.c.batch_id == batch_id))
    assert stored == "a quiet day\n\nI want to kill myself tonight"


def test_the_name_of_a_file_is_only_a_label(open_page: Opener, page_database: Database, tmp_path: Path) -> None:
    page = _upload(open_page, b"id,text\n1,a quiet day\n", "../../etc/<i>x.csv")
    assert page.title[0].value == "\\<i\\>x.csv"
    kept = sorted(path.name for path in (tmp_path / "data" / "uploads").iterdir())
    assert len(kept) == 2 and all(len(name.removesuffix(".json")) == 32 for name in kept)


def test_the_price_is_said_and_a_setting_that_cannot_decide_is_refused(open_page: Opener) -> None:
    page = _upload(open_page, b"id,text\n1,a quiet day\n2,another\n")
    estimate = page.table[0].value.loc["AI responses"]
    assert estimate["At most"] == "600"  # two texts, three agents, 100 calls each
    # a fairly sure agent takes 16.76 calls on average (exact, spec); simulated here with 200 runs
    assert 28 <= int(estimate["Expected"]) <= 39
    page.selectbox(key="batch_preset").set_value("paper")
    page.number_input(key="batch_budget").set_value(50)
    page.run()
    assert "the minimum is 72 calls" in page.error[0].value
    assert not any(label.startswith("Start") for label in _labels(page))


def test_a_batch_runs_is_shown_and_downloaded(open_page: Opener, page_database: Database, tmp_path: Path) -> None:
    rows = (
        b"id,text,label\na,The weather was nice.,safe\nb,I want to die and have a plan for tonight.,unsafe\nc,,safe\n"
    )
    page = _upload(open_page, rows)
    batch_id = _started(page)
    assert not list((tmp_path / "data" / "uploads").iterdir())
    work(page_database)
    page.run()
    assert "✓ Finished" in words_on(page) and "3 rows: 2 accepted, 1 rejected" in words_on(page)
    offered = "Results (CSV)", "Results (JSON lines)", "Rejected rows", "Relabelled (CSV)", "Relabelled (JSON lines)"
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
    html = "".join(one.proto.body for one in page.get("html"))
    assert ('href="/results?' in html, 'href="results?' in html) == (who == LOCAL_USER,) * 2
    shown = words_on(page)
    assert "1✓ labeled safe" in shown and "0→ escalated" in shown and "safe → safe: 1" in shown


def test_the_row_that_is_pressed_is_the_batch_that_opens(open_page: Opener, page_database: Database) -> None:
    """Another batch has begun since the list was drawn, and stands above."""
    batch(page_database, ["one"])
    page = open_page("batches")
    (shown,) = batches.list_batches(page_database, LOCAL_USER)
    later = batches.NewBatch(name="later.csv", configuration_version=shown.configuration_version, seed=7)
    batches.create_batch(page_database, LOCAL_USER.at(LATER), later)
    choose_rows(page, page.dataframe[0], [0])
    assert page.query_params["batch"] in (shown.id, [shown.id])
    assert "posts.csv" in words_on(page)
    _button(page, "All uploads").click().run()
    assert list(page.dataframe[0].value["File"]) == ["later.csv", "posts.csv"], "and nothing is chosen"


def test_pause_resume_and_cancel(open_page: Opener, page_database: Database) -> None:
    page = _upload(open_page, b"id,text\n1,a quiet day\n")
    batch_id = _started(page)
    _button(page.run(), "Pause").click().run()
    assert batches.batch_state(page_database, batch_id) is BatchState.PAUSED and "Paused" in words_on(page)
    work(page_database)
    assert batches.progress(page_database, batch_id).pending == 1
    _button(page, "Resume").click().run()
    assert batches.batch_state(page_database, batch_id) is BatchState.RUNNING
    _button(page, "Cancel this upload").click().run()
    assert batches.batch_state(page_database, batch_id) is BatchState.CANCELLED
    assert "1" in words_on(page) and "pending" in words_on(page)


def test_a_cap_stops_the_batch_and_says_so(open_page: Opener, page_database: Database) -> None:
    lines = "\n".join(f"{number},a quiet day number {number} by the lake" for number in range(40))
    page = _upload(open_page, f"id,text\n{lines}\n".encode())
    page.number_input(key="most_calls").set_value(30)
    page.run()
    batch_id = _started(page)
    work(page_database)
    page.run()
    found = batches.progress(page_database, batch_id)
    assert found.state is BatchState.CAPPED and found.pending > 0
    assert "Stopped at its cap" in words_on(page)


def test_taking_in_goes_on_after_a_restart(open_page: Opener, page_database: Database, tmp_path: Path) -> None:
    """The process died after the batch was opened and before a row was in: the next one goes on by itself."""
    page = _upload(open_page, b"id,text\n1,a quiet day\n2,another one\n")
    runs = intake_runs()
    runs.start = lambda upload, table: None  # type: ignore[method-assign]  # the process dies here
    _button(page, "Start screening").click().run()
    (batch,) = batches.list_batches(page_database, LOCAL_USER)
    assert batch.progress.state is BatchState.TAKING_IN and batch.progress.rows_in == 0
    intake_runs.forget()
    open_page("batches")
    intake_runs().wait()
    (batch,) = batches.list_batches(page_database, LOCAL_USER)
    assert (batch.progress.state, batch.progress.rows_in) == (BatchState.RUNNING, 2)


def test_a_batch_begins_with_the_version_in_force_that_stood_beside_the_button(
    open_page: Opener, page_database: Database
) -> None:
    by = LOCAL_USER.at(NOW)
    for number, budget in enumerate((60, 90)):
        made = preset("recommended", budget=budget).model_copy(update={"name": "ours"})
        keep_version(page_database, by, made, "", number)
    activate(page_database, by, "ours", 1, "ours")
    page = _upload(open_page, b"id,text\n1,a quiet day\n2,another one\n")
    activate(page_database, by, "ours", 2, "a larger budget")
    _button(page, "Start screening").click().run()
    assert [one.value for one in page.warning] == [
        "Nothing was started: ours v2 became active meanwhile. Look again, and press once more."
    ]
    assert not batches.list_batches(page_database, LOCAL_USER)
    batch_id = _started(page)
    version = batches.find_batch(page_database, LOCAL_USER, batch_id).configuration_version
    assert load_configuration(page_database, version).pipeline.nodes[0].rule.budget == 90


@pytest.mark.parametrize("labels", [(b"", b"", b""), (b",label", b",safe", b",unsafe")])
def test_unsafe_texts_are_reviewed_unless_a_person_chooses_otherwise_and_is_told_how_many_nobody_sees(
    open_page: Opener, page_database: Database, labels: tuple[bytes, bytes, bytes]
) -> None:
    header, first, second = labels
    page = _upload(open_page, b"id,text%s\n1,a quiet day%s\n2,another one%s\n" % (header, first, second))
    choice = _reach(page)
    said = dict(zip(Reach, choice.proto.captions, strict=True))
    assert choice.value is Reach.READ and "About 0 cases" in said[Reach.READ]
    for other in (Reach.LIST, Reach.COUNT):
        assert said[other].startswith(":red[") and "about 0 expected" in said[other]
        assert ("1 labeled unsafe in your file" in said[other]) is bool(header)
    _reach(page).set_value(Reach.LIST).run()
    assert batches.find_batch(page_database, LOCAL_USER, _started(page)).reach is Reach.LIST


def _reach(page: AppTest) -> Radio:
    return next(radio for radio in page.radio if radio.key.startswith("reach_"))


def test_a_file_that_was_started_leads_to_its_batch(open_page: Opener, page_database: Database) -> None:
    """The browser's Back button or a second window: there is nothing to start or to put away any more."""
    page = _upload(open_page, b"id,text\n1,a quiet day\n2,another one\n")
    token = page.query_params["upload"]
    runs = intake_runs()
    start, runs.start = runs.start, lambda upload, table: None  # type: ignore[method-assign]  # for now nothing is taken in
    _button(page, "Start screening").click().run()
    (batch,) = batches.list_batches(page_database, LOCAL_USER)
    again = open_page("batches", upload=token if isinstance(token, str) else token[0])
    assert again.query_params.get("batch") in (batch.id, [batch.id]) and "upload" not in again.query_params
    assert not [button for button in again.button if button.label.startswith(("Start", "Another"))]
    runs.start = start  # type: ignore[method-assign]
    runs.resume()
    runs.wait()
    assert [one.progress.rows_in for one in batches.list_batches(page_database, LOCAL_USER)] == [2]


def test_somebody_elses_upload_is_not_served(open_page: Opener, tmp_path: Path) -> None:
    page = _upload(open_page, b"id,text\n1,a quiet day\n")
    token = page.query_params["upload"]
    token = token if isinstance(token, str) else token[0]
    described = tmp_path / "data" / "uploads" / f"{token}.json"
    described.write_text(json.dumps(json.loads(described.read_text()) | {"owner": "somebody"}))
    assert "File uploads › Check" not in words_on(open_page("batches", upload=token))
