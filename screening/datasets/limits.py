"""Counts what a file unpacks to while its rows go by, so that one that is packed to fill memory or disk is refused."""

from collections.abc import Iterable, Iterator

from screening.datasets.records import BlankLine, Record
from screening.datasets.refused import FileRefused
from screening.datasets.source import Source, size_of
from screening.settings import FILE_LIMITS


def most_characters(source: Source) -> int:
    """Of all cells of this file together.

    >>> most_characters(b"id,text"), most_characters(b"a" * 1_000_000)
    (20000000, 100000000)
    """
    expanded = max(FILE_LIMITS.characters_unquestioned, FILE_LIMITS.expansion * size_of(source))
    return min(FILE_LIMITS.characters, expanded)


def limited(
    records: Iterable[Record | BlankLine], most: int, *, longest: int | None = FILE_LIMITS.row
) -> Iterator[Record | BlankLine]:
    """The same records. FileRefused, with the row, where they are more or longer than is read."""
    characters = 0
    for one in records:
        if isinstance(one, Record):
            cells = one.cells if one.fields is None else one.fields.values()
            length = sum(getattr(cell, "characters", len(cell)) for cell in cells if cell)
            characters += length
            if longest is not None and length > longest:
                raise FileRefused(f"row {one.row} holds more than {longest:,} characters.", line=one.line)
            if characters > most:
                raise _too_large(one.row, most)
            if one.row > FILE_LIMITS.rows:
                raise FileRefused(f"The file has more than {FILE_LIMITS.rows:,} rows. Send it in parts.")
        yield one


def _too_large(row: int, most: int) -> FileRefused:
    return FileRefused(
        f"Up to row {row:,} the file unpacks to more than {most:,} characters. At most {FILE_LIMITS.characters:,} are "
        f"read, and at most {FILE_LIMITS.expansion} times what the file has in bytes. Send it in parts, as CSV."
    )
