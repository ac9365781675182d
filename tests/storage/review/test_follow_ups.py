"""A disposition that asks for something stays on the inbox until somebody closes it, without telling a later
reviewer.
"""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from screening.evaluation.metrics import Proportion
from screening.review.actors import Actor
from screening.review.policy import Forbidden
from screening.review.review_form import Disposition
from screening.review.triage import Priority
from storage.database import Database
from storage.review import claims, follow_ups
from storage.review.evidence import reveal_text
from storage.review.follow_ups import For, How, NoteMissing, NotOpen
from storage.review.reports import shift
from storage.review.reviews import revise, submit_review
from storage.review.worklist import request_second_looks
from storage.schema import accounts, audit_events, cases, inbox_entries, unblindings
from storage.settings_store import SiteSettings, change
from storage.visibility import is_blind
from tests.databases import write
from tests.storage.inbox_cases import ADMIN, ANN, BO, CY, MINUTE, NOW, RESEARCHER, SENIOR, fill, form, register, take
from tests.storage.inbox_cases import read as reads


def read(db: Database, who: Actor, case_id: str, disposition: str, review_id: str = "a" * 32) -> None:
    claim = take(db, who)
    assert claim.case_id == case_id
    reveal_text(db, who.at(NOW), case_id, claim.token)
    submit_review(db, who.at(NOW), case_id, claim.token, form("unsafe", 5, disposition=disposition), review_id)


def read_twice(db: Database, *people: Actor) -> None:
    """A site of these people where every case waits for a second reviewer."""
    register(db, *people)
    change(db, ADMIN.at(NOW), SiteSettings(second_review_rate=1.0), 0)


def read_as_urgent(db: Database) -> Any:
    """A case that waits, read by Ann, and what she asked for."""
    (case_id,) = fill(db)
    read(db, ANN, case_id, "contact_now")
    (one,) = follow_ups.open_ones(db, ANN.at(NOW)).shown
    return one


@pytest.mark.parametrize(
    ("disposition", "minutes"),
    [("contact_now", [60]), ("care_team", [1440]), ("protective_services", [1440]), ("monitor", [])],
)
def test_it_is_opened_with_its_reviewer_and_a_time(db: Database, disposition: str, minutes: list[int]) -> None:
    register(db, ANN, SENIOR)
    (case_id,) = fill(db)
    read(db, ANN, case_id, disposition)
    due = [(case_id, "ann", "Ann", NOW + after * MINUTE) for after in minutes]
    for who in (ANN, SENIOR):
        found = follow_ups.open_ones(db, who.at(NOW)).shown
        assert [(one.case_id, one.who, one.who_name, one.due_at) for one in found] == due


def test_while_others_may_still_read_the_case_they_learn_its_number_alone(db: Database) -> None:
    read_twice(db, ANN, BO, SENIOR)
    (case_id,) = fill(db)
    read(db, ANN, case_id, "contact_now")
    for who in (BO, SENIOR):
        found = follow_ups.open_ones(db, who.at(NOW + 61 * MINUTE))
        assert (found.shown, found.others, found.others_overdue) == ([], 1, 1)
    assert len(follow_ups.open_ones(db, ANN.at(NOW)).shown) == 1


@pytest.mark.parametrize("gone", [{"active": False}, {"roles": ["admin", "researcher"]}])
def test_what_is_left_with_nobody_who_reads_cases_is_taken_over(db: Database, gone: dict[str, object]) -> None:
    """Of a case that others may still read nobody but its reviewer had seen it, and they see none any more."""
    read_twice(db, ANN, BO, CY)
    one, late = read_as_urgent(db), NOW + 61 * MINUTE
    found = follow_ups.open_ones(db, BO.at(late))
    assert (found.others, found.left, found.left_overdue) == (1, 0, 0)
    assert follow_ups.take_over(db, BO.at(late)) == 0
    write(db, update(accounts).where(accounts.c.id == "ann").values(**gone))
    found = follow_ups.open_ones(db, BO.at(late))
    assert (found.shown, found.others, found.left, found.left_overdue) == ([], 1, 1, 1)
    with pytest.raises(Forbidden):
        follow_ups.take_over(db, RESEARCHER.at(late))
    assert follow_ups.take_over(db, BO.at(late)) == 1
    assert [(mine.id, mine.who) for mine in follow_ups.open_ones(db, BO.at(late)).shown] == [(one.id, "bo")]
    assert follow_ups.open_ones(db, CY.at(late)).left == 0
    with db.read() as conn:
        assert [is_blind(conn, who, one.case_id, first=True) for who in (BO, CY)] == [False, True]


