"""What is accepted and rejected of a file, or why it is refused: files as people really produce them, and damaged ones.

Those of `fixtures` are in the golden file, each row with its text or reason.
"""

import csv
import gzip
import io
import json
import re
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.datasets import formats
from screening.datasets.mapping import ColumnMapping
from screening.datasets.reader import read_table
from screening.datasets.rows import (
    ColumnsUnclear,
    FileFormat,
    FileLayout,
    FileRefused,
    FileRow,
    NewCase,
    Reason,
    RejectedRow,
    Rows,
    Source,
)
from screening.labels import Label
from screening.text.flags import Flag
from screening.text.received import original_text
from tests.datasets.reading import RISK, lines, packed_workbook, parquet, read, workbook
from tests.fixtures import tables
from tests.fixtures.bad_inputs import bad_inputs

FILES = Path(__file__).parent.parent / "fixtures" / "bad_csv"
WORKBOOK = workbook(("id", "text"), (1, "a"), (2, "b"))
PARQUET = parquet({"id": ["1", "2"], "text": ["a", "b"]})


TABLES = tables(__file__)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        *((text.encode(), sentence) for text, sentence in TABLES["refused"]),
        (gzip.compress(b"id,text\n1,a\n", mtime=0), "a gzip archive"),
        (b"PK\x05\x06" + bytes(18), "not an Excel workbook"),
        (WORKBOOK[:400], "damaged or cut off"),
        (packed_workbook(b"", b'<row><c t="s"><v>-2</v></c></row>'), "damaged or cut off"),
        (b"\xd0\xcf\x11\xe0rest", "old Office document"),
        (b"," * 60_000 + b"\n" + b"," * 60_000 + b"\n", "60,001 columns"),
        (workbook(("id", "text", "text"), (1, "fine", RISK)), "Say which one it is"),
        (PARQUET[:60], "damaged"),
        (b"PAR1" + b"x" * 90 + b"PAR1", "damaged"),
        (b"ARROW1\x00\x00nothing", "damaged"),
        (parquet({"id": ["1"], "text": [{"a": 1}]}), "a list or an object, not a text"),
        (parquet({"id": ["1"], "text": [["a", "b"]]}), "is a list of strings or turns"),
    ],
)
def test_refused(content: bytes, sentence: str) -> None:
    with pytest.raises(FileRefused, match=sentence):
        read_table(content)


@pytest.mark.parametrize("before", [b"", b'{"data":'])
def test_a_document_of_any_depth_is_read_or_refused(before: bytes) -> None:
    for depth in range(700, 1000):
        nested = b"[" * depth + b"]" * depth
        with suppress(FileRefused):
            assert read(before + b'[{"id": 1, "text": "a", "x": ' + nested + b"}]" + b"}" * bool(before)) == [
                ("1", "a")
            ]


def test_what_a_library_wrote_beside_the_columns_may_be_nested_too_deep() -> None:
    stream = io.BytesIO()
    pq.write_table(pa.table({"text": ["a"]}).replace_schema_metadata({"huggingface": "[" * 100_000}), stream)
    with pytest.raises(FileRefused, match="damaged"):
        read_table(stream.getvalue())


def test_a_refusal_names_columns_and_quotes_no_message() -> None:
    with pytest.raises(ColumnsUnclear) as refused:
        read_table(b"1,I am going to end it tonight,no\n2,hello,no\n")
    assert "end it" not in str(refused.value) and "3 columns: 1, no." in str(refused.value)
    assert refused.value.columns == ("1", "I am going to end it tonight", "no")


FORMATS: list[tuple[FileFormat, bytes]] = [
    *((FileFormat(kind), one.encode()) for kind, several in TABLES["formats"].items() for one in several),
    *(
        (FileFormat.DELIMITED, "id\ttext\n007\ta\n".encode(name))
        for name in ("utf-16", "utf-16-be", "utf-16-le", "utf-32")
    ),
    (FileFormat.WORKBOOK, workbook(("id", "text"), ("007", "a"))),
]


