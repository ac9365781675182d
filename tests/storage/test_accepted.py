"""The accepted label: the latest version's, of no case that is open, the same however it is asked for."""

from collections.abc import Mapping

from sqlalchemy import insert, select, update

from screening.review.triage import Tier
from storage.database import Database
from storage.schema import adjudications, cases, inbox_entries
from storage.visibility import accepted_label, accepted_labels, is_accepted
from tests.storage.inbox_cases import NOW, fill


def decide(db: Database, case_id: str, *labels: str, closed: bool = True) -> None:
    """These versions of the case's label, the first one first; its entry is closed, or open again."""
    rows = [
        {
            "case_id": case_id,
            "version": number,
            "label": label,
            "method": "single",
            "by": "ann",
            "at": NOW,
            "rating_ids": [],
        }
        for number, label in enumerate(labels, 1)
    ]
    with db.write() as conn:
        conn.execute(insert(adjudications), rows[::-1])  # the order of the rows tells nothing
        entry = update(inbox_entries).where(inbox_entries.c.case_id == case_id)
        conn.execute(entry.values(closed_at=NOW if closed else None))


def told(db: Database, ids: list[str]) -> tuple[Mapping[str, str | None], list[tuple[str, str]], set[str]]:
    """The label of each case by itself, those of the first one's batch at once, and which have one."""
    with db.read() as conn:
        alone = conn.execute(select(cases.c.id, accepted_label(cases.c.id).label("label")).where(cases.c.id.in_(ids)))
        batch_id = conn.execute(select(cases.c.batch_id).where(cases.c.id == ids[0])).scalar_one()
        of_batch = conn.execute(accepted_labels(batch_id))
        has_one = conn.execute(select(cases.c.id).where(is_accepted(cases.c.id)))
        return (
            {row.id: row.label for row in alone},
            sorted((row.case_id, row.label) for row in of_batch),
            set(has_one.scalars()),
        )


def test_it_is_the_latest_version_of_what_is_closed_and_of_nothing_else(db: Database) -> None:
    once, amended, again, unread = ids = fill(db, [Tier.P2] * 4)
    (other,), _never_in_the_inbox = fill(db), fill(db, entered=False)
    decide(db, once, "safe")
    decide(db, amended, "unsafe", "insufficient_information", "safe", "unsafe")
    decide(db, again, "safe", "unsafe", closed=False)
    decide(db, other, "safe")
    alone, of_batch, has_one = told(db, ids)
    assert alone == {once: "safe", amended: "unsafe", again: None, unread: None}
    assert of_batch == sorted([(once, "safe"), (amended, "unsafe")]), "each once"
    assert has_one == {once, amended, other}


def test_a_query_that_joins_decisions_itself_gets_the_latest_all_the_same(db: Database) -> None:
    (case_id,) = fill(db)
    decide(db, case_id, "unsafe", "safe")
    made = adjudications.c
    query = select(made.label, accepted_label(made.case_id).label("accepted")).where(is_accepted(made.case_id))
    rows = db.rows(query.order_by(made.version))
    assert rows == [("unsafe", "safe"), ("safe", "safe")]
