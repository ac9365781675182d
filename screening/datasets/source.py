"""Where the bytes come from, and what kind of file they are by content, never by name."""

import io
import zipfile
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from screening.datasets.refused import FileRefused
from screening.settings import FILE_LIMITS

Source = Path | bytes
"""A file on disk, or the whole content."""

HEAD = 4096
"""Bytes looked at to tell the kind of file."""

PACKED_TIGHTLY = 10_000_000
"""A part of a workbook of more bytes than this may be at most so many times larger than it is in the archive as is
said for files: texts that people wrote pack to a fifth, a bomb to a thousandth.
"""

MOST_PARTS = 2_000
"""Most files in the archive of a workbook: one for each sheet, picture and style."""


class FileFormat(StrEnum):
    """The kinds of file that are read."""

    DELIMITED = "delimited text"
    JSON_ARRAY = "JSON array"
    JSON_OBJECT = "JSON object with a list of rows"
    JSON_LINES = "JSON lines"
    WORKBOOK = "Excel workbook"
    PARQUET = "Parquet file"
    ARROW = "Arrow file"
    TRANSCRIPT = "transcript of one conversation"
    DATASET_FOLDER = "saved data set"
    INSPECT_LOG = "Inspect log"


READ = "Send CSV, TSV, JSON, JSON lines, xlsx or Parquet."
"""What may be sent instead of a file that is not read."""

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "a gzip archive"),
    (b"%PDF", "a PDF document"),
    (b"\xd0\xcf\x11\xe0", "an old Office document (such as .xls)"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"Rar!", "a RAR archive"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"\x7fELF", "a program"),
    (b"{\\rtf", "an RTF document"),
)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
"""Of a file, of an archive without one, of one in parts; a column may be called PK."""
_MARKUP = (b"<!doctype", b"<html", b"<?xml", b"<head", b"<body", b"<table")


def open_source(source: Source) -> BinaryIO:
    """The bytes from the start."""
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


def size_of(source: Source) -> int:
    """Its bytes; of a folder those of all its files."""
    if isinstance(source, bytes):
        return len(source)
    files = source.rglob("*") if source.is_dir() else (source,)
    return sum(one.stat().st_size for one in files if one.is_file())


def is_workbook(source: Source) -> bool:
    """Whether it is an Excel workbook; FileRefused when it is something else that holds no rows of text.

    An empty file, an archive, a document or a web page is refused with what it is.
    """
    with open_source(source) as stream:
        head = stream.read(HEAD)
    if not head.strip(b"\xef\xbb\xbf\xff\xfe \t\r\n"):
        raise FileRefused("The file is empty.")
    if head.startswith(_ZIP):
        _check_workbook(source)
        return True
    for signature, name in _SIGNATURES:
        if head.startswith(signature):
            raise FileRefused(f"This is {name}, whatever its name says. {READ}")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_MARKUP):
        raise FileRefused(f"This is a web page or XML, whatever its name says. {READ}")
    return False


def _check_workbook(source: Source) -> None:
    try:
        with open_source(source) as stream, zipfile.ZipFile(stream) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        raise FileRefused(
            "This begins like a zip archive (Excel workbooks are such) but is damaged or cut off."
        ) from None
    if "xl/workbook.xml" not in {entry.filename for entry in entries}:
        raise FileRefused("This is a zip archive but not an Excel workbook. Unpack it and send the file inside.")
    most = FILE_LIMITS.characters
    if len(entries) > MOST_PARTS or sum(entry.file_size for entry in entries) > most:
        raise FileRefused(f"This workbook unpacks to more than {most // 1_000_000} MB. Send it as CSV.")
    tightest = FILE_LIMITS.expansion
    if any(entry.file_size > max(PACKED_TIGHTLY, tightest * entry.compress_size) for entry in entries):
        raise FileRefused("This workbook is packed far tighter than texts are. Send it as CSV.")
