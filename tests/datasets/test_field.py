"""Shapes that people and their tools really have: read as what they are, or refused naming it; never dropped, never
turned around.
"""

import io
import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from openpyxl import Workbook

from commands.__main__ import main
from screening.datasets.mapping import (
    ColumnMapping,
    ConversationReading,
    FileMapping,
    Shape,
    column_mapping,
    find_column,
    mapping_json,
    propose_mapping,
    read_mapping,
)
from screening.datasets.reader import read_table
from screening.datasets.rows import ColumnsUnclear, FileRefused, NewCase, Reason, RejectedRow
from screening.labels import Label
from screening.pipeline.engine import Reason as Ended
from screening.pipeline.files import ERROR_KINDS
from screening.text.conversation import Judged, Question, Role
from screening.text.flags import REFUSES_SAFE, STATED, Flag
from tests.datasets.reading import RISK, lines, parquet, read, saved, talk
from tests.fixtures import tables

TABLES = tables(__file__)
FIELD = Path(__file__).parent.parent / "fixtures" / "field"
SPEAKERS = (("Reed", Role.USER), ("Moss", Role.ASSISTANT))
TURNS = talk("messages", Shape.MESSAGES)
ROWS = {"id": ["007", "8", None], "text": ["a\u2028b", None, "NA"], "label": ["unsafe", "safe", "safe"]}
JOINED = ColumnMapping(text="text", id="id", lists=True)
R, S, U = Reason, Label.SAFE, Label.UNSAFE


@pytest.mark.parametrize(("columns", "expected"), TABLES["columns"])
def test_columns_met_in_the_wild(columns: list[str], expected: dict[str, str]) -> None:
    assert propose_mapping(columns) == (ColumnMapping(**expected) if expected else None)


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
    assert table.layout.columns == ("id", "text (column 2)", "text (column 3)", "note (column 4)", "note (column 5)")
    assert read(table, "text") == ["b\n\na"]


def test_a_mapping_comes_back_from_its_file() -> None:
    columns = ColumnMapping(text="körper", joined=("b",), id=None, label="class", lists=True)
    asked = ConversationReading(
        shape=Shape.ROWS, judged=Judged.EACH_USER, questions=(Question.TEXT, Question.REPLY), role="who",
        speakers=(("Ann", Role.USER),),
    )  # fmt: skip
    for kept in (
        FileMapping(columns=ColumnMapping(text="te\udcf8t")),
        FileMapping(columns=columns, labels={"Ideation": Label.UNSAFE, "other": None}, sheet="S"),
        FileMapping(columns=ColumnMapping(text="words", id="c", where="link", conversation=asked)),
    ):
        assert read_mapping(mapping_json(kept)) == kept
        assert kept.columns and column_mapping(asdict(kept.columns)) == kept.columns
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
CLASSES = {"names": ["suicide", "safe"], "_type": "ClassLabel"}


def _classes(feature: object, *cells: object) -> bytes:
    """A Parquet file that says what the numbers in its column of labels stand for."""
    return parquet({"text": ["soup", "rain", "bread"], "label": list(cells)}, {"label": feature})


