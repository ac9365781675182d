"""What is accepted and rejected of a file, or why it is refused: files as people really produce them, and damaged ones.

Those of `fixtures` are in the golden file, each row with its text or reason.
"""

import csv
import gzip
import io
import zipfile
from pathlib import Path

import pytest
from openpyxl import Workbook

from screening.datasets import delimited
from screening.datasets.reader import read_table
from screening.datasets.rows import NewCase, Reason
from screening.datasets.sources import ColumnsUnclear, FileFormat, FileRefused
from screening.labels import Label
from screening.text.received import original_text

FILES = Path(__file__).parent.parent / "fixtures" / "bad_csv"
RISK = "I am going to kill myself tonight"


def workbook(*rows: tuple[object, ...]) -> bytes:
    book, stream = Workbook(), io.BytesIO()
    for row in rows:
        book.worksheets[0].append(row)
    book.save(stream)
    return stream.getvalue()


def a_zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.csv", "id,text\n1,a\n")
    return stream.getvalue()


def read(source: bytes | Path) -> list[tuple[str, str] | Reason]:
    """Each row as its id and text, or as the reason for which it is none."""
    rows = read_table(source, "../../etc/passwd.pdf").rows()
    return [
        (row.external_id, original_text(row.text)) if isinstance(row, NewCase) else Reason(row.reason) for row in rows
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (gzip.compress(b"id,text\n1,a\n", mtime=0), "a gzip archive"),
        (b"%PDF-1.7\n", "a PDF document"),
        (b"\n<!DOCTYPE html><html>", "a web page"),
        (a_zip(), "not an Excel workbook"),
        (workbook(("id", "text"), (1, "a"))[:400], "damaged or cut off"),
        (b"\xd0\xcf\x11\xe0rest", "old Office document"),
        (b"\xef\xbb\xbf \n", "empty"),
        (b"id,text\n", "header but no rows"),
        (b"[]", "no rows"),
        (b"[1, 2]", "no rows with named values"),
        (b'[{"id": 1, "text": "a"}, {"id": 2', "Line 1: .* cut off"),
        (b'[{"id": 1, "text": "a"}\n{"id": 2, "text": "b"}]', "Line 2: .*, expected"),
        (b'[{"id": 1, "text": "a"}] x', "follows the end"),
        (b'[{"text": "a", "text": "b"}]', "same key twice"),
        (b'{"data": [{"id": 1, "text": "a"}', "Line 1: the JSON is damaged"),
        (b'{"version": 2,\n"texts": {"0": "a"}}', "no list of rows"),
        (b'{"id": 1, "text": "a"},\n{"id": 2, "text": "b"},\n', "in line 1 more follows the JSON object on its line"),
        (b'id,text\n1,"a "b" c"\n', "Line 2: a quote opens here and is closed in the middle"),
        (b'id,text\n1,x\n2,"a\nb\n3,"c"\n', "Line 3: a quote opens"),
        (b'id,text\n1,"ok\nstill"\n2,x,"never\n', "Line 4: a quote opens here and is never closed"),
        (b'id,text\n1,a\rb\n2,"c\rd\n', "Line 3: a quote opens here and is never closed"),
        (FILES / "unterminated.csv", "Line 2: a quote opens here and is never closed"),
        (b"id,text\n1\n2\n3,c\n", "Line 2: 2 of 3 rows do not fit"),
        (b'{"id":1,"text":"a"}\nx\ny\n', "2 of 3 rows do not fit"),
        (b"," * 400_000 + b"\n" + b"," * 400_000 + b"\n", "400,001 columns"),
        (f"id,text,text\n1,fine,{RISK}\n".encode(), "Say which one it is"),
        (f"id,Text ,message\n1,fine,{RISK}\n".encode(), "Say which one it is"),
        (b"id,text,response,answer\n1,a,b,c\n", "Say which one it is"),
        (f'[{{"id": 1, "text": "fine"}}, {{"id": 2, "content": "{RISK}"}}]'.encode(), "Say which one it is"),
        (workbook(("id", "text", "text"), (1, "fine", RISK)), "Say which one it is"),
        (b"id,id,text\n1,2,a\n", "Say which one it is"),
    ],
)
def test_refused(content: bytes | Path, sentence: str) -> None:
    with pytest.raises(FileRefused, match=sentence):
        read_table(content)


