"""What kind of file it is, and its rows: each kind is a function that finds how its rows are read."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice

from screening.datasets.columnar import find_columnar
from screening.datasets.conversations import is_transcript, join_turns
from screening.datasets.json_rows import decided, find_inspect_log, find_json
from screening.datasets.mapping import TRANSCRIPT, ColumnMapping
from screening.datasets.rows import (
    PATTERNS,
    Encoding,
    FileFormat,
    FileLayout,
    FileRefused,
    FileRow,
    Lines,
    Reason,
    Rows,
    Source,
    limited,
    most_characters,
)
from screening.datasets.text_files import detect_encoding, find_delimited, open_text, require_text
from screening.datasets.workbook import find_workbook
from screening.settings import FILE_LIMITS


def find_layout(source: Source, sheet: str | None = None) -> FileLayout:
    """What kind of file it is, how its rows are found, and the columns of its header, where it has one. FileRefused for
    what is not read.
    """
    layout = next(layout for reader in READERS if (layout := reader(source, sheet)) is not None)
    if sheet is not None and not layout.sheets:
        raise FileRefused(f"This is {layout.format}, not a workbook: it has no sheet {sheet!r}.")
    return layout


def file_layout(source: Source, sheet: str | None = None) -> FileLayout:
    """The same, with all names that its rows use as the columns of a file without a header."""
    layout = find_layout(source, sheet)
    names = dict.fromkeys(layout.columns)
    for row in rows_of(layout) if not names else ():
        names |= dict.fromkeys(row.fields)
        _require_few(len(names))
    _require_few(len(names))
    return replace(layout, columns=tuple(names))


def _require_few(columns: int) -> None:
    if columns > FILE_LIMITS.columns:
        raise FileRefused(f"The file has {columns:,} columns; at most {FILE_LIMITS.columns:,} are read.")


def _find_text(source: Source, _sheet: str | None) -> FileLayout:
    require_text(source)
    encoding = detect_encoding(source)
    with open_text(source, encoding) as text:
        if is_transcript(next((line for line in iter(lambda: text.readline(FILE_LIMITS.row), "") if line.strip()), "")):
            read = partial(_read_transcript, source, encoding)
            return FileLayout(source=source, format=FileFormat.TRANSCRIPT, read=read, encoding=encoding)
    return find_json(source, encoding) or find_delimited(source, encoding)


def _read_transcript(source: Source, encoding: Encoding) -> Lines:
    with open_text(source, encoding) as text:
        yield FileRow(1, 1, {TRANSCRIPT: text.read(FILE_LIMITS.row + 1)})


READERS: list[Callable[[Source, str | None], FileLayout | None]] = [
    find_columnar,
    find_inspect_log,
    find_workbook,
    _find_text,
]
"""Each finds how the rows of a file, or of this sheet, are read; None for another kind. The last one reads any text."""


def rows_of(
    layout: FileLayout, mapping: ColumnMapping | None = None, look: Callable[[FileRow | None], None] = lambda line: None
) -> Rows:
    """The rows from the start, where a mapping says so put together to conversations, of which each time they are asked
    about is a row, counted anew. FileRefused where they are more, or longer, than is read. ``look`` is given each line
    of the file, None for a blank one.
    """
    most = most_characters(layout.source)
    rows = limited(_read(layout, look), most)
    if mapping is None or mapping.conversation is None:
        return rows
    return limited(join_turns(rows, mapping, mapping.conversation), most, longest=None)


def _read(layout: FileLayout, look: Callable[[FileRow | None], None]) -> Rows:
    for line in _without_descriptions(layout.read()):
        if line is not None and line.fields.get("answer") is not None:
            line = line.with_fields(decided(line.fields))
        look(line)
        if line is not None:
            yield line


def _without_descriptions(lines: Lines) -> Lines:
    """The lines, of which the first ones are no rows where they say what the columns are, as survey tools write."""
    first, described = list(islice(lines, 2)), 0
    cells = [[(cell or "").strip() for cell in one.fields.values()] if one else [] for one in first]
    said = [[cell for cell in of_one if cell] for of_one in cells]
    if len(first) == 2 and said[1] and all(cell.startswith('{"ImportId":') for cell in said[1]):
        described = 2  # Qualtrics says which question each column is
    elif first and said[0]:
        # SurveyMonkey says of each question, and of nobody, how it is answered; others what a column is measured in
        kinds = {"Response", "Open-Ended Response"}
        of_nobody = not cells[0][0] or kinds | {"Other (please specify)"} >= set(said[0])
        units = len(said[0]) > 1 and all(map(PATTERNS["unit"].fullmatch, said[0]))
        described = int(units or (of_nobody and not kinds.isdisjoint(said[0])))
    for place, one in enumerate(first):
        if one is None or one.problem is not None or place >= described:
            yield one
        else:
            words, why = tuple(cell or "" for cell in one.fields.values()), "it describes the columns"
            yield replace(one, fields={}, problem=Reason.DESCRIBES_COLUMNS, detail=why, cells=words)
    yield from lines
