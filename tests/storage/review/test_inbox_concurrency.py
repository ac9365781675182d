"""25 reviewers at once on one inbox: no double claim, no lost submit, no review without the lease."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random

from sqlalchemy import select

from screening.review.actors import Actor
from screening.review.triage import Priority
from storage.database import Database
from storage.review import claims
from storage.review.claims import LeaseLost
from storage.review.reviews import load_draft, submit_review
from storage.schema import adjudications, audit_events, inbox_entries, reviews
from storage.settings_store import SiteSettings, change
from storage.site.audit_check import verify
from tests.storage.inbox_cases import ADMIN, NOW, fill, form, person, register, vouch

REVIEWERS, CASES = 25, 200
PEOPLE = [person(f"r{number:02d}") for number in range(REVIEWERS)]


@dataclass
class Clock:
    """One time for all threads: each look at it is a step later."""

    step: timedelta
    now: datetime = NOW
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> datetime:
        with self.lock:
            self.now += self.step
            return self.now

    def skip(self, span: timedelta) -> None:
        """So much time goes by at once."""
        with self.lock:
            self.now += span


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
                clock.skip(lease)
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


def all_at_once(url: str, lease: timedelta, dawdlers: int = 0) -> list[Diary]:
    clock = Clock(timedelta(microseconds=1))
    with ThreadPoolExecutor(REVIEWERS) as pool:
        jobs = [
            pool.submit(work, url, who, clock, lease, seed, dawdles=seed < dawdlers) for seed, who in enumerate(PEOPLE)
        ]
        return [job.result() for job in jobs]


def check(db: Database, diaries: list[Diary]) -> None:
    stored = db.rows(select(reviews))
    closed = db.values(select(inbox_entries.c.closed_at))
    accepted = db.values(select(adjudications.c.case_id))
    claims = db.rows(select(audit_events).where(audit_events.c.action == "claimed"))
    receipts = {review: case for diary in diaries for review, case in diary.receipts.items()}
    assert {row.id: row.case_id for row in stored} == receipts, "no submit is lost and none appears from nowhere"
    assert len(claims) == sum(len(diary.claims) for diary in diaries)
    assert Counter(accepted) == Counter(receipts.values())
    assert None not in closed
    assert verify(db).ok


def held_at(db: Database, diaries: list[Diary]) -> None:
    """Two leases on one case never overlap, and every review lies inside a lease of its reviewer."""
    given = {(row.case_id, row.reviewer): row.at for row in db.rows(select(reviews))}
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


def test_twenty_five_reviewers_share_two_hundred_cases(db: Database, database_url: str) -> None:
    ids = fill(db, [Priority(number % 4) for number in range(CASES)])
    vouch(db)
    diaries = all_at_once(database_url, timedelta(hours=1))
    check(db, diaries)
    claimed = Counter(case_id for diary in diaries for case_id, _, _ in diary.claims)
    assert claimed == Counter(ids), "each case was claimed exactly once"
    assert not any(diary.refused for diary in diaries)


def test_leases_that_run_out_in_the_middle(db: Database, database_url: str) -> None:
    fill(db, [Priority(number % 4) for number in range(CASES)])
    vouch(db)
    diaries = all_at_once(database_url, timedelta(minutes=15), dawdlers=5)
    check(db, diaries)
    held_at(db, diaries)
    assert all(diary.refused for diary in diaries[:5] if diary.claims), "who dawdled was refused"
    assert sum(len(diary.claims) for diary in diaries) > CASES, "their cases went to others"


def test_two_reviews_of_every_case_never_by_one_person(db: Database, database_url: str) -> None:
    register(db, *PEOPLE[:8], ADMIN)
    change(db, ADMIN.at(NOW), SiteSettings(second_review_rate=1.0), 0)
    ids = fill(db, [Priority.P2] * 30)
    vouch(db)
    clock = Clock(timedelta(microseconds=1))
    with ThreadPoolExecutor(8) as pool:
        for turn in range(2):  # whoever ran out of cases while the last reviews were under way comes back once
            seeds = range(100 * turn, 100 * turn + 8)
            list(
                pool.map(lambda who, seed: work(database_url, who, clock, timedelta(hours=1), seed), PEOPLE[:8], seeds)
            )
    pairs = db.rows(select(reviews.c.case_id, reviews.c.reviewer, reviews.c.review_round))
    methods = db.values(select(adjudications.c.method))
    assert Counter(row.case_id for row in pairs) == Counter(dict.fromkeys(ids, 2))
    assert len({(row.case_id, row.reviewer) for row in pairs}) == 60
    assert Counter(row.review_round for row in pairs) == {"first": 30, "second": 30}
    assert methods == ["agreement"] * 30
