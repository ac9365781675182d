"""Nothing the inbox asks of the database grows with the number of cases that wait."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, insert, select, text, update

from screening.review.actors import Actor, Role
from screening.review.triage import TARGETS, Priority
from storage.clock import new_id
from storage.database import Database
from storage.review import claims, inbox, reports, reviews
from storage.review.adjudication import disagreements
from storage.review.evidence import open_next
from storage.review.follow_ups import open_ones
from storage.review.queue import Sort, counts, queue, reserved_cases
from storage.review.reviews import my_reviews, submit_review
from storage.schema import cases, inbox_entries
from tests.storage.inbox_cases import NOW, fill, form, person, take
from tests.storage.statements import plan, statements

FEW, MANY = 800, 6_000
COUNTED = 100
MOST_ROWS = 1_100
"""Rows that one step may touch on PostgreSQL, whatever waits: open and late ones counted (8 x 101) and some more."""
BOTH = Actor(id="both", name="Both", roles=frozenset({Role.REVIEWER, Role.SENIOR}))
LATER = NOW + timedelta(days=2)


def _claimed(db: Database) -> claims.Claim:
    return take(db, BOTH, LATER)


def _save(db: Database) -> None:
    claim = _claimed(db)
    submit_review(db, BOTH.at(LATER), claim.case_id, claim.token, form(), submission_id=new_id(LATER))


def _renewed(db: Database) -> None:
    claim = _claimed(db)
    claims.renew(db, BOTH.at(LATER), claim.case_id, claim.token)
    reviews.save_draft(db, BOTH.at(LATER), claim.case_id, {})
    inbox.release(db, BOTH.at(LATER), claim.case_id, claim.token, note="flat")


STEPS: Mapping[str, Callable[[Database], object]] = {
    "counts": lambda db: counts(db, BOTH.at(LATER)),
    "counts of a filter": lambda db: counts(db, BOTH.at(LATER), [Priority.P1]),
    "list": lambda db: queue(db, BOTH.at(LATER), limit=8),
    "list of a filter": lambda db: queue(db, BOTH.at(LATER), [Priority.P2, Priority.P3], limit=8),
    "list by when they came in": lambda db: queue(db, BOTH.at(LATER), limit=8, sort=Sort.NEWEST),
    "list of a filter, longest waiting": lambda db: queue(
        db, BOTH.at(LATER), [Priority.P2], limit=8, sort=Sort.LONGEST
    ),
    "disagreements": lambda db: disagreements(db, BOTH, limit=5),
    "set aside": lambda db: reserved_cases(db, BOTH.at(LATER)),
    "mine": lambda db: claims.my_claims(db, BOTH.at(LATER)),
    "mine, read": lambda db: my_reviews(db, BOTH, limit=20),
    "read today": lambda db: reports.count_cases_read(db, BOTH, NOW),
    "exposure": lambda db: reports.exposure(db, BOTH.at(NOW), NOW),
    "follow-ups": lambda db: open_ones(db, BOTH.at(LATER)),
    "claim": _claimed,
    "claim with its text": lambda db: open_next(db, BOTH.at(LATER)),
    "claim of a filter": lambda db: claims.claim_next(db, BOTH.at(LATER), priorities=[Priority.P2, Priority.P3]),
    "save": _save,
    "renew, draft, release": _renewed,
    "release what is set aside": lambda db: inbox.release_set_aside(db, BOTH.at(LATER)),
    "release all": lambda db: inbox.release_all(db, BOTH.at(LATER)),
}


def _wait(db: Database, number: int, only: Priority | None = None) -> None:
    """So many cases wait, of all priorities or one, a third of them late; one is disputed and one has been
    read once.
    """
    disputed, again = fill(db, [Priority.P2, Priority.P3])
    with db.write() as conn:
        batch = conn.execute(select(cases.c.batch_id).limit(1)).scalar_one()
        rows = range(100, 100 + number)
        conn.execute(insert(cases), [_case(row, batch) for row in rows])
        conn.execute(insert(inbox_entries), [_entry(row, only) for row in rows])
        for case_id, review_round in ((disputed, "third"), (again, "second")):
            conn.execute(
                update(inbox_entries).where(inbox_entries.c.case_id == case_id).values(review_round=review_round)
            )
        conn.execute(text("ANALYZE"))


def _case(row: int, batch: str) -> dict[str, Any]:
    fixed = {"text": "waits", "text_sha256": "0" * 64, "flags": [], "created_at": NOW}
    return {"id": f"{row:032d}", "batch_id": batch, "row": row, "external_id": f"post-{row}", **fixed}


def _entry(row: int, only: Priority | None = None) -> dict[str, Any]:
    priority, entered = Priority(row % 4) if only is None else only, NOW + timedelta(seconds=row * 7919 % 80_000)
    due = entered + TARGETS[priority]
    return {"case_id": f"{row:032d}", "priority": priority, "why": "unsettled", "entered_at": entered, "due_at": due}


def test_no_step_reads_a_table_from_end_to_end(db: Database) -> None:
    _wait(db, FEW)
    with statements() as sent:
        for step in STEPS.values():
            step(db)
    large = ("cases", "inbox_entries", "reviews", "audit_events", "adjudications", "drafts")
    last_line = "ORDER BY audit_events.seq DESC"  # the table's own order, and one line of it
    kinds = ("SELECT", "UPDATE", "DELETE", "WITH")
    asked = {one: values for one, values in sent if one.lstrip("( ").startswith(kinds) and last_line not in one}
    assert len(asked) > 1.5 * len(STEPS)
    whole = re.compile(rf"(?:SCAN|Seq Scan on) (?:{'|'.join(large)})\b(?!.* USING )")
    found = {statement: plan(db, statement, values) for statement, values in asked.items()}
    assert not {statement: how for statement, how in found.items() if whole.search(how)}


def _instructions(url: str, step: Callable[[Database], object]) -> int:
    """Instructions of SQLite's virtual machine that a step takes: the same every time."""
    db, taken = Database(url), [0]

    def on_connect(connection: Any, _record: Any) -> None:
        connection.set_progress_handler(lambda: taken.__setitem__(0, taken[0] + 1), 1)

    event.listen(db._engine, "connect", on_connect)
    step(db)
    db.close()
    return taken[0]