def test_it_is_handed_to_a_colleague_and_closed_with_a_note(db: Database) -> None:
    register(db, ANN, BO, CY)
    one = read_as_urgent(db)
    with pytest.raises(NoteMissing):
        follow_ups.close(db, ANN.at(NOW), one.id, How.DONE, " ")
    with pytest.raises(Forbidden):
        follow_ups.close(db, CY.at(NOW), one.id, How.DONE, "done")
    follow_ups.hand_to(db, ANN.at(NOW), one.id, "bo", "call back at three")
    (handed,) = follow_ups.open_ones(db, BO.at(NOW)).shown
    assert (handed.who, handed.note) == ("bo", "call back at three")
    with pytest.raises(KeyError):
        follow_ups.hand_to(db, BO.at(NOW), one.id, "nobody", "x")
    follow_ups.close(db, BO.at(NOW + MINUTE), one.id, How.HANDED_ON, "crisis team took over")
    assert follow_ups.open_ones(db, BO.at(NOW)).shown == []
    for who, told in ((ANN, 1), (BO, 1), (CY, 0), (SENIOR, 1)):
        ended = follow_ups.closed_ones(db, who, one.case_id)
        assert [(one.closed_by, one.how, one.note) for one in ended] == [
            ("bo", How.HANDED_ON, "call back at three\ncrisis team took over")
        ] * told
    with pytest.raises(NotOpen):
        follow_ups.close(db, BO.at(NOW), one.id, How.DONE, "again")
    is_step = audit_events.c.action.startswith("follow_up")
    logged = db.rows(select(audit_events).where(is_step).order_by(audit_events.c.seq))
    assert [(row.action, row.actor, row.subject, row.details) for row in logged] == [
        ("follow_up_opened", "ann", one.case_id, "{}"),
        ("follow_up_handed", "ann", one.case_id, '{"to":"bo"}'),
        ("follow_up_closed", "bo", one.case_id, '{"how":"handed_on"}'),
    ], "without the words of the note"


def test_whoever_is_handed_one_has_learnt_of_the_review_and_reads_no_more_blind(db: Database) -> None:
    read_twice(db, ANN, BO, CY)
    one = read_as_urgent(db)
    follow_ups.hand_to(db, ANN.at(NOW), one.id, "bo", "call back at three")
    with db.read() as conn:
        assert [is_blind(conn, who, one.case_id, first=True) for who in (BO, CY)] == [False, True]
        (told,) = conn.execute(select(unblindings)).all()
    assert (told.reviewer, told.before_review, told.at) == ("bo", True, NOW)


def test_nobody_is_handed_one_who_cannot_see_to_it(db: Database) -> None:
    register(db, ANN, BO, SENIOR, RESEARCHER)
    one = read_as_urgent(db)
    write(db, update(accounts).where(accounts.c.id == "bo").values(active=False))
    for to in ("bo", "rae", "nobody"):
        with pytest.raises(KeyError, match=to):
            follow_ups.hand_to(db, ANN.at(NOW), one.id, to, "call back")
    assert follow_ups.open_ones(db, ANN.at(NOW)).shown == [one]
    follow_ups.hand_to(db, ANN.at(NOW), one.id, "sue", "call back")
    with pytest.raises(NotOpen):
        follow_ups.close(db, ANN.at(NOW), one.id + 1, How.DONE, "there is no such one")


def test_each_disposition_has_one_open_and_another_once_that_was_closed(db: Database) -> None:
    """By whoever read the case; taking the disposition back closes nothing."""
    register(db, ANN)
    (case_id,) = fill(db)
    read(db, ANN, case_id, "protective_services")
    for letter, disposition in (("b", "contact_now"), ("c", "monitor"), ("d", "contact_now")):
        revise(db, ANN.at(NOW), case_id, form("unsafe", 5, disposition=disposition), "thought again", letter * 32)
        urgent, safeguarding = follow_ups.open_ones(db, ANN.at(NOW)).shown
        assert (urgent.disposition, safeguarding.disposition) == (For.CONTACT_NOW, For.PROTECTIVE_SERVICES)
    follow_ups.close(db, ANN.at(NOW + MINUTE), urgent.id, How.DONE, " told the team ")
    assert follow_ups.open_ones(db, ANN.at(NOW)).shown == [safeguarding]
    with db.write() as conn:
        by = ANN.at(NOW + 2 * MINUTE)
        asked = (Disposition.MONITOR, Disposition.CONTACT_NOW, Disposition.CONTACT_NOW, Disposition.PROTECTIVE_SERVICES)
        opened = [follow_ups.open_follow_up(conn, by, case_id, disposition) for disposition in asked]
        opened += [follow_ups.open_follow_up(conn, by, case_id, For.SECOND_REVIEW) for _ in range(2)]
    assert opened == [False, True, False, False, True, False]
    again = follow_ups.open_ones(db, ANN.at(NOW)).shown[0]
    assert (again.disposition, again.opened_at, again.due_at) == (For.CONTACT_NOW, NOW + 2 * MINUTE, NOW + 62 * MINUTE)
    (ended,) = follow_ups.closed_ones(db, ANN, case_id)
    assert (ended.disposition, ended.opened_at, ended.due_at) == (For.CONTACT_NOW, NOW, NOW + 60 * MINUTE)
    assert (ended.closed_at, ended.closed_by, ended.how, ended.note) == (NOW + MINUTE, "ann", How.DONE, "told the team")


