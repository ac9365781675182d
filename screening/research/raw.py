"""The cells of a published file by column name, for loaders with a preprocessing of their own."""

from collections.abc import Iterator

from screening.datasets.reader import Table, file_layout
from screening.datasets.records import Fields, Record
from screening.datasets.refused import FileRefused
from screening.datasets.source import Source


def published_rows(
    source: Source, columns: frozenset[str], *, sheet: str | None = None
) -> Iterator[tuple[int, Fields]]:
    """Row number and cells of every row. FileRefused for a row that does not fit or a file without ``columns``.

    A published file is complete or it is not that file: here one damaged row refuses all of it.
    """
    layout = file_layout(source, sheet)
    if layout.columns and not columns <= set(layout.columns):
        raise FileRefused(f"The file has no column {', '.join(sorted(columns - set(layout.columns)))}.")
    for record in layout.records():
        if isinstance(record, Record):
            yield record.row, _fields(record, columns)


def rows_beside(
    source: Source, table: Table, what: str, columns: frozenset[str] = frozenset()
) -> Iterator[tuple[int, Fields]]:
    """As `published_rows`, numbered as the rows of the table that was read from the file. ``what`` is wanted of them.

    ValueError where the table's rows are conversations: they are counted anew, and the numbers are of other rows.
    """
    if table.report.mapping.conversation is not None:
        raise ValueError(
            f"{what} belong to rows of the file. Read as conversations, rows become other cases, counted anew, so that "
            "nobody can tell which case they are of."
        )
    return published_rows(source, columns, sheet=table.report.sheet)


def _fields(record: Record, columns: frozenset[str]) -> Fields:
    if record.fields is None:
        raise FileRefused(f"row {record.row} does not fit: {record.detail}.", line=record.line)
    if not columns <= record.fields.keys():
        missing = ", ".join(sorted(columns - record.fields.keys()))
        raise FileRefused(f"row {record.row} has no {missing}.", line=record.line)
    return record.fields
