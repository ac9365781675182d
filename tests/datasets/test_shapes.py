"""Columns and shapes of other tools: columnar files, saved data sets, annotation exports, evaluation logs, lists."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from openpyxl import Workbook

from screening.datasets.mapping import (
    ColumnMapping,
    ConversationReading,
    FileMapping,
    Shape,
    find_column,
    mapping_json,
    propose_mapping,
    read_mapping,
)
from screening.datasets.reader import read_table
from screening.datasets.rows import Reason
from screening.datasets.sources import FileRefused
from screening.labels import Label
from screening.text.conversation import Judged, Question, Role
from screening.text.flags import Flag
from tests.datasets.reading import parquet, read, saved

ROWS = {"id": ["007", "8", None], "text": ["a\u2028b", None, "NA"], "label": ["unsafe", "safe", "safe"]}
JOINED = ColumnMapping(text="text", id="id", lists=True)
R, S, U = Reason, Label.SAFE, Label.UNSAFE


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["id", "text"], ColumnMapping(text="text", id="id")),
        (["\ufeffID ", " Text"], ColumnMapping(text=" Text", id="\ufeffID ")),
        (["", "cleaned_text", "text"], ColumnMapping(text="text", id="")),
        (["Reddit Post", "Suicide Risk"], ColumnMapping(text="Reddit Post", label="Suicide Risk")),
        (["User", "Post", "Category"], ColumnMapping(text="Post", id="User", group="Category")),
        (["title", "selftext", "subreddit"], ColumnMapping(text="selftext", title="title", group="subreddit")),
        (["prompt", "response", "gpt_label"], ColumnMapping(text="prompt", reply="response")),
        (["id", "conv_id", "text"], ColumnMapping(text="text", id="id", group="conv_id")),
        (["text", "Where_to_act"], ColumnMapping(text="text", where="Where_to_act")),
        (["id", "label"], None),
    ],
)
def test_columns_met_in_the_wild(columns: list[str], expected: ColumnMapping | None) -> None:
    assert propose_mapping(columns) == expected


def test_a_column_is_found_by_name_and_one_named_twice_keeps_its_cells_apart() -> None:
    assert find_column("text", ["Text "]) == "Text " and find_column("text", ["text", "Text"]) == "text"
    for name, columns, words in (
        ("text", ["text (column 1)", "text (column 2)"], "2 columns are called 'text'"),
        ("post", ["text"], "no column 'post'"),
    ):
        with pytest.raises(FileRefused, match=words):
            find_column(name, columns)
    mapping = ColumnMapping(text="text (column 3)", joined=("text (column 2)",), id="id")
    table = read_table(b"id,text,text,note,note\n1,a,b,c,d\n", mapping=mapping)
    assert table.report.columns == ("id", "text (column 2)", "text (column 3)", "note (column 4)", "note (column 5)")
    assert read(table, "text") == ["b\n\na"]


def test_other_labels_and_columns_read_nothing_twice() -> None:
    table = read_table(b"id,text,label\n1,a,low\n2,b,high\n")
    again = table.with_labels({"high": Label.UNSAFE})
    assert read(again, "label") == [None, Label.UNSAFE] and again.report.unmapped == ("low",)
    assert table.with_mapping(table.report.mapping) is table


def test_a_mapping_comes_back_from_its_file() -> None:
    columns = ColumnMapping(text="körper", joined=("b",), id=None, label="class", lists=True)
    asked = ConversationReading(
        shape=Shape.ROWS, judged=Judged.EACH_USER, questions=(Question.TEXT, Question.REPLY), role="who",
        speakers=(("Ann", Role.USER),),
    )  # fmt: skip
    for kept in (
        FileMapping(columns=columns, labels={"Ideation": Label.UNSAFE, "other": None}, sheet="S"),
        FileMapping(columns=ColumnMapping(text="words", id="c", where="link", conversation=asked)),
    ):
        assert read_mapping(mapping_json(kept)) == kept
    begun = '{"second_look_mapping": 1, '
    for wrong, words in {
        **dict.fromkeys(("", "[]", '{"second_look_mapping": 2}', "[" * 100_000), "no saved mapping"),
        begun + '"labels": {"a": "escalate"}}': "no saved mapping",
        begun + '"columns": {"text": 1}}': "no saved mapping",
        begun + '"labels": {"a": "unsafe", "a": "safe"}}': "a name stands in it twice",
        mapping_json(kept).replace("each_user", "first"): r"conversation\.judged",
    }.items():
        with pytest.raises(FileRefused, match=words):
            read_mapping(wrong)


def _json(*rows: dict[str, Any]) -> bytes:
    return json.dumps(rows).encode()


def _task(number: int, *labels: str) -> dict[str, Any]:
    """Of Label Studio."""
    given = [{"result": [{"type": "choices", "value": {"choices": [label]}}]} for label in labels]
    return {"id": number, "data": {"text": f"text {number}", "group": "g"}, "annotations": given}


ARGILLA = {
    "id": "r1", "fields": {"text": "hello"}, "metadata": {"split": "test"},
    "responses": {"label": [{"value": "unsafe", "user_id": "u"}, {"value": "safe", "status": "draft"}]},
}  # fmt: skip
BINARY = {"id": [b"007", b"8"], "text": ["töd".encode(), b"caf\xe9 au lait"], "label": [b"unsafe", b"safe"]}
POSTS = [["I am fine", "I want to die tonight"], ["only one"], []]
WHOLE = [("0", "I am fine\n\nI want to die tonight"), ("1", "only one"), R.EMPTY_TEXT]


@pytest.mark.parametrize(
    ("content", "mapping", "facts", "rows"),
    [
        (parquet(ROWS), None, "id text label", [("007", "a\u2028b", U), R.NO_TEXT, R.NO_ID]),
        (parquet({"id": [1, 2, 3], "text": [1.5, float("nan"), 7.0]}), None, "id text",
         [("1", "1.5"), R.NO_TEXT, ("3", "7.0")]),
        *[(parquet({name: pa.array(values, kind) for name, values in BINARY.items()}), None, "id text label",
           [("007", "töd", U), ("8", "caf\udce9 au lait", S)]) for kind in (pa.binary(), pa.large_binary())],
        (parquet({"id": ["1"], "text": pa.array([["töd".encode(), b"caf\xe9"]], pa.list_(pa.binary()))}), JOINED,
         "text", ["töd\n\ncaf\udce9"]),
        (parquet({"id": ["1", "2"], "text": [[{"a": 1}], []], "body": ["x", "y"]}),
         ColumnMapping(text="body", id="id"), "text", ["x", "y"]),
        (_json({"id": 1, "text": "a"}, {"id": 2, "text": {"b": 1}}, {"id": 3, "text": "c"}), None,
         "text", ["a", R.NOT_A_TEXT, "c"]),
        (_json({"id": 1, "text": "a", "reply": ["b", {}]}, {"id": 2, "text": "c", "reply": None}), None,
         "text", [R.NOT_A_TEXT, "c"]),
        (_json(*({"id": n, "text": posts} for n, posts in enumerate(POSTS))), JOINED, "id text", WHOLE),
        (parquet({"id": ["0", "1", "2"], "text": POSTS}), JOINED, "id text", WHOLE),
        (b'id,Post\n1,"[""a"", ""b""]"\n2,"[\'c\', ""it\'s""]"\n3,[deleted by me]\n',
         ColumnMapping(text="Post", id="id", lists=True), "text", ["a\n\nb", "c\n\nit's", "[deleted by me]"]),
        (_json(_task(1, "unsafe", "unsafe"), _task(2, "safe", "unsafe"), _task(3)), None, "id text label group",
         [("1", "text 1", U, "g"), ("2", "text 2", None, "g"), ("3", "text 3", None, "g")]),
        (_json(ARGILLA), None, "id text label group", [("r1", "hello", U, "test")]),
        (_json({"text": "a", "w": " https://x.org/1\n2 "}, {"text": "b", "w": ""}, {"text": "c", "w": "x" * 900}),
         ColumnMapping(text="text", where="w"), "where", ["https://x.org/1 2", None, "x" * 500]),
    ],
)  # fmt: skip
def test_rows_of_other_tools(content: bytes, mapping: ColumnMapping | None, facts: str, rows: list[Any]) -> None:
    assert read(content, facts, mapping) == rows


def test_bytes_that_are_no_text_are_flagged_and_lists_in_cells_are_pointed_out() -> None:
    content = parquet({name: pa.array(values, pa.binary()) for name, values in BINARY.items()})
    assert [Flag.UNREADABLE in flags for flags in read(content, "flags")] == [False, True]
    listed = read_table(b'id,Post\n1,"[""a"", ""b""]"\n2,"[\'c\', ""it\'s""]"\n3,[deleted by me]\n')
    assert listed.report.warnings[0].startswith("In 2 rows the text is a list of strings or turns")
    disputed = read_table(_json(_task(1, "unsafe"), _task(2, "safe", "unsafe")))
    assert disputed.report.unmapped == ("safe | unsafe",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (parquet(ROWS)[:60], "damaged"),
        (b"PAR1" + b"x" * 90 + b"PAR1", "damaged"),
        (b"ARROW1\x00\x00nothing", "damaged"),
        (parquet({"id": ["1"], "text": [{"a": 1}]}), "a list or an object, not a text"),
        (_json({"id": 1, "text": POSTS[0]}), "is a list of strings or turns"),
        (parquet({"id": ["0", "1", "2"], "text": POSTS}), "is a list of strings or turns"),
    ],
)
def test_what_is_damaged_or_nested_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(FileRefused, match=words):
        read_table(content)


@pytest.mark.parametrize("stream", [True, False])
def test_a_saved_data_set_is_read_split_by_split(tmp_path: Path, stream: bool) -> None:
    saved(tmp_path / "set" / "train", ROWS, stream)
    saved(tmp_path / "set" / "test", ROWS | {"id": ["9", "10", "11"], "text": ["c", "d", "e"]}, stream)
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert read(tmp_path / "set", "id group") == [
        ("007", "train"), R.NO_TEXT, R.NO_ID, ("9", "test"), ("10", "test"), ("11", "test"),
    ]  # fmt: skip
    with pytest.raises(FileRefused, match="no saved data set"):
        read_table(tmp_path)


def test_inspect_logs_are_read_plain_and_packed() -> None:
    def sample(number: int, epoch: int = 1) -> dict[str, Any]:
        asked = [{"role": "system", "content": "s"}, {"role": "user", "content": f"q{number}"}]
        output = {"model": "m", "choices": [{"message": {"role": "assistant", "content": "an answer"}}]}
        scores = {"judge": {"value": "C"}}
        return {"id": number, "epoch": epoch, "input": asked, "target": "unsafe", "output": output, "scores": scores}

    samples = [sample(1), sample(1, 2), sample(2)]
    plain = json.dumps({"version": 2, "status": "success", "eval": {"task": "t"}, "samples": samples}).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        for one in samples:
            archive.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
    packed = stream.getvalue()
    for content in (plain, packed):
        assert read(content, "id text reply label") == [
            ("1", "q1", "an answer", U), ("1 epoch 2", "q1", "an answer", U), ("2", "q2", "an answer", U),
        ]  # fmt: skip
    with pytest.raises(FileRefused, match="damaged"):
        read(packed[:200] + b"\0" * 40 + packed[240:])


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_the_first_sheet_that_is_not_hidden_is_read_and_any_that_is_asked_for(state: str) -> None:
    book, stream = Workbook(), io.BytesIO()
    for sheet in (book.worksheets[0], book.create_sheet("Posts"), book.create_sheet("Empty")):
        for row in (("id", "text"), (1, f"a text of {sheet.title}")) if sheet.title != "Empty" else ():
            sheet.append(row)
    book.active = book["Posts"]
    book["Sheet"].sheet_state = state
    book.save(stream)
    content = stream.getvalue()
    table = read_table(content)
    assert read(table, "text") == ["a text of Posts"]
    assert (table.report.sheet, table.report.sheets) == ("Posts", ("Posts", "Empty", "Sheet"))
    assert table.report.warnings == ("Only sheet 1 of 3 is read.",)
    assert read(read_table(content, sheet="Sheet"), "text") == ["a text of Sheet"]
    for given, name, words in (
        (content, "Empty", "no rows"),
        (content, "Other", "no sheet 'Other'"),
        (b"id,text\n1,a\n", "Posts", "not a workbook"),
    ):
        with pytest.raises(FileRefused, match=words) as refused:
            read_table(given, sheet=name)
        assert words != "no rows" or refused.value.sheets == table.report.sheets