POSTS = [["I am fine", "I want to die tonight"], ["only one"], []]
JOINED_POSTS = [("0", "I am fine\n\nI want to die tonight"), ("1", "only one"), R.EMPTY_TEXT]


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
        (parquet({"text": ["a1", "a2"]}, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"}), None,
         "text", ["a1", "a2"]),
        (parquet({"id": ["1", "2"], "text": [[{"a": 1}], []], "body": ["x", "y"]}),
         ColumnMapping(text="body", id="id"), "text", ["x", "y"]),
        (_json({"id": 1, "text": "a"}, {"id": 2, "text": {"b": 1}}, {"id": 3, "text": "c"}), None,
         "text", ["a", R.NOT_A_TEXT, "c"]),
        (_json({"id": 1, "text": "a", "reply": ["b", {}]}, {"id": 2, "text": "c", "reply": None}), None,
         "text", [R.NOT_A_TEXT, "c"]),
        (_json(*({"id": n, "text": posts} for n, posts in enumerate(POSTS))), JOINED, "id text", JOINED_POSTS),
        (parquet({"id": ["0", "1", "2"], "text": POSTS}), JOINED, "id text", JOINED_POSTS),
        (b'id,Post\n1,"[""a"", ""b""]"\n2,"[\'c\', ""it\'s""]"\n3,[deleted by me]\n',
         ColumnMapping(text="Post", id="id", lists=True), "text", ["a\n\nb", "c\n\nit's", "[deleted by me]"]),
        (_json(_task(1, "unsafe", "unsafe"), _task(2, "safe", "unsafe"), _task(3)), None, "id text label group",
         [("1", "text 1", U, "g"), ("2", "text 2", None, "g"), ("3", "text 3", None, "g")]),
        (parquet({name: pa.array(values, pa.binary()) for name, values in BINARY.items()}), None, "flags",
         [set(), {Flag.ALTERED, Flag.UNREADABLE}]),
        (_json(ARGILLA), None, "id text label group", [("r1", "hello", U, "test")]),
        (_json({"text": "a", "w": " https://x.org/1\n2 "}, {"text": "b", "w": ""}, {"text": "c", "w": "x" * 900}),
         ColumnMapping(text="text", where="w"), "where", ["https://x.org/1 2", None, "x" * 500]),
        (b"id,text,label,answer\n1,soup,SAFE,reject\n2,rain,SAFE,accept\n", None, "label", [None, S]),
        (b'id,text,label\n1,soup,"{""choices"":[""safe"",""unsafe""]}"\n2,rain,"[""unsafe""]"\n', None,
         "label", [None, U]),
        (b'{"features":[{"name":"label","type":{"_type":"ClassLabel","names":["unsafe","safe"]}}],'
         b'"rows":[{"row_idx":0,"row":{"text":"soup","label":1}},{"row_idx":1,"row":{"text":"rain","label":-1}}]}',
         None, "label", [S, None]),
        (b"id,text,label\n1,soup,0\n2,rain,1\n", None, "label", [None, None]),
        (_classes(CLASSES, 0, 1, -1), None, "label", [U, S, None]),
        (_classes(CLASSES | {"num_classes": 2}, 1, 0, 7), None, "label", [S, U, None]),
        (_classes({"feature": CLASSES, "_type": "Sequence"}, [0], [1], [0, 1]), None, "label", [U, S, None]),
        (_classes([CLASSES], [0], [1], []), None, "label", [U, S, None]),
        (_classes({"dtype": "int64", "_type": "Value"}, 0, 1, 1), None, "label", [None, None, None]),
        *[((head + row).encode(), None, "text", [R.DESCRIBES_COLUMNS, "Response"]) for head, row in (
            ("Respondent ID,Collector ID,text,Age\n,,Open-Ended Response,Response\n", "7,9,Response,\n"),
            ("Respondent ID,Collector ID,text,Which?,,\n,,Open-Ended Response,Friend,Doctor,Other (please specify)\n",
             "7,9,Response,,,\n"),
            ("respondent_id;collector_id;text;Are you ok?\n;;Open-Ended Response;Yes / No\n", "7;9;Response;\n"))],
    ],
)  # fmt: skip
def test_rows_of_other_tools(content: bytes, mapping: ColumnMapping | None, facts: str, rows: list[Any]) -> None:
    assert read(content, facts, mapping) == rows


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
    with zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/3_epoch_1.json", json.dumps(sample(3) | {"more": "x" * 4_000_000}))
    *_, large = read_table(stream.getvalue()).rows()
    assert isinstance(large, RejectedRow) and large.detail == "the sample is larger than is read at all"


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
    assert (table.layout.sheet, table.layout.sheets) == ("Posts", ("Posts", "Empty", "Sheet"))
    assert table.warnings == ("Only sheet 1 of 3 is read.",)
    assert read(read_table(content, sheet="Sheet"), "text") == ["a text of Sheet"]
    for given, name, words in (
        (content, "Empty", "no rows"),
        (content, "Other", "no sheet 'Other'"),
        (b"id,text\n1,a\n", "Posts", "not a workbook"),
    ):
        with pytest.raises(FileRefused, match=words) as refused:
            read_table(given, sheet=name)
        assert words != "no rows" or refused.value.sheets == table.layout.sheets


def rows(source: Path | bytes, mapping: ColumnMapping | None = None) -> list[NewCase | RejectedRow]:
    return list(read_table(source, mapping=mapping).rows())


def refuses_safe(row: NewCase | RejectedRow) -> bool:
    return isinstance(row, RejectedRow) or not REFUSES_SAFE.isdisjoint(row.text.flags)


