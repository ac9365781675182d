"""Who may take which case, by the next one or by name; leases; every way a case changes hands; honest counts."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, select, update

from screening.review.actors import Actor, Role
from screening.review.policy import Forbidden
from screening.review.triage import TARGETS, Priority
from storage.database import Database
from storage.review import claims, inbox
from storage.review.claims import LEASE, SNOOZE, LeaseLost, NotAvailable
from storage.review.evidence import notes
from storage.review.inbox import MOST, RESERVATION, RESERVATIONS, NoteNeeded, Place, Standing, assign, standing
from storage.review.queue import State, counts, queue, reserved_cases
from storage.review.reviews import submit_review
from storage.schema import accounts, audit_events, case_notes, inbox_entries, second_review_requests, skips
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
    take,
)

HELEN = person("helen", Role.SENIOR)
BEFORE = -timedelta(microseconds=1)
ASIDE = {"assignee": "ann", "assigned_by": "ann"}
GIVEN = {"assignee": "bo", "assigned_by": "sue"}
HELD = {"assignee": "ann", "assigned_by": "ann", "lease_token": "t"}


@pytest.fixture(autouse=True)
def people(db: Database) -> None:
    """All of them have accounts."""
    register(db, ANN, BO, CY, SENIOR, HELEN, ADMIN)


def put(db: Database, case_id: str, **values: object) -> None:
    """Change the case's entry directly."""
    write(db, update(inbox_entries).where(inbox_entries.c.case_id == case_id).values(**values))


def entry(db: Database, case_id: str) -> Any:
    return db.row(select(inbox_entries).where(inbox_entries.c.case_id == case_id))


def may_claim(db: Database, who: Actor, case_id: str, now: datetime = NOW) -> bool:
    """Whether they are given a case that they name."""
    try:
        return claims.claim(db, who.at(now), case_id).case_id == case_id
    except (Forbidden, NotAvailable):
        return False


def test_p0_comes_first_then_the_earliest_deadline(db: Database) -> None:
    priorities = [Priority.P3, Priority.P1, Priority.P0, Priority.P2, Priority.P0]
    entered = [NOW - timedelta(days=2), NOW, NOW + MINUTE, NOW, NOW]  # the P3 case is overdue since yesterday
    ids = fill(db, priorities, entered_at=entered)
    assert [take(db, ANN).case_id for _ in ids] == [ids[4], ids[2], ids[0], ids[1], ids[3]]
    assert claims.claim_next(db, ANN.at(NOW)) is None


def test_a_filter_gives_only_its_priorities(db: Database) -> None:
    ids = fill(
        db, [Priority.P3, Priority.P2, Priority.P0, Priority.P1], entered_at=[NOW - timedelta(days=30), NOW, NOW, NOW]
    )
    assert claims.claim_next(db, ANN.at(NOW), priorities=[]) is None
    for chosen in ([], [Priority.P1], [Priority.P0, Priority.P3], None):
        found = db.values(select(inbox_entries.c.case_id).where(claims.in_priorities(chosen)))
        wanted = (
            range(4)
            if chosen is None
            else ({Priority.P3: 0, Priority.P2: 1, Priority.P0: 2, Priority.P1: 3}[one] for one in chosen)
        )
        assert set(found) == {ids[place] for place in wanted}
    for priorities, place in (
        ([Priority.P1, Priority.P2, Priority.P1], 3),
        ([Priority.P2, Priority.P3], 0),
        ([Priority.P2, Priority.P0], 2),
    ):
        assert take(db, ANN, priorities=priorities).case_id == ids[place]
    assert claims.claim_next(db, BO.at(NOW), priorities=[Priority.P3, Priority.P1]) is None


