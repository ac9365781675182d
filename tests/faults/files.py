"""Files that are not what they should be. Each holds one sentence that must never be lost without a word."""

import codecs
import gzip
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import openpyxl

SENTENCE = "I am going to kill myself tonight"
FOLDER = Path(__file__).parent.parent / "fixtures" / "bad_csv"
_CSV = f"id,text\n1,hello there\n2,{SENTENCE}\n3,good night\n"
_ROWS = [{"id": "1", "text": "hello there"}, {"id": "2", "text": SENTENCE}]


def _workbook(*sheets: list[list[object]], hidden: bool = False) -> bytes:
    book, target = openpyxl.Workbook(), io.BytesIO()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet(f"s{number}")
        for row in rows:
            sheet.append(row)
        if hidden and number:
            sheet.sheet_state = "hidden"
    book.save(target)
    return target.getvalue()


def _zipped(name: str, content: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return target.getvalue()


def _lines(*lines: str) -> bytes:
    return "\n".join(lines).encode()


_BOOK = _workbook([["id", "text"], ["1", "hello there"], ["2", SENTENCE]])
_JSONL = "\n".join(json.dumps(row) for row in _ROWS)

MADE: Mapping[str, bytes] = {
    "semicolons.csv": _CSV.replace(",", ";").encode(),
    "tabs.tsv": _CSV.replace(",", "\t").encode(),
    "pipes.csv": _CSV.replace(",", "|").encode(),
    "bom.csv": codecs.BOM_UTF8 + _CSV.encode(),
    "utf16.csv": _CSV.encode("utf-16"),
    "utf16be.csv": codecs.BOM_UTF16_BE + _CSV.encode("utf-16-be"),
    "utf16_without_bom.csv": _CSV.encode("utf-16-le"),
    "utf32.csv": _CSV.encode("utf-32"),
    "cp1252.csv": _CSV.replace("hello", "café").encode("cp1252"),
    "crlf.csv": _CSV.replace("\n", "\r\n").encode(),
    "cr.csv": _CSV.replace("\n", "\r").encode(),
    "nul.csv": _CSV.replace("hello", "hel\x00lo").encode(),
    "ctrl_z.csv": _CSV.replace("hello there", "hello\x1athere").encode(),
    "two_text_columns.csv": _lines("id,text,message", f"1,hello,{SENTENCE}", "2,bye,nothing"),
    "text_twice.csv": _lines("id,text,text", f"1,hello,{SENTENCE}", "2,bye,nothing"),
    "text_and_Text.csv": _lines("id,text,Text", f"1,hello,{SENTENCE}"),
    "text_and_body.csv": _lines("id,body,text", f"1,{SENTENCE},hello"),
    "reply_holds_it.csv": _lines("id,text,reply", f"1,hello,{SENTENCE}"),
    "user_ids_repeat.csv": _lines("user_id,text", "u1,hello", f"u1,{SENTENCE}", "u2,good night"),
    "conversation_ids_repeat.csv": _lines("conversation_id,text", "c,hello", f"c,{SENTENCE}", "c,good night"),
    "ids_repeat.csv": _lines("id,text", "1,hello", f"1,{SENTENCE}"),
    "empty_ids.csv": _lines("id,text", ",hello", f",{SENTENCE}"),
    "quoted_lines.csv": _lines("id,text", f'1,"hello\n\n{SENTENCE}"'),
    "open_quote.csv": _lines("id,text", '1,"hello', f"2,{SENTENCE}"),
    "quote_inside.csv": _lines("id,text", '1,say "hi" now', f"2,{SENTENCE}"),
    "extra_comma.csv": _lines("id,text", f"1,hello, {SENTENCE}", "2,bye"),
    "missing_cell.csv": _lines("id,text,label", f"1,{SENTENCE}", "2,bye,safe"),
    "header_only.csv": b"id,text\n",
    "no_header.csv": _lines(f"1,{SENTENCE}", "2,hello"),
    "only_text.csv": _lines("text", "hello", SENTENCE),
    "blank_between.csv": _lines("id,text", "", "1,hello", "", "", f"2,{SENTENCE}", ""),
    "hidden_header.csv": _lines("id,te\u200bxt", f"1,{SENTENCE}"),
    "spaces_in_header.csv": _lines(" id , text ", f"1,{SENTENCE}"),
    "formula.csv": _lines("id,text", f'1,"=""{SENTENCE}"""'),
    "label_says_safe.csv": _lines("id,text,label", f"1,{SENTENCE},safe"),
    "long_cell.csv": _lines("id,text", f"1,{'fine ' * 30_000}{SENTENCE}"),
    "many_columns.csv": _lines("id,text," + ",".join(f"c{n}" for n in range(1500)), f"1,{SENTENCE}" + "," * 1500),
    "json.json": json.dumps(_ROWS).encode(),
    "nested.json": json.dumps({"data": {"rows": _ROWS}}).encode(),
    "one_object.json": json.dumps(_ROWS[1]).encode(),
    "duplicate_keys.json": f'[{{"id": "1", "text": "hello", "text": "{SENTENCE}"}}]'.encode(),
    "nan.json": f'[{{"id": NaN, "text": "{SENTENCE}"}}]'.encode(),
    "deep.json": b"[" * 5000 + b"]" * 5000,
    "surrogate.json": f'[{{"id": "1", "text": "\\ud83d {SENTENCE}"}}]'.encode(),
    "cut.json": json.dumps(_ROWS).encode()[:-9],
    "rows.jsonl": _JSONL.encode(),
    "broken_line.jsonl": (_JSONL + "\n{broken\n").encode(),
    "list_of_texts.jsonl": json.dumps({"id": "1", "text": ["hello", SENTENCE]}).encode(),
    "book.xlsx": _BOOK,
    "book_named.csv": _BOOK,
    "cut.xlsx": _BOOK[: len(_BOOK) // 2],
    "two_sheets.xlsx": _workbook([["id", "text"], ["1", "hello"]], [["id", "text"], ["2", SENTENCE]]),
    "hidden_sheet.xlsx": _workbook([["id", "text"], ["1", "hi"]], [["id", "text"], ["2", SENTENCE]], hidden=True),
    "empty_sheet.xlsx": _workbook([]),
    "zip_bomb.xlsx": _zipped("xl/worksheets/sheet1.xml", b"<row/>" * 20_000_000),
    "zip.zip": _zipped("posts.csv", _CSV.encode()),
    "gzip.csv.gz": gzip.compress(_CSV.encode()),
    "gzip_named.csv": gzip.compress(_CSV.encode()),
    "html.csv": f"<html><table><tr><td>{SENTENCE}</td></tr></table></html>".encode(),
    "rtf.csv": rb"{\rtf1 " + SENTENCE.encode() + b"}",
    "pdf.csv": b"%PDF-1.7\n" + SENTENCE.encode(),
    "picture.csv": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "parquet.parquet": b"PAR1" + SENTENCE.encode() + b"PAR1",
    "sqlite.csv": b"SQLite format 3\x00" + SENTENCE.encode(),
    "zeros.csv": b"\x00" * 4096,
    "nothing.csv": b"",
    "spaces.csv": b"   \n \n",
    "../../etc/passwd.csv": _CSV.encode(),
}
