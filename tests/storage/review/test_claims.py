"""Who may take which case, by the next one or by name; leases; every way a case changes hands; honest counts; and 25
reviewers at once on one inbox: no double claim, no lost submit, no review without the lease.
"""

import threading
import tomllib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import select, update

from screening.review.policy import Actor, Forbidden
from screening.review.triage import Priority
from storage import schema
from storage.audit_log import verify
from storage.database import Database
from storage.review import claims, inbox
from storage.review.claims import LEASE, SNOOZE, LeaseLost, NotAvailable
from storage.review.evidence import notes
from storage.review.inbox import RESERVATION, RESERVATIONS, Place, Standing, assign, standing
from storage.review.queue import State, counts, queue, reserved_cases
from storage.review.reviews import load_draft, submit_review
from storage.site.accounts import release_all
from tests.databases import statements, write
from tests.storage.inbox_cases import entry, fill, form, play, put, register, rows, site, take, vouch
from tests.storage.people import ADMIN, ANN, BO, CY, HELEN, MINUTE, NOW, PEOPLE, RESEARCHER, SENIOR, person

BEFORE = -timedelta(microseconds=1)
P0, P1, P2, P3 = Priority
EVERYBODY = PEOPLE | {"rae": RESEARCHER}
TABLES = tomllib.loads((Path(__file__).parent / "claims.toml").read_text(encoding="utf-8"))
STANDS: dict[str, dict[str, Any]] = TABLES["stands"]


@pytest.fixture(autouse=True)
def people(db: Database) -> None:
    """All of them have accounts."""
    register(db, *PEOPLE.values(), ADMIN)


def may_claim(db: Database, who: Actor, case_id: str, now: datetime = NOW) -> bool:
    """Whether they are given a case that they name."""
    try:
        return claims.claim(db, who.at(now), case_id).case_id == case_id
    except (Forbidden, NotAvailable):
        return False


def test_p0_comes_first_then_the_earliest_deadline_in_a_filter_too(db: Database) -> None:
    entered = [NOW - timedelta(days=2), NOW, NOW + MINUTE, NOW, NOW]  # the P3 case is overdue since yesterday
    ids = fill(db, [P3, P1, P0, P2, P0], entered_at=entered)
    for chosen, places in (([], []), ([P1], [1]), ([P0, P3], [0, 2, 4]), (None, range(5))):
        found = db.values(select(schema.inbox_entries.c.case_id).where(claims.of_priority(chosen)))
        assert set(found) == {ids[place] for place in places}  # type: ignore[attr-defined]
    assert claims.claim_next(db, ANN.at(NOW), priorities=[]) is None
    given = [take(db, BO, priorities=chosen).case_id for chosen in ([P1, P2, P1], [P2, P3], [P2, P0])]
    assert given == [ids[1], ids[0], ids[4]]
    assert claims.claim_next(db, BO.at(NOW), priorities=[P3, P1]) is None
    again = NOW + LEASE
    assert [take(db, ANN, again).case_id for _ in ids] == [ids[4], ids[2], ids[0], ids[1], ids[3]]
    assert claims.claim_next(db, ANN.at(again)) is None


def test_an_expired_lease_is_free_again_and_a_token_is_worth_nothing_in_other_hands(db: Database) -> None:
    case_id, other = fill(db, [P1, P2])
    first, two = take(db, ANN), take(db, CY)
    over = first.expires_at
    assert claims.my_claims(db, ANN.at(NOW)) == (first,) and claims.my_claims(db, BO.at(NOW)) == ()
    assert claims.claim_next(db, BO.at(over + BEFORE)) is None
    for who, which, token in ((BO, case_id, first.token), (ANN, case_id, two.token), (ANN, other, two.token)):
        with pytest.raises(LeaseLost):
            claims.renew(db, who.at(NOW), which, token)
    second = take(db, BO, over)
    assert second.case_id == case_id and second.token != first.token and not may_claim(db, ANN, case_id, over)
    for step in (claims.renew, inbox.release, inbox.ask_second_opinion):
        with pytest.raises(LeaseLost):
            step(db, ANN.at(over), case_id, first.token)  # type: ignore[operator]
    by = BO.at(over + MINUTE)
    assert claims.renew(db, by, case_id, second.token).expires_at == over + MINUTE + LEASE
    put(db, case_id, closed_at=NOW)
    with pytest.raises(LeaseLost):
        claims.renew(db, by, case_id, second.token)
    with pytest.raises(LeaseLost):
        submit_review(db, by, case_id, second.token, form(), "a" * 32)
    assert claims.my_claims(db, by) == ()


