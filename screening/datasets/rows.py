"""Rows of a file from the reader to the tables: accepted as a case, or rejected with why."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from screening.datasets.export import csv_lines
from screening.labels import Label
from screening.text.conversation import Thread
from screening.text.received import ReceivedText


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCase:
    """A row that becomes a case. ``row`` counts the file's rows from 1; ``reference`` is safe, unsafe or None, and
    ``reference_value`` the label as it stands there. ``thread`` says where the turns of a conversation stand in its
    text, ``where`` where to act on the case. ``not_screened`` is why the row would be rejected if it did not state a
    risk: no agent is asked about it, a person sees it.
    """

    row: int
    external_id: str
    text: ReceivedText
    reply: ReceivedText | None = None
    reference: Label | None = None
    reference_value: str | None = None
    group: str | None = None
    where: str | None = None
    thread: Thread | None = None
    not_screened: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that does not, with a fixed reason and a sentence; ``line`` is where it begins in the file, where that is
    known. ``original_json`` is its text escaped as ASCII JSON.
    """

    row: int
    reason: str
    detail: str = ""
    line: int | None = None
    external_id: str | None = None
    original_json: str | None = None


REJECTED_COLUMNS: tuple[str, ...] = ("row", "line", "id", "reason", "detail", "original")


def rejected_csv(rows: Iterable[RejectedRow], *, byte_order_mark: bool = True) -> Iterator[str]:
    """The rejected rows as lines of a CSV file a spreadsheet can open without running anything."""
    return csv_lines(
        REJECTED_COLUMNS,
        ((row.row, row.line, row.external_id, str(row.reason), row.detail, row.original_json) for row in rows),
        byte_order_mark=byte_order_mark,
    )
