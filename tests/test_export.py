"""What leaves runs nothing in a spreadsheet and can be taken back."""

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import Workbook, load_workbook

from screening.export import csv_lines, jsonl_lines, neutralise, original_cell
from tests.fixtures.bad_inputs import bad_inputs

STARTERS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
TEXTS = [one["text"] for one in bad_inputs() if len(one["text"]) < 1000]
ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=20) | st.text(
    st.sampled_from("'\"=+-@\t\r ＝a\u200b"), max_size=6
)


@pytest.mark.parametrize(
    "cell", ["=1", "+1", "-1", "@here", "\t=1", "\r=1", "＝1+1", "'=1", '"=1"', " =1", "\u200b=1", "'fine"]
)
def test_a_cell_that_could_run_is_prefixed(cell: str) -> None:
    assert neutralise(cell) == "'" + cell


@pytest.mark.parametrize("cell", ["", "fine", 'a,"=1"', "I am ok - really", "1+1", "–", "n't"])
def test_other_cells_stay(cell: str) -> None:
    assert neutralise(cell) == cell


@settings(max_examples=100)
@given(ANY_TEXT)
def test_the_round_trip(cell: str) -> None:
    safe = neutralise(cell)
    assert not safe.startswith(STARTERS)
    assert original_cell(safe) == cell


def test_csv_read_back_holds_every_text_and_no_formula() -> None:
    lines = csv_lines(("n", "text"), ((-number, text) for number, text in enumerate(TEXTS)))
    content = "".join(lines).removeprefix("\ufeff")
    rows = list(csv.reader(io.StringIO(content, newline=""), strict=True))
    assert [original_cell(row[1]) for row in rows[1:]] == [
        text.replace("\ud83d", "\ufffd").replace("\ud800", "\ufffd") for text in TEXTS
    ]
    assert not any(row[1].startswith(STARTERS) for row in rows)
    assert rows[2][0] == "-1"


def test_a_spreadsheet_reader_finds_no_formula_cell() -> None:
    content = "".join(csv_lines(("text",), [("=1+1",), ('=HYPERLINK("x")',), ("@x",)])).removeprefix("\ufeff")
    book = Workbook()
    for row in csv.reader(io.StringIO(content, newline="")):
        book.worksheets[0].append(row)
    stream = io.BytesIO()
    book.save(stream)
    kinds = {cell.data_type for row in load_workbook(stream).worksheets[0].iter_rows() for cell in row}
    assert kinds == {"s"}


def test_json_lines_lose_nothing() -> None:
    lines = list(jsonl_lines({"text": text} for text in TEXTS))
    assert all(line.isascii() and line.count("\n") == 1 for line in lines)
    assert [json.loads(line)["text"] for line in lines] == TEXTS


def test_exports_stream() -> None:
    def endless() -> object:
        while True:
            yield ("a",)

    lines = csv_lines(("text",), endless())  # type: ignore[arg-type]
    assert [next(lines) for _ in range(3)] == ['\ufeff"text"\r\n', '"a"\r\n', '"a"\r\n']
