"""Numbers for a monitor: errors are counted on from where the last question ended, and none is missed."""

from collections import Counter

from sqlalchemy import insert, select

from storage.batches.pending import record_error
from storage.database import Database
from storage.review.reports import SETTLED_AFTER_S, ErrorCounts
from storage.schema import case_errors
from tests.databases import write
from tests.storage.batch_of import NOW, batch, waiting


def test_errors_are_counted_once_also_those_that_were_committed_late(db: Database) -> None:
    batch(db, ["a text"])
    (case_id,) = waiting(db)
    moment = [0.0]
    errors = ErrorCounts(lambda: moment[0])

    def counted() -> dict[str, int]:
        with db.read() as conn:
            return dict(errors.counts(conn))

    assert counted() == {}
    record_error(db, case_id, "timeout", "slow", NOW)
    record_error(db, case_id, "refused", "no", NOW)
    assert counted() == {"timeout": 1, "refused": 1}
    late = {"case_id": case_id, "kind": "late", "message": "", "calls": 0, "at": NOW}
    write(db, insert(case_errors), {"id": 9, **late, "kind": "later"})
    assert counted()["later"] == 1
    moment[0] += SETTLED_AFTER_S / 2
    write(db, insert(case_errors), {"id": 8, **late})
    assert counted() == {"timeout": 1, "refused": 1, "later": 1, "late": 1}
    for _ in range(3):
        moment[0] += SETTLED_AFTER_S
        assert sum(counted().values()) == 4


def test_what_was_counted_before_is_not_looked_at_again(db: Database) -> None:
    batch(db, ["a text"])
    (case_id,) = waiting(db)
    record_error(db, case_id, "timeout", "slow", NOW)
    moment = [0.0]
    errors = ErrorCounts(lambda: moment[0])
    for _ in range(3):
        with db.read() as conn:
            errors.counts(conn)
        moment[0] += SETTLED_AFTER_S
    with db.write() as conn:  # what is settled is known: another number there changes nothing any more
        conn.execute(case_errors.update().values(kind="changed"))
        assert errors.counts(conn) == Counter(timeout=1)
        assert conn.execute(select(case_errors.c.kind)).scalar_one() == "changed"
