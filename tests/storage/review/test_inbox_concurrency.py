"""25 reviewers at once on one inbox: no double claim, no lost submit, no review without the lease."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random

from screening.review.actors import Actor
from screening.review.triage import Priority
from storage import schema
from storage.database import Database
from storage.review import claims
from storage.review.claims import LeaseLost
from storage.review.reviews import load_draft, submit_review
from storage.site.audit_check import verify
from tests.storage.inbox_cases import fill, form, rows, site, vouch
from tests.storage.people import ADMIN, NOW, person

REVIEWERS = 25
PEOPLE = [person(f"r{number:02d}") for number in range(REVIEWERS)]


@dataclass
class Clock:
    """One time for all threads: each look at it is a step later."""

    now: datetime = NOW
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, span: timedelta = timedelta(microseconds=1)) -> datetime:
        with self.lock:
            self.now += span
            return self.now


@dataclass
class Diary:
    """What one reviewer was told: claims with their time, receipts, refusals."""

    claims: list[tuple[str, datetime, datetime]] = field(default_factory=list)
    receipts: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)


def work(url: str, who: Actor, clock: Clock, lease: timedelta, seed: int, *, dawdles: bool = False) -> Diary:
    """Claim, read, submit (sometimes twice), until the inbox is empty; on own connections.

    Who ``dawdles`` sits over the first case until every lease that is given by then has run out.
    """
    database, diary, dice = Database(url, pool_size=1), Diary(), Random(seed)
    try:
        while (claim := claims.claim_next(database, who.at(now := clock()), lease)) is not None:
            diary.claims.append((claim.case_id, now, claim.expires_at))
            if dawdles and len(diary.claims) == 1:
                clock(lease)
            submission = f"{dice.getrandbits(128):032x}"
            try:
                for _ in range(1 + (dice.random() < 0.2)):
                    submit_review(database, who.at(clock()), claim.case_id, claim.token, form(), submission)
                diary.receipts[submission] = claim.case_id
            except LeaseLost:
                assert load_draft(database, who, claim.case_id) is not None
                diary.refused.append(claim.case_id)
    finally:
        database.close()
    return diary


def all_at_once(url: str, lease: timedelta, *, dawdlers: int = 0, turns: int = 1) -> list[Diary]:
    """A diary for each person and turn. In a further turn come back those who ran out of cases too early."""
    clock, diaries = Clock(), list[Diary]()
    with ThreadPoolExecutor(REVIEWERS) as pool:
        for turn in range(turns):
            jobs = [
                pool.submit(work, url, who, clock, lease, seed + 100 * turn, dawdles=seed < dawdlers)
                for seed, who in enumerate(PEOPLE)
            ]
            diaries += [job.result() for job in jobs]
    return diaries


def check(db: Database, diaries: list[Diary], reads: int) -> None:
    receipts = {review: case for diary in diaries for review, case in diary.receipts.items()}
    stored = rows(db, schema.reviews)
    assert {row.id: row.case_id for row in stored} == receipts, "no submit is lost and none appears from nowhere"
    claimed = [row for row in rows(db, schema.audit_events) if row.action == "claimed"]
    assert len(claimed) == sum(len(diary.claims) for diary in diaries)
    assert len({(row.case_id, row.reviewer) for row in stored}) == len(stored), "nobody reads a case twice"
    accepted = Counter(row.case_id for row in rows(db, schema.adjudications))
    assert {case_id: reads * times for case_id, times in accepted.items()} == Counter(receipts.values())
    assert None not in [row.closed_at for row in rows(db, schema.inbox_entries)]
    assert verify(db).ok


def test_twenty_five_reviewers_read_each_of_sixty_cases_twice(db: Database, database_url: str) -> None:
    site(db, *PEOPLE, ADMIN, second_review_rate=1.0)
    ids = fill(db, [Priority(number % 4) for number in range(60)])
    vouch(db)
    diaries = all_at_once(database_url, timedelta(hours=1), turns=2)
    check(db, diaries, reads=2)
    claimed = Counter(case_id for diary in diaries for case_id, _, _ in diary.claims)
    assert claimed == Counter(dict.fromkeys(ids, 2)), "each case was claimed exactly once for each review"
    assert not any(diary.refused for diary in diaries)
    assert Counter(row.review_round for row in rows(db, schema.reviews)) == {"first": 60, "second": 60}
    assert [row.method for row in rows(db, schema.adjudications)] == ["agreement"] * 60


def test_leases_that_run_out_in_the_middle(db: Database, database_url: str) -> None:
    """Two leases on one case never overlap, and every review lies inside a lease of its reviewer."""
    number = 100
    fill(db, [Priority(each % 4) for each in range(number)])
    vouch(db)
    diaries = all_at_once(database_url, timedelta(minutes=15), dawdlers=5)
    check(db, diaries, reads=1)
    assert all(diary.refused for diary in diaries[:5] if diary.claims), "who dawdled was refused"
    assert sum(len(diary.claims) for diary in diaries) > number, "their cases went to others"
    given = {(row.case_id, row.reviewer): row.at for row in rows(db, schema.reviews)}
    spans: dict[str, list[tuple[datetime, datetime]]] = {}
    kept = set()
    for who, diary in zip(PEOPLE, diaries, strict=True):
        for case_id, start, expiry in diary.claims:
            rated = given.get((case_id, who.id), expiry)
            inside = start <= rated < expiry
            spans.setdefault(case_id, []).append((start, rated if inside else expiry))
            kept |= {(case_id, who.id)} if inside else set()
    assert kept == set(given)
    for found in spans.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(found)))