@pytest.mark.parametrize(("stands", "who", "seconds", "named", "given"), TABLES["given"])
def test_who_is_given_a_case_by_name_and_by_the_next_one(
    db: Database, stands: str, who: str, seconds: float, named: bool, given: bool | str
) -> None:
    (case_id,) = fill(db)
    by, now = EVERYBODY[who], NOW + timedelta(seconds=seconds)
    values = {**schema.UNASSIGNED, **STANDS[stands]}
    values |= {"assigned_until": NOW + MINUTE} if values["assignee"] else {}
    put(db, case_id, **values)
    assert may_claim(db, by, case_id, now) is named
    put(db, case_id, **values)
    if given == "refused":
        with pytest.raises(Forbidden):
            claims.claim_next(db, by.at(now))
    else:
        assert (claims.claim_next(db, by.at(now)) is not None) is given
    assert not may_claim(db, by, "no such case")


def test_who_held_a_case_last_takes_it_up_again_where_it_went_back_from_under_them(db: Database) -> None:
    """As the case of a machine that slept does; unless somebody had it since, it is kept for them, or they read it."""
    (case_id,) = fill(db)
    take(db, ANN)
    release_all(db, ANN.at(NOW))
    assert not may_claim(db, BO, case_id)
    held = claims.claim(db, ANN.at(NOW), case_id)
    inbox.hand_over(db, ANN.at(NOW), case_id, held.token, "bo", "yours")
    assert not may_claim(db, ANN, case_id)
    take(db, BO)
    release_all(db, BO.at(NOW))
    assert not may_claim(db, ANN, case_id)
    play(db, case_id, "sue asks unsafe 2")
    assert not may_claim(db, SENIOR, case_id) and may_claim(db, HELEN, case_id)


WAYS: dict[str, Callable[..., Any]] = {
    "release": inbox.release,
    "skip": inbox.skip,
    "hold": inbox.hold,
    "decline": inbox.decline,
    "transfer": lambda db, by, case_id, token, note: inbox.hand_over(db, by, case_id, token, BO.id, note),
}


@pytest.mark.parametrize(("way", "place", "to", "comes"), TABLES["left"])
def test_who_gets_a_case_that_was_left_and_when(db: Database, way: str, place: int, to: str, comes: str) -> None:
    """P0 and P1 need a note."""
    priority, who = Priority(place), EVERYBODY[to]
    reserved = RESERVATIONS.get(priority, RESERVATION)
    back = {"at once": timedelta(), "snoozed": SNOOZE, "reserved": reserved, "never": None}[comes]
    (case_id,) = fill(db, [priority])
    claim = take(db, ANN)
    if priority <= P1 and way != "decline":
        with pytest.raises(claims.Incomplete):
            WAYS[way](db, ANN.at(NOW), case_id, claim.token, "  ")
        assert claims.my_claims(db, ANN.at(NOW)) == (claim,), "a refused step changes nothing"
    until = WAYS[way](db, ANN.at(NOW), case_id, claim.token, "" if way == "decline" else "seen")
    (note,) = rows(db, schema.case_notes)
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


