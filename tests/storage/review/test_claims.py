"""Who may take which case, by the next one or by name, and what a claim says and ends."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from screening.review.policy import Forbidden
from screening.review.triage import TARGETS, Tier
from storage.database import Database
from storage.review import claims, inbox
from storage.review.claims import LEASE, LeaseLost, NotAvailable
from storage.review.queue import State, queue
from storage.review.ratings import submit_rating
from storage.schema import audit_events, inbox_entries
from tests.databases import write
from tests.storage.inbox_cases import ANN, BO, CY, MINUTE, NOW, RESEARCHER, SENIOR, fill, form, person, read, register

HELEN = person("helen", *SENIOR.roles)


def put(db: Database, case_id: str, **values: object) -> None:
    """Change the case's entry directly."""
    write(db, update(inbox_entries).where(inbox_entries.c.case_id == case_id).values(**values))


def entry(db: Database, case_id: str) -> Any:
    """The case's entry."""
    return db.row(select(inbox_entries).where(inbox_entries.c.case_id == case_id))


def test_a_claim_says_what_the_entry_says_and_ends_what_it_was_kept_for(db: Database) -> None:
    (case_id,) = fill(db, [Tier.P1])
    put(db, case_id, why="unscreened", cause="server_error", assigned_by="bo", assignee="ann")
    put(db, case_id, assigned_until=NOW + MINUTE)
    found = claims.claim_next(db, ANN.at(NOW), lease=5 * MINUTE, token=lambda: "t" * 64)
    assert found is not None
    assert (found.case_id, found.token, found.expires_at) == (case_id, "t" * 64, NOW + 5 * MINUTE)
    assert (found.tier, found.why) == (Tier.P1, "unscreened:server_error")
    assert (found.entered_at, found.due_at) == (NOW, NOW + TARGETS[Tier.P1])
    now = entry(db, case_id)
    assert (now.assignee, now.lease_token, now.assigned_until) == ("ann", "t" * 64, NOW + 5 * MINUTE)
    assert now.assigned_by == "ann"


def test_without_another_wish_a_claim_lasts_a_quarter_of_an_hour_and_has_a_token_of_its_own(db: Database) -> None:
    fill(db, [Tier.P2, Tier.P2])
    one, two = claims.claim_next(db, ANN.at(NOW)), claims.claim_next(db, ANN.at(NOW))
    assert one is not None and two is not None
    assert one.expires_at == two.expires_at == NOW + LEASE == NOW + timedelta(minutes=15)
    assert one.token != two.token and len(one.token) == 64
    assert claims.renew(db, ANN.at(NOW + MINUTE), one.case_id, one.token).expires_at == NOW + 16 * MINUTE


def test_of_several_tiers_the_case_due_first_is_given_and_p0_before_all(db: Database) -> None:
    ids = fill(db, [Tier.P3, Tier.P2, Tier.P0, Tier.P1], entered_at=[NOW - timedelta(days=30), NOW, NOW, NOW])
    assert claims.claim_next(db, ANN.at(NOW), tiers=[]) is None
    for tiers, expected in (
        ([Tier.P1, Tier.P2, Tier.P1], ids[3]),
        ([Tier.P2, Tier.P3], ids[0]),
        ([Tier.P2, Tier.P0], ids[2]),
        ([Tier.P0, Tier.P2], ids[1]),
    ):
        found = claims.claim_next(db, ANN.at(NOW), tiers=tiers)
        assert found is not None and found.case_id == expected


def test_nobody_is_given_what_they_have_read_by_the_next_one_or_by_name(db: Database) -> None:
    register(db, ANN, BO, SENIOR, HELEN)
    (case_id,) = fill(db)
    read(db, SENIOR, form("unsafe", 2), "a", ask=True)
    assert claims.claim_next(db, SENIOR.at(NOW)) is None
    with pytest.raises(NotAvailable, match="not yours"):
        claims.claim(db, SENIOR.at(NOW), case_id)
    assert claims.claim(db, HELEN.at(NOW), case_id).case_id == case_id


def test_what_two_readers_disagree_on_is_for_a_senior_however_it_came(db: Database) -> None:
    register(db, ANN, BO, CY, SENIOR)
    (case_id,) = fill(db)
    read(db, ANN, form("unsafe", 4), "a", ask=True)
    read(db, BO, form("safe", 4), "b")
    assert claims.claim_next(db, CY.at(NOW)) is None
    put(db, case_id, assignee="cy", assigned_by="sue", assigned_until=NOW + MINUTE)
    assert claims.claim_next(db, CY.at(NOW)) is None
    with pytest.raises(NotAvailable, match="a senior decides"):
        claims.claim(db, CY.at(NOW), case_id)
    put(db, case_id, assignee=None, assigned_by=None, assigned_until=None)
    found = claims.claim_next(db, SENIOR.at(NOW))
    assert found is not None and found.case_id == case_id


