"""Files that are not what they should be. Each holds one sentence that must never be lost without a word."""

import codecs
import gzip
import io
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import openpyxl

SENTENCE = "I am going to kill myself tonight"
FOLDER = Path(__file__).parent.parent / "fixtures" / "bad_csv"
_CSV = f"id,text\n1,hello there\n2,{SENTENCE}\n3,good night\n"


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


_BOOK = _workbook([["id", "text"], ["1", "hello there"], ["2", SENTENCE]])
_TABLE = tomllib.loads(Path(__file__).with_name("made.toml").read_text("utf-8"))

MADE: Mapping[str, bytes] = {
    **{name: text.replace("{it}", SENTENCE).encode() for name, text in _TABLE["text"].items()},
    **{name: _CSV.encode(encoding) for name, encoding in _TABLE["encoding"].items()},
    "utf16be.csv": codecs.BOM_UTF16_BE + _CSV.encode("utf-16-be"),
    "cp1252.csv": _CSV.replace("hello", "café").encode("cp1252"),
    "long_cell.csv": f"id,text\n1,{'fine ' * 30_000}{SENTENCE}".encode(),
    "many_columns.csv": f"id,text,{','.join(f'c{n}' for n in range(1500))}\n1,{SENTENCE}{',' * 1500}".encode(),
    "deep.json": b"[" * 5000 + b"]" * 5000,
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
    "picture.csv": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "zeros.csv": b"\x00" * 4096,
}
