"""Formats, encodings, columns and rows: what is read as what, and what is refused."""

import csv
import io
import json
import re
import tracemalloc
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.datasets import reader
from screening.datasets.export import rejected_csv
from screening.datasets.mapping import ColumnMapping, KnownDataset, propose_mapping
from screening.datasets.reader import read_table
from screening.datasets.rows import FileLayout, FileRow, NewCase, Reason, RejectedRow, Rows
from screening.datasets.sources import ColumnsUnclear, FileFormat, FileRefused, Source
from screening.labels import Label
from screening.settings import FILE_LIMITS
from screening.text.flags import Flag
from screening.text.received import ReceivedText, original_text, receive
from tests.datasets.test_conversations import lines
from tests.datasets.test_files import workbook
from tests.fixtures.bad_inputs import bad_inputs


def rejected(content: bytes) -> dict[int, str]:
    return {row.row: row.reason for row in read_table(content).rows() if isinstance(row, RejectedRow)}


WORKBOOK = workbook(("id", "text"), (1, "a"), (2, "b"))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_every_bad_input_comes_back_exactly_from_every_format(kind: str) -> None:
    inputs = {one["id"]: one["text"] for one in bad_inputs() if kind != "csv" or one["id"] != "lone_surrogate"}
    rows = {row.row: row for row in read_table(_written(inputs, kind)).rows()}
    assert len(rows) == len(inputs)
    for row, (name, text) in zip(rows.values(), inputs.items(), strict=True):
        assert row.external_id == name
        if isinstance(row, RejectedRow):
            assert (name, row.reason) == ("zwsp_only", Reason.EMPTY_TEXT)
            assert json.loads(row.original_json or "") == text
        else:
            assert original_text(row.text) == text


def _written(inputs: dict[str, str], kind: str) -> bytes:
    objects = [{"id": name, "text": text} for name, text in inputs.items()]
    if kind == "json":
        return json.dumps(objects).encode()
    if kind == "jsonl":
        return lines(*objects)
    stream = io.StringIO(newline="")
    csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("id", "text"), *inputs.items()])
    return stream.getvalue().encode()


def test_bytes_that_are_not_utf8_are_kept_and_flagged() -> None:
    table = read_table("id,text\n1,café ".encode() + b"\xff\n2,na\xc3\xafve\n")
    first, second = table.rows()
    assert isinstance(first, NewCase)
    assert Flag.UNREADABLE in first.text.flags
    assert original_text(first.text) == "café \udcff"
    assert isinstance(second, NewCase)
    assert second.text.stored == "naïve"
    assert "1 byte is not UTF-8" in table.report.warnings[0]


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
        (["id", "label"], None),
    ],
)
def test_columns_met_in_the_wild(columns: list[str], expected: ColumnMapping | None) -> None:
    assert propose_mapping(columns) == expected


def test_a_column_named_twice_keeps_its_cells_apart() -> None:
    content = b"id,text,text,note,note\n1,a,b,c,d\n"
    columns = ("id", "text (column 2)", "text (column 3)", "note (column 4)", "note (column 5)")
    mapping = ColumnMapping(text="text (column 3)", joined=("text (column 2)",), id="id")
    table = read_table(content, mapping=mapping)
    assert table.report.columns == columns
    assert [row.text.stored for row in table.rows() if isinstance(row, NewCase)] == ["b\n\na"]


def test_an_id_that_several_rows_share_is_the_group() -> None:
    content = b"user_id,text\nu1,a day\nu1,I want to die\nu2,b\nu2,b\n,c\n"
    table = read_table(content)
    rows = list(table.rows())
    assert [(row.external_id, row.group) for row in rows if isinstance(row, NewCase)] == [
        ("1", "u1"), ("2", "u1"), ("3", "u2"), ("4", "u2"), ("5", None),
    ]  # fmt: skip
    assert "The column user_id is no id" in table.report.warnings[0]
    assert read_table(b"user_id,text\nu1,a\nu2,b\n").report.mapping == ColumnMapping(text="text", id="user_id")
    assert propose_mapping(["id", "conv_id", "text"]) == ColumnMapping(text="text", id="id", group="conv_id")
    chosen = read_table(content, mapping=ColumnMapping(text="text", id="user_id"))
    assert chosen.report.mapping == ColumnMapping(text="text", group="user_id"), "an id is no choice"


