"""A batch's running sums: what is added is there, in the row of its own, and readers know no more than they may."""

from datetime import timedelta

from sqlalchemy import select

from screening.labels import Outcome
from screening.review.actors import LOCAL_USER, SYSTEM
from storage.batches.batches import pause
from storage.batches.tallies import SHARDS, UNPRICED_AT_FIRST, Totals, add, one_outcome, sums_for, totals
from storage.database import Database
from storage.schema import batch_tallies
from tests.storage.batch_of import LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import RESEARCHER, SENIOR
from tests.storage.statements import statements

ONE = Totals(
    accepted=20, rejected=2, safe=3, unsafe=4, human_review=5, calls=6, lost_calls=7, unpriced_calls=8, cost_usd=0.5
)


def test_sums_add_up_name_by_name_and_keep_the_moment_of_the_later_one() -> None:
    more = Totals(safe=1, cost_usd=0.25, left_out=2, last_completed_at=LATER)
    found = ONE + more
    assert (found.accepted, found.rejected, found.safe, found.unsafe, found.human_review) == (20, 2, 4, 4, 5)
    assert (found.calls, found.lost_calls, found.unpriced_calls, found.cost_usd, found.left_out) == (6, 7, 8, 0.75, 2)
    assert (found.last_completed_at, (more + ONE).last_completed_at) == (LATER, LATER)
    assert found.pending == 20 - 4 - 4 - 5


def test_a_cost_is_known_while_every_call_has_a_price() -> None:
    assert [one.known_cost_usd for one in (ONE, Totals(calls=2, cost_usd=0.5), Totals(unpriced_calls=1))] == [
        None, 0.5, None,
    ]  # fmt: skip
    assert ONE.cost_for_cap_usd is None
    lost = Totals(lost_calls=UNPRICED_AT_FIRST + 1, calls=1, cost_usd=0.5)
    assert lost.cost_for_cap_usd == 0.5 + 1001 * 0.5, "one call with a price tells that of the others"


def test_one_outcome_counts_itself_and_its_moment() -> None:
    assert [one_outcome(each, NOW) for each in Outcome] == [
        Totals(**{each.value: 1}, last_completed_at=NOW) for each in Outcome
    ]


def _of(db: Database, *batch_ids: str) -> dict[str, Totals]:
    with db.read() as conn:
        return totals(conn, batch_ids)


def test_what_is_added_is_in_the_sums_of_its_batch_whatever_the_row(db: Database) -> None:
    one, other = batch(db), batch(db)
    assert _of(db, one) == {one: Totals()} and _of(db, "none") == {}
    with db.write() as conn:
        for row in (1, 1 + SHARDS, 2):
            add(conn, one, row, ONE)
        with statements() as sent:
            add(conn, one, 3, Totals())
    assert sent == [], "nothing to add is nothing to do"
    thrice = ONE + ONE + ONE
    assert _of(db, one) == {one: thrice} and _of(db, one, other, "none") == {one: thrice, other: Totals()}
    shards = select(batch_tallies.c.shard, batch_tallies.c.safe).where(batch_tallies.c.batch_id == one)
    assert sorted(map(tuple, db.rows(shards))) == [(0, 0), (1, 6), (2, 3), *((n, 0) for n in range(3, SHARDS))]


def test_the_latest_moment_stays_whatever_is_added_after_it(db: Database) -> None:
    batch_id = batch(db)
    moments = [(1, NOW), (1, LATER), (1, NOW), (1, None), (2, NOW), (2 + SHARDS, None)]
    for row, moment in moments:
        with db.write() as conn:
            add(conn, batch_id, row, Totals(safe=1, last_completed_at=moment))
    assert _of(db, batch_id)[batch_id] == Totals(safe=6, last_completed_at=LATER)
    with db.write() as conn:
        add(conn, batch_id, 2, Totals(safe=1, last_completed_at=LATER + timedelta(seconds=1)))
    assert _of(db, batch_id)[batch_id].last_completed_at == LATER + timedelta(seconds=1)


def test_who_reads_is_told_of_nothing_that_would_give_an_outcome_away(db: Database) -> None:
    audited = batch(db, ["one", "two", "three", "four"], audit_rate=1.0)
    for case_id, outcome, price in zip(waiting(db), Outcome, (None, 0.5, 0.25), strict=False):
        decide(db, case_id, outcome, price)
    pause(db, LOCAL_USER.at(NOW), audited)
    plain = batch(db, ["five", "six"])
    for case_id, outcome, price in zip(waiting(db), (Outcome.SAFE, Outcome.HUMAN_REVIEW), (0.5, 0.25), strict=True):
        decide(db, case_id, outcome, price)
    whole = _of(db, audited, plain)
    with db.read() as conn:
        told = sums_for(conn, SENIOR, whole)
        assert [sums_for(conn, who, whole) for who in (RESEARCHER, SYSTEM)] == [whole, whole]
        assert sums_for(conn, LOCAL_USER, {plain: whole[plain]}) == {plain: told[plain]}
    ended = {"last_completed_at": LATER}
    assert whole[audited] == Totals(
        accepted=4, safe=1, unsafe=1, human_review=1, calls=18, unpriced_calls=6, cost_usd=0.75, **ended
    )
    assert told[audited] == Totals(accepted=4, human_review=3, left_out=3, **ended)
    assert told[plain] == Totals(accepted=2, safe=1, human_review=1, calls=6, cost_usd=0.5, left_out=1, **ended)
