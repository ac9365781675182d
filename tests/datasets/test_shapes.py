"""Shapes of other tools: columnar files, saved data sets, annotation exports, evaluation logs, lists of strings."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openpyxl import Workbook

from screening.datasets.mapping import ColumnMapping, FileMapping, find_column, mapping_json, read_mapping
from screening.datasets.reader import Table, read_table
from screening.datasets.rows import NewCase, Reason, RejectedRow
from screening.datasets.sources import ColumnsUnclear, FileRefused
from screening.labels import Label
from screening.text.flags import Flag
from screening.text.received import original_text

ROWS = {"id": ["007", "8", None], "text": ["a\u2028b", None, "NA"], "label": ["unsafe", "safe", "safe"]}


def parquet(columns: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, row_group_size=2)
    return stream.getvalue()


def accepted(table: Table) -> list[tuple[str, str, Label | None, str | None]]:
    rows = (row for row in table.rows() if isinstance(row, NewCase))
    return [(row.external_id, row.text.stored, row.reference, row.group) for row in rows]


def reasons(table: Table) -> list[tuple[int, str]]:
    return [(row.row, row.reason) for row in table.rows() if isinstance(row, RejectedRow)]


def saved(folder: Path, columns: dict[str, Any], stream: bool = True) -> Path:
    """A folder as the datasets library saves one: Arrow streams and what lists them."""
    folder.mkdir(parents=True)
    table = pa.table(columns)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(folder / "data-00000-of-00001.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    return folder


def test_parquet_is_read_by_content() -> None:
    table = read_table(parquet(ROWS), "x.csv")
    assert accepted(table) == [("007", "a\u2028b", Label.UNSAFE, None)]
    assert reasons(table) == [(2, Reason.NO_TEXT), (3, Reason.NO_ID)]
    assert table.report.rows == 3 and table.report.format == "Parquet file"


def test_values_that_are_no_texts_are_written_as_they_stand() -> None:
    found = accepted(read_table(parquet({"id": [1, 2, 3], "text": [1.5, float("nan"), 7.0]})))
    assert [(identity, text) for identity, text, _, _ in found] == [("1", "1.5"), ("3", "7.0")]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_bytes_are_text_in_utf8_and_what_does_not_fit_is_flagged(kind: pa.DataType) -> None:
    """As some writers leave texts: a column that is not marked as one of strings."""
    columns = {"id": [b"007", b"8"], "text": ["töd".encode(), b"caf\xe9 au lait"], "label": [b"unsafe", b"safe"]}
    table = read_table(parquet({name: pa.array(values, kind) for name, values in columns.items()}))
    assert accepted(table) == [("007", "töd", Label.UNSAFE, None), ("8", "caf\ufffd au lait", Label.SAFE, None)]
    first, second = (row.text for row in table.rows() if isinstance(row, NewCase))
    assert Flag.UNREADABLE not in first.flags and Flag.UNREADABLE in second.flags
    assert original_text(second) == "caf\udce9 au lait"


def test_bytes_in_a_list_are_texts_of_it() -> None:
    content = parquet({"id": ["1"], "text": pa.array([["töd".encode(), b"caf\xe9"]], pa.list_(pa.binary()))})
    (row,) = read_table(content, mapping=ColumnMapping(text="text", id="id", lists=True)).rows()
    assert isinstance(row, NewCase) and original_text(row.text) == "töd\n\ncaf\udce9"


@pytest.mark.parametrize("stream", [True, False])
def test_a_saved_data_set_is_read_split_by_split(tmp_path: Path, stream: bool) -> None:
    saved(tmp_path / "set" / "train", ROWS, stream)
    saved(tmp_path / "set" / "test", ROWS | {"id": ["9", "10", "11"], "text": ["c", "d", "e"]}, stream)
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    table = read_table(tmp_path / "set")
    assert [(identity, group) for identity, _, _, group in accepted(table)] == [
        ("007", "train"), ("9", "test"), ("10", "test"), ("11", "test"),
    ]  # fmt: skip
    assert [row for row, _ in reasons(table)] == [2, 3]


def test_a_folder_that_is_no_data_set_and_a_damaged_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileRefused, match="no saved data set"):
        read_table(tmp_path)
    for damaged in (parquet(ROWS)[:60], b"PAR1" + b"x" * 90 + b"PAR1", b"ARROW1\x00\x00nothing"):
        with pytest.raises(FileRefused, match="damaged"):
            read_table(damaged)


def test_nested_texts_name_the_row_and_are_never_merely_missing() -> None:
    table = read_table(parquet({"id": ["1", "2", "3"], "text": [[{"a": 1}], [], []], "body": ["x", "y", "z"]}),
                       mapping=ColumnMapping(text="body", id="id"))  # fmt: skip
    assert len(accepted(table)) == 3
    with pytest.raises(ColumnsUnclear, match="a list or an object, not a text"):
        read_table(parquet({"id": ["1"], "text": [{"a": 1}]}))
    mixed = json.dumps([{"id": 1, "text": "a"}, {"id": 2, "text": {"b": 1}}, {"id": 3, "text": "c"}]).encode()
    assert reasons(read_table(mixed)) == [(2, Reason.NOT_A_TEXT)]
    reply = b'[{"id": 1, "text": "a", "reply": ["b", {}]}, {"id": 2, "text": "c", "reply": null}]'
    assert reasons(read_table(reply)) == [(1, Reason.NOT_A_TEXT)]


POSTS = [["I am fine", "I want to die tonight"], ["only one"], []]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([{"id": n, "text": posts} for n, posts in enumerate(POSTS)]).encode(),
        parquet({"id": ["0", "1", "2"], "text": POSTS}),
    ],
)
def test_lists_of_strings_are_joined_by_choice_and_asked_about(content: bytes) -> None:
    with pytest.raises(ColumnsUnclear, match="is a list of strings or turns"):
        read_table(content)
    table = read_table(content, mapping=ColumnMapping(text="text", id="id", lists=True))
    assert [text for _, text, _, _ in accepted(table)] == ["I am fine\n\nI want to die tonight", "only one"]
    assert reasons(table) == [(3, Reason.EMPTY_TEXT)]


def test_lists_in_cells_of_delimited_text_are_pointed_out() -> None:
    content = b'id,Post\n1,"[""a"", ""b""]"\n2,"[\'c\', ""it\'s""]"\n3,[deleted by me]\n'
    table = read_table(content)
    assert table.report.warnings[0].startswith("In 2 rows the text is a list of strings or turns")
    joined = table.with_mapping(ColumnMapping(text="Post", id="id", lists=True))
    assert [text for _, text, _, _ in accepted(joined)] == ["a\n\nb", "c\n\nit's", "[deleted by me]"]


def test_label_studio_and_argilla_exports_are_flat_tables() -> None:
    def task(number: int, *labels: str) -> dict[str, Any]:
        given = [{"result": [{"type": "choices", "value": {"choices": [label]}}]} for label in labels]
        return {"id": number, "data": {"text": f"text {number}", "group": "g"}, "annotations": given}

    content = json.dumps([task(1, "unsafe", "unsafe"), task(2, "safe", "unsafe"), task(3)]).encode()
    assert accepted(read_table(content)) == [
        ("1", "text 1", Label.UNSAFE, "g"), ("2", "text 2", None, "g"), ("3", "text 3", None, "g"),
    ]  # fmt: skip
    assert read_table(content).report.unmapped == ("safe | unsafe",)
    responses = {"label": [{"value": "unsafe", "user_id": "u"}, {"value": "safe", "status": "draft"}]}
    record = {"id": "r1", "fields": {"text": "hello"}, "metadata": {"split": "test"}, "responses": responses}
    assert accepted(read_table(json.dumps([record]).encode())) == [("r1", "hello", Label.UNSAFE, "test")]


def sample(number: int, epoch: int = 1) -> dict[str, Any]:
    asked = [{"role": "system", "content": "s"}, {"role": "user", "content": f"q{number}"}]
    output = {"model": "m", "choices": [{"message": {"role": "assistant", "content": "an answer"}}]}
    scores = {"judge": {"value": "C"}}
    return {"id": number, "epoch": epoch, "input": asked, "target": "unsafe", "output": output, "scores": scores}


def test_inspect_logs_are_read_plain_and_packed() -> None:
    samples = [sample(1), sample(1, 2), sample(2)]
    plain = json.dumps({"version": 2, "status": "success", "eval": {"task": "t"}, "samples": samples}).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        for one in samples:
            archive.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
    for content in (plain, stream.getvalue()):
        table = read_table(content)
        rows = [row for row in table.rows() if isinstance(row, NewCase)]
        assert [row.external_id for row in rows] == ["1", "1 epoch 2", "2"]
        assert {row.reply.stored if row.reply else None for row in rows} == {"an answer"}
        assert [row.text.stored for row in rows] == ["q1", "q1", "q2"]
        assert {row.reference for row in rows} == {Label.UNSAFE}
    with pytest.raises(FileRefused, match="damaged"):
        list(read_table(stream.getvalue()[:200] + b"\0" * 40 + stream.getvalue()[240:]).rows())


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_the_first_sheet_that_is_not_hidden_is_read_and_any_that_is_asked_for(state: str) -> None:
    book, stream = Workbook(), io.BytesIO()
    for sheet in (book.worksheets[0], book.create_sheet("Posts"), book.create_sheet("Empty")):
        for row in (("id", "text"), (1, f"a text of {sheet.title}")) if sheet.title != "Empty" else ():
            sheet.append(row)
    book.active = book["Posts"]
    book["Sheet"].sheet_state = state
    book.save(stream)
    table = read_table(stream.getvalue())
    assert [text for _, text, _, _ in accepted(table)] == ["a text of Posts"]
    assert (table.report.sheet, table.report.sheets) == ("Posts", ("Posts", "Empty", "Sheet"))
    assert table.report.warnings == ("Only sheet 1 of 3 is read.",)
    assert [text for _, text, _, _ in accepted(read_table(stream.getvalue(), sheet="Sheet"))] == ["a text of Sheet"]
    with pytest.raises(FileRefused, match="no rows") as refused:
        read_table(stream.getvalue(), sheet="Empty")
    assert refused.value.sheets == table.report.sheets
    with pytest.raises(FileRefused, match="no sheet 'Other'"):
        read_table(stream.getvalue(), sheet="Other")
    with pytest.raises(FileRefused, match="not a workbook"):
        read_table(b"id,text\n1,a\n", sheet="Posts")


def test_a_mapping_comes_back_from_its_file() -> None:
    columns = ColumnMapping(text="körper", joined=("b",), id=None, label="class", lists=True)
    kept = FileMapping(columns=columns, labels={"Ideation": Label.UNSAFE, "other": None}, sheet="S")
    assert read_mapping(mapping_json(kept)) == kept
    for wrong in ("", "[]", '{"second_look_mapping": 2}', '{"second_look_mapping": 1, "labels": {"a": "escalate"}}',
                  '{"second_look_mapping": 1, "columns": {"text": 1}}', "[" * 100_000):  # fmt: skip
        with pytest.raises(FileRefused, match="no saved mapping"):
            read_mapping(wrong)
    twice = '{"second_look_mapping": 1, "labels": {"a": "unsafe", "a": "safe"}}'
    with pytest.raises(FileRefused, match="a name stands in it twice"):
        read_mapping(twice)


def test_a_column_is_found_by_name() -> None:
    assert find_column("text", ["Text "]) == "Text "
    assert find_column("text", ["text", "Text"]) == "text"
    with pytest.raises(FileRefused, match="2 columns are called 'text'"):
        find_column("text", ["text (column 1)", "text (column 2)"])
    with pytest.raises(FileRefused, match="no column 'post'"):
        find_column("post", ["text"])


def test_other_labels_and_columns_read_nothing_twice() -> None:
    table = read_table(b"id,text,label\n1,a,low\n2,b,high\n")
    again = table.with_labels({"high": Label.UNSAFE})
    assert [row.reference for row in again.rows() if isinstance(row, NewCase)] == [None, Label.UNSAFE]
    assert again.report.unmapped == ("low",)
    assert table.with_mapping(table.report.mapping) is table
