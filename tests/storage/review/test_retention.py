"""Texts go after their time, but never one that somebody still has to read or to see to."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, update

from screening.labels import Outcome
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.review.triage import Placement, Tier, Why
from storage.batches.batches import cancel
from storage.batches.entries import enter
from storage.database import Database
from storage.review import erasure, follow_ups
from storage.review.follow_ups import How
from storage.review.worklist import acknowledge
from storage.schema import cases, inbox_entries
from storage.settings_store import SiteSettings, change
from tests.databases import write
from tests.storage.batch_of import batch, decide, waiting
from tests.storage.inbox_cases import ANN, NOW, fill, form, read, register

DAY = timedelta(days=1)


@pytest.fixture
def kept_for_a_week(db: Database) -> Database:
    """A site that keeps settled texts for seven days."""
    change(db, LOCAL_USER.at(NOW), SiteSettings(keep_texts_days=7), 0)
    return db


def expired(db: Database, now: datetime) -> list[str]:
    """What is erased by then; the dry run says before how many texts go."""
    told = erasure.would_go(db, LOCAL_USER.at(now)).get("texts", 0)
    assert erasure.expire(db, now).get("texts", 0) == told
    return db.values(select(cases.c.id).where(cases.c.erased_at.is_not(None)).order_by(cases.c.id))


def case_ids(db: Database, batch_id: str) -> list[str]:
    return db.values(select(cases.c.id).where(cases.c.batch_id == batch_id).order_by(cases.c.row))


@pytest.mark.parametrize("disposition", ["contact_now", "protective_services"])
def test_a_text_is_kept_until_its_follow_up_was_closed_so_long_ago(kept_for_a_week: Database, disposition: str) -> None:
    db = kept_for_a_week
    register(db, ANN)
    (case_id,) = fill(db)
    read(db, ANN, form("unsafe", disposition=disposition), "a")
    assert expired(db, NOW + 30 * DAY) == []
    (one,) = follow_ups.open_ones(db, ANN.at(NOW)).shown
    follow_ups.close(db, ANN.at(NOW + 30 * DAY), one.id, How.DONE, "called")
    assert expired(db, NOW + 36 * DAY) == []
    assert expired(db, NOW + 38 * DAY) == [case_id]


def test_a_text_of_a_worklist_is_kept_until_it_was_acknowledged_so_long_ago(kept_for_a_week: Database) -> None:
    db = kept_for_a_week
    batch(db, ["one", "two"], reach=Reach.LIST)
    listed, safe = waiting(db)
    decide(db, listed, Outcome.UNSAFE)
    decide(db, safe)
    assert expired(db, NOW + 30 * DAY) == [safe]
    assert acknowledge(db, LOCAL_USER.at(NOW + 30 * DAY), [listed]) == 1
    assert expired(db, NOW + 36 * DAY) == [safe]
    assert expired(db, NOW + 38 * DAY) == sorted([listed, safe])


def test_unsafe_texts_of_a_batch_that_only_counts_them_wait_for_nobody(kept_for_a_week: Database) -> None:
    batch(kept_for_a_week, ["one"], reach=Reach.COUNT)
    (case_id,) = waiting(kept_for_a_week)
    decide(kept_for_a_week, case_id, Outcome.UNSAFE)
    assert expired(kept_for_a_week, NOW + 8 * DAY) == [case_id]


def test_texts_that_nobody_screens_any_more_go_so_long_after_their_batch_was_cancelled(
    kept_for_a_week: Database,
) -> None:
    db = kept_for_a_week
    waits, given_up = batch(db, ["waits"]), batch(db, ["screened", "not screened", "read"])
    (pending,) = case_ids(db, waits)
    screened, left, read_ = case_ids(db, given_up)
    decide(db, screened)
    with db.write() as conn:
        assert enter(conn, read_, Placement(tier=Tier.P1, why=Why.NOT_SCREENED), NOW)
    cancel(db, LOCAL_USER.at(NOW + DAY), given_up)
    assert expired(db, NOW + 8 * DAY - timedelta(seconds=1)) == [screened]
    assert expired(db, NOW + 30 * DAY) == sorted([screened, left]), "the others wait for a worker, and for a reader"
    write(db, update(inbox_entries).where(inbox_entries.c.case_id == read_).values(closed_at=NOW + 30 * DAY))
    assert expired(db, NOW + 38 * DAY) == sorted([screened, left, read_])
    assert pending not in expired(db, NOW + 400 * DAY)
