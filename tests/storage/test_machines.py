"""The inbox as a machine, and a batch: whatever people and the clock, workers and the model do, in whatever order, the
promises of both hold after each step. Each example has a site of its own, on either database.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import func, select

from jobs.agents import Agents
from jobs.screening_job import ScreeningJob
from screening.datasets.rows import NewCase, RejectedRow
from screening.labels import Outcome
from screening.models.simulated import SimulatedSampler
from screening.pipeline.config import preset
from screening.pipeline.draws import Answer, Draw, DrawRequest, DrawSource, SamplerError, unusable
from screening.review.policy import LOCAL_USER, Acting, Actor, Forbidden
from screening.review.review_form import ReviewLabel
from screening.review.triage import Priority, Reach
from screening.settings import Settings
from screening.text.received import receive
from storage.audit_log import append, verify
from storage.batches import batches, single_texts
from storage.batches.batch_state import STOPPED, BatchCancelled, BatchState, Caps, standing
from storage.batches.batches import NewBatch, Progress, create_batch, progress
from storage.batches.configurations import Configuration, save_configuration
from storage.batches.counts import kinds
from storage.batches.intake import IntakeClosed, add_rows, close_intake, resume_intake, stop_intake
from storage.batches.pending import pending_cases
from storage.database import Database, Stale
from storage.review import adjudication, claims, erasure, inbox
from storage.review.claims import Claim, Incomplete, LeaseLost, NotAvailable
from storage.review.erasure import By, NotErased, Selection
from storage.review.evidence import reveal_evidence
from storage.review.follow_ups import request_second_looks
from storage.review.queue import counts, queue
from storage.review.reviews import TooLate, revise, submit_review, take_back
from storage.schema import accounts, adjudications, cases, inbox_entries, node_runs, reviews, screenings
from storage.schema import pending_cases as pending_rows
from storage.settings_store import SiteSettings, change
from storage.site.accounts import set_roles
from storage.visibility import NotYetReviewed
from tests.databases import copy_of, postgresql_database
from tests.storage.batch_of import NOW, batch, decide, waiting
from tests.storage.inbox_cases import form, register
from tests.storage.people import ADMIN, ANN, HELEN, PEOPLE, RESEARCHER, SENIOR
from tests.storage.recount import recount, recount_kinds

Sites = Callable[[], AbstractContextManager[str]]
"""Gives the URL of one more database, migrated and empty."""


@pytest.fixture(
    params=[pytest.param("sqlite", marks=pytest.mark.slow), pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def sites(request: pytest.FixtureRequest, tmp_path: Path) -> Sites:
    if request.param == "postgresql":
        server = request.getfixturevalue("postgresql_server")
        return lambda: postgresql_database(server)
    template = request.getfixturevalue("sqlite_template")
    return lambda: nullcontext(copy_of(template, tmp_path / f"{uuid4().hex}.db"))


class Machine(RuleBasedStateMachine):
    """One site and its clock."""

    sites: ClassVar[Sites]

    def __init__(self) -> None:
        super().__init__()
        self.place = self.sites()
        self.db, self.now = Database(self.place.__enter__()), NOW

    def teardown(self) -> None:
        self.db.close()
        self.place.__exit__(None, None, None)


def run(machine: type[Machine], sites: Sites, examples: int, **how: Any) -> None:
    """So many sites, each on a database of its own."""
    how |= {"deadline": None, "suppress_health_check": list(HealthCheck), "report_multiple_bugs": False}
    chosen = settings(max_examples=examples, stateful_step_count=25, **how)
    run_state_machine_as_test(type("Site", (machine,), {"sites": staticmethod(sites)}), settings=chosen)


REVIEWERS = tuple(PEOPLE.values())
FLOORS = {
    "A quiet day by the lake.": Priority.P3,
    "I want to die.": Priority.P1,
    "I have the pills here and I am going to kill myself tonight.": Priority.P0,
}
TEXTS = tuple(FLOORS)
BY_THEMSELVES = {"single", "agreement"}
"""Methods by which reviews close a case without a senior."""
REFUSED = (Forbidden, LeaseLost, NotAvailable, TooLate, Incomplete, Stale, NotErased, NotYetReviewed)
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
            except Incomplete:
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
        if refused_or(adjudication.adjudicate, *word, "we talked", discussed=True) is REFUSAL:
            versions = self._of(adjudications.c.case_id == case_id, func.max(adjudications.c.version))
            refused_or(adjudication.adjudicate, *word, "once more", versions or 0)

    @rule(pick=picks)
    def send_to_review(self, pick: int) -> None:
        case_ids = [self._any_case(pick)]
        request_second_looks(self.db, self._by(RESEARCHER), case_ids)
        assert request_second_looks(self.db, self._by(RESEARCHER), case_ids).opened == 0

    @rule(who=people, pick=picks, at_once=st.booleans())
    def look_at_the_evidence(self, who: Actor, pick: int, at_once: bool) -> None:
        case_id = self._any_case(pick)
        entry = next(iter(self.db.rows(select(inbox_entries).where(inbox_entries.c.case_id == case_id))), None)
        reviewed = self._of((reviews.c.case_id == case_id) & (reviews.c.reviewer == who.id), func.count()) > 0
        shown = refused_or(reveal_evidence, self.db, self._by(who), case_id, open_at_once=at_once)
        if shown is not REFUSAL and entry is not None and entry.closed_at is None and not reviewed:
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


SCREENED = (
    "The bus was late again and I walked home in the rain",
    "My friend says she wants to disappear",  # goes on from the first agent to the next
    "I want to die and nobody would notice",
)
DOWN = {
    "refuses": SamplerError("overloaded", "not now"),
    "silent": SamplerError("timeout", "no answer"),
    "key": SamplerError("authentication", "no such key", stops_batch=True),
    "bug": RuntimeError("a bug"),
}
"""What may be wrong with the model beside answers that are no labels; only the silent one is paid."""
MOST_OVER = 24
"""Calls above a cap: about a draw batch of each case that was under way."""


class Killed(BaseException):
    """The process ended where it stood: nothing more is written."""


class Model(Agents):
    """Simulated agents of one worker: they count what they are asked for each seed, and fail as told."""

    def __init__(self, saw: Counter[int], mode: str = "up", *, killed_at: int | None = None) -> None:
        super().__init__(Settings(_env_file=None, sampler="simulated"))
        self.saw, self.mode, self.draw_batches_left = saw, mode, killed_at
        self.of_node = 0
        self.refused: set[int] = set()
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.go.set()

    def sampler(self, configuration: Configuration, seed: int) -> DrawSource:
        return _Counted(super().sampler(configuration, seed), self, seed)


class _Counted:
    def __init__(self, inner: DrawSource, model: Model, seed: int) -> None:
        self.inner, self.model, self.seed = inner, model, seed

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        model, bill = self.model, request.bill
        assert bill is not None
        if model.mode in DOWN and model.mode != "silent":
            model.refused.add(self.seed)
            raise DOWN[model.mode]
        bill.requests += request.count
        model.saw[self.seed] += request.count
        model.of_node = request.count + (model.of_node if request.first else 0)
        model.asked.set()
        await model.go.wait()
        if model.draw_batches_left is not None:
            model.draw_batches_left -= 1
            if model.draw_batches_left < 0:
                raise Killed
        if model.mode in DOWN:
            raise DOWN[model.mode]
        if model.mode == "odd":
            return [unusable(Answer.UNPARSABLE, "as an AI I cannot say")] * request.count
        return await self.inner.draw(replace(request, bill=None))


class Made:
    """What the test knows of a batch: its rows, and what people and faults did to it."""

    def __init__(self, seed: int, *, single: bool) -> None:
        self.seed, self.single = seed, single
        self.accepted = self.rejected = 0
        self.closed = self.cancelled = self.paused = self.missing = False
        self.caps = Caps()
        self.died_with = 0
        """Calls whose worker was killed before it could write them down."""
        self.ended: Any = None


class Batches(Machine):
    """A few batches and as many workers as come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.saw: Counter[int] = Counter()
        self.made: dict[str, Made] = {}

    @initialize()
    def open_site(self) -> None:
        for pick in (0, 1):
            self.begin(single=False)
            self.rows_in(pick, [0, 1, None], again=False)

    @property
    def by(self) -> Any:
        return LOCAL_USER.at(self.now)

    def _batch(self, pick: int) -> tuple[str, Made]:
        return list(self.made.items())[pick % len(self.made)]

    def _progress(self, batch_id: str) -> Progress:
        return progress(self.db, batch_id, self.now)

    def _job(self, model: Model, worker: str = "w") -> ScreeningJob:
        return ScreeningJob(db=self.db, agents=model, clock=self._tick, worker=worker)

    def _tick(self) -> datetime:
        """No two moments of two workers are the same."""
        self.now += timedelta(microseconds=1)
        return self.now

    def _due(self, limit: int, *, put_off: bool = False) -> list[str]:
        """What a worker takes next; on PostgreSQL its own clock says what was put off, and that does not move here."""
        return pending_cases(self.db, limit, None if put_off or self.db.kind == "postgresql" else self.now)

    def _batch_of(self, case_id: str) -> str:
        return str(self.db.value(select(cases.c.batch_id).where(cases.c.id == case_id)))

    @rule(single=st.booleans())
    def begin(self, single: bool) -> None:
        seed = len(self.made) + 1
        made_of = Configuration(pipeline=preset("recommended"), sampler=SimulatedSampler(seed).describe())
        version = save_configuration(self.db, made_of, self.now)
        kind: Any = "interactive" if single else "batch"
        batch_id = create_batch(self.db, self.by, NewBatch(name="posts", kind=kind), version, seed=seed)
        self.made[batch_id] = Made(seed, single=single)
        if single:
            self.rows_in(len(self.made) - 1, [1], again=False)
            self.close(len(self.made) - 1)

    @rule(pick=picks, texts=st.lists(st.sampled_from([0, 1, 2, None]), min_size=1, max_size=4), again=st.booleans())
    def rows_in(self, pick: int, texts: list[int | None], again: bool) -> None:
        """``again``: the reviewer died, and the next one reads the file from its start."""
        batch_id, made = self._batch(pick)
        before = made.accepted + made.rejected
        given = [*[None] * before, *texts] if again else texts
        rows = [_row(row, text) for row, text in enumerate(given, start=1 if again else before + 1)]
        if made.single and made.accepted:
            return
        try:
            add_rows(self.db, batch_id, rows, self.now)
        except IntakeClosed:
            assert made.closed or made.cancelled
            return
        assert not (made.closed or made.cancelled)
        made.rejected += texts.count(None)
        made.accepted += len(texts) - texts.count(None)

    @rule(pick=picks)
    def close(self, pick: int) -> None:
        batch_id, made = self._batch(pick)
        close_intake(self.db, self.by, batch_id)
        made.closed, made.missing = True, False

    @rule(pick=picks, stop=st.booleans())
    def file_gone_or_back(self, pick: int, stop: bool) -> None:
        batch_id, made = self._batch(pick)
        if stop:
            stop_intake(self.db, self.by, batch_id, "source_gone")
        else:
            resume_intake(self.db, self.by, batch_id)
        made.missing = stop and not (made.closed or made.cancelled)

    @rule(pick=picks, pause=st.booleans())
    def pause_or_resume(self, pick: int, pause: bool) -> None:
        batch_id, made = self._batch(pick)
        (batches.pause if pause else batches.resume)(self.db, self.by, batch_id)
        made.paused = pause

    @rule(pick=picks, calls=st.sampled_from([None, 1, 20, 60]), usd=st.sampled_from([None, None, 1.0]))
    def cap(self, pick: int, calls: int | None, usd: float | None) -> None:
        batch_id, made = self._batch(pick)
        before = self._progress(batch_id)
        made.caps = Caps(max_calls=calls, max_cost_usd=usd)
        batches.change_caps(self.db, self.by, batch_id, made.caps)
        if before.state is BatchState.PAUSED and before.at_cap:
            made.paused = False

    @rule(pick=st.integers(0, 400))
    def cancel(self, pick: int) -> None:
        if pick > 99:
            return  # seldom: nothing more happens to it
        batch_id, made = self._batch(pick)
        batches.cancel(self.db, self.by, batch_id)
        made.cancelled, made.missing = True, False

    @rule(pick=picks)
    def retry(self, pick: int) -> None:
        batch_id, made = self._batch(pick)
        failed = {one: self._progress(one).failed for one in self.made}
        try:
            assert batches.retry_failed(self.db, self.by, batch_id) == failed[batch_id]
        except BatchCancelled:
            assert made.cancelled
        else:
            assert not made.cancelled
            failed[batch_id] = 0
        assert failed == {one: self._progress(one).failed for one in self.made}

    @rule(pick=picks)
    def leave_the_page(self, pick: int) -> None:
        batch_id, made = self._batch(pick)
        if made.single:
            for case_id in self.db.values(select(pending_rows.c.case_id).where(pending_rows.c.batch_id == batch_id)):
                single_texts.withdraw(self.db, case_id, self.now)

    @rule(minutes=st.sampled_from([-20, 0.1, 2, 300]))
    def clock(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)

    @rule(
        mode=st.sampled_from(["up", "up", "odd", "bug", *DOWN]),
        most=st.integers(1, 6),
        meanwhile=st.sampled_from([None, None, None, batches.pause, batches.cancel]),
    )
    def work(self, mode: str, most: int, meanwhile: Callable[..., None] | None) -> None:
        """A worker takes what comes next. So few of what fails that it never has to leave the model alone."""
        due = self._due(most if mode in ("up", "odd") else min(most, 2))
        if due and meanwhile is not None:
            stopped = self._batch_of(due[0])
            meanwhile(self.db, self.by, stopped)
            self.made[stopped].paused |= meanwhile is batches.pause
            self.made[stopped].cancelled |= meanwhile is batches.cancel
            self.made[stopped].missing &= meanwhile is batches.pause
        before = {batch_id: self._progress(batch_id) for batch_id in self.made}
        seen = self.saw.copy()
        model = Model(self.saw, mode)
        job = self._job(model)

        async def all_at_once() -> None:
            await asyncio.gather(*(job.screen_case(case_id) for case_id in due))

        asyncio.run(all_at_once())
        for batch_id, made in self.made.items():
            was, calls = before[batch_id], self.saw[made.seed] - seen[made.seed]
            if was.state in STOPPED:
                assert calls == 0, "a stopped batch asks nobody"
            if (most_calls := made.caps.max_calls) is not None and was.calls < most_calls:
                assert was.calls + calls <= most_calls + MOST_OVER
            self._note_fault(batch_id, mode)
            if mode == "key" and made.seed in model.refused and not made.single:
                assert self._progress(batch_id).state in STOPPED, "nobody asks on with a bad key"
        if mode == "up":
            assert not set(due) & set(self._due(1_000)) or any(made.caps != Caps() for made in self.made.values())

    @rule(draw_batches=st.integers(0, 4))
    def die_over_a_case(self, draw_batches: int) -> None:
        for case_id in self._due(1):
            model, batch_id = Model(self.saw, killed_at=draw_batches), self._batch_of(case_id)
            with suppress(Killed):
                asyncio.run(self._job(model).screen_case(case_id))
                return
            self.made[batch_id].died_with += model.of_node

    @rule(mode=st.sampled_from(["up", "odd"]), draw_batches=st.integers(0, 2))
    def lease_runs_out(self, mode: str, draw_batches: int) -> None:
        """A worker is taken for dead in the middle of a case; another one ends it, then the first goes on."""
        for case_id in self._due(1):
            asyncio.run(self._overtake(case_id, Model(self.saw, mode)))
            self._note_fault(self._batch_of(case_id), mode)

    async def _overtake(self, case_id: str, slow: Model) -> None:
        first = await _begun(slow, self._job(slow, "slow").screen_case(case_id))
        await self._job(Model(self.saw), "other").screen_case(case_id)
        slow.go.set()
        await first

    @rule(mode=st.sampled_from(["silent", "up"]))
    def told_to_end(self, mode: str) -> None:
        """A worker is shut down in an orderly way while a case waits for its model."""

        async def ended() -> None:
            model = Model(self.saw, mode)
            for case_id in self._due(1):
                task = await _begun(model, self._job(model).screen_case(case_id))
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        asyncio.run(ended())

    def _note_fault(self, batch_id: str, mode: str) -> None:
        """The program pauses a batch for a fault that is no case's own; never while its model answers."""
        made, now = self.made[batch_id], self._progress(batch_id)
        if not made.paused and now.state is BatchState.PAUSED:
            assert mode != "up" or now.why in ("max_cost", "cost_unknown")
            made.paused = True

    @invariant()
    def every_case_waits_or_has_ended_and_what_is_escalated_is_in_the_queue(self) -> None:
        is_pending, is_ended = pending_rows.c.case_id.is_not(None), screenings.c.case_id.is_not(None)
        joined = select(func.count()).select_from(cases).outerjoin(pending_rows).outerjoin(screenings)
        assert self.db.value(joined.where(is_pending == is_ended)) == 0
        escalated = select(screenings.c.case_id).where(screenings.c.outcome == Outcome.HUMAN_REVIEW.value)
        assert set(self.db.values(escalated)) <= set(self.db.values(select(inbox_entries.c.case_id)))

    @invariant()
    def what_is_told_of_a_batch_is_what_happened_to_it(self) -> None:
        """Every row is somewhere once, each call is counted once, and results of a finished batch never change."""
        for batch_id, made in self.made.items():
            told = self._progress(batch_id)
            assert (told.accepted, told.rejected) == (made.accepted, made.rejected)
            assert told.rows_in == told.accepted + told.rejected
            assert told.accepted == told.safe + told.unsafe + told.human_review + told.pending
            with self.db.read() as conn:
                facts = recount(conn, batch_id)
                assert standing(conn, batch_id).totals == facts
                assert kinds(conn, batch_id) == recount_kinds(conn, batch_id)
            assert facts.calls + facts.lost_calls == self.saw[made.seed] - made.died_with
            assert (told.calls, told.lost_calls) == (facts.calls + facts.lost_calls, facts.lost_calls)
            assert told.caps == made.caps
            assert told.state in _states(made, told)
            of_batch = (select(each).where(each.c.batch_id == batch_id) for each in (screenings, node_runs))
            found = [tuple(row) for query in of_batch for row in self.db.rows(query.order_by("case_id"))]
            if told.state is BatchState.FINISHED:
                made.ended = made.ended or sorted(found, key=str)
            assert made.ended is None or made.ended == sorted(found, key=str)


