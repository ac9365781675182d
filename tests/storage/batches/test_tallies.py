"""A batch's running sums; that they follow the facts is a promise of `test_batch_machine`."""

from screening.labels import Outcome
from storage.batches.counts import UNPRICED_AT_FIRST, Totals, one_outcome
from tests.storage.batch_of import LATER, NOW

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
