"""A senior gives several cases to a colleague at once; what was taken meanwhile is refused in words."""

from datetime import timedelta

import pytest
from sqlalchemy import select, update

from screening.review.actors import Role
from screening.review.policy import Forbidden
from screening.review.triage import Tier
from storage.database import Database
from storage.review import claims, inbox
from storage.review.claims import NotAvailable
from storage.review.inbox import MOST, RESERVATION, RESERVATIONS, assign
from storage.review.ratings import submit_rating
from storage.schema import accounts, audit_events, inbox_entries
from tests.databases import write
from tests.storage.inbox_cases import ADMIN, ANN, BO, CY, MINUTE, NOW, SENIOR, fill, form, person, register


@pytest.fixture(autouse=True)
def people(db: Database) -> None:
    """All of them have accounts."""
    register(db, ANN, BO, CY, SENIOR, ADMIN)


def test_given_cases_come_to_that_colleague_alone_until_the_time_is_over(db: Database) -> None:
    ids = fill(db, [Tier.P1, Tier.P2])
    done = assign(db, SENIOR.at(NOW), ids, BO.id)
    assert set(done.given) == set(ids) and done.refused == {}
    assert claims.claim_next(db, ANN.at(NOW)) is None
    mine = claims.claim_next(db, BO.at(NOW))
    assert mine is not None and mine.case_id == ids[0]
    later = claims.claim_next(db, ANN.at(NOW + timedelta(hours=1)))
    assert later is not None and later.case_id in ids
    logged = db.rows(select(audit_events).where(audit_events.c.action == "assigned"))
    assert {row.subject for row in logged} == set(ids) and {row.actor for row in logged} == {SENIOR.id}
    assert all('"to":"bo"' in row.details for row in logged)


def test_what_is_in_other_hands_is_refused_in_words_and_left_alone(db: Database) -> None:
    held, free, aside, read = fill(db, [Tier.P1, Tier.P2, Tier.P2, Tier.P2])
    taken = claims.claim(db, SENIOR.at(NOW), held)
    kept = claims.claim(db, SENIOR.at(NOW), aside)
    inbox.hold(db, SENIOR.at(NOW), aside, kept.token, "later")
    was = claims.claim(db, SENIOR.at(NOW), read)
    inbox.hand_over(db, SENIOR.at(NOW), read, was.token, BO.id, "yours")
    theirs = claims.claim(db, BO.at(NOW), read)
    inbox.ask_second_opinion(db, BO.at(NOW), read, theirs.token)
    submit_rating(db, BO.at(NOW), read, theirs.token, form(), "1" * 32)
    done = assign(db, SENIOR.at(NOW), [held, free, aside, read, "0" * 32], BO.id)
    assert done.given == (free,)
    assert done.refused == {
        held: "was taken meanwhile",
        aside: "was put on hold by its reviewer",
        read: "was reviewed by them already",
        "0" * 32: "is closed",
    }
    assert claims.renew(db, SENIOR.at(NOW + MINUTE), held, taken.token).case_id == held, "its holder goes on"


def test_what_waits_for_its_second_reader_is_given_to_whoever_has_not_read_it(db: Database) -> None:
    [case_id] = fill(db)
    first = claims.claim_next(db, ANN.at(NOW))
    assert first is not None
    inbox.ask_second_opinion(db, ANN.at(NOW), case_id, first.token)
    submit_rating(db, ANN.at(NOW), case_id, first.token, form(), "1" * 32)
    assert assign(db, SENIOR.at(NOW), [case_id], ANN.id).refused == {case_id: "was reviewed by them already"}
    assert assign(db, SENIOR.at(NOW), [case_id], BO.id).given == (case_id,)


def test_a_senior_gives_again_what_was_given_and_not_what_was_refused_for_good(db: Database) -> None:
    (case_id,) = fill(db, [Tier.P2])
    claim = claims.claim_next(db, BO.at(NOW))
    assert claim is not None
    inbox.decline(db, BO.at(NOW), case_id, claim.token)
    assert assign(db, SENIOR.at(NOW), [case_id], BO.id).refused == {case_id: "was declined by them"}
    assert assign(db, SENIOR.at(NOW), [case_id], ANN.id).given == (case_id,)
    assert assign(db, SENIOR.at(NOW), [case_id], CY.id).given == (case_id,)
    assert claims.claim_next(db, ANN.at(NOW)) is None
    assert claims.claim_next(db, CY.at(NOW)) is not None


