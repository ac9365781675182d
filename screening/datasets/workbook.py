"""A sheet of an Excel workbook, read row by row in one pass; of a formula what was saved as its value.

The library would take memory as it pleases: here a parser keeps nothing, and the strings that cells share lie on disk.
"""

import re
import zipfile
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import IO
from xml.etree import ElementTree
from xml.parsers import expat

from screening.datasets.rows import (
    FileFormat,
    FileLayout,
    FileRefused,
    FileRow,
    Formula,
    Lines,
    Source,
    damage_refused,
    open_source,
    unique_names,
)
from screening.settings import FILE_LIMITS

EXACT_NUMBER = 10**15
"""Excel keeps 15 digits; a longer number was already rounded when the file was saved."""

MOST_STRINGS = 5 * FILE_LIMITS.rows
"""Most texts that the cells of a workbook share."""
MOST_CELLS = 16_384
"""Most cells of a row: Excel has no more columns."""
PACKED_TIGHTLY = 10_000_000
"""A part of more bytes may be larger than in the archive by `FILE_LIMITS.expansion` only: a bomb packs to a thousandth.
"""

MOST_PARTS = 2_000
"""Most files in the archive: one for each sheet, picture and style."""
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
"""Of a file, of an archive without one, of one in parts; a column may be called PK."""
_SMALL_PART = 4_000_000
"""Bytes of the parts that say what sheets and styles there are."""
_IN_MEMORY = 16_000_000
_CHUNK = 1 << 16
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
_REFERENCE = re.compile(r"([A-Za-z]{1,4})\d*")


def find_workbook(source: Source, wanted: str | None = None) -> FileLayout | None:
    """The sheet of that name, else the first that is not hidden; None for another kind of file."""
    with open_source(source) as stream:
        if not stream.read(4).startswith(_ZIP):
            return None
    with _opened(source) as book:
        names = tuple(book.sheets)
        if wanted is not None and wanted not in names:
            raise FileRefused(f"The workbook has no sheet {wanted!r}.")
        name = wanted or names[0]
        for line, cells in book.rows(name):
            if cells:
                columns = unique_names([cells.get(place, "") for place in range(max(cells) + 1)])
                read = partial(_read, source, name, columns, line)
                return FileLayout(
                    source=source, format=FileFormat.WORKBOOK, read=read, columns=columns, sheet=name, sheets=names
                )
    raise FileRefused("The sheet of the workbook that is read has no rows.", sheets=names)


def _read(source: Source, sheet: str, columns: tuple[str, ...], header_line: int) -> Lines:
    """Every row below the header; the line is the row number Excel shows."""
    row, width = 0, len(columns)
    with _opened(source) as book:
        for line, found in book.rows(sheet):
            if line == header_line:
                continue
            if not found:
                yield None
                continue
            row += 1
            beyond = [found[place] for place in sorted(found) if place >= width]
            yield FileRow.of_cells(row, line, columns, [*(found.get(place, "") for place in range(width)), *beyond])


@contextmanager
def _opened(source: Source) -> Iterator["_Book"]:
    with open_source(source) as stream, damage_refused(FileFormat.WORKBOOK), zipfile.ZipFile(stream) as archive:
        _require_loosely_packed(archive.infolist())
        with SpooledTemporaryFile(max_size=_IN_MEMORY) as strings:
            yield _Book(archive, strings)


def _require_loosely_packed(parts: list[zipfile.ZipInfo]) -> None:
    """FileRefused for an archive that is no workbook, or one that unpacks to more than is read."""
    if "xl/workbook.xml" not in {part.filename for part in parts}:
        raise FileRefused("This is a zip archive but not an Excel workbook. Unpack it and send the file inside.")
    most = FILE_LIMITS.characters
    if len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > most:
        raise FileRefused(f"This workbook unpacks to more than {most // 1_000_000} MB. Send it as CSV.")
    if any(part.file_size > max(PACKED_TIGHTLY, FILE_LIMITS.expansion * part.compress_size) for part in parts):
        raise FileRefused("This workbook is packed far tighter than texts are. Send it as CSV.")


