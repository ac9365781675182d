"""The next text in the browser before it is asked for: a minute, P2 and P3 only, and never in the way of anything."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from screening.review.policy import Forbidden
from screening.review.triage import Tier
from storage.database import Database
from storage.identifiers import new_id
from storage.review import claims, inbox
from storage.review.adjudication import adjudicate
from storage.review.ahead import AHEAD, discard_ahead, send_ahead
from storage.review.claims import NotAvailable
from storage.review.queue import State, counts
from storage.review.ratings import submit_rating
from storage.schema import audit_events, inbox_entries
from tests.storage.inbox_cases import ADMIN, ANN, BO, MINUTE, NOW, SENIOR, fill, form

P2, P3 = Tier.P2, Tier.P3


def logged(db: Database) -> list[tuple[str, str, str]]:
    query = select(audit_events.c.actor, audit_events.c.action, audit_events.c.subject)
    with db.read() as conn:
        rows = conn.execute(query.where(audit_events.c.action.contains("ahead")).order_by(audit_events.c.seq))
        return [(row.actor, row.action, row.subject) for row in rows]


def test_what_was_sent_ahead_is_what_the_next_one_gives(db: Database) -> None:
    first, _second = fill(db, [P2, P2])
    sent = send_ahead(db, ANN.at(NOW))
    assert sent is not None and (sent.text.case_id, sent.text.text, sent.until) == (
        first,
        "canary text number 1",
        NOW + AHEAD,
    )
    claim = claims.claim_next(db, ANN.at(NOW + timedelta(seconds=59)))
    assert claim is not None and claim.case_id == first
    assert logged(db) == [("ann", "sent_ahead", first), ("ann", "ahead_opened", first)]


def test_it_is_kept_from_others_for_a_minute_and_locks_nothing_after(db: Database) -> None:
    (case_id,) = fill(db)
    sent = send_ahead(db, ANN.at(NOW), keep=timedelta(hours=1))  # a minute at most, whatever is asked
    assert sent is not None and sent.until == NOW + timedelta(seconds=60)
    just_before = sent.until - timedelta(microseconds=1)
    assert claims.claim_next(db, BO.at(just_before)) is None
    with pytest.raises(NotAvailable):
        claims.claim(db, SENIOR.at(just_before), case_id)
    assert counts(db, BO.at(just_before)).by_state[State.AHEAD] == 1
    assert counts(db, ANN.at(just_before)).free == counts(db, BO.at(sent.until)).free == 1
    taken = claims.claim_next(db, BO.at(sent.until))
    assert taken is not None and taken.case_id == case_id
    assert logged(db)[1:] == [("system", "ahead_discarded", case_id)]


@pytest.mark.parametrize("tier", [Tier.P0, Tier.P1])
def test_urgent_cases_are_never_sent_ahead(db: Database, tier: Tier) -> None:
    fill(db, [P3, tier])  # the urgent one is due first
    assert send_ahead(db, ANN.at(NOW)) is None
    assert logged(db) == []


def test_it_is_given_up_for_anything_more_urgent(db: Database) -> None:
    (routine,) = fill(db, [P2])
    assert send_ahead(db, ANN.at(NOW)) is not None
    (urgent,) = fill(db, [Tier.P0], entered_at=[NOW + timedelta(seconds=5)])
    claim = claims.claim_next(db, ANN.at(NOW + timedelta(seconds=6)))
    assert claim is not None and claim.case_id == urgent
    other = claims.claim_next(db, BO.at(NOW + timedelta(seconds=6)))
    assert other is not None and other.case_id == routine  # free at once, not only when the minute is over
    assert logged(db)[1:] == [("ann", "ahead_discarded", routine)]


def test_a_second_sending_gives_up_the_first(db: Database) -> None:
    first, second = fill(db, [P2, P2])
    send_ahead(db, ANN.at(NOW))
    again = send_ahead(db, ANN.at(NOW + timedelta(seconds=30)))
    assert again is not None and again.text.case_id == first and again.until == NOW + timedelta(seconds=90)
    assert [action for _, action, _ in logged(db)] == ["sent_ahead"]  # the same text to the same person: once
    claims.claim(db, SENIOR.at(NOW), second)
    (earlier,) = fill(db, [P2], entered_at=[NOW - MINUTE])
    third = send_ahead(db, ANN.at(NOW + timedelta(seconds=40)))
    assert third is not None and third.text.case_id == earlier
    assert logged(db)[1:] == [("ann", "ahead_discarded", first), ("ann", "sent_ahead", earlier)]


def test_a_filter_sends_ahead_of_its_tiers_only(db: Database) -> None:
    _urgent, routine = fill(db, [Tier.P0, P3])
    sent = send_ahead(db, ANN.at(NOW), tiers=[P2, P3])
    assert sent is not None and sent.text.case_id == routine


def test_leaving_gives_it_up_and_so_does_signing_out(db: Database) -> None:
    (case_id,) = fill(db)
    send_ahead(db, ANN.at(NOW))
    assert (discard_ahead(db, ANN.at(NOW)), discard_ahead(db, ANN.at(NOW))) == (1, 0)
    send_ahead(db, ANN.at(NOW))
    inbox.release_all(db, ANN.at(NOW))
    assert [action for _, action, _ in logged(db)] == ["sent_ahead", "ahead_discarded"] * 2
    assert claims.claim(db, SENIOR.at(NOW), case_id).case_id == case_id


def test_a_case_closed_meanwhile_is_nobodys(db: Database) -> None:
    (case_id,) = fill(db)
    held = claims.claim_next(db, BO.at(NOW))
    assert held is not None
    inbox.ask_second_opinion(db, BO.at(NOW), case_id, held.token)
    submit_rating(db, BO.at(NOW), case_id, held.token, form(), submission_id=new_id(NOW))
    assert send_ahead(db, ANN.at(NOW)) is not None
    adjudicate(db, SENIOR.at(NOW), case_id, form().label, "clear")
    row = db.row(select(inbox_entries))
    assert (row.ahead_for, row.ahead_until) == (None, None)
    assert claims.claim_next(db, ANN.at(NOW)) is None


def test_only_readers_are_sent_anything(db: Database) -> None:
    fill(db)
    with pytest.raises(Forbidden):
        send_ahead(db, ADMIN.at(NOW))