def test_title_reply_label_and_group() -> None:
    content = b"id,title,text,response,label,split\n1,T,b,r,unsafe,test\n2,,c,,0,train\n3,T,,,safe,x\n"
    rows = [row for row in read_table(content).rows() if isinstance(row, NewCase)]
    assert [row.text.stored for row in rows] == ["T\n\nb", "c", "T"]
    assert [row.reply.stored if row.reply else None for row in rows] == ["r", None, None]
    assert [row.reference for row in rows] == [Label.UNSAFE, None, Label.SAFE]
    assert [row.group for row in rows] == ["test", "train", "x"]


def test_what_a_number_stands_for_is_asked_and_not_guessed() -> None:
    for numbers in ("01", "012", "11"):
        rows = "".join(f"{at},text {at},{number}\n" for at, number in enumerate(numbers))
        report = read_table(f"id,text,label\n{rows}".encode()).report
        assert report.labels == {} and report.unmapped == tuple(sorted(set(numbers)))
        assert "is for you to say" in " ".join(report.warnings)


def test_rows_that_differ_only_in_the_label_are_reviews_of_one_text() -> None:
    content = b"id,text,label\n1,a,safe\n1,a,unsafe\n2,b,safe\n2,b,safe\n2,b,safe\n3,c,\n3,c,unsafe\n"
    assert rejected(content) == dict.fromkeys((2, 4, 5, 7), Reason.DUPLICATE)
    table = read_table(content)
    rows = [row for row in table.rows() if isinstance(row, NewCase)]
    assert [(row.reference_value, row.reference) for row in rows] == [
        ("safe | unsafe", None), ("safe", Label.SAFE), ("unsafe", Label.UNSAFE),
    ]  # fmt: skip
    assert table.report.label_values == {"safe": 3, "unsafe": 1, "safe | unsafe": 1}


def test_reading_goes_on_after_a_row_as_if_it_had_begun_there() -> None:
    """Duplicates are known from the whole file, so a row fares the same whether those before it are asked for."""
    content = b"id,text\n1,a day\n2,another\n1,a day\n\n3,\n4,a last day\n"
    table = read_table(content)
    whole, received = list(table.rows()), []

    def noted(raw: str) -> ReceivedText:
        received.append(raw)
        return receive(raw)

    for after in range(len(whole) + 2):
        received.clear()
        assert list(table.rows(noted, after=after)) == whole[after:]
        assert len(received) == sum(isinstance(row, NewCase) for row in whole[after:])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_workbook_is_refused_not_an_error(data: st.DataObject) -> None:
    content = bytearray(WORKBOOK)
    for place in data.draw(st.lists(st.integers(0, len(WORKBOOK) - 1), min_size=1, max_size=3)):
        content[place] ^= data.draw(st.integers(1, 255))
    try:
        table = read_table(bytes(content))
        assert len(list(table.rows())) == table.report.rows
    except FileRefused:
        pass


def test_texts_that_excel_cut_are_pointed_out() -> None:
    cut = b"x" * 32_767
    warnings = read_table(b"id,text\n1," + cut + b"\n2," + cut + b"\n3,short\n").report.warnings
    assert warnings == ("2 texts end near Excel's limit of 32,767 characters and may have been cut there.",)
    assert read_table(b"id,text\n1," + cut + b"xx\n").report.warnings == ()


def test_published_data_sets_are_recognised() -> None:
    aegis = b'[{"id":"a","prompt":"p","response":null,"prompt_label":"safe","response_label":null,' + (
        b'"violated_categories":""}]'
    )
    assert read_table(aegis).report.known is KnownDataset.AEGIS
    assert read_table(b"text,label\na,self.SuicideWatch\n").report.known is KnownDataset.SWMH
    assert read_table(b"text,label\na,safe\n").report.known is None


def test_the_list_of_rejected_rows_opens_as_csv() -> None:
    content = b"id,text\n1,a\n=2,b,=c\n3,d\n"
    rows = (row for row in read_table(content).rows() if isinstance(row, RejectedRow))
    written = "".join(rejected_csv(rows)).removeprefix("\ufeff")
    assert list(csv.DictReader(io.StringIO(written))) == [
        {
            "row": "2", "line": "3", "id": "'=2", "reason": "extra_cells",
            "detail": "3 cells where the header has 2", "original": '["=2", "b", "=c"]',
        }
    ]  # fmt: skip