class _Book:
    """The parts of a workbook: its sheets by name, which styles are dates, and the strings that cells share."""

    def __init__(self, archive: zipfile.ZipFile, strings: IO[bytes]) -> None:
        from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH

        self._archive = archive
        parts, sheets, present = dict[str, str](), dict[str | None, str](), set(archive.namelist())
        for one in self._small("xl/_rels/workbook.xml.rels").iterfind(".//{*}Relationship"):
            kind, target = str(one.get("Type")).rpartition("/")[2], str(one.get("Target"))
            path = target.lstrip("/") if target.startswith("/") else f"xl/{target}"  # from the root, or beside the book
            if kind == "worksheet":
                sheets[one.get("Id")] = path
            elif path in present:
                parts[kind] = path
        root = self._small("xl/workbook.xml")
        listed = sorted(root.iterfind(".//{*}sheet"), key=lambda one: one.get("state", "visible") != "visible")
        named = {str(one.get("name")): sheets.get(_relation(one)) for one in listed}
        self.sheets = {name: path for name, path in named.items() if path is not None}
        if not self.sheets:
            raise FileRefused("The workbook has no sheet.")
        since_1904 = any(one.get("date1904") in ("1", "true") for one in root.iterfind(".//{*}workbookPr"))
        self._epoch = MAC_EPOCH if since_1904 else WINDOWS_EPOCH
        self._dates = _date_styles(self._small(parts["styles"])) if "styles" in parts else {}
        part = archive.open(parts["sharedStrings"]) if "sharedStrings" in parts else None
        self._shared = None if part is None else _SharedStrings(part, strings)

    def rows(self, name: str) -> Iterator[tuple[int, dict[int, str]]]:
        """The rows of a sheet by the number that Excel shows, with the cells that are not empty by their place."""
        from openpyxl.formula.translate import Translator

        masters: dict[str, tuple[str, str]] = {}
        with self._archive.open(self.sheets[name]) as part:
            for line, cells in _elements(part):
                texts: dict[int, str] = {}
                for place, cell in cells:
                    text, formula = self._value(cell), cell.joined("f")
                    if formula and cell.shared is not None:
                        masters[cell.shared] = f"={formula}", cell.reference
                    # without a value (0, in some programs) or with an error as one it stands as it is written, for that
                    # is how programs keep a text that begins with an equals sign
                    unsolved = cell.kind == "e" or text == "0" or (not text and cell.kind != "str")
                    if "f" in cell.parts and unsolved:
                        if not formula and cell.shared in masters:
                            master, origin = masters[cell.shared]
                            formula = Translator(master, origin=origin).translate_formula(cell.reference)[1:]
                        text = Formula(f"={unescape(formula)}")
                    if text:
                        texts[place] = text
                yield line, texts

    def _value(self, cell: "_Cell") -> str:
        if cell.kind == "inlineStr":
            return unescape(cell.joined("t"))
        value = cell.joined("v")
        if cell.kind in ("str", "e", "d"):
            return unescape(value)
        bare = value.strip()
        if cell.kind == "s":
            return "" if self._shared is None or not bare else self._shared[int(bare)]
        if cell.kind == "b":
            return {"1": "TRUE", "0": "FALSE"}.get(bare, "")
        return self._number(bare, self._dates.get(cell.style)) if bare else ""

    def _number(self, written: str, date: str | None) -> str:
        """A number without a needless decimal point, as Excel shows it; a moment as ISO writes it."""
        from openpyxl.utils.datetime import from_excel

        whole = not set(written) & set(".eE")
        number = int(written) if whole else float(written)
        if date is not None:
            found = from_excel(number, self._epoch, timedelta=date == "duration")
            return found.isoformat() if hasattr(found, "isoformat") else str(found)
        exact = isinstance(number, float) and number.is_integer() and abs(number) < EXACT_NUMBER
        return str(int(number)) if exact else str(number)

    def _small(self, name: str) -> ElementTree.Element:
        if self._archive.getinfo(name).file_size > _SMALL_PART:
            raise FileRefused("This workbook has more styles or sheets than are read. Send it as CSV.")
        content = self._archive.read(name)
        if b"<!DOCTYPE" in content:
            raise ValueError("a workbook declares no entities")
        return ElementTree.fromstring(content)  # noqa: S314 - small, and no entities


class _SharedStrings:
    """The strings by their number, read as far as they are asked for and kept on disk."""

    def __init__(self, part: IO[bytes], kept: IO[bytes]) -> None:
        self._strings, self._kept, self._ends = _elements(part, "si", "si"), kept, array("Q", [0])

    def __getitem__(self, number: int) -> str:
        if number < 0:
            raise IndexError(number)
        while number >= len(self._ends) - 1:
            if len(self._ends) > MOST_STRINGS:
                raise FileRefused(f"The cells of this workbook share more than {MOST_STRINGS:,} texts. Send it as CSV.")
            _, [(_, cell)] = next(self._strings)
            kept = unescape(cell.joined("t")).encode("utf-8", "surrogatepass")
            self._kept.seek(self._ends[-1])
            self._kept.write(kept)
            self._ends.append(self._ends[-1] + len(kept))
        self._kept.seek(self._ends[number])
        content = self._kept.read(self._ends[number + 1] - self._ends[number])
        return content.decode("utf-8", "surrogatepass")