def test_a_reviewer_names_a_case_only_where_it_was_handed_to_them_or_was_theirs(db: Database) -> None:
    ours, theirs, free = fill(db, [Tier.P2] * 3)
    put(db, ours, assignee="ann", assigned_by="sue", assigned_until=NOW + MINUTE)
    put(db, theirs, assignee="bo", assigned_by="sue", assigned_until=NOW + MINUTE)
    for other in (theirs, free):
        with pytest.raises(Forbidden):
            claims.claim(db, ANN.at(NOW), other)
    assert claims.claim(db, ANN.at(NOW), ours).case_id == ours
    for who in (ANN, RESEARCHER):
        with pytest.raises((Forbidden, NotAvailable)):
            claims.claim(db, who.at(NOW), "no such case")
    for step in (claims.claim_next, claims.my_claims):
        with pytest.raises(Forbidden):
            step(db, RESEARCHER.at(NOW))


def test_who_held_a_case_last_takes_it_up_again_where_it_went_back_from_under_them(db: Database) -> None:
    """As the case of a machine that slept does; unless somebody had it since, or it is kept for them."""
    (case_id,) = fill(db, [Tier.P2])
    register(db, ANN, BO)
    for _ in range(2):
        claims.claim_next(db, ANN.at(NOW))
        inbox.release_all(db, ANN.at(NOW))
        with pytest.raises(Forbidden):
            claims.claim(db, BO.at(NOW), case_id)
        held = claims.claim(db, ANN.at(NOW), case_id)
        inbox.hand_over(db, ANN.at(NOW), case_id, held.token, "bo", "yours")
        with pytest.raises(Forbidden):
            claims.claim(db, ANN.at(NOW), case_id)
        assert claims.claim_next(db, BO.at(NOW)) is not None
        inbox.release_all(db, BO.at(NOW))
        with pytest.raises(Forbidden):
            claims.claim(db, ANN.at(NOW), case_id)


def test_by_name_a_senior_takes_a_reserved_case_but_none_that_is_in_hands(db: Database) -> None:
    reserved, held = fill(db, [Tier.P2] * 2)
    put(db, reserved, assignee="bo", assigned_by="ann", assigned_until=NOW + MINUTE)
    put(db, held, assignee="ann", lease_token="t" * 64, assigned_until=NOW + MINUTE)
    assert claims.claim(db, SENIOR.at(NOW), reserved).case_id == reserved
    with pytest.raises(NotAvailable, match="assigned to somebody else"):
        claims.claim(db, SENIOR.at(NOW + MINUTE - timedelta(microseconds=1)), held)
    assert claims.claim(db, SENIOR.at(NOW + MINUTE), held).case_id == held
    mine = claims.claim(db, SENIOR.at(NOW + MINUTE), held)
    assert mine.token != "t" * 64, "one's own case is taken up again under a new token"


def test_a_reservation_ends_at_its_moment_and_keeps_its_reader_away_too(db: Database) -> None:
    (case_id,) = fill(db)
    put(db, case_id, assigned_by="ann", assignee="ann", assigned_until=NOW + MINUTE)
    assert [claims.claim_next(db, who.at(NOW)) for who in (ANN, BO)] == [None, None]
    put(db, case_id, assigned_by="sue", assignee="bo")
    assert claims.claim_next(db, ANN.at(NOW + MINUTE - timedelta(microseconds=1))) is None
    found = claims.claim_next(db, ANN.at(NOW + MINUTE))
    assert found is not None and found.case_id == case_id


def test_a_lease_is_over_once_its_case_is_closed(db: Database) -> None:
    (case_id,) = fill(db)
    found = claims.claim_next(db, ANN.at(NOW))
    assert found is not None
    put(db, case_id, closed_at=NOW)
    assert claims.my_claims(db, ANN.at(NOW)) == ()
    with pytest.raises(LeaseLost):
        claims.renew(db, ANN.at(NOW), case_id, found.token)
    with pytest.raises(LeaseLost):
        submit_rating(db, ANN.at(NOW), case_id, found.token, form(), "a" * 32)


def test_a_case_is_ones_own_in_a_list_only_while_the_lease_lasts(db: Database) -> None:
    (case_id,) = fill(db)
    claims.claim(db, SENIOR.at(NOW), case_id)
    moments = (NOW + LEASE - timedelta(microseconds=1), NOW + LEASE)
    assert [row.state for at in moments for row in queue(db, SENIOR.at(at))] == [State.MINE, State.FREE]
    assert [row.state for row in queue(db, HELEN.at(NOW))] == [State.HELD]


def test_a_filter_of_several_tiers_has_all_of_them_and_none_has_none(db: Database) -> None:
    tiers = [Tier.P3, Tier.P1, Tier.P0]
    ids = dict(zip(tiers, fill(db, tiers), strict=True))
    for chosen in ([], [Tier.P1], [Tier.P0, Tier.P3], None):
        found = db.values(select(inbox_entries.c.case_id).where(claims.in_tiers(chosen)))
        assert set(found) == {ids[tier] for tier in (tiers if chosen is None else chosen)}


def test_the_audit_log_tells_how_a_case_was_taken(db: Database) -> None:
    first, second = fill(db, [Tier.P2] * 2)
    assert claims.claim(db, SENIOR.at(NOW), second).case_id == second
    assert claims.claim_next(db, ANN.at(NOW)) is not None
    logged = db.rows(select(audit_events).order_by(audit_events.c.seq))
    told = [(row.action, row.actor, row.subject, row.details) for row in logged]
    assert told == [
        ("claimed", "sue", second, '{"named":true,"tier":2}'),
        ("claimed", "ann", first, '{"tier":2}'),
    ]