def _rows_read(db: Database) -> int:
    """Rows that PostgreSQL has read so far, by index or from a table as it lies. Waits for what sessions report."""
    db.close()  # a session reports when it ends
    tables = db.value(text("SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables"))
    indexes = db.value(text("SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes"))
    db.close()
    return int(tables) + int(indexes)


@pytest.mark.parametrize("only", [None, Priority.P2], ids=["all_priorities", "one_priority"])
def test_no_step_grows_with_what_waits_on_sqlite(
    sqlite_url: str, only: Priority | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner goes by what it knows of the columns: where all wait in one priority it may choose otherwise."""
    monkeypatch.setattr("storage.review.queue.MOST_COUNTED", COUNTED)
    taken = {}
    for number in (FEW, MANY):
        db = Database(sqlite_url)
        _wait(db, number, only) if number == FEW else _more(db, number, only)
        db.close()
        taken[number] = {name: _instructions(sqlite_url, step) for name, step in STEPS.items()}
    grown = {name: (few, taken[MANY][name]) for name, few in taken[FEW].items() if taken[MANY][name] > 1.5 * few + 300}
    assert not grown


def _more(db: Database, number: int, only: Priority | None = None) -> None:
    with db.write() as conn:
        batch = conn.execute(select(cases.c.batch_id).limit(1)).scalar_one()
        rows = range(100 + FEW, 100 + number)
        conn.execute(insert(cases), [_case(row, batch) for row in rows])
        conn.execute(insert(inbox_entries), [_entry(row, only) for row in rows])
        conn.execute(text("ANALYZE"))


@pytest.mark.postgresql
def test_no_step_reads_what_waits_on_postgresql(postgresql_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.review.queue.MOST_COUNTED", COUNTED)
    _wait(postgresql_db, MANY)
    read = {}
    for name, step in STEPS.items():
        before = _rows_read(postgresql_db)
        step(postgresql_db)
        read[name] = _rows_read(postgresql_db) - before
    assert not {name: rows for name, rows in read.items() if rows > MOST_ROWS}
    assert read["claim"] > 0  # the figures are not simply missing


def test_cases_of_a_priority_are_counted_as_far_as_a_limit_beyond_what_somebody_has(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.review.queue.MOST_COUNTED", 10)
    fill(db, [Priority.P1] * 20 + [Priority.P3] * 3)
    due = NOW + TARGETS[Priority.P1]
    for number in range(15):
        claims.claim_next(db, person(f"p{number}", Role.REVIEWER).at(NOW))
    early, late = (counts(db, BOTH.at(due + timedelta(seconds=off))) for off in (-1, 3_600))
    assert early.late_by_priority == dict.fromkeys(Priority, 0)
    assert late.late_by_priority == {Priority.P0: 0, Priority.P1: 11, Priority.P2: 0, Priority.P3: 0}
    assert (late.free_by_priority[Priority.P1], late.free_by_priority[Priority.P3]) == (11, 3)
    held = counts(db, BOTH.at(NOW))
    assert (held.held, held.free_by_priority[Priority.P1], held.free) == (15, 5, 8), (
        "what is in other hands hides no free case"
    )
