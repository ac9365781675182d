"""What is counted as withheld is told by an entry of the inbox alone: it says of its case what the facts say."""

from collections import Counter
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, exists, select

from screening.labels import Outcome
from screening.review.actors import Actor, Role
from screening.review.policy import Forbidden
from screening.review.triage import audit_placement
from storage.batches.batches import progress
from storage.batches.entries import enter
from storage.batches.results import withheld_rows
from storage.database import Database
from storage.identifiers import new_id
from storage.kinds import kinds, known_kinds, withheld_kinds
from storage.research.confusion import count_unread
from storage.review import claims
from storage.review.erasure import By, NotErased, Selection, erase
from storage.review.ratings import my_rating, revise, submit_rating
from storage.review.second_looks import request_second_looks
from storage.review.taking_back import take_back
from storage.schema import cases, inbox_entries, ratings, screenings
from storage.settings_store import SiteSettings, change
from tests.storage.batch_of import LATER, NOW, batch, decide
from tests.storage.inbox_cases import ADMIN, RESEARCHER, form, person, register

S, U = Outcome.SAFE, Outcome.UNSAFE
READERS = [person(name, Role.SENIOR) for name in ("sue", "tom")]
STEP = timedelta(seconds=1)
WORK = ("screen", "enter", "look", "read", "revise", "take back", "erase")
STEPS = st.lists(
    st.tuples(st.sampled_from(WORK), st.integers(0, 1), st.integers(0, 1), st.sampled_from(list(Outcome))),
    min_size=4,
    max_size=20,
)


def _do(db: Database, what: str, case_id: str, who: Actor, outcome: Outcome, number: int) -> None:
    by = who.at(LATER + number * STEP)
    label = "unsafe" if outcome is Outcome.UNSAFE else "safe"
    certainty = 1 if outcome is Outcome.HUMAN_REVIEW else 5
    if what == "screen":
        with db.read() as conn:
            ended = conn.execute(select(exists().where(screenings.c.case_id == case_id))).scalar()
        if not ended:
            decide(db, case_id, outcome, 0.25)
    elif what == "enter":
        with db.write() as conn:
            enter(conn, case_id, audit_placement(case_id, 0.1, []), by.now, "no_worker")
    elif what == "look":
        request_second_looks(db, RESEARCHER.at(by.now), [case_id])
    elif what == "read":
        claim = claims.claim(db, by, case_id)
        submit_rating(db, by, case_id, claim.token, form(label, certainty), new_id(by.now))
    elif what == "erase":
        erase(db, ADMIN.at(by.now), Selection(by=By.CASE, value=case_id), "asked for")
    elif (mine := my_rating(db, who, case_id)) is not None:
        if what == "revise":
            revise(db, by, case_id, form(label, certainty), "looked again", new_id(by.now))
        else:
            take_back(db, by, case_id, mine.id)


def _withheld(conn: Connection, batch_id: str, who: Actor) -> list[tuple[str | None, int | None]]:
    """Case by case from the facts: what is open and this person has not read, by kind, with its calls."""
    read = exists().where(ratings.c.case_id == cases.c.id, ratings.c.reviewer == who.id)
    query = select(screenings.c.kind, screenings.c.calls).select_from(cases).outerjoin(screenings)
    open_ones = query.join(inbox_entries, inbox_entries.c.case_id == cases.c.id).where(
        cases.c.batch_id == batch_id, inbox_entries.c.closed_at.is_(None), ~read
    )
    return [(row.kind, row.calls) for row in conn.execute(open_ones)]


@pytest.fixture(autouse=True)
def _team(db: Database) -> None:
    register(db, *READERS)
    change(db, ADMIN.at(NOW), SiteSettings(second_reading_rate=0.0), 0)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
@example(steps=[("enter", 0, 0, S), ("screen", 0, 0, U), ("enter", 1, 0, S), ("read", 1, 0, S), ("screen", 1, 0, U)])
def test_after_any_work_the_counts_are_those_of_the_facts(
    db: Database, steps: list[tuple[str, int, int, Outcome]]
) -> None:
    batch_id = batch(db, ["one", "two"], references="SU", audit_rate=1.0)
    ids = db.values(select(cases.c.id).where(cases.c.batch_id == batch_id))
    for number, (what, which, reader, outcome) in enumerate(steps):
        with suppress(Forbidden, claims.NotAvailable, NotErased):
            _do(db, what, ids[which], READERS[reader], outcome, number)
    for who in READERS:
        _compare(db, batch_id, who)


def _compare(db: Database, batch_id: str, who: Actor) -> None:
    with db.read() as conn:
        facts = _withheld(conn, batch_id, who)
        expected = Counter(kind for kind, _ in facts if kind is not None)
        assert {kind.key: count for kind, count in withheld_kinds(conn, who, batch_id).items()} == expected
        left, every = known_kinds(conn, who, batch_id), kinds(conn, batch_id)
    assert sum(every.values()) - sum(left.values()) == sum(expected.values())
    assert withheld_rows(db, who, batch_id) == len(facts)
    assert count_unread(db, who, batch_id) == sum(expected.values()), "each has a reference"
    hidden, shown, all_of_it = progress(db, batch_id, actor=who), progress(db, batch_id), sum(expected.values())
    assert hidden.left_out == all_of_it
    assert shown.calls - hidden.calls == sum(calls or 0 for _, calls in facts)
