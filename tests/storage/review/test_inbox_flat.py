"""Nothing the inbox asks of the database grows with the number of cases that wait."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, insert, select, text

from screening.review.actors import Actor, Role
from screening.review.triage import TARGETS, Priority
from storage.clock import new_id
from storage.database import Database
from storage.review import claims, inbox, reports, reviews
from storage.review.adjudication import disagreements
from storage.review.evidence import open_next
from storage.review.follow_ups import open_ones
from storage.review.queue import Sort, counts, queue, reserved_cases
from storage.schema import cases, inbox_entries
from tests.storage.inbox_cases import fill, form, put, take
from tests.storage.people import NOW, person

FEW, MANY = 800, 6_000
MOST_ROWS = 1_100
"""Rows that one step may touch on PostgreSQL, whatever waits: open and late ones counted (8 x 101) and some more."""
BOTH = Actor(id="both", name="Both", roles=frozenset({Role.REVIEWER, Role.SENIOR}))
LATER = NOW + timedelta(days=2)
BY = BOTH.at(LATER)
P1, P2, P3 = Priority.P1, Priority.P2, Priority.P3


def _save(db: Database) -> None:
    claim = take(db, BOTH, LATER)
    reviews.submit_review(db, BY, claim.case_id, claim.token, form(), new_id(LATER))


def _renewed(db: Database) -> None:
    claim = take(db, BOTH, LATER)
    claims.renew(db, BY, claim.case_id, claim.token)
    reviews.save_draft(db, BY, claim.case_id, {})
    inbox.release(db, BY, claim.case_id, claim.token, note="flat")


STEPS: Mapping[str, Callable[[Database], object]] = {
    "counts": lambda db: counts(db, BY),
    "counts of a filter": lambda db: counts(db, BY, [P1]),
    "list": lambda db: queue(db, BY, limit=8),
    "list of a filter": lambda db: queue(db, BY, [P2, P3], limit=8),
    "list by when they came in": lambda db: queue(db, BY, limit=8, sort=Sort.NEWEST),
    "list of a filter, longest waiting": lambda db: queue(db, BY, [P2], limit=8, sort=Sort.LONGEST),
    "disagreements": lambda db: disagreements(db, BOTH, limit=5),
    "set aside": lambda db: reserved_cases(db, BY),
    "mine": lambda db: claims.my_claims(db, BY),
    "mine, read": lambda db: reviews.my_reviews(db, BOTH, limit=20),
    "read today": lambda db: reports.count_cases_read(db, BOTH, NOW),
    "exposure": lambda db: reports.exposure(db, BOTH.at(NOW), NOW),
    "follow-ups": lambda db: open_ones(db, BY),
    "claim": lambda db: take(db, BOTH, LATER),
    "claim with its text": lambda db: open_next(db, BY),
    "claim of a filter": lambda db: claims.claim_next(db, BY, priorities=[P2, P3]),
    "save": _save,
    "renew, draft, release": _renewed,
    "release what is set aside": lambda db: inbox.release_set_aside(db, BY),
    "release all": lambda db: inbox.release_all(db, BY),
}


def _wait(db: Database, first: int, end: int, only: Priority | None = None) -> None:
    """Cases with these numbers wait, of all priorities or one, a third of them late."""
    same = {"text": "waits", "text_sha256": "0" * 64, "flags": [], "created_at": NOW}
    texts, entries = list[dict[str, Any]](), list[dict[str, Any]]()
    batch = db.value(select(cases.c.batch_id).limit(1))
    for row in range(first, end):
        priority, entered = only or Priority(row % 4), NOW + timedelta(seconds=row * 7919 % 80_000)
        texts.append(same | {"id": f"{row:032d}", "batch_id": batch, "row": row + 100, "external_id": f"post-{row}"})
        due = {"entered_at": entered, "due_at": entered + TARGETS[priority]}
        entries.append({"case_id": f"{row:032d}", "priority": priority, "why": "unsettled", **due})
    with db.write() as conn:
        conn.execute(insert(cases), texts)
        conn.execute(insert(inbox_entries), entries)
        conn.execute(text("ANALYZE"))


def _begin(db: Database) -> None:
    """One case is disputed, and one has been read once."""
    disputed, again = fill(db, [P2, P3])
    put(db, disputed, review_round="third")
    put(db, again, review_round="second")


def _instructions(url: str, step: Callable[[Database], object]) -> int:
    """Instructions of SQLite's virtual machine that a step takes: the same every time."""
    db, taken = Database(url), [0]

    def on_connect(connection: Any, _record: Any) -> None:
        connection.set_progress_handler(lambda: taken.__setitem__(0, taken[0] + 1), 1)

    event.listen(db._engine, "connect", on_connect)
    step(db)
    db.close()
    return taken[0]


@pytest.mark.parametrize("only", [None, P2], ids=["all_priorities", "one_priority"])
def test_no_step_grows_with_what_waits_on_sqlite(
    sqlite_url: str, only: Priority | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner goes by what it knows of the columns: where all wait in one priority it may choose otherwise."""
    monkeypatch.setattr("storage.review.queue.MOST_COUNTED", 100)
    taken = {}
    for first, end in ((0, FEW), (FEW, MANY)):
        db = Database(sqlite_url)
        if not first:
            _begin(db)
        _wait(db, first, end, only)
        db.close()
        taken[end] = {name: _instructions(sqlite_url, step) for name, step in STEPS.items()}
    grown = {name: (few, taken[MANY][name]) for name, few in taken[FEW].items() if taken[MANY][name] > 1.5 * few + 300}
    assert not grown


def _rows_read(db: Database) -> int:
    """Rows that PostgreSQL has read so far, by index or from a table as it lies. Waits for what sessions report."""
    db.close()  # a session reports when it ends
    tables = db.value(text("SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables"))
    indexes = db.value(text("SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes"))
    db.close()
    return int(tables) + int(indexes)


@pytest.mark.postgresql
def test_no_step_reads_what_waits_on_postgresql(postgresql_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.review.queue.MOST_COUNTED", 100)
    _begin(postgresql_db)
    _wait(postgresql_db, 0, MANY)
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
    fill(db, [P1] * 20 + [P3] * 3)
    due = NOW + TARGETS[P1]
    for number in range(15):
        take(db, person(f"p{number}"))
    early, late = (counts(db, BOTH.at(due + timedelta(seconds=off))) for off in (-1, 3_600))
    assert early.late_by_priority == dict.fromkeys(Priority, 0)
    assert late.late_by_priority == dict.fromkeys(Priority, 0) | {P1: 11}
    assert (late.free_by_priority[P1], late.free_by_priority[P3]) == (11, 3)
    held = counts(db, BOTH.at(NOW))
    assert (held.held, held.free_by_priority[P1], held.free) == (15, 5, 8), "what is in other hands hides no free case"