def _states(made: Made, told: Progress) -> set[BatchState]:
    """What a batch may be in after all that."""
    if made.closed and told.pending == 0:
        return {BatchState.FINISHED}
    if made.cancelled:
        return {BatchState.CANCELLED}
    if made.paused:
        return {BatchState.PAUSED}
    if made.caps.max_calls is not None and told.calls >= made.caps.max_calls:
        return {BatchState.CAPPED}
    going = BatchState.RUNNING if told.failed < told.pending else BatchState.NEEDS_RETRY
    opened = BatchState.ROWS_MISSING if made.missing else BatchState.TAKING_IN
    return {BatchState.CAPPED, going if made.closed else opened}


def _row(row: int, text: int | None) -> NewCase | RejectedRow:
    if text is None:
        return RejectedRow(row=row, reason="empty")
    return NewCase(row=row, external_id=f"p{row}", text=receive(SCREENED[text]))


async def _begun(model: Model, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Work whose model was asked and does not answer yet, or that is over."""
    model.go.clear()
    task = asyncio.create_task(work)
    asking = asyncio.create_task(model.asked.wait())
    await asyncio.wait([task, asking], return_when=asyncio.FIRST_COMPLETED)
    asking.cancel()
    return task


@pytest.mark.timeout(600)
def test_batches_keep_their_promises(sites: Sites, request: pytest.FixtureRequest) -> None:
    examples = 5 if "postgresql" in request.node.name else 16
    run(Batches, sites, examples, derandomize=True, phases=[Phase.generate, Phase.shrink])
