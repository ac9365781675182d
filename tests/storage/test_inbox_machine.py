"""The inbox as a machine: whatever people and the clock do, in whatever order, its promises hold after each step."""

from collections import Counter
from collections.abc import Callable, Collection
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from sqlalchemy import func, select

from screening.labels import Outcome
from screening.review.actors import Acting, Actor
from screening.review.policy import Forbidden
from screening.review.reach import Reach
from screening.review.review_form import ReviewLabel
from screening.review.triage import Priority
from storage.audit_log import append
from storage.batches.batches import progress
from storage.batches.counts import kinds
from storage.review import adjudication, claims, erasure, inbox
from storage.review.adjudication import Method, ReasonNeeded, StaleVersion
from storage.review.claims import Claim, LeaseLost, NotAvailable
from storage.review.erasure import By, NotErased, Selection
from storage.review.evidence import reveal_evidence
from storage.review.queue import counts, queue
from storage.review.reviews import TooLate, revise, submit_review, take_back
from storage.review.worklist import request_second_looks
from storage.schema import accounts, adjudications, inbox_entries, reviews, screenings
from storage.settings_store import SiteSettings, change
from storage.site.accounts import set_roles
from storage.site.audit_check import verify
from storage.visibility import NotYetRated
from tests.storage.batch_of import NOW, batch, decide, waiting
from tests.storage.inbox_cases import form, register
from tests.storage.machine import Machine, Sites, run
from tests.storage.people import ADMIN, ANN, HELEN, PEOPLE, RESEARCHER, SENIOR
from tests.storage.recount import recount, recount_kinds

REVIEWERS = tuple(PEOPLE.values())
FLOORS = {
    "A quiet day by the lake.": Priority.P3,
    "I want to die.": Priority.P1,
    "I have the pills here and I am going to kill myself tonight.": Priority.P0,
}
TEXTS = tuple(FLOORS)
BY_THEMSELVES = {"single", "agreement"}
"""Methods by which reviews close a case without a senior."""
REFUSED = (Forbidden, LeaseLost, NotAvailable, TooLate, ReasonNeeded, StaleVersion, NotErased, NotYetRated)
"""What a person is told in words; nothing else may come out of an action."""

REFUSAL: Any = object()


def refused_or(act: Callable[..., Any], *values: Any, **named: Any) -> Any:
    """What comes of it, or `REFUSAL`."""
    try:
        return act(*values, **named)
    except REFUSED:
        return REFUSAL


WAYS: dict[str, Callable[..., Any]] = {
    "release": lambda *held: inbox.release(*held[:-1], "seen"),
    "skip": lambda *held: inbox.skip(*held[:-1], "seen"),
    "hold": lambda *held: inbox.hold(*held[:-1], "seen"),
    "decline": lambda *held: inbox.decline(*held[:-1]),
    "transfer": lambda *held: inbox.hand_over(*held, "seen"),
}
"""How to leave a case that one has in hands, some to somebody."""
people = st.sampled_from(REVIEWERS)
labels = st.sampled_from([label.value for label in ReviewLabel])
certainties = st.integers(1, 5)
picks = st.integers(0, 99)