@pytest.mark.parametrize(("stands", "before", "to", "refusal"), TABLES["assigned"])
def test_what_a_senior_gives_to_whom_and_what_is_refused_in_words(
    db: Database, stands: str, before: str, to: str, refusal: str
) -> None:
    (case_id,) = fill(db)
    if before == "reviewed":
        play(db, case_id, "bo asks unsafe")
    elif before:
        write(db, schema.skips.insert().values(case_id=case_id, reviewer="bo", reason=before, at=NOW))
    values = STANDS[stands]
    until = {"assigned_until": NOW} if "assignee" in values else {}
    if values:
        put(db, case_id, **values, **until)
    given, refused = assign(db, SENIOR.at(NOW + BEFORE if until else NOW), [case_id, "0" * 32], to)
    assert given == ([] if refusal else [case_id])
    assert refused == ({case_id: refusal} if refusal else {}) | {"0" * 32: "is closed"}
    if until:
        assert assign(db, SENIOR.at(NOW), [case_id], to)[0] == [case_id], "until its moment"
    if given or until:
        now = entry(db, case_id)
        assert (now.assigned_by, now.assignee, now.lease_token) == ("sue", to, None)
        assert now.assigned_until == NOW + RESERVATION
        logged = [(row.subject, row.actor) for row in rows(db, schema.audit_events) if row.action == "assigned"]
        assert set(logged) == {(case_id, "sue")}


def test_the_same_refusals_hold_where_a_reviewer_transfers_and_tell_nothing(db: Database) -> None:
    """The case stays in these hands, with nothing said that tells who reviewed it. A senior gives none to whoever reads
    none, and not too many.
    """
    declined, third = fill(db, [P0, P2])
    inbox.decline(db, CY.at(NOW), declined, take(db, CY).token)
    play(db, declined, "ann asks unsafe")
    second = take(db, BO)
    for to in (ANN.id, CY.id, "nobody", ADMIN.id, BO.id):
        told = "^that person cannot take this case$" if to in (ANN.id, CY.id) else None
        with pytest.raises(NotAvailable, match=told):
            inbox.hand_over(db, BO.at(NOW), declined, second.token, to, "the end of my shift")
    assert claims.renew(db, BO.at(NOW), declined, second.token).case_id == declined
    assert "hand_over" not in [row.kind for row in rows(db, schema.case_notes)]
    put(db, third, review_round="third")
    held = claims.claim(db, SENIOR.at(NOW), third)
    with pytest.raises(NotAvailable):
        inbox.hand_over(db, SENIOR.at(NOW), third, held.token, CY.id, "note")
    inbox.hand_over(db, SENIOR.at(NOW), third, held.token, HELEN.id, "the end of my shift")
    assert take(db, HELEN).case_id == third
    unknown = [f"{n:032d}" for n in range(inbox.MOST)]
    for wrong in ([], [*unknown, third]):
        with pytest.raises(ValueError, match="choose 1 to"):
            assign(db, SENIOR.at(NOW), wrong, BO.id)
    assert len(assign(db, SENIOR.at(NOW), [*unknown, *unknown], BO.id)[1]) == inbox.MOST, "each once"
    write(db, update(schema.accounts).where(schema.accounts.c.id == BO.id).values(active=False))
    for to in (ADMIN.id, SENIOR.id, BO.id, "nobody"):
        with pytest.raises(NotAvailable):
            assign(db, SENIOR.at(NOW), [third], to)


