"""Claims, leases, leaving a case, and honest counts."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, select, update

from screening.review.actors import Role
from screening.review.policy import Forbidden
from screening.review.rating_form import RatingLabel
from screening.review.triage import Tier
from storage.database import Database
from storage.review import claims, inbox
from storage.review.adjudication import adjudicate
from storage.review.claims import LEASE, SNOOZE, LeaseLost, NotAvailable
from storage.review.drafts import notes
from storage.review.inbox import NoteNeeded
from storage.review.queue import State, counts, queue, reserved_cases
from storage.review.ratings import submit_rating
from storage.schema import case_notes, inbox_entries, second_reading_requests
from tests.databases import write
from tests.storage.inbox_cases import (
    ADMIN,
    ANN,
    BO,
    CY,
    MINUTE,
    NOW,
    RESEARCHER,
    SENIOR,
    fill,
    form,
    person,
    read,
    register,
)

LATER = NOW + MINUTE


def claimed(db: Database, who=ANN, now=NOW, **options):  # type: ignore[no-untyped-def]
    claim = claims.claim_next(db, who.at(now), **options)
    assert claim is not None
    return claim


def test_p0_comes_first_then_the_earliest_deadline(db: Database) -> None:
    tiers = [Tier.P3, Tier.P1, Tier.P0, Tier.P2, Tier.P0]
    two_days = timedelta(days=2)
    entered = [NOW - two_days, NOW, NOW + MINUTE, NOW, NOW]  # the P3 case is overdue since yesterday
    ids = fill(db, tiers, entered_at=entered)
    due = [claimed(db).case_id for _ in ids]
    assert due == [ids[4], ids[2], ids[0], ids[1], ids[3]]
    assert claims.claim_next(db, ANN.at(NOW)) is None


def test_a_filter_gives_only_its_tiers(db: Database) -> None:
    ids = fill(db, [Tier.P0, Tier.P3])
    assert claimed(db, tiers=[Tier.P3]).case_id == ids[1]
    assert claims.claim_next(db, BO.at(NOW), tiers=[Tier.P3, Tier.P2]) is None


def test_two_people_never_hold_one_case_and_an_expired_lease_is_free_again(db: Database) -> None:
    (case_id,) = fill(db)
    first = claimed(db, ANN)
    assert claims.claim_next(db, BO.at(first.expires_at - timedelta(microseconds=1))) is None
    second = claimed(db, BO, first.expires_at)
    assert (second.case_id, second.token != first.token) == (case_id, True)
    with pytest.raises(LeaseLost):
        claims.renew(db, ANN.at(first.expires_at), case_id, first.token)
    with pytest.raises(LeaseLost):
        inbox.release(db, ANN.at(first.expires_at), case_id, first.token)
    assert claims.renew(db, BO.at(first.expires_at + MINUTE), case_id, second.token).expires_at == (
        first.expires_at + MINUTE + LEASE
    )


def test_a_token_is_worth_nothing_in_other_hands_or_on_another_case(db: Database) -> None:
    fill(db, [Tier.P2, Tier.P2])
    one, two = claimed(db), claimed(db)
    for who, case_id, token in ((BO, one.case_id, one.token), (ANN, one.case_id, two.token), (ANN, one.case_id, "")):
        with pytest.raises(LeaseLost):
            claims.renew(db, who.at(NOW), case_id, token)


def test_an_expired_lease_cannot_be_renewed_but_the_case_taken_up_again(db: Database) -> None:
    (case_id,) = fill(db)
    old = claimed(db)
    with pytest.raises(LeaseLost):
        claims.renew(db, ANN.at(old.expires_at), case_id, old.token)
    again = claims.claim(db, ANN.at(old.expires_at), case_id)
    assert again.token != old.token
    assert claims.my_claims(db, ANN.at(old.expires_at)) == (again,)


def test_what_i_hold_is_found_again_after_a_reload(db: Database) -> None:
    fill(db, [Tier.P3, Tier.P1])
    held = [claimed(db), claimed(db)]
    assert list(claims.my_claims(db, ANN.at(NOW))) == held
    assert claims.my_claims(db, BO.at(NOW)) == ()
    assert claims.my_claims(db, ANN.at(NOW + LEASE)) == ()


def test_a_skipped_case_is_for_others_and_comes_back_after_a_while(db: Database) -> None:
    (case_id,) = fill(db)
    inbox.skip(db, ANN.at(NOW), case_id, claimed(db).token)
    assert claims.claim_next(db, ANN.at(NOW + SNOOZE - MINUTE)) is None
    assert counts(db, ANN.at(NOW)).by_state[State.SKIPPED] == 1
    other = claimed(db, BO)
    inbox.release(db, BO.at(NOW), case_id, other.token)
    assert claimed(db, ANN, NOW + SNOOZE).case_id == case_id


def test_not_me_needs_no_reason_even_at_p0_and_the_case_never_comes_back(db: Database) -> None:
    (case_id,) = fill(db, [Tier.P0])
    inbox.decline(db, ANN.at(NOW), case_id, claimed(db).token)
    assert claims.claim_next(db, ANN.at(NOW + timedelta(days=30))) is None
    assert claimed(db, BO).case_id == case_id


@pytest.mark.parametrize("tier", [Tier.P0, Tier.P1])
def test_an_urgent_case_left_open_needs_a_note(db: Database, tier: Tier) -> None:
    (case_id,) = fill(db, [tier])
    token = claimed(db).token
    for leave in (inbox.release, inbox.skip):
        with pytest.raises(NoteNeeded):
            leave(db, ANN.at(NOW), case_id, token, "  ")
    with pytest.raises(NoteNeeded):
        inbox.hold(db, ANN.at(NOW), case_id, token, "")
    assert len(claims.my_claims(db, ANN.at(NOW))) == 1, "a refused step changes nothing"
    inbox.release(db, ANN.at(NOW), case_id, token, "reply is in a language I do not read")
    assert db.value(select(case_notes.c.note)).startswith("reply is")


def test_a_held_case_stays_away_from_everybody_then_is_free(db: Database) -> None:
    (case_id,) = fill(db)
    until = inbox.hold(db, ANN.at(NOW), case_id, claimed(db).token, "asking for the thread")
    assert claims.claim_next(db, ANN.at(LATER)) is None
    assert claims.claim_next(db, BO.at(LATER)) is None
    assert counts(db, BO.at(LATER)).reserved_until == until
    assert [each.case_id for each in reserved_cases(db, ANN.at(LATER))] == [case_id]
    assert claimed(db, BO, until).case_id == case_id


def test_its_reader_takes_a_held_case_up_again_at_any_time(db: Database) -> None:
    (case_id,) = fill(db)
    inbox.hold(db, ANN.at(NOW), case_id, claimed(db).token, "asking")
    with pytest.raises(Forbidden):
        claims.claim(db, BO.at(LATER), case_id)
    assert claims.claim(db, ANN.at(LATER), case_id).case_id == case_id


def test_a_handed_over_case_goes_to_the_named_person(db: Database) -> None:
    register(db, ANN, BO, CY, ADMIN)
    (case_id,) = fill(db, [Tier.P0])
    until = inbox.hand_over(db, ANN.at(NOW), case_id, claimed(db).token, BO.id, "you know this forum")
    assert until < NOW + timedelta(hours=1), "an urgent case is not parked for long"
    assert claims.claim_next(db, CY.at(LATER)) is None
    assert claims.claim_next(db, ANN.at(LATER)) is None
    assert [each.case_id for each in reserved_cases(db, BO.at(LATER))] == [case_id]
    assert claimed(db, BO, LATER).case_id == case_id


@pytest.mark.parametrize("to", ["nobody", ADMIN.id, ANN.id])
def test_a_case_is_handed_only_to_somebody_else_who_reads(db: Database, to: str) -> None:
    register(db, ANN, ADMIN)
    (case_id,) = fill(db)
    with pytest.raises(NotAvailable):
        inbox.hand_over(db, ANN.at(NOW), case_id, claimed(db).token, to, "note")


def refuses(db: Database, by, claim, to) -> None:  # type: ignore[no-untyped-def]
    """The case stays in these hands, with nothing said that tells who read it."""
    with pytest.raises(NotAvailable, match=r"^that person cannot take this case$"):
        inbox.hand_over(db, by.at(LATER), claim.case_id, claim.token, to.id, "the end of my shift")
    assert claims.renew(db, by.at(LATER), claim.case_id, claim.token).case_id == claim.case_id
    assert db.rows(select(case_notes.c.id).where(case_notes.c.kind == "hand_over")) == []


def test_a_case_is_not_handed_to_whoever_read_it_or_gave_it_back_for_good(db: Database) -> None:
    register(db, ANN, BO, CY)
    (case_id,) = fill(db, [Tier.P0])
    inbox.decline(db, CY.at(NOW), case_id, claimed(db, CY).token)
    read(db, ANN, form(), "1", ask=True)
    second = claimed(db, BO)
    for to in (ANN, CY):
        refuses(db, BO, second, to)


def test_a_case_on_which_readers_disagree_is_handed_to_a_senior_alone(db: Database) -> None:
    helen = person("helen", Role.SENIOR)
    register(db, ANN, BO, CY, SENIOR, helen)
    (case_id,) = fill(db, [Tier.P0])
    read(db, ANN, form("unsafe"), "1", ask=True)
    read(db, BO, form("safe", 5), "2")
    third = claimed(db, SENIOR)
    refuses(db, SENIOR, third, CY)
    inbox.hand_over(db, SENIOR.at(LATER), case_id, third.token, helen.id, "the end of my shift")
    assert claimed(db, helen, LATER).case_id == case_id


def test_signing_out_gives_everything_back(db: Database) -> None:
    fill(db, [Tier.P0, Tier.P2, Tier.P2])
    claimed(db), claimed(db)
    assert inbox.release_all(db, ANN.at(NOW)) == 2
    assert counts(db, BO.at(NOW)).free == 3


def test_a_senior_takes_any_free_case_and_nobody_takes_a_held_or_closed_one(db: Database) -> None:
    (case_id,) = fill(db)
    with pytest.raises(Forbidden):
        claims.claim(db, BO.at(NOW), case_id)
    token = claimed(db).token
    with pytest.raises(NotAvailable):
        claims.claim(db, SENIOR.at(NOW), case_id)
    submit_rating(db, ANN.at(NOW), case_id, token, form(), "1" * 32)
    with pytest.raises(NotAvailable, match="is closed"):
        claims.claim(db, SENIOR.at(NOW), case_id)
    with pytest.raises(NotAvailable):
        claims.claim(db, SENIOR.at(NOW), "no such case")


def test_a_second_opinion_that_is_asked_for_twice_is_asked_for_once(db: Database) -> None:
    (case_id,) = fill(db)
    token = claimed(db).token
    for note in ("", "the slang", " the slang", "the slang", "and the reply"):
        inbox.ask_second_opinion(db, ANN.at(NOW), case_id, token, note)
    assert db.values(select(second_reading_requests.c.asked_by)) == ["ann"]
    noted = db.values(select(case_notes.c.note).order_by(case_notes.c.id))
    assert noted == ["the slang", "and the reply"]


def test_an_empty_inbox_says_why(db: Database) -> None:
    fill(db, [Tier.P0, Tier.P0, Tier.P1, *[Tier.P3] * 12])
    leases = [claimed(db, who, NOW + MINUTE * index, lease=LEASE) for index, who in enumerate((BO, CY, BO))]
    seen = counts(db, ANN.at(NOW + 3 * MINUTE), tiers=[Tier.P0, Tier.P1])
    assert (seen.free, seen.held, seen.outside_filter) == (0, 3, 12)
    assert seen.held_until == leases[0].expires_at
    assert seen.open == 15
    assert counts(db, ANN.at(NOW)).free_by_tier == {Tier.P0: 0, Tier.P1: 0, Tier.P2: 0, Tier.P3: 12}


def test_the_states_of_a_list_are_those_of_the_counts(db: Database) -> None:
    register(db, ANN, BO)
    ids = fill(db, [Tier.P2] * 5)
    inbox.skip(db, SENIOR.at(NOW), claimed(db, SENIOR).case_id, claims.my_claims(db, SENIOR.at(NOW))[0].token)
    mine, other = claimed(db, SENIOR), claimed(db, BO)
    inbox.hold(db, BO.at(NOW), other.case_id, other.token, "later")
    assert other.case_id == ids[0]
    held = claimed(db, BO)
    listed = queue(db, SENIOR.at(NOW))
    assert {row.case_id: row.state for row in listed} == {
        ids[0]: State.RESERVED,
        mine.case_id: State.MINE,
        held.case_id: State.HELD,
        ids[3]: State.FREE,
        ids[4]: State.FREE,
    }
    seen = counts(db, SENIOR.at(NOW))
    assert {state: sum(row.state is state for row in listed) for state in State} == dict(seen.by_state)
    assert [row.case_id for row in queue(db, SENIOR.at(NOW), limit=2, offset=1)] == [row.case_id for row in listed[1:3]]


@pytest.mark.parametrize("who", [ANN, RESEARCHER])
def test_browsing_is_for_supervisors(db: Database, who) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Forbidden):
        queue(db, who.at(NOW))


def test_lists_and_counts_never_touch_the_text(db: Database) -> None:
    fill(db, [Tier.P2] * 3)
    statements: list[str] = []
    event.listen(db._engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    queue(db, SENIOR.at(NOW)), counts(db, ANN.at(NOW)), claimed(db)
    assert statements
    assert not [line for line in statements if "cases.text" in line or ".reply" in line or "model_text" in line]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "skip", "not_me", "hold", "rate", "release", "wait"]), st.sampled_from([ANN, BO])
    ),
    max_size=25,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_every_open_case_is_counted_once_and_free_means_claimable(sqlite_url: str, steps) -> None:  # type: ignore[no-untyped-def]
    database = Database(sqlite_url)
    write(database, update(inbox_entries).values(closed_at=NOW))
    fill(database, [Tier.P2, Tier.P3, Tier.P0])
    now = NOW
    for number, (step, who) in enumerate(steps):
        now += MINUTE
        held = next(iter(claims.my_claims(database, who.at(now))), None)
        if step == "wait":
            now += 10 * MINUTE
        elif step == "claim":
            free = counts(database, who.at(now)).free
            assert (claims.claim_next(database, who.at(now)) is not None) is (free > 0)
        elif held is None:
            continue
        elif step == "rate":
            submit_rating(
                database, who.at(now), held.case_id, held.token, form(), f"{now.timestamp():.0f}{number:022d}"
            )
        elif step == "hold":
            inbox.hold(database, who.at(now), held.case_id, held.token, "note")
        elif step == "not_me":
            inbox.decline(database, who.at(now), held.case_id, held.token)
        else:
            (inbox.skip if step == "skip" else inbox.release)(database, who.at(now), held.case_id, held.token, "note")
        still_open = len(database.rows(select(inbox_entries.c.case_id).where(inbox_entries.c.closed_at.is_(None))))
        for each in (ANN, BO, SENIOR):
            assert counts(database, each.at(now), tiers=[Tier.P0, Tier.P2]).open == still_open
    with database.write() as conn:
        for table in ("ratings", "adjudications", "skips"):
            conn.exec_driver_sql(f"DELETE FROM {table}")
    database.close()


def test_a_case_that_was_adjudicated_is_in_no_list(db: Database) -> None:
    register(db, ANN, BO)
    (case_id,) = fill(db)
    token = claimed(db).token
    inbox.ask_second_opinion(db, ANN.at(NOW), case_id, token, "unsure of the slang")
    submit_rating(db, ANN.at(NOW), case_id, token, form(), "1" * 32)
    assert counts(db, ANN.at(NOW)).by_state[State.READ] == 1
    adjudicate(db, SENIOR.at(NOW), case_id, RatingLabel.UNSAFE, "clear enough")
    assert counts(db, ANN.at(NOW)).open == 0
    assert queue(db, SENIOR.at(NOW)) == ()


def test_a_note_reaches_the_next_reader_but_never_a_blind_second_one(db: Database) -> None:
    register(db, ANN, BO, CY)
    (case_id,) = fill(db, [Tier.P1])
    inbox.release(db, ANN.at(NOW), case_id, claimed(db).token, "not my language")
    token = claimed(db, BO).token
    assert [(note.author_name, note.kind, note.note) for note in notes(db, BO.at(NOW), case_id, token)] == [
        ("Ann", "release", "not my language")
    ]
    inbox.ask_second_opinion(db, BO.at(NOW), case_id, token, "unsafe, I think")
    submit_rating(db, BO.at(NOW), case_id, token, form(), "1" * 32)
    with pytest.raises(Forbidden):
        notes(db, CY.at(NOW), case_id, token)
    second = claimed(db, CY)
    assert [note.note for note in notes(db, CY.at(NOW), case_id, second.token)] == ["not my language"]
    assert [note.author_name for note in notes(db, BO.at(NOW), case_id)] == ["Ann", "Bo"]