def _bomb(sheet: bytes, *, parts: int = 0, named: str = "xl/worksheets/sheet1.xml") -> bytes:
    """A workbook whose part of this name is ``sheet`` instead."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(WORKBOOK)) as whole, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in whole.infolist():
            archive.writestr(entry.filename, sheet if entry.filename == named else whole.read(entry))
        for number in range(parts):
            archive.writestr(f"xl/media/{number}.png", b"")
    return stream.getvalue()


_SHEET = (
    b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    b'<row><c t="inlineStr"><is><t>text</t></is></c></row>%s</sheetData></worksheet>'
)
_WIDE = b'<row><c r="ZZZ1" t="inlineStr"><is><t>a</t></is></c></row>'


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: _bomb(_SHEET % (b"<row/>" * 3_000_000)), "far tighter"),
        (lambda: _bomb(_SHEET % (b"<row/>" * 400_000)), "more than 2 MB"),
        (lambda: _bomb(_SHEET % b"", parts=2_001), "more than 2 MB"),
        (lambda: _bomb(_SHEET % (_WIDE * 60)), "60 of 60 rows do not fit"),
    ],
    ids=["tight", "large", "parts", "cells"],
)
def test_a_bomb_is_refused_before_it_takes_memory(
    make: Callable[[], bytes], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the reading takes is measured, not what the file unpacks to."""
    small = FILE_LIMITS.model_copy(update={"characters": 20_000_000 if "tight" in sentence else 2_000_000})
    monkeypatch.setattr("screening.datasets.sources.FILE_LIMITS", small)
    content = make()
    tracemalloc.start()
    try:
        with pytest.raises(FileRefused, match=sentence):
            read_table(content, "bomb.xlsx")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def _formulas(*cells: str) -> bytes:
    """A workbook of texts, each of which is a formula as it is kept in the file."""
    return _bomb(_SHEET % b"".join(b"<row>%s</row>" % cell.encode() for cell in cells))


def test_of_a_formula_its_saved_value_is_the_text_and_else_what_is_written() -> None:
    content = _formulas(
        '<c t="str"><f>CONCAT(C2,D2)</f><v>I want to end it tonight</v></c>',
        '<c t="str"><f>IF(C3="","",C3)</f><v></v></c><c><v>3</v></c>',
        '<c t="e"><f>sad today</f><v>#NAME?</v></c>',
        "<c><f>) haha</f><v>0</v></c>",
        "<c><f>SUM(C2:C3)</f></c>",
        "<c><f>ROW()</f><v>7</v></c>",
        '<c t="inlineStr"><is><t>plain words</t></is></c>',
    )
    table = read_table(content, mapping=ColumnMapping(text="text"))
    texts = {row.row: original_text(row.text) for row in table.rows() if isinstance(row, NewCase)}
    written = {3: "=sad today", 4: "=) haha", 5: "=SUM(C2:C3)"}
    assert texts == {1: "I want to end it tonight", 6: "7", 7: "plain words"} | written
    assert "3 texts are formulas without a value in the file, and read as written there." in table.report.warnings


def subtitles(source: Source, _sheet: str | None) -> FileLayout | None:
    """The exercise of docs/architecture.md: what begins with "1" and a time is a file of subtitles, a row each."""
    content = (source if isinstance(source, bytes) else source.read_bytes()).decode("utf-8", "replace")
    if not re.match(r"1\n\d\d:\d\d:\d\d,\d{3} --> ", content):
        return None

    def read() -> Rows:
        line = 1
        for row, block in enumerate(content.strip().split("\n\n"), start=1):
            number, _time, *said = block.split("\n")
            yield FileRow(row, line, {"id": number, "text": "\n".join(said)})
            line += len(said) + 3

    return FileLayout(source=source, format="subtitles", read=read, columns=("id", "text"))


def test_a_new_file_format_is_one_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    content = (
        b"1\n00:00:01,000 --> 00:00:02,000\nhello\nthere\n\n2\n00:00:03,000 --> 00:00:04,000\n\n\n"
        b"3\n00:00:05,000 --> 00:00:06,000\nI want to\ndie tonight\n"
    )
    with pytest.raises(ColumnsUnclear):
        read_table(content)
    monkeypatch.setattr(reader, "READERS", [subtitles, *reader.READERS])
    table = read_table(content)
    assert (table.report.format, table.report.mapping.text, table.report.mapping.id) == ("subtitles", "text", "id")
    first, last = (row for row in table.rows() if isinstance(row, NewCase))
    assert (first.external_id, first.text.stored) == ("1", "hello\nthere")
    assert Flag.STATED_IMMINENT in last.text.flags
    assert [row.reason for row in table.rows() if isinstance(row, RejectedRow)] == [Reason.EMPTY_TEXT]
    with pytest.raises(FileRefused, match="not a workbook"):
        read_table(content, sheet="1")
    assert read_table(b"id,text\n1,soup\n").report.format is FileFormat.DELIMITED