class Inbox(Machine):
    """What each person last had in hands, how the AI ended each case, its least priority."""

    begins = NOW

    def __init__(self) -> None:
        super().__init__()
        self.made = 0
        self.roles = {who.id: who.roles for who in REVIEWERS}
        self.hands: dict[str, Claim] = {}
        self.ended: dict[str, str] = {}
        self.least: dict[str, Priority] = {}
        self.batches: list[str] = []
        register(self.db, *REVIEWERS, RESEARCHER, ADMIN)
        with self.db.write() as conn:
            for who in (*REVIEWERS, RESEARCHER, ADMIN):
                append(conn, who.at(NOW), "registered", who.id, {}, accounts)

    @initialize(second=st.sampled_from([0.0, 0.5]), by_two=st.booleans(), outcome=st.sampled_from(list(Outcome)))
    def open_site(self, second: float, by_two: bool, outcome: Outcome) -> None:
        change(self.db, ADMIN.at(NOW), SiteSettings(second_review_rate=second, erasure_by_two=by_two), 0)
        for text in TEXTS:
            self.screen(text, outcome, Reach.READ, True)

    def teardown(self) -> None:
        try:
            assert verify(self.db).ok
        finally:
            super().teardown()

    def _by(self, person: Actor) -> Acting:
        """As the account is now."""
        return Actor(id=person.id, name=person.name, roles=self.roles.get(person.id, person.roles)).at(self.now)

    def _id(self) -> str:
        self.made += 1
        return f"{self.made:032x}"

    def _of(self, case: Any, column: Any) -> Any:
        return next(iter(self.db.values(select(column).where(case))), None)

    def _any_case(self, pick: int, among: Collection[str] | None = None) -> str:
        """One of them, in the order in which they were screened: an example is the same whatever their ids are."""
        known = [case_id for case_id in self.ended if among is None or case_id in among]
        return known[pick % len(known)]

    @rule(
        text=st.sampled_from(TEXTS),
        outcome=st.sampled_from(list(Outcome)),
        reach=st.sampled_from([Reach.READ, Reach.COUNT]),
        audited=st.booleans(),
    )
    def screen(self, text: str, outcome: Outcome, reach: Reach, audited: bool) -> None:
        if text != TEXTS[0] and outcome is Outcome.SAFE:
            outcome = Outcome.HUMAN_REVIEW  # safe would be refused
        batch_id = batch(self.db, [text], reach=reach, audit_rate=float(audited))
        self.batches.append(batch_id)
        (case_id,) = (one for one in waiting(self.db) if one not in self.ended)
        decide(self.db, case_id, outcome)
        self.ended[case_id], self.least[case_id] = outcome.value, FLOORS[text]
        in_queue = self._of(inbox_entries.c.case_id == case_id, inbox_entries.c.priority) is not None
        must = outcome is Outcome.HUMAN_REVIEW or audited or (outcome is Outcome.UNSAFE and reach is Reach.READ)
        assert in_queue or not must

    @rule(who=people)
    def claim(self, who: Actor) -> None:
        found = refused_or(claims.claim_next, self.db, self._by(who))
        if found is not None and found is not REFUSAL:
            self.hands[who.id] = found
            assert found.case_id in {one.case_id for one in claims.my_claims(self.db, self._by(who))}

    @rule(who=people, label=labels, certainty=certainties)
    def claim_and_submit(self, who: Actor, label: str, certainty: int) -> None:
        self.claim(who)
        self.submit(who, label, certainty)

    @rule(who=people, how=st.sampled_from([*WAYS, "no note"]), to=people)
    def leave(self, who: Actor, how: str, to: Actor) -> None:
        if (held := self.hands.get(who.id)) is None:
            return
        mine = self.db, self._by(who), held.case_id, held.token
        if how == "no note":
            try:
                refused_or(inbox.skip, *mine)
            except inbox.NoteNeeded:
                assert held.priority in inbox.NEEDS_NOTE
        elif refused_or(WAYS[how], *mine, to.id) is not REFUSAL:
            with pytest.raises(LeaseLost):
                WAYS[how](*mine, to.id)

    @rule(who=people)
    def ask_for_a_second_review(self, who: Actor) -> None:
        if (held := self.hands.get(who.id)) is not None:
            refused_or(inbox.ask_second_opinion, self.db, self._by(who), held.case_id, held.token)

    @rule(who=people, label=labels, certainty=certainties)
    def submit(self, who: Actor, label: str, certainty: int) -> None:
        if (held := self.hands.get(who.id)) is None:
            return
        name = self._id()
        press = partial(submit_review, self.db, self._by(who), held.case_id, held.token, form(label, certainty), name)
        if (following := refused_or(press)) is not REFUSAL:
            assert following is not None and press() is None
            stored = self.db.rows(select(reviews).where(reviews.c.id == name))
            assert [(row.label, row.certainty, row.reviewer) for row in stored] == [(label, certainty, who.id)]

    @rule(who=people)
    def undo(self, who: Actor) -> None:
        last = select(reviews).where(reviews.c.reviewer == who.id).order_by(reviews.c.at.desc(), reviews.c.id.desc())
        for row in self.db.rows(last.limit(1)):
            if (claim := refused_or(take_back, self.db, self._by(who), row.case_id, row.id)) is not REFUSAL:
                self.hands[who.id] = claim
                assert self._of(reviews.c.id == row.id, reviews.c.id) is None

    @rule(who=people, label=labels, certainty=certainties, pick=picks)
    def change_a_review(self, who: Actor, label: str, certainty: int, pick: int) -> None:
        mine = self.db.values(select(reviews.c.case_id).where(reviews.c.reviewer == who.id).distinct())
        if mine:
            filled, case_id = form(label, certainty), self._any_case(pick, mine)
            press = partial(revise, self.db, self._by(who), case_id, filled, "read again", self._id())
            assert refused_or(press) is REFUSAL or press() is None

    @rule(who=st.sampled_from([SENIOR, HELEN]), label=labels, pick=picks)
    def decide_as_a_senior(self, who: Actor, label: str, pick: int) -> None:
        case_id = self._any_case(pick)
        word = self.db, self._by(who), case_id, ReviewLabel(label)
        if refused_or(adjudication.adjudicate, *word, "we talked", Method.DISCUSSION) is REFUSAL:
            versions = self._of(adjudications.c.case_id == case_id, func.max(adjudications.c.version))
            refused_or(adjudication.amend, *word, "once more", versions or 0)

    @rule(pick=picks)
    def send_to_review(self, pick: int) -> None:
        case_ids = [self._any_case(pick)]
        request_second_looks(self.db, self._by(RESEARCHER), case_ids)
        assert request_second_looks(self.db, self._by(RESEARCHER), case_ids).opened == 0

    @rule(who=people, pick=picks, at_once=st.booleans())
    def look_at_the_evidence(self, who: Actor, pick: int, at_once: bool) -> None:
        case_id = self._any_case(pick)
        entry = next(iter(self.db.rows(select(inbox_entries).where(inbox_entries.c.case_id == case_id))), None)
        rated = self._of((reviews.c.case_id == case_id) & (reviews.c.reviewer == who.id), func.count()) > 0
        shown = refused_or(reveal_evidence, self.db, self._by(who), case_id, open_at_once=at_once)
        if shown is not REFUSAL and entry is not None and entry.closed_at is None and not rated:
            assert at_once and entry.priority == Priority.P0 and entry.assignee == who.id

    @rule(pick=picks)
    def delete_a_text(self, pick: int) -> None:
        which = Selection(by=By.CASE, value=self._any_case(pick))
        refused_or(erasure.erase, self.db, self._by(ADMIN), which, "asked for")

    @rule()
    def retention(self) -> None:
        erasure.expire(self.db, self.now)

    @rule(minutes=st.sampled_from([-20, -1, 0.02, 1, 10, 16, 300]))
    def clock(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)

    @rule(who=st.sampled_from([ANN, HELEN]))
    def take_a_role_or_give_it_back(self, who: Actor) -> None:
        self.roles[who.id] = frozenset() if self.roles[who.id] else who.roles
        set_roles(self.db, self._by(ADMIN), who.id, self.roles[who.id])

    @invariant()
    def nobody_reviews_twice_or_has_what_they_have_reviewed(self) -> None:
        read = [tuple(row) for row in self.db.rows(select(reviews.c.case_id, reviews.c.reviewer, reviews.c.version))]
        assert len(read) == len(set(read))
        held = inbox_entries.c
        query = select(held.case_id, held.assignee).where(held.closed_at.is_(None), held.lease_token.is_not(None))
        assert not {tuple(row) for row in self.db.rows(query)} & {row[:2] for row in read}

    @invariant()
    def counts_and_lists_say_the_same(self) -> None:
        by = SENIOR.at(self.now)
        listed = queue(self.db, by, limit=1_000)
        told = counts(self.db, by)
        rows = self.db.rows(select(inbox_entries).where(inbox_entries.c.closed_at.is_(None)))
        assert {one.case_id for one in listed} == {row.case_id for row in rows}
        assert told.open == len(rows)
        assert {one: n for one, n in told.open_by_priority.items() if n} == Counter(row.priority for row in rows)
        assert {state: n for state, n in told.by_state.items() if n} == Counter(one.state for one in listed)

    @invariant()
    def no_priority_is_below_what_the_text_states(self) -> None:
        for row in self.db.rows(select(inbox_entries.c.case_id, inbox_entries.c.priority)):
            assert row.priority <= self.least[row.case_id]

    @invariant()
    def reviews_never_change_what_the_ai_did(self) -> None:
        stored = {row.case_id: row.outcome for row in self.db.rows(select(screenings.c.case_id, screenings.c.outcome))}
        assert stored == self.ended
        with self.db.read() as conn:
            for batch_id in self.batches:
                assert kinds(conn, batch_id) == recount_kinds(conn, batch_id)
                found, told = recount(conn, batch_id), progress(self.db, batch_id, self.now)
                assert (told.accepted, told.safe, told.unsafe, told.human_review) == (
                    found.accepted, found.safe, found.unsafe, found.human_review
                )  # fmt: skip

    @invariant()
    def a_closed_case_has_the_label_its_reviewers_last_gave(self) -> None:
        latest: dict[str, dict[str, str]] = {}
        for row in self.db.rows(select(reviews).order_by(reviews.c.version)):
            latest.setdefault(row.case_id, {})[row.reviewer] = row.label
        versions = self.db.rows(select(adjudications).order_by(adjudications.c.version))
        final: dict[str, Any] = {row.case_id: row for row in versions}
        closed = select(inbox_entries.c.case_id).where(inbox_entries.c.closed_at.is_not(None))
        for case_id in self.db.values(closed):
            made = final.get(case_id)
            if made is not None and made.method in BY_THEMSELVES:
                assert made.label in latest[case_id].values()


@pytest.mark.timeout(600)
def test_the_inbox_keeps_its_promises(sites: Sites, request: pytest.FixtureRequest) -> None:
    run(Inbox, sites, 6 if "postgresql" in request.node.name else 25)
