"""Parquet that leaves: pandas reads back what was written, however long the rows."""

import io
import json

import pandas as pd

from pages.ui.downloads import RELABELLED, export
from screening.datasets.export import parquet_parts
from screening.datasets.reader import read_table
from screening.datasets.rows import NewCase
from storage.research.relabelled import ReaderRating, RelabelledRow
from tests.storage.batch_of import NOW


def test_rows_come_back_equal() -> None:
    rows = [
        {"id": str(number), "n": number, "x": None if number % 3 else number / 2, "ok": number % 2 == 0}
        for number in range(5_000)
    ]
    content = b"".join(parquet_parts({"id": "text", "n": "int", "x": "float", "ok": "bool"}, iter(rows)))
    frame = pd.read_parquet(io.BytesIO(content))
    assert list(frame.columns) == ["id", "n", "x", "ok"]
    assert frame.astype(object).where(frame.notna(), None).to_dict("records") == rows


def test_no_rows_are_a_file_too_and_lone_surrogates_are_replaced() -> None:
    assert len(pd.read_parquet(io.BytesIO(b"".join(parquet_parts({"id": "text"}, []))))) == 0
    frame = pd.read_parquet(io.BytesIO(b"".join(parquet_parts({"id": "text"}, [{"id": "a\ud800"}, {}]))))
    assert frame["id"][0] == "a\ufffd" and frame["id"].isna()[1]


def relabelled() -> RelabelledRow:
    said = {"label": "unsafe", "certainty": 4, "fields": {}, "form_version": 1}
    rating = ReaderRating(reader="R1", version=1, blind=True, reading="first", at=NOW, **said)  # type: ignore[arg-type]
    return RelabelledRow(
        version="v", as_of=0, case_id="c", row=3, external_id="x", text="=a day", reply=None, group="g",
        reference="safe", reference_value="Supportive", provenance={"labels": {}}, outcome="safe",
        ratings=(rating,), adjudications=(), adjudicated_label="unsafe", final_label="unsafe",
        final_source="adjudicated", hidden=False,
    )  # fmt: skip


def test_the_relabelled_rows_are_read_back_by_pandas_and_by_this_reader() -> None:
    frame = pd.read_parquet(io.BytesIO(b"".join(export(RELABELLED, [relabelled()], "parquet"))))
    assert frame["text"][0] == "=a day" and frame["row"][0] == 3
    assert json.loads(frame["ratings"][0])[0]["reader"] == "R1"
    tasks = "".join(export(RELABELLED, [relabelled()], "label-studio"))
    assert json.loads(tasks)[0]["predictions"][0]["result"][0]["value"] == {"choices": ["safe"]}
    (row,) = read_table(tasks.encode()).rows()
    assert isinstance(row, NewCase)
    assert (row.external_id, row.text.stored, row.reference_value, row.group) == ("x", "=a day", "unsafe", "g")