@pytest.mark.parametrize(("kind", "content"), FORMATS)
def test_the_format_is_told_by_content(kind: FileFormat, content: bytes) -> None:
    assert read_table(content, "../../etc/passwd.pdf").layout.format is kind
    assert read(content) == [("007", "a")]


CYRILLIC = "мне сегодня очень грустно и одиноко, никто не звонит и не пишет, за окном идет дождь. " * 5
R, S, U = Reason, Label.SAFE, Label.UNSAFE


@pytest.mark.parametrize(
    ("content", "facts", "rows"),
    [
        *((text.encode(), facts, rows) for text, facts, rows in TABLES["rows"]),
        (workbook(("id", "text"), (7, "a"), (8.0, "b"), (1.5, 12)), "id text", [("7", "a"), ("8", "b"), ("1.5", "12")]),
        (workbook(("id", "text", None), (1, "=1+1"), (), (3, "=SUM(1)"), (4, "x", "y"), (5, True)),
         "id text", [("1", "=1+1"), ("3", "=SUM(1)"), R.EXTRA_CELLS, ("5", "TRUE")]),
        (workbook(("id", "text", "label"), (1, "a", "=A9")), "value label", [("=A9", None)]),
        (b"id,text\n1,text\nID, Text\n", "text", ["text", R.HEADER_REPEATED]),
        (b"id,text\n1," + b"fine " * 60_000 + b"\n", "text", ["fine " * 60_000]),
        (f'id,text\n1,"{CYRILLIC.strip()}"\n'.encode("cp1251"), "text", [CYRILLIC.strip()]),
        ("id,text\n1,café ".encode() + b"\xff\n2,na\xc3\xafve\n", "text flags",
         [("café \udcff", {Flag.UNREADABLE, Flag.ALTERED}), ("naïve", set())]),
        (b"user_id,text\nu1,a day\nu1,I want to die\nu2,b\nu2,b\n,c\n", "id group",
         [("1", "u1"), ("2", "u1"), ("3", "u2"), ("4", "u2"), ("5", None)]),
        (b"id,title,text,response,label,split\n1,T,b,r,unsafe,test\n2,,c,,0,train\n3,T,,,safe,x\n",
         "text reply label group", [("T\n\nb", "r", U, "test"), ("c", None, None, "train"), ("T", None, S, "x")]),
        (b"id,text,label\n1,a,safe\n1,a,unsafe\n2,b,safe\n2,b,safe\n2,b,safe\n3,c,\n3,c,unsafe\n", "value label",
         [("safe | unsafe", None), R.DUPLICATE, ("safe", S), R.DUPLICATE, R.DUPLICATE, ("unsafe", U), R.DUPLICATE]),
    ],
)  # fmt: skip
def test_every_row_is_accepted_under_its_own_id_or_rejected(content: bytes, facts: str, rows: list[Any]) -> None:
    assert read(content, facts) == [tuple(row) if isinstance(row, list) else row for row in rows]


@pytest.mark.parametrize(
    ("content", "fact", "value"),
    [
        (b"id,text\n1," + b"x" * 32_767 + b"\n2," + b"x" * 32_767 + b"\n3,short\n", "warnings",
         ("2 texts end near Excel's limit of 32,767 characters and may have been cut there.",)),
        (b"id,text\n1," + b"x" * 32_769 + b"\n", "warnings", ()),
        (b"id,text,label\n1,a,safe\n1,a,unsafe\n2,b,safe\n2,b,safe\n2,b,safe\n3,c,\n3,c,unsafe\n",
         "label_values", {"safe": 3, "unsafe": 1, "safe | unsafe": 1}),
        (b"id,text,label\n1,a,0\n2,b,1\n", "unmapped", ("0", "1")),
        (b"id,text,label\n1,a,0\n2,b,1\n3,c,2\n", "labels", {}),
        (b"id,text,label\n1,a,1\n2,b,1\n", "unmapped", ("1",)),
        (b'id,Post\n1,"[""a"", ""b""]"\n2,"[\'c\', ""it\'s""]"\n3,[deleted by me]\n', "warnings",
         ("In 2 rows the text is a list of strings or turns, screened as it stands in the file.",)),
        (FILES / "bad_labels.csv", "labels", {"SAFE": S}),
        (FILES / "bad_labels.csv", "unmapped", ("1", "unsfae")),
    ],
)  # fmt: skip
def test_what_is_said_of_a_file(content: bytes | Path, fact: str, value: object) -> None:
    assert attrgetter(fact)(read_table(content)) == value