def test_a_claim_says_what_the_entry_says_and_the_log_how_it_was_taken(db: Database) -> None:
    first, second = fill(db, [Priority.P1, Priority.P2])
    put(db, first, why="unscreened", cause="server_error", **ASIDE, assigned_until=NOW + BEFORE)
    found = take(db, ANN, lease=5 * MINUTE, token=lambda: "t" * 64)
    assert (found.case_id, found.token, found.expires_at) == (first, "t" * 64, NOW + 5 * MINUTE)
    assert (found.priority, found.why) == (Priority.P1, "unscreened:server_error")
    assert (found.entered_at, found.due_at) == (NOW, NOW + TARGETS[Priority.P1])
    now = entry(db, first)
    assert (now.assignee, now.assigned_by, now.lease_token) == ("ann", "ann", "t" * 64)
    other = claims.claim(db, SENIOR.at(NOW), second)
    assert (other.expires_at, len(other.token)) == (NOW + LEASE, 64) and LEASE == 15 * MINUTE
    logged = db.rows(select(audit_events).order_by(audit_events.c.seq))
    assert [(row.action, row.actor, row.subject, row.details) for row in logged] == [
        ("claimed", "ann", first, '{"priority":1}'),
        ("claimed", "sue", second, '{"named":true,"priority":2}'),
    ]


def test_an_expired_lease_is_free_again_and_a_token_is_worth_nothing_in_other_hands(db: Database) -> None:
    case_id, other = fill(db, [Priority.P1, Priority.P2])
    first, two = take(db, ANN), take(db, CY)
    for who, which, token in ((BO, case_id, first.token), (ANN, case_id, two.token), (ANN, other, two.token)):
        with pytest.raises(LeaseLost):
            claims.renew(db, who.at(NOW), which, token)
    assert claims.my_claims(db, ANN.at(NOW)) == (first,) and claims.my_claims(db, BO.at(NOW)) == ()
    over = first.expires_at
    assert claims.claim_next(db, BO.at(over + BEFORE)) is None
    second = take(db, BO, over)
    assert second.case_id == case_id and second.token != first.token and not may_claim(db, ANN, case_id, over)
    steps: list[Callable[..., object]] = [claims.renew, inbox.release, inbox.ask_second_opinion]
    for step in steps:
        with pytest.raises(LeaseLost):
            step(db, ANN.at(over), case_id, first.token)
    assert claims.renew(db, BO.at(over + MINUTE), case_id, second.token).expires_at == over + MINUTE + LEASE
    put(db, case_id, closed_at=NOW)
    with pytest.raises(LeaseLost):
        claims.renew(db, BO.at(over + MINUTE), case_id, second.token)
    with pytest.raises(LeaseLost):
        submit_review(db, BO.at(over + MINUTE), case_id, second.token, form(), "a" * 32)
    assert claims.my_claims(db, BO.at(over + MINUTE)) == ()


@pytest.mark.parametrize(
    ("values", "who", "now", "named", "given"),
    [
        ({}, ANN, NOW, False, True),
        ({}, SENIOR, NOW, True, True),
        ({}, RESEARCHER, NOW, False, None),
        (HELD, SENIOR, NOW + MINUTE + BEFORE, False, False),
        (HELD, SENIOR, NOW + MINUTE, True, True),
        (HELD, ANN, NOW + MINUTE, True, True),  # who held it last takes it up again
        (ASIDE, ANN, NOW, True, False),
        (ASIDE, BO, NOW, False, False),
        (ASIDE, BO, NOW + MINUTE + BEFORE, False, False),
        (ASIDE, BO, NOW + MINUTE, False, True),
        (GIVEN, BO, NOW, True, True),
        (GIVEN, ANN, NOW, False, False),
        (GIVEN, SENIOR, NOW, True, False),
        (GIVEN, ANN, NOW + MINUTE, False, True),
        ({"closed_at": NOW}, SENIOR, NOW, False, False),
        ({"review_round": "third"}, CY, NOW, False, False),
        ({"review_round": "third", "assignee": "cy", "assigned_by": "sue"}, CY, NOW, False, False),
        ({"review_round": "third"}, SENIOR, NOW, True, True),
    ],
)
def test_who_is_given_a_case_by_name_and_by_the_next_one(
    db: Database, values: dict[str, object], who: Actor, now: datetime, named: bool, given: bool | None
) -> None:
    """It was assigned so until a minute after; ``given`` None: refused."""
    (case_id,) = fill(db)
    until = {"assigned_until": NOW + MINUTE} if "assignee" in values else {}
    for by_name in (True, False):
        put(db, case_id, **{**claims.UNASSIGNED, **values, **until})
        if by_name:
            assert may_claim(db, who, case_id, now) is named
        elif given is None:
            with pytest.raises(Forbidden):
                claims.claim_next(db, who.at(now))
        else:
            assert (claims.claim_next(db, who.at(now)) is not None) is given
    assert not may_claim(db, who, "no such case")