def said(*words: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": each} for each in words]


CUT = "It has been a long week and this evening I will… https://t.co/x"
WHOLE = "It has been a long week and this evening I will walk the dog with my brother."


@pytest.mark.parametrize(
    ("source", "mapping"),
    [
        (FIELD / "f03_cut.jsonl", None),
        (FIELD / "f03_removed_body.jsonl", None),
        (FIELD / "f03_turns.jsonl", TURNS),
        (lines({"id": 1, "text": CUT, "truncated": True}), None),
        (f"id,text,truncated\n1,{CUT},TRUE\n".encode(), None),
        (b"id,text\n1,and so this evening I will [truncated]\n", None),
        (b"id,text\n1," + b"a day at the lake " * 1_820 + b"a day a\n", None),
        (b"id,title,text\n1,a walk in the woods,[ Removed by Reddit ]\n", None),
        (b"id,text\n1,\xe2\x80\x8eimage omitted\n", None),
        (lines({"id": 1, "messages": said("hi", "GIF omitted")}), TURNS),
        (lines({"id": 1, "messages": said("[deleted]", "hello")}),
         talk("messages", Shape.MESSAGES, judged=Judged.WHOLE)),
    ],
)  # fmt: skip
def test_a_text_that_is_known_to_be_cut_or_missing_is_never_safe(
    source: Path | bytes, mapping: ColumnMapping | None
) -> None:
    found = rows(source, mapping)
    assert found and all(map(refuses_safe, found))


@pytest.mark.parametrize(
    "tweet",
    [
        {"text": CUT, "truncated": True, "extended_tweet": {"full_text": WHOLE}},
        {"text": CUT, "note_tweet": {"text": WHOLE}},
        {"text": f"RT @a: {CUT}", "retweeted_status": {"text": CUT, "extended_tweet": {"full_text": WHOLE}}},
    ],
)
def test_the_whole_text_is_read_where_it_stands_in_the_row(tweet: dict[str, object]) -> None:
    (row,) = rows(lines({"id": 1} | tweet))
    assert isinstance(row, NewCase) and row.text.stored.endswith(WHOLE) and not refuses_safe(row)


def test_speakers_whom_nobody_named_are_refused_by_name_and_invisible_characters_join_no_turns() -> None:
    first, third = rows(FIELD / "f04_transcripts.csv", talk("transcript", speakers=SPEAKERS))
    assert isinstance(first, NewCase) and first.thread is not None
    assert [(turn.role, turn.judged) for turn in first.thread.turns[-1:]] == [(Role.USER, True)]
    assert "not be here" in first.text.stored.split("\n\n")[-1] and Flag.UNREADABLE in first.text.flags
    assert isinstance(third, RejectedRow) and "'Cleo'" in third.detail
    for unknown in ("Reed: hi\nCleo: I am off", "02/01/26, 21:01 - Reed: hi\n02/01/26, 21:02 - Cleo: I am off"):
        content = lines(*({"id": at, "text": text} for at, text in enumerate((unknown, "Reed: hi", "Reed: hi"))))
        row, *_ = rows(content, talk("text", speakers=SPEAKERS))
        assert isinstance(row, RejectedRow) and "'Cleo'" in row.detail
    content, no_speaker = lines({"id": 1, "text": "Reed: hi\nNote: I am off\nMoss: bye"}), (*SPEAKERS, ("Note", None))
    assert read(content, "text", talk("text", speakers=no_speaker)) == ["User: hi\nNote: I am off"]


def test_a_transcript_as_a_file_is_one_conversation_whose_speakers_are_asked() -> None:
    with pytest.raises(ColumnsUnclear, match="'Reed' speaks"):
        read_table(FIELD / "f16_whatsapp_ios.txt")
    reading = ConversationReading(shape=Shape.TRANSCRIPT, speakers=SPEAKERS)
    for content in (
        (FIELD / "f16_whatsapp_ios.txt").read_bytes(),
        b"02/01/26, 21:01 - Messages are encrypted\n02/01/26, 21:01 - Reed: hi, there\n",
        b"user: hi, there\nassistant: yes\n",
    ):
        (row,) = rows(content, ColumnMapping(text="transcript", conversation=reading))
        assert isinstance(row, NewCase) and row.thread is not None and "hi, " in row.text.stored


def test_a_saved_folder_says_what_its_label_numbers_stand_for(tmp_path: Path) -> None:
    place = saved(tmp_path / "set" / "train", {"text": ["soup", "rain", "bread"], "label": [0, 1, -1]})
    (place / "dataset_info.json").write_text(json.dumps({"features": {"label": CLASSES}}))
    (tmp_path / "set" / "dataset_dict.json").write_text(json.dumps({"splits": ["train"]}))
    assert read(tmp_path / "set", "label") == [Label.UNSAFE, Label.SAFE, None]


def test_names_of_columns_are_known_in_every_spelling_and_of_several_questions_the_label_is_asked() -> None:
    for name in ("tweet", "full_text", "note_text", "questionText", "dialog", "Post-Body"):
        assert read_table(f"{name}\nsoup\n".encode()).mapping.text == name
    mapping = read_table(FIELD / "f11_columns.csv").mapping
    assert (mapping.text_columns(), mapping.id) == (("post_title", "post_body"), "post_id")
    category = ColumnMapping(text="text", id="id", label="category", group="category")
    assert read_table(FIELD / "f15_category.csv", mapping=category).mapping.group is None
    answers = {"values": {"risk": {"value": "safe"}, "lang": {"value": "en"}}}
    with pytest.raises(ColumnsUnclear, match="could be the label"):
        read_table(json.dumps([{"id": 1, "fields": {"text": "soup"}, "responses": [answers]}]).encode())


@pytest.mark.parametrize(("name", "cell"), TABLES["unread"])
def test_a_column_of_sentences_that_nobody_reads_is_asked_about(name: str, cell: str) -> None:
    content = f'id,text,{name}\n1,soup,"{cell}"\n2,rain,\n'.encode()
    for mapping in (None, ColumnMapping(text="text", id="id")):
        with pytest.raises(ColumnsUnclear, match=f"would not be read: {name}") as asked:
            read_table(content, mapping=mapping)
        assert asked.value.columns == ("id", "text", name)
    left = read_table(content, mapping=ColumnMapping(text="text", id="id", unread=(name,)))
    assert left.unread == (name,) and len(list(left.rows())) == 2
    few = b"id,text,kind\n" + b"".join(b"%d,soup,very much like the others\n" % n for n in range(99))
    assert read_table(few).unread == ("kind",), "the same few words over and over are no sentences"


def test_an_id_that_stands_at_two_texts_is_none_and_a_rounded_one_is_told() -> None:
    table = read_table(FIELD / "f18_rounded_ids.csv")
    assert read(table, "id") == ["1", "2", "3"] and table.mapping.group is None
    assert any("rounded by a spreadsheet" in one for one in table.warnings)
    person = b"id,subreddit,text\n7,a,soup\n7,b,rain\n"
    for given in (None, ColumnMapping(text="text", id="id")):
        mapping = read_table(person, mapping=given).mapping
        assert (mapping.id, mapping.group) == (None, "id")
    assert "The column id is no id" in read_table(person).warnings[0]
    chosen = ColumnMapping(text="text", id="id", group="subreddit")
    assert read_table(person, mapping=chosen).mapping.group == "subreddit"


@pytest.mark.parametrize(
    ("source", "mapping"),
    [
        (f"id,text\n1,soup\n2,rain\n,{RISK}\n".encode(), None),
        (f"id,text\n1,soup\n2,{RISK},more\n3,rain\n".encode(), None),
        (f'{{"id":1,"text":"soup"}}\n{{"id":2,"text":"{RISK}"\n{{"id":3,"text":"rain"}}\n'.encode(), None),
        (f"id,title,text\n1,{RISK},[removed]\n".encode(), None),
        (lines({"id": 1, "text": f"Cleo: {RISK}"}, *({"id": n, "text": "Reed: hi"} for n in (2, 3))),
         talk("text", speakers=SPEAKERS)),
        (lines({"id": 1, "messages": said(RISK, "")}), TURNS),
        (lines({"id": 1, "messages": [{"role": "who", "content": RISK}]}, {"id": 2, "messages": said("hi")}), TURNS),
        (f"id,who,text\n1,bot,{RISK}\n2,user,hi\n3,user,hi\n".encode(), talk("text", Shape.ROWS, role="who")),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_read_and_states_a_risk_is_a_case_for_a_person(
    source: bytes, mapping: ColumnMapping | None
) -> None:
    table = read_table(source, mapping=mapping)
    found = list(table.rows())
    assert len(found) == table.row_count
    (urgent,) = (row for row in found if isinstance(row, NewCase) and row.not_screened)
    assert Flag.ROW_REJECTED in urgent.text.flags and not STATED.isdisjoint(urgent.text.flags)
    assert urgent.text.refuses_screening and RISK in urgent.text.stored


def test_what_is_no_text_of_anybody_calls_nobody() -> None:
    content = f"id,text\nid,text\n1,{RISK}\n1,{RISK}\n".encode()
    assert [getattr(row, "not_screened", "") for row in rows(content)] == ["", None, ""]


def test_every_code_in_a_file_that_is_written_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batches", "codes"]) == 0
    explained = {line.split("\t")[0] for line in capsys.readouterr().out.splitlines()}
    assert {*Ended, *ERROR_KINDS} <= explained
    documented = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    assert [code for code in Reason if f"| `{code}` |" not in documented] == []