def test_a_person_may_say_what_a_label_means() -> None:
    said = {"1": Label.UNSAFE, "SAFE": None}
    for found in (read_table(FILES / "bad_labels.csv", label_values=said),
                  read_table(FILES / "bad_labels.csv").with_labels(said)):  # fmt: skip
        assert read(found, "label") == [None, None, None, U] and found.unmapped == ("SAFE", "unsfae")
    with pytest.raises(ValueError, match="safe or unsafe"):
        read_table(FILES / "bad_labels.csv", label_values={"1": Label.ESCALATE})


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_carriage_return_ends_no_row_where_lines_end_otherwise(end: str, encoding: str) -> None:
    """As pandas writes one: without quotes."""
    rows = ("id,text", "1,a good day\rthen the end", '2,"said\r""no""\n\rmore"', "3,lone \udc0d half\r\rhere", "4,b\r")
    half = "\udc0d" if encoding == "utf-16" else "?"
    content = end.join(rows).encode(encoding, "surrogatepass" if encoding == "utf-16" else "replace")
    texts = ["a good day\rthen the end", 'said\r"no"\n\rmore', f"lone {half} half\r\rhere", "b"]
    assert read(content) == [(str(number), text) for number, text in enumerate(texts, 1)]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_every_bad_input_comes_back_exactly_from_every_format(kind: str) -> None:
    inputs = {one["id"]: one["text"] for one in bad_inputs() if kind != "csv" or one["id"] != "lone_surrogate"}
    objects = [{"id": name, "text": text} for name, text in inputs.items()]
    stream = io.StringIO(newline="")
    csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("id", "text"), *inputs.items()])
    content = {"json": json.dumps(objects).encode(), "jsonl": lines(*objects)}.get(kind)
    table = read_table(content or stream.getvalue().encode())
    for row, (name, text) in zip(table.rows(), inputs.items(), strict=True):
        assert row.external_id == name
        if isinstance(row, RejectedRow):
            assert (name, row.reason, json.loads(row.original_json or "")) == ("zwsp_only", Reason.EMPTY_TEXT, text)
        else:
            assert original_text(row.text) == text


def test_reading_goes_on_after_a_row_as_if_it_had_begun_there() -> None:
    """Duplicates are known from the whole file, so a row fares the same whether those before it are asked for."""
    table = read_table(b"id,text\n1,a day\n2,another\n1,a day\n\n3,\n4,a last day\n")
    whole = list(table.rows())
    assert [list(table.rows(after=after)) for after in range(8)] == [whole[after:] for after in range(8)]


# --- whatever the bytes: every row comes out once, and no text under another row's id

PIECES = st.sampled_from([b"id,text\n", b"1,", b"2,", b"a", b'"', b",", b"\n", b"\r\n", b"\r", b";", b"\t", b" ",
                          b"\xff", b"\xc3\xa9", b"\xe2\x80\x8b", b"\x00", b"[", b"{", b"}", b'{"id":1,"text":"a"}\n',
                          b"NA", b"=1"])  # fmt: skip