def test_nobody_is_given_what_they_have_reviewed(db: Database) -> None:
    (case_id,) = fill(db)
    read(db, SENIOR, form("unsafe", 2), "a", ask=True)
    assert claims.claim_next(db, SENIOR.at(NOW)) is None
    with pytest.raises(NotAvailable, match="not yours"):
        claims.claim(db, SENIOR.at(NOW), case_id)
    assert may_claim(db, HELEN, case_id)


def test_who_held_a_case_last_takes_it_up_again_where_it_went_back_from_under_them(db: Database) -> None:
    """As the case of a machine that slept does; unless somebody had it since, or it is kept for them."""
    (case_id,) = fill(db)
    for _ in range(2):
        take(db, ANN)
        inbox.release_all(db, ANN.at(NOW))
        assert not may_claim(db, BO, case_id)
        held = claims.claim(db, ANN.at(NOW), case_id)
        inbox.hand_over(db, ANN.at(NOW), case_id, held.token, "bo", "yours")
        assert not may_claim(db, ANN, case_id)
        take(db, BO)
        inbox.release_all(db, BO.at(NOW))
        assert not may_claim(db, ANN, case_id)


WAYS: dict[str, Callable[..., Any]] = {
    "release": inbox.release,
    "skip": inbox.skip,
    "hold": inbox.hold,
    "decline": inbox.decline,
    "transfer": lambda db, by, case_id, token, note: inbox.hand_over(db, by, case_id, token, BO.id, note),
}


@pytest.mark.parametrize(
    ("way", "priority", "who", "back"),
    [
        ("release", Priority.P0, ANN, timedelta()),
        ("release", Priority.P0, BO, timedelta()),
        ("skip", Priority.P1, ANN, SNOOZE),
        ("skip", Priority.P2, BO, timedelta()),
        ("hold", Priority.P0, ANN, RESERVATIONS[Priority.P0]),
        ("hold", Priority.P2, BO, RESERVATION),
        ("decline", Priority.P2, ANN, None),
        ("decline", Priority.P0, BO, timedelta()),
        ("transfer", Priority.P2, ANN, RESERVATION),
        ("transfer", Priority.P2, BO, timedelta()),
        ("transfer", Priority.P1, CY, RESERVATIONS[Priority.P1]),
    ],
)
def test_who_gets_a_case_that_was_left_and_when(
    db: Database, way: str, priority: Priority, who: Actor, back: timedelta | None
) -> None:
    """Ann leaves it; whom it comes to at once, after a while (``back``) or never. P0 and P1 need a note."""
    (case_id,) = fill(db, [priority])
    claim = take(db, ANN)
    if priority <= Priority.P1 and way != "decline":
        with pytest.raises(NoteNeeded):
            WAYS[way](db, ANN.at(NOW), case_id, claim.token, "  ")
        assert claims.my_claims(db, ANN.at(NOW)) == (claim,), "a refused step changes nothing"
    until = WAYS[way](db, ANN.at(NOW), case_id, claim.token, "" if way == "decline" else "seen")
    note = db.row(select(case_notes))
    assert (note.author, note.note) == ("ann", "declined" if way == "decline" else "seen")
    kept = {"hold": ANN, "transfer": BO}.get(way)
    for each in (ANN, BO):
        assert [one.case_id for one in reserved_cases(db, each.at(NOW))] == ([case_id] if each is kept else [])
    if kept is not None:
        assert counts(db, CY.at(NOW)).reserved_until == until
        other = BO if kept is ANN else ANN
        assert standing(db, kept.at(NOW), case_id, claim.token) == Standing(place=Place.KEPT, until=until)
        assert standing(db, other.at(NOW), case_id, None).place is Place.TAKEN
        assert standing(db, other.at(until), case_id, None).place is Place.FREE
    if back is None:
        assert claims.claim_next(db, who.at(NOW + timedelta(days=30))) is None
        return
    if back:
        assert claims.claim_next(db, who.at(NOW + back + BEFORE)) is None
    assert take(db, who, NOW + back).case_id == case_id


