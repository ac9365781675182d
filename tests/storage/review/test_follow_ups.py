"""A disposition that asks for something stays on the inbox until somebody closes it, without telling a later reader."""

from datetime import timedelta

import pytest
from sqlalchemy import update

from screening.review.actors import Actor
from screening.review.policy import Forbidden
from screening.review.triage import Tier
from storage.database import Database
from storage.review import claims, follow_ups
from storage.review.evidence import reveal_text
from storage.review.follow_ups import How, NoteMissing, NotOpen
from storage.review.ratings import revise, submit_rating
from storage.review.shift import Left, shift
from storage.schema import inbox_entries
from storage.settings_store import SiteSettings, change
from tests.storage.inbox_cases import ADMIN, ANN, BO, CY, MINUTE, NOW, RESEARCHER, SENIOR, fill, form, register


def read(db: Database, who: Actor, case_id: str, disposition: str, rating_id: str = "a" * 32) -> None:
    claim = claims.claim_next(db, who.at(NOW))
    assert claim is not None and claim.case_id == case_id
    reveal_text(db, who.at(NOW), case_id, claim.token)
    submit_rating(db, who.at(NOW), case_id, claim.token, form("unsafe", 5, disposition=disposition), rating_id)


@pytest.mark.parametrize(("disposition", "minutes"), [("urgent", 60), ("safeguarding", 1440)])
def test_it_is_opened_with_its_reader_and_a_time(db: Database, disposition: str, minutes: int) -> None:
    register(db, ANN, SENIOR)
    (case_id,) = fill(db)
    read(db, ANN, case_id, disposition)
    for who in (ANN, SENIOR):
        (one,) = follow_ups.open_ones(db, who.at(NOW)).shown
        assert (one.case_id, one.who, one.who_name, one.due_at) == (case_id, "ann", "Ann", NOW + minutes * MINUTE)


def test_other_dispositions_open_none(db: Database) -> None:
    register(db, ANN)
    (case_id,) = fill(db)
    read(db, ANN, case_id, "follow_up")
    assert follow_ups.open_ones(db, ANN.at(NOW)).shown == ()


def test_while_others_may_still_read_the_case_they_learn_its_number_alone(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    change(db, ADMIN.at(NOW), SiteSettings(second_reading_rate=1.0), 0)
    (case_id,) = fill(db)
    read(db, ANN, case_id, "urgent")
    for who in (BO, SENIOR):
        found = follow_ups.open_ones(db, who.at(NOW + 61 * MINUTE))
        assert (found.shown, found.others, found.others_overdue) == ((), 1, 1)
    assert len(follow_ups.open_ones(db, ANN.at(NOW)).shown) == 1


def test_it_is_handed_to_a_colleague_and_closed_with_a_note(db: Database) -> None:
    register(db, ANN, BO, CY)
    (case_id,) = fill(db)
    read(db, ANN, case_id, "urgent")
    (one,) = follow_ups.open_ones(db, ANN.at(NOW)).shown
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
    assert follow_ups.open_ones(db, BO.at(NOW)).shown == ()
    for who, told in ((ANN, 1), (BO, 1), (CY, 0), (SENIOR, 1)):
        ended = follow_ups.closed_ones(db, who, case_id)
        assert [(one.closed_by, one.how, one.note) for one in ended] == [
            ("bo", How.HANDED_ON, "call back at three\ncrisis team took over")
        ] * told
    with pytest.raises(NotOpen):
        follow_ups.close(db, BO.at(NOW), one.id, How.DONE, "again")


def test_researchers_and_administrators_have_no_part_in_it(db: Database) -> None:
    for who in (RESEARCHER, ADMIN):
        with pytest.raises(Forbidden):
            follow_ups.open_ones(db, who.at(NOW))


def test_a_shift_is_counted_by_tier_with_waits_and_shares(db: Database) -> None:
    register(db, ANN, SENIOR)
    entered = [NOW - 40 * MINUTE, NOW - 8 * MINUTE, NOW - 3 * MINUTE, NOW - 2 * MINUTE, NOW - 2 * MINUTE]
    first, *_rest = fill(db, (Tier.P0, Tier.P0, Tier.P0, Tier.P0, Tier.P2), entered_at=entered)
    read(db, ANN, first, "urgent")  # 40 minutes after it came: too late
    claim = claims.claim_next(db, ANN.at(NOW))
    assert claim is not None
    reveal_text(db, ANN.at(NOW), claim.case_id, claim.token)  # 8 minutes: too late
    claim = claims.claim(db, SENIOR.at(NOW), _rest[1])
    reveal_text(db, SENIOR.at(NOW), _rest[1], claim.token)  # 3 minutes: in time
    found = shift(db, ADMIN, NOW - 60 * MINUTE, NOW + MINUTE)
    p0 = found.tiers[Tier.P0]
    assert (p0.arrived, p0.looked_at, p0.overdue, p0.read) == (4, 3, 2, 1)
    assert (p0.median, p0.p90) == (8 * MINUTE, 40 * MINUTE)
    assert (p0.within_target, p0.told_from) == (pytest.approx(1 / 3), 3), "the fourth may still be in time"
    assert (found.tiers[Tier.P2].arrived, found.tiers[Tier.P2].median) == (1, None)
    later = shift(db, ADMIN, NOW - 60 * MINUTE, NOW + 10 * MINUTE).tiers[Tier.P0]
    assert (later.overdue, later.told_from) == (3, 4), "its target has passed now"
    assert (found.follow_ups_opened, found.follow_ups_closed, found.follow_ups_overdue) == (1, 0, 0)
    with pytest.raises(ValueError, match="before it begins"):
        shift(db, ADMIN, NOW, NOW - timedelta(minutes=1))


def test_what_a_shift_leaves_is_counted_whenever_it_came(db: Database) -> None:
    register(db, ANN)
    entered = [NOW - 600 * MINUTE, NOW - 10 * MINUTE, NOW - MINUTE, NOW + 2 * MINUTE]
    first, *_ = fill(db, (Tier.P2, Tier.P0, Tier.P0, Tier.P0), entered_at=entered)
    with db.write() as conn:
        conn.execute(update(inbox_entries).where(inbox_entries.c.case_id == first).values(closed_at=NOW + MINUTE))
    left = shift(db, ADMIN, NOW - 5 * MINUTE, NOW).left
    assert (left[Tier.P0], left[Tier.P2]) == (Left(open=2, late=1), Left(open=1, late=1))
    assert left[Tier.P1] == Left(open=0, late=0)
    assert shift(db, ADMIN, NOW, NOW + 5 * MINUTE).left[Tier.P2].open == 0, "closed by then"


def test_a_revision_is_no_other_reading_of_the_shift(db: Database) -> None:
    register(db, ANN)
    (case_id,) = fill(db, (Tier.P0,))
    read(db, ANN, case_id, "urgent")
    revise(db, ANN.at(NOW), case_id, form("insufficient_information"), "read again", "2" * 32)
    found = shift(db, ADMIN, NOW - MINUTE, NOW + MINUTE).tiers
    assert [one.read for one in found] == [1, 0, 0, 0]


def test_a_look_in_a_list_is_no_first_look(db: Database) -> None:
    (case_id,) = fill(db, (Tier.P1,))
    reveal_text(db, RESEARCHER.at(NOW), case_id)
    assert shift(db, ADMIN, NOW - MINUTE, NOW + MINUTE).tiers[Tier.P1].looked_at == 0
