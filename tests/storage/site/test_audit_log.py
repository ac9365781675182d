"""The chain finds every change, the anchor every cut, and concurrent writers keep it whole."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import delete, select, update

from screening.review.policy import Forbidden
from storage.database import Database
from storage.schema import audit_events
from storage.site.audit_log import GENESIS, LONGEST_DETAIL, Anchor, Verification, anchor, append, events, verify
from tests.storage.inbox_cases import ADMIN, ANN, NOW


def log(db: Database, number: int) -> None:
    for index in range(number):
        with db.write() as conn:
            append(conn, ANN, "text_viewed", f"case-{index}", {"index": index}, NOW + timedelta(seconds=index))


def test_an_untouched_log_verifies_and_an_empty_one_too(db: Database) -> None:
    empty = verify(db)
    assert (empty.ok, empty.events, anchor(db)) == (True, 0, Anchor(count=0, last_hash=GENESIS))
    log(db, 5)
    assert verify(db, anchor(db)) == Verification(events=5, last_hash=anchor(db).last_hash)
    assert verify(db, Anchor(count=0, last_hash=GENESIS)).ok, "an anchor taken before the first event still holds"


EDITS = {
    "actor": "bo",
    "action": "rated",
    "subject": None,
    "details": '{"index":3}',
    "at": NOW,
    "hash": "f" * 64,
    "previous_hash": "f" * 64,
}


def test_an_edit_of_any_field_is_found_where_it_is(db: Database) -> None:
    log(db, 5)
    third = audit_events.c.seq == 3
    for column, value in EDITS.items():
        with db.read() as conn:
            before = conn.execute(select(audit_events.c[column]).where(third)).scalar()
        with db.write() as conn:
            conn.execute(update(audit_events).where(third).values({column: value}))
        assert verify(db).seq == 3, column
        with db.write() as conn:
            conn.execute(update(audit_events).where(third).values({column: before}))
    assert verify(db).ok


def test_a_deletion_is_found(db: Database) -> None:
    log(db, 6)
    for seq in (5, 3, 1):
        with db.write() as conn:
            conn.execute(delete(audit_events).where(audit_events.c.seq == seq))
        assert verify(db).problem == f"event {seq} is missing"


def test_a_deletion_that_renumbers_what_follows_is_found(db: Database) -> None:
    log(db, 5)
    with db.write() as conn:
        conn.execute(delete(audit_events).where(audit_events.c.seq == 2))
        for seq in (3, 4, 5):
            conn.execute(update(audit_events).where(audit_events.c.seq == seq).values(seq=seq - 1))
    assert verify(db).seq == 2


def test_a_reordering_is_found(db: Database) -> None:
    log(db, 5)
    with db.write() as conn:
        for old, new in ((2, 99), (3, 2), (99, 3)):
            conn.execute(update(audit_events).where(audit_events.c.seq == old).values(seq=new))
    assert verify(db).seq == 2


def test_a_cut_is_found_by_the_anchor_and_by_nothing_else(db: Database) -> None:
    log(db, 5)
    kept = Anchor.from_json(anchor(db).as_json())
    with db.write() as conn:
        conn.execute(delete(audit_events).where(audit_events.c.seq > 3))
    assert verify(db).ok, "what is left is a whole chain"
    found = verify(db, kept)
    assert (found.ok, found.seq, found.events) == (False, 4, 3)
    log(db, 4)
    assert not verify(db, kept).ok, "growing it again to the old length does not help"


def test_a_chain_rewritten_from_the_start_is_found_by_the_anchor(db: Database) -> None:
    log(db, 3)
    kept = anchor(db)
    with db.write() as conn:
        conn.execute(delete(audit_events))
    log(db, 2)
    with db.write() as conn:
        append(conn, ANN, "something_else", None, {}, NOW)
    assert verify(db).ok
    assert not verify(db, kept).ok


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"count": "x", "last_hash": ""}'])
def test_what_is_no_anchor_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not an anchor"):
        Anchor.from_json(line)


def test_an_event_of_a_transaction_that_fails_is_not_there(db: Database) -> None:
    log(db, 1)
    with pytest.raises(ZeroDivisionError), db.write() as conn:
        append(conn, ANN, "rated", "case", {}, NOW)
        _ = 1 // 0
    assert verify(db).events == 1


def test_concurrent_writers_lose_nothing_and_keep_the_chain(db: Database) -> None:
    def write(number: int) -> None:
        with db.write() as conn:
            append(conn, ANN, "text_viewed", f"case-{number}", {}, NOW)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(write, range(120)))
    assert verify(db) == Verification(events=120, last_hash=anchor(db).last_hash)
    assert {event.subject for event in events(db, ADMIN, limit=200)} == {f"case-{number}" for number in range(120)}


def test_a_detail_as_long_as_a_message_is_refused(db: Database) -> None:
    for value in ("x" * (LONGEST_DETAIL + 1), ["x" * (LONGEST_DETAIL + 1)]):
        with pytest.raises(ValueError, match="identifiers, not text"), db.write() as conn:
            append(conn, ANN, "rated", "case", {"note": value}, NOW)


def test_only_those_who_may_see_the_log(db: Database) -> None:
    log(db, 3)
    assert [event.details["index"] for event in events(db, ADMIN)] == [2, 1, 0]
    assert [event.at for event in events(db, ADMIN, subject="case-1")] == [NOW + timedelta(seconds=1)]
    with pytest.raises(Forbidden):
        events(db, ANN)