def test_what_a_second_reviewer_calls_urgent_is_with_them_within_its_hour(db: Database) -> None:
    read_twice(db, ANN, BO)
    (case_id,) = fill(db)
    read(db, ANN, case_id, "protective_services")
    read(db, BO, case_id, "contact_now", "b" * 32)
    for who, asked, minutes in ((ANN, For.PROTECTIVE_SERVICES, 1440), (BO, For.CONTACT_NOW, 60)):
        (own,) = (one for one in follow_ups.open_ones(db, who.at(NOW)).shown if one.who == who.id)
        assert (own.disposition, own.due_at) == (asked, NOW + minutes * MINUTE)


def test_a_review_of_safe_by_one_alone_hides_nothing_that_is_asked_for_with_it_or_after_it(db: Database) -> None:
    """A P0 case where nobody else could read: its wait for another reviewer and the safeguarding are two things."""
    register(db, ANN)
    (case_id,) = fill(db, [Priority.P0])
    reads(db, ANN, form("safe", 5, disposition="protective_services"), "a")
    revise(db, ANN.at(NOW + MINUTE), case_id, form("unsafe", 5, disposition="contact_now"), "saw the plan", "b" * 32)
    found = follow_ups.open_ones(db, ANN.at(NOW)).shown
    assert [one.disposition for one in found] == [For.SECOND_REVIEW, For.CONTACT_NOW, For.PROTECTIVE_SERVICES]


def test_a_second_review_that_nobody_could_give_is_kept_in_sight_as_long_as_what_is_urgent(db: Database) -> None:
    register(db, ANN)
    change(db, ADMIN.at(NOW), SiteSettings(follow_up_minutes=(30, 90)), 0)
    (case_id,) = fill(db)
    with db.write() as conn:
        assert follow_ups.open_follow_up(conn, ANN.at(NOW), case_id, For.SECOND_REVIEW)
    (one,) = follow_ups.open_ones(db, ANN.at(NOW)).shown
    assert (one.disposition, one.due_at) == (For.SECOND_REVIEW, NOW + 30 * MINUTE)


def test_seniors_see_the_earliest_due_first_with_where_to_act_and_what_is_late(db: Database) -> None:
    register(db, ANN, SENIOR)
    ids = fill(db, [Priority.P1, Priority.P2, Priority.P2])
    write(db, update(cases).where(cases.c.id == ids[1]).values(where_to_act="ward 3"))
    for case_id, disposition, letter in zip(
        ids, ("protective_services", "contact_now", "contact_now"), "abc", strict=True
    ):
        read(db, ANN, case_id, disposition, letter * 32)
    found = follow_ups.open_ones(db, SENIOR.at(NOW))
    assert [one.case_id for one in found.shown] == [ids[1], ids[2], ids[0]]
    assert [one.where_to_act for one in found.shown] == ["ward 3", None, None]
    assert [one.external_id for one in found.shown] == ["post-2", "post-3", "post-1"]
    assert (found.others, found.others_overdue) == (0, 0)
    assert [one.case_id for one in follow_ups.open_ones(db, SENIOR.at(NOW), limit=1).shown] == [ids[1]]
    for minutes, late in ((59, 0), (60, 2), (1440, 3)):
        others = follow_ups.open_ones(db, BO.at(NOW + minutes * MINUTE))
        assert (others.shown, others.others, others.others_overdue) == ([], 3, late)
    follow_ups.close(db, SENIOR.at(NOW), found.shown[0].id, How.DONE, "a senior may")
    assert follow_ups.open_ones(db, BO.at(NOW + 60 * MINUTE)).others_overdue == 1


def test_all_that_are_open_are_counted_however_many_are_shown(db: Database) -> None:
    register(db, ANN, BO)
    ids = fill(db, [Priority.P2] * 3)
    with db.write() as conn:
        for case_id, minutes in zip(ids, (0, 1, 61), strict=True):
            follow_ups.open_follow_up(conn, ANN.at(NOW + minutes * MINUTE), case_id, Disposition.CONTACT_NOW)
    for who, others in ((ANN, (0, 0)), (BO, (3, 2))):
        found = follow_ups.open_ones(db, who.at(NOW + 61 * MINUTE), limit=1)
        assert (len(found.shown), found.count, found.overdue) == (who is ANN, 3, 2)
        assert (found.others, found.others_overdue) == others


