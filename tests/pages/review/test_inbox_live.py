"""What an open inbox is told: counts, late ones, the list its reader may see, and only to the browser it is in."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import update

from pages.review.inbox_live import Seat, Seats, View, snapshot, view_of
from screening.review.actors import Actor, Role
from screening.review.policy import Forbidden
from screening.review.tiers import TARGETS, Tier
from storage.database import Database
from storage.review import inbox
from storage.review.ahead import send_ahead
from storage.review.search import find
from storage.schema import batches, cases
from tests.storage.inbox_cases import ADMIN, ANN, BO, MINUTE, NOW, RESEARCHER, SENIOR, fill

BOTH = Actor(id="both", name="Both", roles=frozenset({Role.REVIEWER, Role.SENIOR}))


def test_it_counts_what_waits_and_what_is_late_and_names_no_text(db: Database) -> None:
    ids = fill(db, [Tier.P0, Tier.P1, Tier.P3])
    with db.write() as conn:
        conn.execute(update(cases).where(cases.c.id == ids[2]).values(external_id="<b>\u202e[x](http://out.example)"))
    told = snapshot(db, SENIOR, NOW + TARGETS[Tier.P0] + MINUTE, View())
    assert (told["waits"], told["urgent"], told["late"]) == (3, 2, "1 late")
    assert [(pill["open"], pill["late"]) for pill in told["pills"]] == [(1, "1 late"), (1, ""), (0, ""), (1, "")]
    first, _, last = told["rows"]
    assert (first["id"], first["late"], first["left"], first["meaning"]) == (ids[0], True, "1 min over", "at once")
    assert "\u202e" not in last["name"] and "canary" not in json.dumps(told)


def test_what_is_in_other_hands_is_not_urgent_for_me(db: Database) -> None:
    fill(db, [Tier.P0, Tier.P1])
    inbox.claim_next(db, ANN, NOW)
    assert snapshot(db, BO, NOW, View())["urgent"] == snapshot(db, ANN, NOW, View())["urgent"] == 1


def test_a_new_p0_case_moves_the_mark_on_and_nothing_else_does(db: Database) -> None:
    fill(db, [Tier.P1])
    assert snapshot(db, ANN, NOW, View())["newest"] is None
    fill(db, [Tier.P0], entered_at=[NOW])
    first = snapshot(db, ANN, NOW, View())["newest"]
    fill(db, [Tier.P1, Tier.P0], entered_at=[NOW, NOW + MINUTE])
    assert snapshot(db, ANN, NOW, View())["newest"] == first + 60


def test_a_reader_sees_only_what_is_set_aside_for_them_and_a_researcher_no_list(db: Database) -> None:
    _first, second = fill(db, [Tier.P1, Tier.P3])
    claim = inbox.claim(db, SENIOR, second, NOW)
    from_senior = inbox.hold(db, SENIOR, second, claim.token, "later", NOW)
    assert from_senior > NOW
    assert snapshot(db, ANN, NOW, View())["rows"] == []
    assert [row["id"] for row in snapshot(db, SENIOR, NOW, View())["rows"]][-1] == second
    assert snapshot(db, RESEARCHER, NOW, View())["rows"] == []
    assert not any(row["free"] for row in snapshot(db, ADMIN, NOW, View())["rows"])


def test_the_list_says_8_of_12_and_a_filter_narrows_it(db: Database) -> None:
    fill(db, [Tier.P1] * 3 + [Tier.P3] * 9)
    told = snapshot(db, BOTH, NOW, View())
    assert (len(told["rows"]), told["of"]) == (8, 12)
    assert snapshot(db, BOTH, NOW, View(tiers=[Tier.P1]))["of"] == 3
    assert len(snapshot(db, BOTH, NOW, View(rows=40))["rows"]) == 12


def test_what_was_sent_ahead_to_others_is_taken_for_a_minute(db: Database) -> None:
    fill(db)
    send_ahead(db, ANN, NOW)
    assert snapshot(db, BOTH, NOW, View())["rows"][0]["state"] == "taken"
    assert snapshot(db, BOTH, NOW + timedelta(seconds=60), View())["rows"][0]["state"] == ""


def test_cases_are_found_by_id_group_and_batch(db: Database) -> None:
    first, second = fill(db, [Tier.P3, Tier.P1])
    (other,) = fill(db, [Tier.P2])
    with db.write() as conn:
        conn.execute(update(cases).where(cases.c.id == other).values(group_name="forum_7", external_id="100%"))
        batch = cases.c.batch_id
        of_other = conn.execute(cases.select().with_only_columns(batch).where(cases.c.id == other)).scalar_one()
        conn.execute(update(batches).where(batches.c.id == of_other).values(name="Night_shift.csv"))

    def found(words: str) -> list[str]:
        return [each.case_id for each in find(db, BOTH, NOW, words)]

    assert found("post-2") == [second] and found("post-") == [second, first]
    assert found(first) == [first]
    assert (found("forum_"), found("night_SHIFT"), found("100%")) == ([other], [other], [other])
    assert found("forumx") == found("%") == found("Night-shift") == found(" ") == found("canary") == []
    assert [each.case_id for each in find(db, BOTH, NOW, "post", [Tier.P1])] == [second]
    with pytest.raises(Forbidden):
        find(db, ANN, NOW, "post-2")


def test_a_closed_case_is_not_found(db: Database) -> None:
    fill(db, entered=False)
    assert find(db, BOTH, NOW, "post-1") == ()


def test_a_seat_is_good_for_its_browser_and_the_oldest_is_forgotten() -> None:
    seats = Seats(most=2)
    addresses = [seats.take(Seat(browser="one", who=lambda: ANN)) for _ in range(3)]
    tokens = [address.rpartition("/")[2] for address in addresses]
    assert seats.find(tokens[0], "one") is None
    assert seats.find(tokens[2], "another") is None
    assert seats.find(tokens[2], "one") is not None


@pytest.mark.parametrize("rows", ["", "-1", "٣", "99999", "1e9", "0"])
def test_an_address_that_asks_for_nonsense_gets_an_ordinary_view(rows: str) -> None:
    assert 1 <= view_of({"rows": rows, "tiers": ",;P7"}).rows <= 8
    assert view_of({"rows": rows, "tiers": ",;P7"}).tiers is None
