"""What leaves runs nothing in a spreadsheet and can be taken back."""

import csv
import io
import json
from itertools import repeat

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.datasets.export import csv_lines, jsonl_lines, neutralise, original_cell, parquet_parts
from tests.fixtures import tables
from tests.fixtures.bad_inputs import bad_inputs

STARTERS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
TEXTS = [one["text"] for one in bad_inputs() if len(one["text"]) < 1000]
TABLES = tables(__file__)
ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=20) | st.text(
    st.sampled_from("'\"=+-@\t\r\n;, ＝a\u200b"), max_size=8
)


def test_what_could_run_is_prefixed_at_the_start_and_after_a_separator() -> None:
    cells = {cell: "'" + cell for cell in TABLES["run"]} | {cell: cell for cell in TABLES["fine"]} | TABLES["inside"]
    assert {cell: neutralise(cell) for cell in cells} == cells


@settings(max_examples=200)
@given(st.lists(st.lists(ANY_TEXT, min_size=2, max_size=2), min_size=1, max_size=3))
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_no_cell_is_a_formula_whatever_a_spreadsheet_splits_at(separator: str, rows: list[list[str]]) -> None:
    content = "".join(csv_lines(rows[0], rows, byte_order_mark=False))
    found = list(csv.reader(io.StringIO(content, newline=""), delimiter=separator))
    first = {cell.lstrip('"\t\r\n \u200b')[:1] for row in found for cell in row}
    assert first.isdisjoint(STARTERS)
    if separator == ",":
        assert [[original_cell(cell) for cell in row] for row in found] == [rows[0], *rows]


def test_csv_and_json_lines_hold_every_text_and_no_formula_and_come_as_they_are_asked_for() -> None:
    content = "".join(csv_lines(("n", "text"), ((-number, text) for number, text in enumerate(TEXTS))))
    header, *rows = csv.reader(io.StringIO(content.removeprefix("\ufeff"), newline=""), strict=True)
    whole = [text.replace("\ud83d", "\ufffd").replace("\ud800", "\ufffd") for text in TEXTS]
    assert [original_cell(cell) for _, cell in rows] == whole
    assert not any(cell.startswith(STARTERS) for _, cell in rows) and (header[0], rows[1][0]) == ("n", "-1")
    lines = list(jsonl_lines({"text": text} for text in TEXTS))
    assert all(line.isascii() and line.count("\n") == 1 for line in lines)
    assert [json.loads(line)["text"] for line in lines] == TEXTS
    endless = csv_lines(("text",), repeat(("a",)))
    assert [next(endless) for _ in range(3)] == ['\ufeff"text"\r\n', '"a"\r\n', '"a"\r\n']


def test_rows_of_parquet_come_back_equal_and_none_are_a_file_too() -> None:
    rows = [
        {"id": str(number), "n": number, "x": None if number % 3 else number / 2, "ok": number % 2 == 0}
        for number in range(5_000)
    ]
    content = b"".join(parquet_parts({"id": "text", "n": "int", "x": "float", "ok": "bool"}, iter(rows)))
    frame = pd.read_parquet(io.BytesIO(content))
    assert list(frame.columns) == ["id", "n", "x", "ok"]
    assert frame.astype(object).where(frame.notna(), None).to_dict("records") == rows
    assert len(pd.read_parquet(io.BytesIO(b"".join(parquet_parts({"id": "text"}, []))))) == 0
    frame = pd.read_parquet(io.BytesIO(b"".join(parquet_parts({"id": "text"}, [{"id": "a\ud800"}, {}]))))
    assert frame["id"][0] == "a\ufffd" and frame["id"].isna()[1]