def _declined(db: Database, case_id: str) -> None:
    write(db, skips.insert().values(case_id=case_id, reviewer="bo", reason="not_me", at=NOW))


def _skipped(db: Database, case_id: str) -> None:
    write(db, skips.insert().values(case_id=case_id, reviewer="bo", reason="skip", at=NOW))


def _reviewed(db: Database, case_id: str) -> None:
    read(db, BO, form(), "b", ask=True)


def _nothing(db: Database, case_id: str) -> None: ...


@pytest.mark.parametrize(
    ("values", "before", "to", "refusal"),
    [
        ({}, _nothing, BO, ""),
        (HELD, _nothing, BO, "was taken meanwhile"),
        (ASIDE, _nothing, BO, "was put on hold by its reviewer"),
        (GIVEN, _nothing, CY, ""),  # what was given is given again
        ({"closed_at": NOW}, _nothing, BO, "is closed"),
        ({"review_round": "third"}, _nothing, BO, "is a senior's to decide"),
        ({"review_round": "third"}, _nothing, HELEN, ""),
        ({}, _reviewed, BO, "was reviewed by them already"),
        ({}, _reviewed, CY, ""),
        ({}, _declined, BO, "was declined by them"),
        ({}, _declined, CY, ""),
        ({}, _skipped, BO, ""),  # a skip is no refusal
    ],
)
def test_what_a_senior_gives_to_whom_and_what_is_refused_in_words(
    db: Database, values: dict[str, object], before: Callable[..., None], to: Actor, refusal: str
) -> None:
    (case_id,) = fill(db)
    before(db, case_id)
    until = {"assigned_until": NOW} if "assignee" in values else {}
    if values:
        put(db, case_id, **values, **until)
    given, refused = assign(db, SENIOR.at(NOW + BEFORE if until else NOW), [case_id, "0" * 32], to.id)
    assert given == ([] if refusal else [case_id])
    assert refused == ({case_id: refusal} if refusal else {}) | {"0" * 32: "is closed"}
    if until:
        assert assign(db, SENIOR.at(NOW), [case_id], to.id)[0] == [case_id], "until its moment"
    if given or until:
        now = entry(db, case_id)
        assert (now.assigned_by, now.assignee, now.lease_token) == ("sue", to.id, None)
        assert now.assigned_until == NOW + RESERVATION
        logged = db.rows(select(audit_events).where(audit_events.c.action == "assigned"))
        assert {(row.subject, row.actor) for row in logged} == {(case_id, "sue")}


