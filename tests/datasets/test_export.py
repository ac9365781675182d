"""What leaves runs nothing in a spreadsheet and can be taken back."""

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import Workbook, load_workbook

from screening.datasets.export import csv_lines, jsonl_lines, neutralise, original_cell
from tests.fixtures.bad_inputs import bad_inputs

STARTERS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
TEXTS = [one["text"] for one in bad_inputs() if len(one["text"]) < 1000]
ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=20) | st.text(
    st.sampled_from("'\"=+-@\t\r\n;, ＝a\u200b"), max_size=8
)


@pytest.mark.parametrize(
    "cell", ["=1", "+1", "-1", "@here", "\t1", "\r1", "＝1+1", "'=1", '"=1"', " =1", "\u200b=1", "\u2004=1", "'fine"]
)
def test_a_cell_that_could_run_is_prefixed(cell: str) -> None:
    assert neutralise(cell) == "'" + cell


@pytest.mark.parametrize(
    ("cell", "safe"),
    [
        ("hi;=1+1;bye", "hi;'=1+1;bye"),
        ("hi\t=1", "hi\t'=1"),
        ("one\r\n- two\n@three", "one\r\n'- two\n'@three"),
        ('a; "=1"', 'a;\' "=1"'),
        ("a;'b", "a;''b"),
        ("\t=1", "'\t'=1"),
    ],
)
def test_so_is_what_could_run_after_a_separator_inside_a_cell(cell: str, safe: str) -> None:
    assert neutralise(cell) == safe


@pytest.mark.parametrize("cell", ["", "fine", 'a,"=1"', "I am ok - really", "1+1", "–", "n't", "a; b\r\n\r\nc;\td"])
def test_other_cells_stay(cell: str) -> None:
    assert neutralise(cell) == cell


@settings(max_examples=100)
@given(ANY_TEXT)
def test_the_round_trip(cell: str) -> None:
    safe = neutralise(cell)
    assert not safe.startswith(STARTERS)
    assert original_cell(safe) == cell


@settings(max_examples=200)
@given(st.lists(st.lists(ANY_TEXT, min_size=2, max_size=2), min_size=1, max_size=3))
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_no_cell_is_a_formula_whatever_a_spreadsheet_splits_at(separator: str, rows: list[list[str]]) -> None:
    content = "".join(csv_lines(rows[0], rows, byte_order_mark=False))
    read = list(csv.reader(io.StringIO(content, newline=""), delimiter=separator))
    first = {cell.lstrip('"\t\r\n \u200b')[:1] for row in read for cell in row}
    assert first.isdisjoint(STARTERS)
    if separator == ",":
        assert [[original_cell(cell) for cell in row] for row in read] == [rows[0], *rows]


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
