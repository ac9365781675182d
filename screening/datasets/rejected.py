"""Rows of a file as they leave the reader, and the list of those that were rejected."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from screening.datasets.export import csv_lines
from screening.datasets.records import Reason
from screening.labels import Label
from screening.text.received import ReceivedText


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRow:
    """A row that becomes a case. ``reference`` is safe, unsafe or None; ``reference_value`` is as it stands."""

    row: int
    line: int
    id: str
    text: ReceivedText
    reply: ReceivedText | None
    reference: Label | None
    reference_value: str | None
    group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that does not, with a fixed reason and a sentence. ``original`` is its text escaped as ASCII JSON."""

    row: int
    line: int
    id: str | None
    reason: Reason
    detail: str
    original: str | None = None


REJECTED_COLUMNS: tuple[str, ...] = ("row", "line", "id", "reason", "detail", "original")


def rejected_csv(rows: Iterable[RejectedRow], *, byte_order_mark: bool = True) -> Iterator[str]:
    """The rejected rows as lines of a CSV file a spreadsheet can open without running anything."""
    return csv_lines(
        REJECTED_COLUMNS,
        ((row.row, row.line, row.id, row.reason.value, row.detail, row.original) for row in rows),
        byte_order_mark=byte_order_mark,
    )