@pytest.mark.parametrize("to", [ADMIN.id, SENIOR.id, "nobody"])
def test_nobody_is_given_what_they_cannot_read(db: Database, to: str) -> None:
    ids = fill(db)
    with pytest.raises(NotAvailable):
        assign(db, SENIOR.at(NOW), ids, to)


def test_only_seniors_give_and_not_without_a_limit(db: Database) -> None:
    ids = fill(db)
    for who in (ANN, ADMIN):
        with pytest.raises(Forbidden):
            assign(db, who.at(NOW), ids, BO.id)
    for wrong in ([], ["0" * 32 + str(n) for n in range(MOST + 1)]):
        with pytest.raises(ValueError, match="choose 1 to"):
            assign(db, SENIOR.at(NOW), wrong, BO.id)


def _set(db: Database, **values: object) -> None:
    write(db, update(inbox_entries).values(values))


@pytest.mark.parametrize(
    ("until", "values", "refusal"),
    [
        ("assigned_until", {"assignee": "ann", "lease_token": "t"}, "was taken meanwhile"),
        ("assigned_until", {"assigned_by": "ann", "assignee": "ann"}, "was put on hold by its reviewer"),
    ],
)
def test_what_kept_a_case_ends_at_its_moment(db: Database, until: str, values: dict[str, object], refusal: str) -> None:
    (case_id,) = fill(db)
    _set(db, **values, **{until: NOW})
    assert assign(db, SENIOR.at(NOW - timedelta(microseconds=1)), [case_id], BO.id).refused == {case_id: refusal}
    assert assign(db, SENIOR.at(NOW), [case_id], BO.id).given == (case_id,)


def test_a_case_set_aside_for_somebody_else_is_given_to_another(db: Database) -> None:
    (case_id,) = fill(db)
    _set(db, assigned_by="ann", assignee="cy", assigned_until=NOW + MINUTE)
    assert assign(db, SENIOR.at(NOW), [case_id], BO.id).given == (case_id,)
    entry = db.row(select(inbox_entries))
    assert (entry.assigned_by, entry.assignee) == (SENIOR.id, BO.id)
    assert entry.assigned_until == NOW + RESERVATIONS.get(Tier.P2, RESERVATION)


def test_only_another_senior_is_given_what_a_senior_decides(db: Database) -> None:
    helen = person("helen", Role.SENIOR)
    register(db, helen)
    (case_id,) = fill(db)
    _set(db, reading="third")
    assert assign(db, SENIOR.at(NOW), [case_id], BO.id).refused == {case_id: "is a senior's to decide"}
    assert assign(db, SENIOR.at(NOW), [case_id], helen.id).given == (case_id,)


def test_a_closed_case_stays_closed_and_a_skip_is_no_refusal(db: Database) -> None:
    (case_id,) = fill(db)
    claim = claims.claim_next(db, BO.at(NOW))
    assert claim is not None
    inbox.skip(db, BO.at(NOW), case_id, claim.token)
    assert assign(db, SENIOR.at(NOW), [case_id], BO.id).given == (case_id,)
    _set(db, closed_at=NOW)
    assert assign(db, SENIOR.at(NOW), [case_id], BO.id).refused == {case_id: "is closed"}


def test_whoever_left_is_given_nothing(db: Database) -> None:
    ids = fill(db)
    write(db, update(accounts).where(accounts.c.id == BO.id).values(active=False))
    with pytest.raises(NotAvailable):
        assign(db, SENIOR.at(NOW), ids, BO.id)


def test_as_many_as_the_limit_are_looked_at_and_each_once(db: Database) -> None:
    unknown = [f"{n:032d}" for n in range(MOST)]
    assert len(assign(db, SENIOR.at(NOW), [*unknown, *unknown], BO.id).refused) == MOST