MESSY = st.one_of(st.binary(max_size=80), st.lists(PIECES, max_size=40).map(b"".join)).map(
    lambda tail: b"id,text\n" + tail
) | st.lists(PIECES, max_size=30).map(b"".join)
CELL = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12) | st.sampled_from(
    ["NA", "007", "a,b", 'say "hi"', "two\nlines", "=1", ""]
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    content = bytearray(draw(st.sampled_from([WORKBOOK, PARQUET])))
    for place in draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3)):
        content[place] ^= draw(st.integers(1, 255))
    return bytes(content)


@settings(max_examples=150)
@given(MESSY | damaged())
def test_any_bytes_are_refused_or_reconciled(content: bytes) -> None:
    try:
        table = read_table(content)
        rows = list(table.rows())
    except FileRefused as refused:
        assert str(refused)
        return
    assert [row.row for row in rows] == list(range(1, table.row_count + 1))
    ids = [row.external_id for row in rows if isinstance(row, NewCase)]
    assert len(ids) == len(set(ids))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8),
    st.sampled_from(",;\t|"),
    st.sampled_from(["utf-8", "utf-16"]),
)
def test_a_well_written_file_keeps_each_text_with_its_id(
    cells: list[tuple[str, str]], separator: str, encoding: str
) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=separator, quoting=csv.QUOTE_ALL).writerows([("id", "text"), *cells])
    table = read_table(stream.getvalue().encode(encoding))
    named = table.mapping.id is not None  # an id that stands at two texts is none: rows are numbered
    for number, (row, (identity, text)) in enumerate(zip(table.rows(), cells, strict=True), 1):
        if isinstance(row, NewCase):
            assert (row.external_id, original_text(row.text)) == (identity if named else str(number), text)


def test_of_a_formula_its_saved_value_is_the_text_and_else_what_is_written() -> None:
    cells = dict(TABLES["formulas"])
    content = packed_workbook(b"", b"".join(b"<row>%s</row>" % cell.encode() for cell in cells))
    table = read_table(content, mapping=ColumnMapping(text="text"))
    assert read(table, "text") == list(cells.values())
    assert "5 texts are formulas without a value in the file, and read as written there." in table.warnings


def test_what_stands_in_a_row_and_is_none_of_its_cells_takes_nothing_from_it() -> None:
    """An element that shared strings are made of, in a sheet."""
    rows = b"<row><c><v>1</v></c></row><row><c><v>2</v></c><x:si xmlns:x='urn:y'/></row><row><c><v>3</v></c></row>"
    assert read(read_table(packed_workbook(b"", rows), mapping=ColumnMapping(text="text")), "text") == ["1", "2", "3"]


def subtitles(source: Source, _sheet: str | None) -> FileLayout | None:
    """The exercise of docs/start-here.md, done: what begins with "1" and a time is a file of subtitles, a row each."""
    content = (source if isinstance(source, bytes) else source.read_bytes()).decode("utf-8", "replace")
    if not re.match(r"1\n\d\d:\d\d:\d\d,\d{3} --> ", content):
        return None

    def read_rows() -> Rows:
        line = 1
        for row, block in enumerate(content.strip().split("\n\n"), start=1):
            number, _time, *said = block.split("\n")
            yield FileRow(row, line, {"id": number, "text": "\n".join(said)})
            line += len(said) + 3

    return FileLayout(source=source, format="subtitles", read=read_rows, columns=("id", "text"))


def test_a_new_file_format_is_one_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    time = b"00:00:01,000 --> 00:00:02,000\n"
    content = b"1\n" + time + b"hello\nthere\n\n2\n" + time + b"\n3\n" + time + b"I want to\ndie tonight\n"
    monkeypatch.setattr(formats, "READERS", [subtitles, *formats.READERS])
    table = read_table(content)
    assert read(table, "id text") == [("1", "hello\nthere"), Reason.EMPTY_TEXT, ("3", "I want to\ndie tonight")]
    assert Flag.STATED_IMMINENT in read(table, "flags")[2]
    assert read_table(b"id,text\n1,soup\n").layout.format is FileFormat.DELIMITED
