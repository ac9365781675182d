"""Exposure is counted from what was opened; a break starts the count again and loses nothing."""

from datetime import timedelta

import pytest

from screening.review.triage import Priority
from storage.database import Database
from storage.review import claims
from storage.review.evidence import reveal_text
from storage.review.reports import exposure, take_break
from storage.settings_store import SiteSettings, change
from tests.storage.inbox_cases import ADMIN, ANN, BO, MINUTE, NOW, fill, take


def opened(db: Database, number: int, now=NOW) -> None:  # type: ignore[no-untyped-def]
    for _ in range(number):
        claim = take(db, ANN, now, lease=timedelta(days=2))
        reveal_text(db, ANN.at(now), claim.case_id, claim.token)
        reveal_text(db, ANN.at(now), claim.case_id, claim.token)  # looking twice at one text is one text


def test_texts_are_counted_once_per_day_and_a_break_is_due_at_the_sites_number(db: Database) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(break_after_texts=3), 0)
    fill(db, [Priority.P2] * 6)
    opened(db, 2, NOW - timedelta(days=1))
    opened(db, 2)
    assert (exposure(db, ANN.at(NOW), NOW).texts, exposure(db, ANN.at(NOW), NOW).break_due) == (2, False)
    opened(db, 1)
    due = exposure(db, ANN.at(NOW), NOW)
    assert (due.texts, due.since_break, due.break_due) == (3, 3, True)
    take_break(db, ANN.at(NOW + MINUTE))
    after = exposure(db, ANN.at(NOW), NOW)
    assert (after.texts, after.since_break, after.break_due) == (3, 0, False)
    opened(db, 1, NOW + 2 * MINUTE)
    assert exposure(db, ANN.at(NOW), NOW).since_break == 1
    assert len(claims.my_claims(db, ANN.at(NOW + 2 * MINUTE))) == 6, "a break gives no case away"


def test_midnight_is_no_break(db: Database) -> None:
    """A shift goes over it, and midnight UTC is an afternoon somewhere: a break that is due stays due."""
    change(db, ADMIN.at(NOW), SiteSettings(break_after_texts=3), 0)
    fill(db, [Priority.P2] * 4)
    midnight = NOW.replace(hour=0) + timedelta(days=1)
    opened(db, 3, midnight - MINUTE)
    after = exposure(db, ANN.at(midnight + MINUTE), midnight)
    assert (after.texts, after.since_break, after.break_due) == (0, 3, True)
    take_break(db, ANN.at(midnight + MINUTE))
    opened(db, 1, midnight + 2 * MINUTE)
    assert exposure(db, ANN.at(midnight + 3 * MINUTE), midnight).since_break == 1
    rested = exposure(db, ANN.at(midnight + timedelta(hours=9)), midnight)
    assert (rested.texts, rested.since_break) == (1, 0), "a night's rest is one"


def test_everybody_sees_only_their_own(db: Database) -> None:
    fill(db, [Priority.P2])
    opened(db, 1)
    assert exposure(db, BO.at(NOW), NOW).texts == 0
    with pytest.raises(TypeError):
        exposure(db, BO.at(NOW), NOW, "ann")  # type: ignore[call-arg]