def unescape(text: str) -> str:
    """What a workbook writes in place of a character that XML cannot hold, undone once.

    >>> unescape("a_x000D_b"), unescape("_x005F_x0041_")
    ('a\\rb', '_x0041_')
    """
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), text)


def _elements(part: IO[bytes], row: str = "row", cell: str = "c") -> Iterator[tuple[int, list[tuple[int, "_Cell"]]]]:
    """The rows by their number, each with its cells by their place; of a part of strings each as a row of one cell."""
    handler = _Handler(row, cell)
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = handler.start, handler.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = handler.characters, _refuse_entities
    while chunk := part.read(_CHUNK):
        parser.Parse(chunk, False)
        while handler.found:
            yield handler.found.popleft()
    parser.Parse(b"", True)
    yield from handler.found


def _refuse_entities(*_declared: object) -> None:
    raise ValueError("a workbook declares no entities")


@dataclass(slots=True)
class _Cell:
    kind: str = "n"
    style: int = 0
    reference: str = ""
    shared: str | None = None
    parts: dict[str, list[str]] = field(default_factory=dict)

    def joined(self, element: str) -> str:
        """What stands in its elements of this name."""
        return "".join(self.parts.get(element, ()))


class _Handler:
    """Finds the rows of a sheet or the strings that cells share, without what says how words are read aloud."""

    def __init__(self, row: str, cell: str) -> None:
        self._of_row, self._of_cell = row, cell
        self.found: deque[tuple[int, list[tuple[int, _Cell]]]] = deque()
        self._line, self._place, self._length, self._phonetic = 0, -1, 0, 0
        self._cells: list[tuple[int, _Cell]] = []
        self._cell: _Cell | None = None
        self._into: list[str] | None = None

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        local = name.rpartition("}")[2]
        if local == self._of_row:
            number = attributes.get("r", "")
            self._line = int(number) if number.isdecimal() else self._line + 1
            self._place, self._length, self._cells = -1, 0, []
        if local == self._of_cell:
            self._begin_cell(attributes)
        elif local == "rPh":
            self._phonetic += 1
        elif local == "f" and self._cell is not None:
            self._cell.shared = attributes.get("si")
        read = self._cell if local in ("v", "t", "f") else None
        self._into = None if read is None else read.parts.setdefault(local, [])

    def _begin_cell(self, attributes: Mapping[str, str]) -> None:
        reference, style = attributes.get("r", ""), attributes.get("s", "")
        named = _REFERENCE.fullmatch(reference)
        self._place = _column(named[1]) if named else self._place + 1
        self._cell = _Cell(attributes.get("t", "n"), int(style) if style.isdecimal() else 0, reference)
        self._cells.append((self._place, self._cell))
        if len(self._cells) > MOST_CELLS:
            raise FileRefused(f"A row of this workbook has more than {MOST_CELLS:,} cells. Send it as CSV.")

    def end(self, name: str) -> None:
        local = name.rpartition("}")[2]
        if local == self._of_row:
            self.found.append((self._line, self._cells))
        elif local == "rPh":
            self._phonetic -= 1
        if local == self._of_cell:
            self._cell = None
        self._into = None

    def characters(self, text: str) -> None:
        if self._into is not None and not self._phonetic:
            self._length += len(text)
            if self._length > FILE_LIMITS.row:
                raise FileRefused(f"A row or a text of this workbook has more than {FILE_LIMITS.row:,} characters.")
            self._into.append(text)


def _date_styles(root: ElementTree.Element) -> dict[int, str]:
    """Which styles of cells show a number as a date or a duration."""
    from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format, is_timedelta_format

    codes: dict[int, str] = dict(BUILTIN_FORMATS)
    for one in root.iterfind(".//{*}numFmt"):
        if one.get("numFmtId", "").isdecimal():
            codes[int(one.get("numFmtId", "0"))] = one.get("formatCode", "")
    found = {}
    for place, style in enumerate(root.iterfind("{*}cellXfs/{*}xf")):
        code = codes.get(int(style.get("numFmtId", "0")), "")
        if is_date_format(code):
            found[place] = "duration" if is_timedelta_format(code) else "date"
    return found


def _relation(sheet: ElementTree.Element) -> str | None:
    return next((value for name, value in sheet.attrib.items() if name.rpartition("}")[2] == "id"), None)


def _column(letters: str) -> int:
    """The place of a column from 0; one beyond Excel's is a fault of its row, not of the file.

    >>> _column("A"), _column("AA")
    (0, 26)
    """
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1
