"""Rows in = accepted + rejected, whatever happens on the way, and every text comes back exactly."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from screening.datasets.rows import NewCase, RejectedRow
from screening.review.actors import LOCAL_USER, SYSTEM
from screening.review.policy import Forbidden
from screening.text.received import receive
from storage.batches.batch_state import UnknownBatch
from storage.batches.batches import progress
from storage.batches.intake import IntakeClosed, add_rows, close_intake, last_row, read_rejected, takes_rows
from storage.database import Database
from storage.schema import audit_events, cases
from tests.storage.batch_of import LATER, NOW, batch, waiting
from tests.storage.inbox_cases import SENIOR

HOSTILE = [
    "nul \x00 inside",
    "half a pair \ud83d",
    "two halves in the wrong order \udc00\ud800",
    "a real pair as two \ud83d\ude00 code points",
    "\u202eoverride and zero\u200bwidth",
    "emoji 👩‍👩‍👧 and ﷽",
    "NA",
    "'; DROP TABLE cases; --",
    "x" * 120_000,
    "",
]


def _case(row: int, text: str = "a plain text of some words") -> NewCase:
    return NewCase(row=row, external_id=f"id-{row}", text=receive(text))


def _empty(row: int) -> RejectedRow:
    return RejectedRow(row=row, reason="empty")


def _open(db: Database) -> str:
    return batch(db, closed=False)


@pytest.mark.parametrize("crash_at", [1, 5, 6, 10])
def test_after_a_crash_the_same_rows_again_make_the_same_batch(db: Database, crash_at: int) -> None:
    def rows(crash_at: int | None) -> Iterator[NewCase | RejectedRow]:
        for row in range(1, 11):
            if row == crash_at:
                raise OSError("the disk went away")
            yield _empty(row) if row % 3 == 0 else _case(row)

    batch_id = _open(db)
    with pytest.raises(OSError, match="disk"):
        add_rows(db, batch_id, rows(crash_at), NOW, chunk=2)
    add_rows(db, batch_id, rows(None), LATER, chunk=3)
    found = progress(db, batch_id)
    assert (found.accepted, found.rejected) == (7, 3)
    assert len(waiting(db)) == len(set(waiting(db))) == 7


def test_two_that_add_the_same_rows_at_once_add_each_once_and_close_once(db: Database) -> None:
    def take_in(chunk: int) -> str:
        try:
            add_rows(db, batch_id, rows, NOW, chunk=chunk)
            close_intake(db, SYSTEM.at(NOW), batch_id)
        except IntakeClosed:
            return "closed by the other"
        return "through"

    batch_id = _open(db)
    rows = [_empty(row) if row % 7 == 0 else _case(row) for row in range(1, 106)]
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(take_in, (3, 4)))
    assert "through" in ends and set(ends) <= {"through", "closed by the other"}
    found = progress(db, batch_id)
    assert (found.accepted, found.rejected, len(waiting(db))) == (90, 15, 90)
    assert (last_row(db, batch_id), takes_rows(db, batch_id)) == (105, False)
    assert db.values(select(audit_events.c.action)).count("intake_closed") == 1


def test_every_text_comes_back_exactly_and_names_from_outside_cannot_break_the_driver(db: Database) -> None:
    rows = [
        NewCase(row=row, external_id=text[:20], text=receive(text), reply=receive(text[::-1]), group=text[:9])
        for row, text in enumerate(HOSTILE, start=1)
    ]
    refused = RejectedRow(
        row=len(rows) + 1, reason="columns", detail="cell \x00 \ud800", external_id="\udfff", original_json="[]"
    )
    batch_id = _open(db)
    add_rows(db, batch_id, [*rows, refused], NOW)
    for text, row in zip(HOSTILE, db.rows(select(cases).order_by(cases.c.row)), strict=True):
        kept = [(row.text, row.text_original_json), (row.reply, row.reply_original_json)]
        assert ["".join(json.loads(original)) if original else stored for stored, original in kept] == [
            text,
            text[::-1],
        ]
        assert "\x00" not in row.external_id
        row.external_id.encode()  # raises for a surrogate
    assert next(read_rejected(db, LOCAL_USER, batch_id)).detail == "cell \ufffd \ufffd"


def test_rows_out_of_order_are_refused_and_nobody_fills_or_closes_what_is_not_theirs(db: Database) -> None:
    batch_id = _open(db)
    with pytest.raises(ValueError, match="row 2 comes after row 2"):
        add_rows(db, batch_id, [_case(2), _case(2)], NOW)
    assert progress(db, batch_id).rows_in == 0
    with pytest.raises(Forbidden):
        close_intake(db, SENIOR.at(NOW), batch_id)
    with pytest.raises(UnknownBatch):
        add_rows(db, "0" * 32, [_case(1)], NOW)
    assert not takes_rows(db, "0" * 32) and last_row(db, "0" * 32) == 0