def test_a_note_reaches_the_next_reviewer_but_never_a_blind_second_one(db: Database) -> None:
    """And a second opinion that is asked for twice is asked for once."""
    (case_id,) = fill(db, [P1])
    inbox.release(db, ANN.at(NOW), case_id, take(db, ANN).token, "not my language")
    assert standing(db, BO.at(NOW), case_id, None).place is Place.FREE
    token = take(db, BO).token
    places = [standing(db, BO.at(NOW), case_id, mine).place for mine in (token, "other")]
    assert places == [Place.HELD, Place.ELSEWHERE]
    assert standing(db, BO.at(NOW + LEASE), case_id, token).place is Place.FREE
    told = [(note.author_name, note.kind, note.note) for note in notes(db, BO.at(NOW), case_id, token)]
    assert told == [("Ann", "release", "not my language")]
    for note in ("", "unsafe, I think", " unsafe, I think", "the slang"):
        inbox.ask_second_opinion(db, BO.at(NOW), case_id, token, note)
    assert [row.asked_by for row in rows(db, schema.second_review_requests)] == ["bo"]
    submit_review(db, BO.at(NOW), case_id, token, form(), "1" * 32)
    second = take(db, CY)
    assert [note.note for note in notes(db, CY.at(NOW), case_id, second.token)] == ["not my language"]
    for who, guessed in ((CY, "guessed"), (ANN, second.token), (ANN, None)):
        with pytest.raises(Forbidden):
            notes(db, who.at(NOW), case_id, guessed)
    submit_review(db, CY.at(NOW), case_id, second.token, form(), "2" * 32)
    every = ["not my language", "unsafe, I think", "the slang"]
    assert [note.note for note in notes(db, CY.at(NOW), case_id)] == every
    assert standing(db, ANN.at(NOW), case_id, None) == Standing(place=Place.CLOSED, closed=True)


def test_the_states_of_a_list_are_those_of_the_counts_and_neither_touches_a_text(db: Database) -> None:
    """That they are the same after whatever people do is the inbox machine's to prove; here each state once. An empty
    inbox says why.
    """
    ids = fill(db, [P2] * 7)
    until = {"assigned_until": NOW + LEASE}
    put(db, ids[0], **STANDS["aside"], **until)
    put(db, ids[1], **STANDS["held"] | {"assignee": "sue"}, **until)
    put(db, ids[2], **STANDS["held"], **until)
    put(db, ids[3], review_round="third")
    inbox.skip(db, SENIOR.at(NOW), ids[4], claims.claim(db, SENIOR.at(NOW), ids[4]).token)
    held = claims.claim(db, SENIOR.at(NOW), ids[5]).token
    inbox.ask_second_opinion(db, SENIOR.at(NOW), ids[5], held)
    submit_review(db, SENIOR.at(NOW), ids[5], held, form(), "a" * 32)
    wanted = [State.RESERVED, State.MINE, State.HELD, State.FREE, State.SKIPPED, State.READ, State.FREE]
    with statements() as sent:
        listed = queue(db, SENIOR.at(NOW))
        assert {row.case_id: row.state for row in listed} == dict(zip(ids, wanted, strict=True))
        assert dict(counts(db, SENIOR.at(NOW)).by_state) == {state: wanted.count(state) for state in State}
        assert counts(db, CY.at(NOW)).by_state[State.SENIOR] == 1
        seen = counts(db, SENIOR.at(NOW), priorities=[P0, P1])
        assert (seen.free, seen.outside_filter, seen.open) == (0, 7, 7)
        assert counts(db, SENIOR.at(NOW)).held_until == NOW + LEASE
    assert not [one for one, _ in sent if "cases.text" in one or ".reply" in one or "model_text" in one]
    assert [row.case_id for row in queue(db, SENIOR.at(NOW), limit=2, offset=1)] == [row.case_id for row in listed[1:3]]
    over = {row.case_id: row.state for row in queue(db, SENIOR.at(NOW + LEASE))}
    assert [over[case_id] for case_id in ids[:3]] == [State.FREE] * 3, "a lease and a reservation end"


CROWD = [person(f"r{number:02d}") for number in range(25)]
Told = tuple[str, str, datetime, datetime, str]
"""Who claimed which case and when, when it was out of their hands, and the id of the review that was stored, if any."""


