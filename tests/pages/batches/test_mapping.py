"""How a file is read is chosen on the page: sheet, columns, lists, labels, by hand or by a kept mapping."""

import io
import json
from pathlib import Path

import pytest
from openpyxl import Workbook
from streamlit.testing.v1 import AppTest

from commands.__main__ import main
from screening.review.actors import LOCAL_USER
from storage.batches.batches import progress
from storage.batches.results import results
from storage.database import Database
from tests.pages.conftest import Opener, press, start, upload, words_on
from tests.storage.batch_of import NOW

SHAPES = Path(__file__).parents[3] / "data" / "shapes"
SEVERITIES = "Supportive=safe,Indicator=safe,Ideation=unsafe,Behavior=unsafe,Attempt=unsafe"
TRANSCRIPT = "--conversations transcript --text-column transcript --speakers Visitor=user,Helper=assistant"


def use_mapping(page: AppTest, mapping: object) -> AppTest:
    (kept,) = (one for one in page.file_uploader if one.key and one.key.startswith("mapping_"))
    kept.set_value(("mapping.json", json.dumps(mapping).encode(), "application/json")).run()
    return press(page, "Use this mapping")


@pytest.mark.parametrize(
    ("file", "options", "accepted"),
    [("users_with_severity.csv", f"--join-lists --labels {SEVERITIES}", 15), ("transcripts.csv", TRANSCRIPT, 6)],
)
def test_a_file_comes_in_alike_by_the_command_and_by_its_mapping_on_the_page(
    open_page: Opener, page_database: Database, tmp_path: Path, file: str, options: str, accepted: int
) -> None:
    out, mapping = tmp_path / "out.jsonl", tmp_path / "mapping.json"
    screen = ["screen", str(SHAPES / file), *options.split(), "--out", str(out)]
    assert main([*screen, "--save-mapping", str(mapping)]) == 0
    page = use_mapping(upload(open_page, (SHAPES / file).read_bytes(), file), json.loads(mapping.read_text()))
    (keep,) = (one.proto for one in page.get("download_button") if one.proto.label == "Save column mapping")
    assert keep.deferred_file_id and not keep.url  # browsers ask for a file held ready, which a rerun may have removed
    batch_id = start(page)
    rows = [(row.external_id, row.reference, row.group) for row in results(page_database, LOCAL_USER.at(NOW), batch_id)]
    by_command = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows == [(row["id"], row["reference"], row["group"]) for row in by_command]
    found = progress(page_database, batch_id)
    assert (found.accepted, found.rejected, len(rows)) == (accepted, 1, accepted)


def test_first_rows_are_shown_as_read_and_a_mapping_that_does_not_fit_changes_nothing(open_page: Opener) -> None:
    page = upload(open_page, b"id,text,label\n1,<b>a</b>\xe2\x80\xae day,unsafe\n2,[deleted],safe\n")
    preview = next(frame.value for frame in page.dataframe if "Status" in frame.value)
    assert [status.split(":")[0] for status in preview["Status"]] == ["accepted", "rejected"]
    assert preview["Original label"][0] == "unsafe" and "\u202e" not in preview["Text"][0]
    other = {"second_look_mapping": 1, "columns": {"text": "Körper"}}
    for mapping, said in ((other, "no column Körper"), ({"columns": {"text": "text"}}, "no saved mapping")):
        page = use_mapping(page, mapping)
        assert said in words_on(page) and "2 rows: 1 accepted, 1 rejected" in words_on(page)


def test_lists_are_asked_about_and_joined_by_choice(open_page: Opener) -> None:
    content = json.dumps([{"id": n, "text": [f"post {n}", "more"]} for n in range(3)]).encode()
    page = upload(open_page, content, "posts.json")
    assert words_on(page).count("In 3 of 3 rows the text is a list") == 1
    page.multiselect(key="column_text").set_value(["text"])
    page.toggle(key="column_lists").set_value(True).run()
    assert "3 rows: 3 accepted, 0 rejected" in words_on(page)


def test_the_page_begins_with_a_sheet_that_is_not_hidden_and_reads_any(open_page: Opener) -> None:
    book, stream = Workbook(), io.BytesIO()
    for sheet, rows in ((book.worksheets[0], 3), (book.create_sheet("Posts"), 2)):
        for row in (("id", "text"), *((number, f"a text of {sheet.title}") for number in range(rows))):
            sheet.append(row)
    book.active = book["Posts"]
    book["Sheet"].sheet_state = "hidden"
    book.save(stream)
    page = upload(open_page, stream.getvalue(), "book.xlsx").run()
    (sheet,) = (one for one in page.selectbox if one.label == "Sheet")
    assert sheet.value == "Posts" and "2 rows: 2 accepted, 0 rejected" in words_on(page)
    sheet.set_value("Sheet").run()
    assert "3 rows: 3 accepted, 0 rejected" in words_on(page)


def test_conversations_are_chosen_on_the_page(open_page: Opener) -> None:
    page = upload(open_page, (SHAPES / "conversations.jsonl").read_bytes(), "conversations.jsonl")
    for name, value in {"shape": "messages", "judged": "each_user", "asked": ("text", "reply")}.items():
        page.selectbox(key=f"conversation_{name}").set_value(value).run()
    assert not page.exception and "6 conversations with 32 turns were read" in words_on(page)
    assert any("a turn without a known role" in str(frame.value) for frame in page.dataframe)
