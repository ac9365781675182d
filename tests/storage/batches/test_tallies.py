"""A batch's running sums: what is added is there, in the row of its own."""

from datetime import timedelta

from sqlalchemy import select

from screening.labels import Outcome
from storage.batches.tallies import SHARDS, UNPRICED_AT_FIRST, Totals, add, one_outcome, totals
from storage.database import Database
from storage.schema import batch_tallies
from tests.storage.batch_of import LATER, NOW, batch
from tests.storage.statements import statements

ONE = Totals(
    accepted=20, rejected=2, safe=3, unsafe=4, human_review=5, calls=6, lost_calls=7, unpriced_calls=8, cost_usd=0.5
)


def test_sums_add_up_name_by_name_and_keep_the_moment_of_the_later_one() -> None:
    more = Totals(safe=1, cost_usd=0.25, last_completed_at=LATER)
    found = ONE + more
    assert (found.accepted, found.rejected, found.safe, found.unsafe, found.human_review) == (20, 2, 4, 4, 5)
    assert (found.calls, found.lost_calls, found.unpriced_calls, found.cost_usd) == (6, 7, 8, 0.75)
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
