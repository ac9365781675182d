"""The same person's other texts: the nearest of the file, only where its column names people; no look at a case."""

import pytest
from sqlalchemy import select, update

from screening.review.triage import Tier
from storage.database import Database
from storage.review.evidence import EACH_WAY, near_texts, open_next, show
from storage.schema import batches, cases, inbox_entries
from tests.databases import write
from tests.storage.inbox_cases import ANN, NOW, SENIOR, fill
from tests.storage.statements import plan, statements


def _of_people(db: Database, people: str, column: str | None = "Patient ID") -> list[str]:
    """One case a letter, of the person with that letter; a dash for none."""
    ids = fill(db, [Tier.P2] * len(people))
    with db.write() as conn:
        conn.execute(update(batches).values(intake={"group_column": column}))
        for case_id, person in zip(ids, people, strict=True):
            named = None if person == "-" else person
            conn.execute(update(cases).where(cases.c.id == case_id).values(group_name=named, text=f"text {case_id}"))
    return ids


def test_the_nearest_are_shown_in_the_order_of_the_file(db: Database) -> None:
    ids = _of_people(db, "aaaaabaaaa-b")
    other = _of_people(db, "a")  # of another file: the same name may be another person
    near = show(db, SENIOR.at(NOW), ids[4]).near
    before, after = [f"text {each}" for each in ids[1:4]], [f"text {each}" for each in ids[6:9]]
    assert [(each.text, each.before) for each in near] == [(each, True) for each in before] + [
        (each, False) for each in after
    ]
    assert len(before) == len(after) == EACH_WAY
    assert [show(db, SENIOR.at(NOW), each).near for each in (ids[10], other[0])] == [(), ()]


@pytest.mark.parametrize(
    ("column", "shown"), [("user_id", 1), ("author", 1), ("subreddit", 0), ("topic", 0), (None, 0)]
)
def test_a_group_of_topics_is_not_a_person(db: Database, column: str | None, shown: int) -> None:
    ids = _of_people(db, "aa", column)
    opened = open_next(db, ANN.at(NOW))
    assert opened is not None and len(opened[1].near) == shown
    assert db.value(select(inbox_entries.c.first_opened_at).where(inbox_entries.c.case_id == ids[1])) is None, (
        "no look at its own case"
    )


def test_they_are_found_by_an_index(db: Database) -> None:
    ids = _of_people(db, "aab")
    write(db, update(batches).values(name="posts.csv"))
    with statements() as sent, db.read() as conn:
        near_texts(conn, ids[0])
    found = [each for each in sent if "group_name =" in each[0]]
    assert found and all("ix_cases_group" in plan(db, statement, values) for statement, values in found)