def test_a_refusal_names_columns_and_quotes_no_message() -> None:
    with pytest.raises(ColumnsUnclear) as refused:
        read_table(b"1,I am going to end it tonight,no\n2,hello,no\n")
    assert "end it" not in str(refused.value) and "3 columns: 1, no." in str(refused.value)
    assert refused.value.columns == ("1", "I am going to end it tonight", "no")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'[{"id": "007", "text": "a"}]', FileFormat.JSON_ARRAY),
        (b'\xef\xbb\xbf[\n {"id": "007", "text": "a"}\n]\n', FileFormat.JSON_ARRAY),
        (b'{"id": "007", "text": "a"}\n', FileFormat.JSON_LINES),
        (b'{"data": [{"id": "007", "text": "a"}]}', FileFormat.JSON_OBJECT),
        (b'{\n"rows": [\n{"id": "007", "text": "a"}]}', FileFormat.JSON_OBJECT),
        (workbook(("id", "text"), ("007", "a")), FileFormat.WORKBOOK),
        (b"id,text\n007,a\n", FileFormat.DELIMITED),
        (b"id\ttext\r\n007\ta\r\n", FileFormat.DELIMITED),
        (b"id|text\n007|a\n", FileFormat.DELIMITED),
        (b"sep=;\nid;text\n007;a\n", FileFormat.DELIMITED),
        (b"id,text\r007,a\r", FileFormat.DELIMITED),
        ("id\ttext\n007\ta\n".encode("utf-16"), FileFormat.DELIMITED),
        ("id\ttext\n007\ta\n".encode("utf-16-be"), FileFormat.DELIMITED),
        ("id\ttext\n007\ta\n".encode("utf-32"), FileFormat.DELIMITED),
    ],
)
def test_the_format_is_told_by_content(content: bytes, kind: FileFormat) -> None:
    assert read_table(content, "../../etc/passwd.pdf").report.format is kind
    assert read(content) == [("007", "a")]


