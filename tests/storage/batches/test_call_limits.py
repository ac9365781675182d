"""The books of a limit: how many calls pass at once, when the next one may, and who has how many places."""

import time
from typing import Any

import pytest
from sqlalchemy import select, update

from storage.batches.pending import Pace, _even_share, give_up, hold, take
from storage.database import Database
from storage.schema import call_limits
from tests.databases import write

PACE = Pace(per_second=0.01, burst=3)
"""A call every 100 s: whatever a test takes, no further one falls due meanwhile."""
SECONDS = 20


def _kept(db: Database, name: str) -> Any:
    return db.row(select(call_limits).where(call_limits.c.name == name))


def test_what_was_not_taken_at_once_is_left_and_then_one_comes_a_step(db: Database) -> None:
    before = time.monotonic()
    count, since, wait_s = take(db, "x", PACE, 2)
    assert (count, wait_s) == (2, 0.0) and before <= since <= time.monotonic()
    assert _kept(db, "x").next_at == pytest.approx(time.time() + 200, abs=SECONDS)
    assert take(db, "x", PACE, 2)[0] == 1, "three at once are two and one"
    assert _kept(db, "x").next_at == pytest.approx(time.time() + 300, abs=SECONDS)
    before = time.monotonic()
    count, since, wait_s = take(db, "x", PACE, 1)
    assert count == 0 and before <= since <= time.monotonic()
    assert wait_s == pytest.approx(100, abs=SECONDS), "the first of three is used up for a step"
    assert _kept(db, "x").next_at == pytest.approx(time.time() + 300, abs=SECONDS), "asking costs nothing"
    assert take(db, "other", PACE, 9)[0] == 3


def test_a_pause_leaves_no_more_than_a_burst_and_a_clock_set_back_delays_by_a_step(db: Database) -> None:
    take(db, "x", PACE, 1)
    for moment, expected in ((time.time() - 10_000, (3, 0.0)), (time.time() + 10_000, (0, 100.0))):
        write(db, update(call_limits).values(next_at=moment))
        count, _, wait_s = take(db, "x", PACE, 9)
        assert (count, wait_s) == (expected[0], pytest.approx(expected[1]))
    write(db, update(call_limits).values(next_at=time.time() + 150))
    assert take(db, "x", PACE, 9)[0] == 1, "of three steps one and a half are gone"


def test_a_booking_holds_what_is_under_way_for_as_long_as_its_lease(db: Database) -> None:
    assert hold(db, "p", "a", 2, 5, 60.0) == 5
    assert _kept(db, "p").holders == {"a": [5, pytest.approx(time.time() + 60, abs=SECONDS)]}
    assert hold(db, "p", "a", 7, 5, 60.0) == 5
    assert _kept(db, "p").holders["a"][0] == 7, "what is under way beside the answer"
    assert hold(db, "p", "b", 0, 5, 60.0) == 0, "less than nothing is free"
    assert hold(db, "p", "a", 0, 5, -1.0) == 3
    assert hold(db, "p", "b", 0, 5, 60.0) == 5, "a did not renew"
    assert set(_kept(db, "p").holders) == {"b"}


def test_who_gives_up_leaves_the_others_and_the_other_limits_alone(db: Database) -> None:
    for name in ("p", "q"):
        assert [hold(db, name, "a", 0, 4, 60.0), hold(db, name, "a", 0, 2, 60.0)] == [4, 2]
        assert hold(db, name, "b", 0, 4, 60.0) == 2
    give_up(db, "p", "a")
    assert (set(_kept(db, "p").holders), set(_kept(db, "q").holders)) == ({"b"}, {"a", "b"})


@pytest.mark.parametrize(
    ("holders", "total", "now", "shares"),
    [
        ("bac", 7, 25.0, [3, 2, 2]),  # 7 = 3 + 2 + 2, by name, whatever the moment
        ("bac", 6, 25.0, [2, 2, 2]),
        ("bac", 3, 10.0, [1, 1, 1]),
        ("bac", 2, 9.9, [1, 1, 0]),  # fewer places than holders: every 10 s it is another's turn to have none
        ("bac", 2, 10.0, [1, 0, 1]),
        ("bac", 2, 20.0, [0, 1, 1]),
        ("bac", 2, 30.0, [1, 1, 0]),
        ("a", 4, 10.0, [4]),
    ],
)
def test_a_share_is_even_and_where_there_is_less_than_one_each_they_take_turns(
    holders: str, total: int, now: float, shares: list[int]
) -> None:
    assert [_even_share(list(holders), holder, total, now) for holder in sorted(holders)] == shares