def test_the_same_refusals_hold_where_a_reviewer_transfers_and_tell_nothing(db: Database) -> None:
    """The case stays in these hands, with nothing said that tells who reviewed it."""
    declined, third = fill(db, [Priority.P0, Priority.P2])
    inbox.decline(db, CY.at(NOW), declined, take(db, CY).token)
    read(db, ANN, form(), "1", ask=True)
    second = take(db, BO)
    for to in (ANN, CY):
        with pytest.raises(NotAvailable, match=r"^that person cannot take this case$"):
            inbox.hand_over(db, BO.at(NOW), declined, second.token, to.id, "the end of my shift")
    for nobody in ("nobody", ADMIN.id, BO.id):
        with pytest.raises(NotAvailable):
            inbox.hand_over(db, BO.at(NOW), declined, second.token, nobody, "note")
    assert claims.renew(db, BO.at(NOW), declined, second.token).case_id == declined
    assert db.rows(select(case_notes.c.id).where(case_notes.c.kind == "hand_over")) == []
    put(db, third, review_round="third")
    held = claims.claim(db, SENIOR.at(NOW), third)
    with pytest.raises(NotAvailable):
        inbox.hand_over(db, SENIOR.at(NOW), third, held.token, CY.id, "note")
    inbox.hand_over(db, SENIOR.at(NOW), third, held.token, HELEN.id, "the end of my shift")
    assert take(db, HELEN).case_id == third


def test_who_may_give_and_to_whom_and_how_many(db: Database) -> None:
    ids = fill(db)
    for who in (ANN, ADMIN):
        with pytest.raises(Forbidden):
            assign(db, who.at(NOW), ids, BO.id)
    unknown = [f"{n:032d}" for n in range(MOST)]
    for wrong in ([], [*unknown, *ids]):
        with pytest.raises(ValueError, match="choose 1 to"):
            assign(db, SENIOR.at(NOW), wrong, BO.id)
    assert len(assign(db, SENIOR.at(NOW), [*unknown, *unknown], BO.id)[1]) == MOST, "each once"
    write(db, update(accounts).where(accounts.c.id == BO.id).values(active=False))
    for to in (ADMIN.id, SENIOR.id, BO.id, "nobody"):
        with pytest.raises(NotAvailable):
            assign(db, SENIOR.at(NOW), ids, to)


def test_where_a_case_stands(db: Database) -> None:
    [case_id] = fill(db)
    assert standing(db, ANN.at(NOW), case_id, None).place is Place.FREE
    first = take(db, BO)
    assert standing(db, ANN.at(NOW), case_id, None).place is Place.TAKEN
    assert standing(db, BO.at(NOW), case_id, first.token).place is Place.HELD
    assert standing(db, BO.at(NOW), case_id, "other").place is Place.ELSEWHERE
    assert standing(db, BO.at(NOW + LEASE), case_id, first.token).place is Place.FREE
    submit_review(db, BO.at(NOW), case_id, first.token, form("safe", 5), "a" * 32)
    assert standing(db, ANN.at(NOW), case_id, None) == Standing(place=Place.CLOSED, closed=True)


def test_a_second_opinion_that_is_asked_for_twice_is_asked_for_once(db: Database) -> None:
    (case_id,) = fill(db)
    token = take(db, ANN).token
    for note in ("", "the slang", " the slang", "the slang", "and the reply"):
        inbox.ask_second_opinion(db, ANN.at(NOW), case_id, token, note)
    assert db.values(select(second_review_requests.c.asked_by)) == ["ann"]
    assert db.values(select(case_notes.c.note).order_by(case_notes.c.id)) == ["the slang", "and the reply"]