@pytest.mark.parametrize("closer", [ANN, SENIOR])
def test_how_one_ended_is_told_to_a_later_reviewer_only_once_the_case_is_closed(db: Database, closer: Actor) -> None:
    """But to whoever closed it, also of a case that they may yet read."""
    read_twice(db, ANN, BO, SENIOR)
    one = read_as_urgent(db)
    assert follow_ups.closed_ones(db, ANN, one.case_id) == []
    follow_ups.close(db, closer.at(NOW), one.id, How.DONE, "rang the family")
    told = [len(follow_ups.closed_ones(db, who, one.case_id)) for who in (ANN, BO, SENIOR)]
    assert told == [1, 0, closer is SENIOR]
    read(db, BO, one.case_id, "monitor", "b" * 32)
    assert [len(follow_ups.closed_ones(db, who, one.case_id)) for who in (ANN, BO, SENIOR)] == [1, 0, 1]
    with pytest.raises(Forbidden):
        follow_ups.closed_ones(db, RESEARCHER, one.case_id)


def test_a_shift_is_counted_by_priority_with_waits_and_shares(db: Database) -> None:
    register(db, ANN, SENIOR)
    entered = [NOW - 40 * MINUTE, NOW - 8 * MINUTE, NOW - 3 * MINUTE, NOW - 2 * MINUTE, NOW - 2 * MINUTE]
    first, *_rest = fill(db, (Priority.P0, Priority.P0, Priority.P0, Priority.P0, Priority.P2), entered_at=entered)
    read(db, ANN, first, "contact_now")  # 40 minutes after it came: too late
    revise(db, ANN.at(NOW), first, form("insufficient_information"), "read again", "2" * 32)  # no other review
    claim = take(db, ANN)
    reveal_text(db, ANN.at(NOW), claim.case_id, claim.token)  # 8 minutes: too late
    claim = claims.claim(db, SENIOR.at(NOW), _rest[1])
    reveal_text(db, SENIOR.at(NOW), _rest[1], claim.token)  # 3 minutes: in time
    found = shift(db, ADMIN, NOW - 60 * MINUTE, NOW + MINUTE)
    p0 = found.priorities[Priority.P0]
    assert (p0.arrived, p0.looked_at, p0.overdue, p0.read) == (4, 3, 2, 1)
    assert (p0.median, p0.p90) == (8 * MINUTE, 40 * MINUTE)
    assert p0.within_target == Proportion(1, 3), "the fourth may still be in time"
    assert (found.priorities[Priority.P2].arrived, found.priorities[Priority.P2].median) == (1, None)
    later = shift(db, ADMIN, NOW - 60 * MINUTE, NOW + 10 * MINUTE).priorities[Priority.P0]
    assert (later.overdue, later.within_target) == (3, Proportion(1, 4)), "its target has passed now"
    assert (found.follow_ups_opened, found.follow_ups_closed, found.follow_ups_overdue) == (1, 0, 0)
    with pytest.raises(ValueError, match="before it begins"):
        shift(db, ADMIN, NOW, NOW - timedelta(minutes=1))


def test_what_a_shift_leaves_is_counted_whenever_it_came(db: Database) -> None:
    register(db, ANN)
    entered = [NOW - 600 * MINUTE, NOW - 10 * MINUTE, NOW - MINUTE, NOW + 2 * MINUTE]
    first, *_ = fill(db, (Priority.P2, Priority.P0, Priority.P0, Priority.P0), entered_at=entered)
    write(db, update(inbox_entries).where(inbox_entries.c.case_id == first).values(closed_at=NOW + MINUTE))
    left = shift(db, ADMIN, NOW - 5 * MINUTE, NOW).left
    assert (left[Priority.P0], left[Priority.P2]) == ((2, 1), (1, 1))
    assert left[Priority.P1] == (0, 0)
    assert shift(db, ADMIN, NOW, NOW + 5 * MINUTE).left[Priority.P2][0] == 0, "closed by then"


def test_a_look_before_the_case_was_claimed_is_no_first_look(db: Database) -> None:
    """A senior reads the text in a list; later it comes to the inbox, waits, and the same senior takes it."""
    register(db, SENIOR)
    (case_id,) = fill(db, entered=False, outcome="safe")
    reveal_text(db, SENIOR.at(NOW), case_id)
    request_second_looks(db, SENIOR.at(NOW + 60 * MINUTE), [case_id])
    end = NOW + 120 * MINUTE
    claim = take(db, SENIOR, NOW + 70 * MINUTE)
    assert shift(db, ADMIN, NOW, end).priorities[claim.priority].looked_at == 0
    reveal_text(db, SENIOR.at(NOW + 75 * MINUTE), case_id, claim.token)
    assert shift(db, ADMIN, NOW, end).priorities[claim.priority].median == 15 * MINUTE
