"""A disposition that asks for something stays on the inbox until somebody closes it, without telling a later
reviewer. What a shift did and leaves.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from screening.evaluation.metrics import Proportion
from screening.review.actors import Actor
from screening.review.policy import Forbidden
from screening.review.review_form import Disposition
from screening.review.triage import Priority
from storage import schema
from storage.database import Database
from storage.review import claims, follow_ups
from storage.review.evidence import reveal_text
from storage.review.follow_ups import For, How, NoteMissing, NotOpen
from storage.review.reports import shift
from storage.review.reviews import revise, submit_review
from storage.schema import accounts, audit_events, cases, unblindings
from tests.databases import write
from tests.storage.inbox_cases import blind, fill, form, put, read, register, rows, site, take
from tests.storage.people import ADMIN, ANN, BO, CY, MINUTE, NOW, PEOPLE, RESEARCHER, SENIOR, later


def ask(db: Database, who: Actor, disposition: str, review_id: str = "a") -> str:
    """They open and read the next case, and ask for this; the case."""
    claim = take(db, who)
    reveal_text(db, who.at(NOW), claim.case_id, claim.token)
    filled = form("unsafe", 5, disposition=disposition)
    submit_review(db, who.at(NOW), claim.case_id, claim.token, filled, review_id * 32)
    return claim.case_id


def urgent(db: Database, *people: Actor, second_review_rate: float = 1.0) -> Any:
    """At a site of these people, where every case waits for a second one: what Ann asked for who read the first."""
    site(db, *people, second_review_rate=second_review_rate)
    fill(db)
    ask(db, ANN, "contact_now")
    (one,) = follow_ups.open_ones(db, ANN.at(NOW)).shown
    return one


SCRIPTS = tomllib.loads((Path(__file__).parent / "follow_ups.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_is_asked_for_is_with_whoever_asked_and_has_a_time_of_its_own(db: Database, script: str) -> None:
    steps = [step.split() for step in script.split(", ")]
    site(db, *{PEOPLE[name] for name, *_ in steps}, second_review_rate=1.0, follow_up_minutes=(30, 90))
    (case_id,) = fill(db, [Priority.P0])
    for number, (name, label, disposition) in enumerate(steps, start=1):
        by, filled = PEOPLE[name].at(later(number)), form(label, 5, disposition=disposition)
        if name in [before for before, *_ in steps[: number - 1]]:
            revise(db, by, case_id, filled, "thought again", f"{number}" * 32)
        else:
            read(db, by.actor, filled, f"{number}", by.now)
    found = sorted((one.due_at, one.disposition, one.who) for one in rows(db, schema.follow_ups))
    assert [f"{what} {who} {(due - NOW) // MINUTE}" for due, what, who in found] == SCRIPTS[script]


@pytest.mark.parametrize("gone", [{"active": False}, {"roles": ["admin", "researcher"]}])
def test_what_is_left_with_nobody_who_reads_cases_is_taken_over(db: Database, gone: dict[str, object]) -> None:
    """Of a case that others may still read they learn the number alone; nobody but its reviewer had seen it. Whoever
    sees to it has learnt of the review and reads no more blind, also whoever was handed it.
    """
    one, late = urgent(db, ANN, BO, CY, SENIOR), later(61)
    for who in (BO, SENIOR):
        found = follow_ups.open_ones(db, who.at(late))
        assert (found.shown, found.others, found.others_overdue, found.left, found.left_overdue) == ([], 1, 1, 0, 0)
    assert follow_ups.take_over(db, BO.at(late)) == 0
    write(db, update(accounts).where(accounts.c.id == "ann").values(**gone))
    found = follow_ups.open_ones(db, BO.at(late))
    assert (found.shown, found.others, found.left, found.left_overdue) == ([], 1, 1, 1)
    assert follow_ups.open_ones(db, BO.at(NOW)).left_overdue == 0
    assert follow_ups.take_over(db, BO.at(late)) == 1
    assert [(mine.id, mine.who) for mine in follow_ups.open_ones(db, BO.at(late)).shown] == [(one.id, "bo")]
    assert follow_ups.open_ones(db, CY.at(late)).left == 0
    assert [blind(db, who, one.case_id) for who in (BO, CY, SENIOR)] == [False, True, True]
    follow_ups.hand_to(db, BO.at(later(62)), one.id, "sue", "call back at three")
    assert [blind(db, who, one.case_id) for who in (BO, CY, SENIOR)] == [False, True, False]
    learnt = sorted((row.reviewer, row.before_review, row.at) for row in rows(db, unblindings))
    assert learnt == [("bo", True, late), ("sue", True, later(62))]


def test_it_is_handed_to_a_colleague_and_closed_with_a_note(db: Database) -> None:
    one = urgent(db, ANN, BO, CY, RESEARCHER, second_review_rate=0.0)
    for who, note, refusal in ((ANN, " ", NoteMissing), (CY, "done", Forbidden)):
        with pytest.raises(refusal):
            follow_ups.close(db, who.at(NOW), one.id, How.DONE, note)
    with pytest.raises(NotOpen):
        follow_ups.close(db, ANN.at(NOW), one.id + 1, How.DONE, "there is no such one")
    write(db, update(accounts).where(accounts.c.id == "cy").values(active=False))
    for to in ("cy", "rae", "nobody"):
        with pytest.raises(KeyError, match=to):
            follow_ups.hand_to(db, ANN.at(NOW), one.id, to, "call back")
    assert follow_ups.open_ones(db, ANN.at(NOW)).shown == [one]
    follow_ups.hand_to(db, ANN.at(NOW), one.id, "bo", "call back at three")
    (handed,) = follow_ups.open_ones(db, BO.at(NOW)).shown
    assert (handed.who, handed.note) == ("bo", "call back at three")
    with pytest.raises(NoteMissing):  # whoever opened it may act on it still
        follow_ups.close(db, ANN.at(NOW), one.id, How.DONE, " ")
    follow_ups.close(db, BO.at(later(1)), one.id, How.HANDED_ON, "crisis team took over")
    assert follow_ups.open_ones(db, BO.at(NOW)).shown == []
    for who, told in ((ANN, 1), (BO, 1), (CY, 0), (SENIOR, 1)):
        ended = follow_ups.closed_ones(db, who, one.case_id)
        assert [(one.closed_by, one.how, one.note) for one in ended] == [
            ("bo", How.HANDED_ON, "call back at three\ncrisis team took over")
        ] * told
    with pytest.raises(NotOpen):
        follow_ups.close(db, BO.at(NOW), one.id, How.DONE, "again")
    logged = [row for row in rows(db, audit_events) if row.action.startswith("follow_up")]
    assert sorted((row.action, row.actor, row.subject, row.details) for row in logged) == [
        ("follow_up_closed", "bo", one.case_id, '{"how":"handed_on"}'),
        ("follow_up_handed", "ann", one.case_id, '{"to":"bo"}'),
        ("follow_up_opened", "ann", one.case_id, "{}"),
    ], "without the words of the note"


def test_each_disposition_has_one_open_and_another_once_that_was_closed(db: Database) -> None:
    one, safeguarding = urgent(db, ANN, second_review_rate=0.0), Disposition.PROTECTIVE_SERVICES
    follow_ups.close(db, ANN.at(later(1)), one.id, How.DONE, " told the team ")
    asked: list[Disposition | For] = [safeguarding, Disposition.MONITOR, *[Disposition.CONTACT_NOW] * 2]
    with db.write() as conn:
        for minute, whats in ((0, asked[:1]), (2, [*asked[1:], safeguarding, *[For.SECOND_REVIEW] * 2])):
            by = ANN.at(later(minute))
            opened = [follow_ups.open_follow_up(conn, by, one.case_id, what) for what in whats]
    assert opened == [False, True, False, False, True, False]
    found = follow_ups.open_ones(db, ANN.at(NOW)).shown
    assert [(one.disposition, one.opened_at, one.due_at) for one in found] == [
        (For.CONTACT_NOW, later(2), later(62)),
        (For.SECOND_REVIEW, later(2), later(62)),
        (For.PROTECTIVE_SERVICES, NOW, later(1440)),
    ]
    (ended,) = follow_ups.closed_ones(db, ANN, one.case_id)
    assert (ended.disposition, ended.opened_at, ended.due_at) == (For.CONTACT_NOW, NOW, later(60))
    assert (ended.closed_at, ended.closed_by, ended.how, ended.note) == (later(1), "ann", How.DONE, "told the team")


def test_seniors_see_the_earliest_due_first_with_where_to_act_and_what_is_late(db: Database) -> None:
    """All that are open are counted, however many are shown."""
    site(db, ANN, SENIOR)
    ids = fill(db, [Priority.P1, Priority.P2, Priority.P2])
    write(db, update(cases).where(cases.c.id == ids[1]).values(where_to_act="ward 3"))
    for letter, disposition in zip("abc", ("protective_services", "contact_now", "contact_now"), strict=True):
        ask(db, ANN, disposition, letter)
    found = follow_ups.open_ones(db, SENIOR.at(NOW))
    assert [(one.case_id, one.where_to_act, one.external_id, one.who_name) for one in found.shown] == [
        (ids[1], "ward 3", "post-2", "Ann"),
        (ids[2], None, "post-3", "Ann"),
        (ids[0], None, "post-1", "Ann"),
    ]
    for minutes, late in ((59, 0), (60, 2), (1440, 3)):
        for who, others in ((BO, (3, late)), (SENIOR, (0, 0))):
            told = follow_ups.open_ones(db, who.at(later(minutes)), limit=1)
            assert [one.case_id for one in told.shown] == ([ids[1]] if who is SENIOR else [])
            assert (told.count, told.overdue) == (3, late) and (told.others, told.others_overdue) == others
    follow_ups.close(db, SENIOR.at(NOW), found.shown[0].id, How.DONE, "a senior may")
    assert follow_ups.open_ones(db, BO.at(later(60))).others_overdue == 1
    with db.write() as conn:
        follow_ups.open_follow_up(conn, BO.at(NOW), ids[1], Disposition.CARE_TEAM)
    assert [one.who_name for one in follow_ups.open_ones(db, BO.at(NOW)).shown] == ["bo"], "who has no account"


@pytest.mark.parametrize("closer", [ANN, SENIOR])
def test_how_one_ended_is_told_to_a_later_reviewer_only_once_the_case_is_closed(db: Database, closer: Actor) -> None:
    """But to whoever closed it, also of a case that they may yet read."""
    one = urgent(db, ANN, BO, SENIOR)

    def told() -> list[int]:
        return [len(follow_ups.closed_ones(db, who, one.case_id)) for who in (ANN, BO, SENIOR)]

    assert told() == [0, 0, 0]
    follow_ups.close(db, closer.at(NOW), one.id, How.DONE, "rang the family")
    assert told() == [1, 0, closer is SENIOR]
    ask(db, BO, "monitor", "b")
    assert told() == [1, 0, 1]
    with pytest.raises(Forbidden):
        follow_ups.closed_ones(db, RESEARCHER, one.case_id)


def test_a_shift_is_counted_by_priority_with_waits_and_shares(db: Database) -> None:
    register(db, ANN, SENIOR)
    entered = [later(-minutes) for minutes in (40, 8, 3, 2, 2)]
    first, second, third, *_ = fill(db, [*[Priority.P0] * 4, Priority.P2], entered_at=entered)
    ask(db, ANN, "contact_now")  # 40 minutes after it came: too late
    revise(db, ANN.at(NOW), first, form("insufficient_information"), "read again", "2" * 32)  # no other review
    for who, case_id, token in ((ANN, second, take(db, ANN).token), (SENIOR, third, "")):  # 8 minutes; 3: in time
        reveal_text(db, who.at(NOW), case_id, token or claims.claim(db, who.at(NOW), case_id).token)
    found = shift(db, ADMIN, later(-60), later(1))
    p0 = found.priorities[Priority.P0]
    assert (p0.arrived, p0.looked_at, p0.overdue, p0.read) == (4, 3, 2, 1)
    assert (p0.median, p0.p90) == (8 * MINUTE, 40 * MINUTE)
    assert p0.within_target == Proportion(1, 3), "the fourth may still be in time"
    assert (found.priorities[Priority.P2].arrived, found.priorities[Priority.P2].median) == (1, None)
    end = shift(db, ADMIN, later(-60), later(10)).priorities[Priority.P0]
    assert (end.overdue, end.within_target) == (3, Proportion(1, 4)), "its target has passed now"
    assert (found.follow_ups_opened, found.follow_ups_closed, found.follow_ups_overdue) == (1, 0, 0)
    put(db, first, closed_at=later(5))
    assert [shift(db, ADMIN, later(-60), end).left[Priority.P0] for end in (later(1), later(10))] == [(4, 1), (3, 3)]
    with pytest.raises(ValueError, match="before it begins"):
        shift(db, ADMIN, NOW, later(-1))