def test_a_note_reaches_the_next_reviewer_but_never_a_blind_second_one(db: Database) -> None:
    (case_id,) = fill(db, [Priority.P1])
    inbox.release(db, ANN.at(NOW), case_id, take(db, ANN).token, "not my language")
    token = take(db, BO).token
    told = [(note.author_name, note.kind, note.note) for note in notes(db, BO.at(NOW), case_id, token)]
    assert told == [("Ann", "release", "not my language")]
    inbox.ask_second_opinion(db, BO.at(NOW), case_id, token, "unsafe, I think")
    submit_review(db, BO.at(NOW), case_id, token, form(), "1" * 32)
    with pytest.raises(Forbidden):
        notes(db, CY.at(NOW), case_id, token)
    second = take(db, CY)
    assert [note.note for note in notes(db, CY.at(NOW), case_id, second.token)] == ["not my language"]
    for who, guessed in ((CY, "guessed"), (ANN, second.token), (ANN, None)):
        with pytest.raises(Forbidden):
            notes(db, who.at(NOW), case_id, guessed)
    submit_review(db, CY.at(NOW), case_id, second.token, form(), "2" * 32)
    assert [note.note for note in notes(db, CY.at(NOW), case_id)] == ["not my language", "unsafe, I think"]
    assert [note.author_name for note in notes(db, BO.at(NOW), case_id)] == ["Ann", "Bo"]


def test_an_empty_inbox_says_why(db: Database) -> None:
    fill(db, [Priority.P0, Priority.P0, Priority.P1, *[Priority.P3] * 12])
    leases = [take(db, who, NOW + MINUTE * index) for index, who in enumerate((BO, CY, BO))]
    seen = counts(db, ANN.at(NOW + 3 * MINUTE), priorities=[Priority.P0, Priority.P1])
    assert (seen.free, seen.held, seen.outside_filter, seen.open) == (0, 3, 12, 15)
    assert seen.held_until == leases[0].expires_at
    assert counts(db, ANN.at(NOW)).free_by_priority == {Priority.P0: 0, Priority.P1: 0, Priority.P2: 0, Priority.P3: 12}


def test_the_states_of_a_list_are_those_of_the_counts(db: Database) -> None:
    """That they are the same after whatever people do is the inbox machine's to prove; here each state once."""
    ids = fill(db, [Priority.P2] * 7)
    until = {"assigned_until": NOW + LEASE}
    put(db, ids[0], **ASIDE, **until)
    put(db, ids[1], **HELD | {"assignee": "sue"}, **until)
    put(db, ids[2], **HELD, **until)
    put(db, ids[3], review_round="third")
    inbox.skip(db, SENIOR.at(NOW), ids[4], claims.claim(db, SENIOR.at(NOW), ids[4]).token)
    claims.claim(db, SENIOR.at(NOW), ids[5])
    inbox.ask_second_opinion(db, SENIOR.at(NOW), ids[5], held := claims.my_claims(db, SENIOR.at(NOW))[-1].token)
    submit_review(db, SENIOR.at(NOW), ids[5], held, form(), "a" * 32)
    wanted = [State.RESERVED, State.MINE, State.HELD, State.FREE, State.SKIPPED, State.READ, State.FREE]
    listed = queue(db, SENIOR.at(NOW))
    assert {row.case_id: row.state for row in listed} == dict(zip(ids, wanted, strict=True))
    assert dict(counts(db, SENIOR.at(NOW)).by_state) == {state: wanted.count(state) for state in State}
    assert counts(db, CY.at(NOW)).by_state[State.SENIOR] == 1
    assert [row.case_id for row in queue(db, SENIOR.at(NOW), limit=2, offset=1)] == [row.case_id for row in listed[1:3]]
    over = {row.case_id: row.state for row in queue(db, SENIOR.at(NOW + LEASE))}
    assert [over[case_id] for case_id in ids[:3]] == [State.FREE] * 3, "a lease and a reservation end"
    for who in (ANN, RESEARCHER):
        with pytest.raises(Forbidden):
            queue(db, who.at(NOW))


def test_lists_and_counts_never_touch_the_text(db: Database) -> None:
    fill(db, [Priority.P2] * 3)
    statements: list[str] = []
    event.listen(db._engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    queue(db, SENIOR.at(NOW)), counts(db, ANN.at(NOW)), take(db, ANN)
    assert statements
    assert not [line for line in statements if "cases.text" in line or ".reply" in line or "model_text" in line]
