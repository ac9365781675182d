"""Shapes that people really have: read as what they are, or refused naming it; never dropped, never turned around."""

import json
from pathlib import Path

import pytest

from commands.__main__ import main
from screening.datasets.mapping import ColumnMapping, ConversationReading, Shape
from screening.datasets.reader import read_table
from screening.datasets.rows import NewCase, Reason, RejectedRow
from screening.datasets.sources import ColumnsUnclear
from screening.labels import Label
from screening.pipeline.engine import Reason as Ended
from screening.pipeline.errors import ERROR_KINDS
from screening.text.conversation import Judged, Role
from screening.text.flags import REFUSES_SAFE, STATED, Flag
from tests.datasets.reading import RISK, lines, parquet, read, saved, talk

FIELD = Path(__file__).parent.parent / "fixtures" / "field"
SPEAKERS = (("Reed", Role.USER), ("Moss", Role.ASSISTANT))
TURNS = talk("messages", Shape.MESSAGES)


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


@pytest.mark.parametrize(
    ("source", "labels"),
    [
        (b"id,text,label,answer\n1,soup,SAFE,reject\n2,rain,SAFE,accept\n", [None, Label.SAFE]),
        (b'id,text,label\n1,soup,"{""choices"":[""safe"",""unsafe""]}"\n2,rain,"[""unsafe""]"\n', [None, Label.UNSAFE]),
        (b'{"features":[{"name":"label","type":{"_type":"ClassLabel","names":["unsafe","safe"]}}],'
         b'"rows":[{"row_idx":0,"row":{"text":"soup","label":1}},{"row_idx":1,"row":{"text":"rain","label":-1}}]}',
         [Label.SAFE, None]),
        (b"id,text,label\n1,soup,0\n2,rain,1\n", [None, None]),
    ],
)  # fmt: skip
def test_a_label_is_read_as_what_it_is_or_as_none(source: bytes, labels: list[Label | None]) -> None:
    assert read(source, "label") == labels


CLASSES = {"names": ["suicide", "safe"], "_type": "ClassLabel"}


@pytest.mark.parametrize(
    ("feature", "cells", "labels"),
    [
        (CLASSES, [0, 1, -1], [Label.UNSAFE, Label.SAFE, None]),
        (CLASSES | {"num_classes": 2}, [1, 0, 7], [Label.SAFE, Label.UNSAFE, None]),
        ({"feature": CLASSES, "_type": "Sequence"}, [[0], [1], [0, 1]], [Label.UNSAFE, Label.SAFE, None]),
        ([CLASSES], [[0], [1], []], [Label.UNSAFE, Label.SAFE, None]),
        ({"dtype": "int64", "_type": "Value"}, [0, 1, 1], [None, None, None]),
    ],
)
def test_a_parquet_file_says_what_its_label_numbers_stand_for(
    feature: object, cells: list[object], labels: list[Label | None]
) -> None:
    content = parquet({"text": ["soup", "rain", "bread"], "label": cells}, {"label": feature})
    assert read(content, "label") == labels


def test_a_saved_folder_says_what_its_label_numbers_stand_for(tmp_path: Path) -> None:
    place = saved(tmp_path / "set" / "train", {"text": ["soup", "rain", "bread"], "label": [0, 1, -1]})
    (place / "dataset_info.json").write_text(json.dumps({"features": {"label": CLASSES}}))
    (tmp_path / "set" / "dataset_dict.json").write_text(json.dumps({"splits": ["train"]}))
    assert read(tmp_path / "set", "label") == [Label.UNSAFE, Label.SAFE, None]


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("Respondent ID,Collector ID,text,Age\n,,Open-Ended Response,Response\n", "7,9,Response,\n"),
        ("Respondent ID,Collector ID,text,Which?,,\n,,Open-Ended Response,Friend,Doctor,Other (please specify)\n",
         "7,9,Response,,,\n"),
        ("respondent_id;collector_id;text;Are you ok?\n;;Open-Ended Response;Yes / No\n", "7;9;Response;\n"),
    ],
)  # fmt: skip
def test_the_second_line_of_a_survey_is_no_text(head: str, row: str) -> None:
    assert read((head + row).encode(), "text") == [Reason.DESCRIBES_COLUMNS, "Response"]


def test_names_of_columns_are_known_in_every_spelling_and_of_several_questions_the_label_is_asked() -> None:
    for name in ("tweet", "full_text", "note_text", "questionText", "dialog", "Post-Body"):
        assert read_table(f"{name}\nsoup\n".encode()).report.mapping.text == name
    mapping = read_table(FIELD / "f11_columns.csv").report.mapping
    assert (mapping.text_columns(), mapping.id) == (("post_title", "post_body"), "post_id")
    category = ColumnMapping(text="text", id="id", label="category", group="category")
    assert read_table(FIELD / "f15_category.csv", mapping=category).report.mapping.group is None
    answers = {"values": {"risk": {"value": "safe"}, "lang": {"value": "en"}}}
    with pytest.raises(ColumnsUnclear, match="could be the label"):
        read_table(json.dumps([{"id": 1, "fields": {"text": "soup"}, "responses": [answers]}]).encode())


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("note", "He says that he cannot go on"),
        ("translation", "Not today."),
        ("tags", "want to die"),
        ("text_2", "and then we walked home together"),
    ],
)
def test_a_column_of_sentences_that_nobody_reads_is_asked_about(name: str, cell: str) -> None:
    content = f'id,text,{name}\n1,soup,"{cell}"\n2,rain,\n'.encode()
    for mapping in (None, ColumnMapping(text="text", id="id")):
        with pytest.raises(ColumnsUnclear, match=f"would not be read: {name}") as asked:
            read_table(content, mapping=mapping)
        assert asked.value.columns == ("id", "text", name)
    left = read_table(content, mapping=ColumnMapping(text="text", id="id", unread=(name,)))
    assert left.report.unread == (name,) and len(list(left.rows())) == 2
    few = b"id,text,kind\n" + b"".join(b"%d,soup,very much like the others\n" % n for n in range(99))
    assert read_table(few).report.unread == ("kind",), "the same few words over and over are no sentences"


def test_an_id_that_stands_at_two_texts_is_none_and_a_rounded_one_is_told() -> None:
    table = read_table(FIELD / "f18_rounded_ids.csv")
    assert read(table, "id") == ["1", "2", "3"] and table.report.mapping.group is None
    assert any("rounded by a spreadsheet" in one for one in table.report.warnings)
    person = b"id,subreddit,text\n7,a,soup\n7,b,rain\n"
    for given in (None, ColumnMapping(text="text", id="id")):
        report = read_table(person, mapping=given).report
        assert (report.mapping.id, report.mapping.group) == (None, "id")
    assert "The column id is no id" in read_table(person).report.warnings[0]
    chosen = ColumnMapping(text="text", id="id", group="subreddit")
    assert read_table(person, mapping=chosen).report.mapping.group == "subreddit"


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
        (lines({"id": 1, "messages": [{"role": "who", "content": RISK}]},
               *({"id": n, "messages": said("hi")} for n in (2, 3))), TURNS),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_read_and_states_a_risk_is_a_case_for_a_person(
    source: bytes, mapping: ColumnMapping | None
) -> None:
    table = read_table(source, mapping=mapping)
    found = list(table.rows())
    assert len(found) == table.report.rows
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