class Clock:
    """One time for all threads: each look at it is a step later."""

    def __init__(self) -> None:
        self.now, self.lock = NOW, threading.Lock()

    def __call__(self, span: timedelta = timedelta(microseconds=1)) -> datetime:
        with self.lock:
            self.now += span
            return self.now


def work(url: str, who: Actor, clock: Clock, lease: timedelta, seed: int, dawdles: bool) -> list[Told]:
    """Claim, read, submit (sometimes twice), until the inbox is empty; on own connections.

    Who ``dawdles`` sits over the first case until every lease that is given by then has run out.
    """
    dice, told = Random(seed), list[Told]()
    with closing(Database(url, pool_size=1)) as database:
        while (claim := claims.claim_next(database, who.at(begun := clock()), lease)) is not None:
            if dawdles and not told:
                clock(lease)
            given, over, now = f"{dice.getrandbits(128):032x}", claim.expires_at, clock()
            try:
                submit_review(database, who.at(now), claim.case_id, claim.token, form(), given)
                if dice.random() < 0.2:
                    submit_review(database, who.at(clock()), claim.case_id, claim.token, form(), given)
                over = now
            except LeaseLost:
                assert load_draft(database, who, claim.case_id) is not None
                given = ""
            told.append((who.id, claim.case_id, begun, over, given))
    return told


def all_at_once(db: Database, url: str, lease: timedelta, *, dawdlers: int = 0, turns: int = 1) -> list[Told]:
    """What all did; in a further turn those come back who ran out of cases too early. No submit is lost, none appears
    from nowhere.
    """
    clock, told = Clock(), list[Told]()
    with ThreadPoolExecutor(len(CROWD)) as pool:
        for turn in range(turns):
            jobs = [
                pool.submit(work, url, who, clock, lease, seed + 100 * turn, seed < dawdlers)
                for seed, who in enumerate(CROWD)
            ]
            told += [one for job in jobs for one in job.result()]
    stored, claimed = rows(db, schema.reviews), rows(db, schema.audit_events)
    assert {(row.reviewer, row.case_id, row.id) for row in stored} == {(*one[:2], one[-1]) for one in told if one[-1]}
    assert sum(row.action == "claimed" for row in claimed) == len(told)
    assert len({(row.case_id, row.reviewer) for row in stored}) == len(stored), "nobody reads a case twice"
    assert None not in [row.closed_at for row in rows(db, schema.inbox_entries)]
    assert verify(db).ok
    return told


def test_twenty_five_reviewers_read_each_of_sixty_cases_twice(db: Database, database_url: str) -> None:
    site(db, *CROWD, second_review_rate=1.0)
    ids = fill(db, [Priority(number % 4) for number in range(60)])
    vouch(db)
    told = all_at_once(db, database_url, timedelta(hours=1), turns=2)
    claimed = Counter(case_id for _, case_id, *_ in told)
    assert claimed == Counter(dict.fromkeys(ids, 2)), "each case was claimed exactly once for each review"
    assert all(given for *_, given in told), "nobody was refused"
    assert Counter(row.review_round for row in rows(db, schema.reviews)) == {"first": 60, "second": 60}
    assert [row.method for row in rows(db, schema.adjudications)] == ["agreement"] * 60


def test_leases_that_run_out_in_the_middle(db: Database, database_url: str) -> None:
    """Two leases on one case never overlap."""
    fill(db, [Priority(each % 4) for each in range(100)])
    vouch(db)
    told = all_at_once(db, database_url, timedelta(minutes=15), dawdlers=5)
    for one, other in pairwise(sorted((case_id, begun, over) for _, case_id, begun, over, _ in told)):
        assert one[0] != other[0] or one[2] <= other[1]
    dawdled = {who.id for who in CROWD[:5]} & {one[0] for one in told}
    assert dawdled <= {who for who, *_, given in told if not given}, "who dawdled was refused"
    assert len(told) > 100 == len(rows(db, schema.adjudications)), "their cases went to others"