CYRILLIC = "мне сегодня очень грустно и одиноко, никто не звонит и не пишет, за окном идет дождь. " * 5
R = Reason


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b'{"id": 1e5, "text": "a"}\n{"id": 12345678901234567890123, "text": "b"}\n{"id": 1.50, "text": "c"}\n',
         [("1e5", "a"), ("12345678901234567890123", "b"), ("1.50", "c")]),
        (workbook(("id", "text"), (7, "a"), (8.0, "b"), (1.5, 12)), [("7", "a"), ("8", "b"), ("1.5", "12")]),
        (workbook(("id", "text", None), (1, "=1+1"), (), (3, "=SUM(1)"), (4, "x", "y"), (5, True)),
         [("1", "=1+1"), ("3", "=SUM(1)"), R.EXTRA_CELLS, ("5", "TRUE")]),
        (b'{"id": 1, "text": NaN}\n{"id": 2, "text": null}\n{"id": 3, "text": "NaN"}\n{"id": 4, "text": {"a": 1}}',
         [R.NO_TEXT, R.NO_TEXT, ("3", "NaN"), R.NOT_A_TEXT]),
        (b'{"id":1,"text":"a"}\n{"id":2,"te\n{"id":3,"text":"c"}\n7\n{"id":5,"text":"e","text":"f"}\n'
         b'{"id":6,"text":"g"}\n{"id":7,"text":"h"}\n',
         [("1", "a"), R.NOT_JSON, ("3", "c"), R.NOT_AN_OBJECT, R.REPEATED_KEY, ("6", "g"), ("7", "h")]),
        ('{"id": 1, "text": "a\u2028b\u2029c\x85d"}\n{"id": 2, "text": "e"}\n'.encode(),
         [("1", "a\u2028b\u2029c\x85d"), ("2", "e")]),
        ("id,text\n1,a\u2028b\x0bc\x1cd\n".encode(), [("1", "a\u2028b\x0bc\x1cd")]),
        (b'{\n"data": [{"id": 1, "text": "a"}]\n}', [("1", "a")]),
        (b"id,text\n1," + b"fine " * 60_000 + b"\n", [("1", "fine " * 60_000)]),
        (b"text\na\n\na\n", [("1", "a"), ("2", "a")]),
        (f'id,text\n1,"{CYRILLIC.strip()}"\n'.encode("cp1251"), [("1", CYRILLIC.strip())]),
        ('id,text\nid,text\n1,[deleted]\n,x\n4,\u200b\n5,\n"6\n",y\n7,z\n'.encode(),
         [R.HEADER_REPEATED, R.PLACEHOLDER, R.NO_ID, R.EMPTY_TEXT, R.EMPTY_TEXT, R.UNUSABLE_ID, ("7", "z")]),
        (b'id,text\n1,x\n2,"I am fine\n3,I want to go"\n4,y\n5,"a list:\n1, 2\nand 3"\n',
         [("1", "x"), R.ROWS_MERGED, ("4", "y"), ("5", "a list:\n1, 2\nand 3")]),
        (b"PK,text\n1,one\n2,two\n", [("1", "one"), ("2", "two")]),
        *[(f"text{end}one\rtwo\rthree\r".encode(), [("1", "one"), ("2", "two"), ("3", "three")])
          for end in ("\n", "\r\n")],
        (b'id,text\r1,a\r2,"b\rc"\r\n3,d\n', [("1", "a"), ("2", "b\rc"), ("3", "d")]),
        (b"text\na good day\rthen the end", [("1", "a good day\rthen the end")]),
        (FILES / "dup_ids_same.csv", [("1", "a"), R.DUPLICATE]),
        (FILES / "dup_ids_conflict.csv", [("1", "I am fine"), ("2", "I want to die")]),
    ],
)  # fmt: skip
def test_every_row_is_accepted_under_its_own_id_or_rejected(
    content: bytes | Path, rows: list[tuple[str, str] | Reason]
) -> None:
    assert read(content) == rows


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_carriage_return_ends_no_row_where_lines_end_otherwise(end: str, encoding: str) -> None:
    """As pandas writes one: without quotes."""
    rows = ("id,text", "1,a good day\rthen the end", '2,"said\r""no""\n\rmore"', "3,lone \udc0d half\r\rhere", "4,b\r")
    half = "\udc0d" if encoding == "utf-16" else "?"
    assert read(end.join(rows).encode(encoding, "surrogatepass" if encoding == "utf-16" else "replace")) == [
        ("1", "a good day\rthen the end"), ("2", 'said\r"no"\n\rmore'), ("3", f"lone {half} half\r\rhere"), ("4", "b"),
    ]  # fmt: skip


def test_the_longest_line_is_measured_to_its_real_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "CELL_LIMIT", 40)
    kept = csv.field_size_limit()  # of the whole process: packages are looked up by it too
    try:
        with pytest.raises(FileRefused, match=r"Line 2: longer than 40 characters"):
            read_table(b"id,text\n1," + b"a word\r" * 10 + b"\n")
    finally:
        csv.field_size_limit(kept)


def test_unknown_labels_are_shown_not_guessed_and_a_person_may_say_what_they_mean() -> None:
    report = read_table(FILES / "bad_labels.csv").report
    assert report.labels == {"SAFE": Label.SAFE} and report.unmapped == ("1", "unsfae")
    found = read_table(FILES / "bad_labels.csv", label_values={"1": Label.UNSAFE, "SAFE": None})
    assert [row.reference for row in found.rows() if isinstance(row, NewCase)] == [None, None, None, Label.UNSAFE]
    with pytest.raises(ValueError, match="safe or unsafe"):
        read_table(FILES / "bad_labels.csv", label_values={"1": Label.ESCALATE})
