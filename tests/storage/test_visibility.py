"""Counts are what the AI did, for everybody and in every state; lists hide cases in review from who asked for that, and
what they show of them is written down and makes a later review not blinded. Blind first: every way to the AI's view is
shut until one's own review is in. A case taken with its text is what claiming it, opening it and asking for its notes
were; the same person's other texts are beside it, only where the file's column names people. What was opened is
counted; a break starts that again.
"""

import tomllib
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, update

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.review.policy import LOCAL_USER, SYSTEM, Acting, Action, Actor, Forbidden, Role, is_allowed
from screening.review.review_form import ReviewLabel
from screening.review.triage import Priority, Reach
from screening.text.received import receive
from storage.audit_log import events
from storage.batches.intake import add_rows, close_intake
from storage.database import Database
from storage.research.cells import Cell, cell_page, confusions, listed_case
from storage.research.corrected_labels import export_corrected_labels
from storage.research.review_table import review_table, switches
from storage.review import claims, evidence, inbox, reviews
from storage.review.adjudication import adjudicate, reveal_versions
from storage.review.evidence import notes, open_next, reveal_evidence, reveal_text
from storage.review.follow_ups import request_second_looks
from storage.review.queue import counts, queue, reserved_cases
from storage.review.reports import exposure, take_break
from storage.review.reviews import my_review, reveal_reviews, revise, submit_review
from storage.schema import batches, case_tags, cases, unblindings
from storage.schema.columns import new_id
from storage.visibility import NotYetReviewed, Unread, choose_hiding, hides_in_review, reveal, see_reviews
from tests.databases import plan, statements
from tests.storage.batch_of import LATER, batch, decide, ids_of, results, waiting
from tests.storage.batch_of import NOW as BEGUN
from tests.storage.inbox_cases import batch_of, blind, entry, fill, form, play, put, read, rows, site, take
from tests.storage.people import ADMIN, ANN, BO, CY, HELEN, MINUTE, NOW, PEOPLE, RESEARCHER, SENIOR, later, person
from tests.storage.recount import adjudicated_labels

ALL_ROLES, BOTH = person("eve", *Role), person("eve", Role.REVIEWER, Role.RESEARCHER)
S, U, H = Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW
ROWS = (  # group, reference, and how it ended where nobody reads it any more
    ("a", Label.SAFE, S), ("a", Label.UNSAFE, S), ("a", Label.UNSAFE, H), ("b", Label.SAFE, U), ("b", None, S),
    ("a", Label.SAFE, None), ("b", Label.UNSAFE, None), ("b", Label.UNSAFE, None), (None, None, None),
)  # fmt: skip
TABLES = tomllib.loads((Path(__file__).parent / "visibility.toml").read_text(encoding="utf-8"))
OPEN = sum(ended is None for *_, ended in ROWS)
WORLDS = [(S,) * OPEN, (U,) * OPEN, (H, U, H, S)]


@pytest.fixture(autouse=True)
def team(db: Database) -> None:
    """Five who read, and no second reviews by a coin."""
    site(db, ANN, BO, HELEN, SENIOR, BOTH)


def _read(db: Database, who: Actor, case_id: str, label: str, *, certainty: int = 5) -> None:
    by = who.at(LATER)
    claim = claims.claim(db, by, case_id) if Role.SENIOR in who.roles else take(db, who, LATER)
    assert claim.case_id == case_id
    submit_review(db, by, case_id, claim.token, form(label, certainty), new_id(LATER))


def _was_blind(db: Database, who: Actor, case_id: str) -> bool:
    mine = my_review(db, who, case_id)
    assert mine is not None
    return mine.blind


def _world(db: Database, endings: Sequence[Outcome], first_label: str = "unsafe") -> str:
    """A batch, all under audit: some cases are closed, the others wait and ended in these ways. The first of those
    that wait was closed with ``first_label`` and then opened again.
    """
    batch_id = batch(db, closed=False, audit_rate=1.0)
    new = [
        NewCase(row=row, external_id=f"p{row}", text=receive(f"text {row}"), reference=reference, group=group)
        for row, (group, reference, _) in enumerate(ROWS, start=1)
    ]
    add_rows(db, batch_id, new, BEGUN)
    close_intake(db, LOCAL_USER.at(BEGUN), batch_id)
    ended = [known for *_, known in ROWS if known is not None]
    for case_id, outcome in zip(waiting(db), [*ended, *endings], strict=True):
        decide(db, case_id, outcome, 0.25)  # sums of quarters are exact, in whatever order a database adds them up
    ids = ids_of(db, batch_id)
    with db.write() as conn:  # somebody who may not read noted which ended as safe
        tagged = [*ids[:2], *(one for one, ended in zip(ids[-OPEN:], endings, strict=True) if ended is S)]
        conn.execute(insert(case_tags), [{"case_id": one, "tag": "lyrics", "by": "x", "at": BEGUN} for one in tagged])
    for case_id, (*_, known) in zip(ids[: -OPEN + 1], ROWS, strict=False):
        agreed = "unsafe" if known is U else "safe"  # what reads otherwise than the engine waits for a second reviewer
        _read(db, HELEN, case_id, first_label if case_id == ids[-OPEN] else agreed)
    again, other = ids[-OPEN], "safe" if first_label == "unsafe" else "insufficient_information"
    revise(db, HELEN.at(LATER), again, form(other, 1), "read again", new_id(LATER))
    return batch_id


def _listed(db: Database, batch_id: str) -> dict[str, Any]:
    """Every list of cases and the file, without ids that are made at random."""
    by, of_all = SENIOR.at(LATER), Cell(batch_id=batch_id)
    order = {case_id: row for row, case_id in enumerate(ids_of(db, batch_id))}
    found: dict[str, Any] = {"results": [replace(one, case_id="", batch_id="") for one in results(db, by, batch_id)]}
    cells = [
        replace(of_all, reference=reference, outcome=str(outcome), labels=labels, group=group)  # type: ignore[arg-type]
        for labels, group in product(("original", "adjudicated"), (None, "a", "b"))
        for reference, outcome in product(("safe", "unsafe"), (*Outcome, "pending"))
    ]
    lists = [*cells, *(replace(of_all, **one) for one in TABLES["lists"])]
    lists += [replace(of_all, way=("worker", Label.SAFE)), replace(of_all, ids=tuple(order))]
    for one in lists:
        page = cell_page(db, by, one)
        shown = [replace(case, case_id="", batch_id="") for case in page.cases]
        found[repr(replace(one, batch_id="", ids=None))] = shown, [order[case_id] for case_id in page.ids]
    return found


def test_with_the_switch_on_no_list_depends_on_how_a_case_in_review_ended(db: Database) -> None:
    """Nor on the first review of a case that was opened again."""
    first = _listed(db, _world(db, WORLDS[0]))
    assert sum(row.hidden for row in first["results"]) == OPEN
    for endings, label in (*((world, "unsafe") for world in WORLDS[1:]), (WORLDS[0], "safe")):
        assert _listed(db, _world(db, endings, label)) == first
    assert not [row for row in rows(db, unblindings) if row.reviewer == SENIOR.id]


def test_the_switch_is_on_for_reviewers_of_a_site_with_sign_in_and_remembered_per_person(db: Database) -> None:
    people = {LOCAL_USER: False, RESEARCHER: False, SENIOR: True, ALL_ROLES: True, ANN: True}
    for who, hides in people.items():
        with db.read() as conn:
            assert hides_in_review(conn, who) is hides and not hides_in_review(conn, SYSTEM)
        for chosen in (not hides, hides, not hides):
            if who == ANN:  # who may not see outcomes chooses nothing
                with pytest.raises(Forbidden):
                    choose_hiding(db, who.at(BEGUN), hide=chosen)
                continue
            choose_hiding(db, who.at(BEGUN), hide=chosen)
            with db.read() as conn:
                assert hides_in_review(conn, who) is chosen
                assert hides_in_review(conn, replace(who, id="other")) is is_allowed(who, Action.CLAIM_NEXT)


def _see_corrected(db: Database, by: Acting, batch_id: str) -> None:
    anybody = replace(by, actor=replace(by.actor, roles=frozenset(Role)))
    assert len(list(export_corrected_labels(db, anybody, batch_id, "k"))) == 2


See = Callable[[Database, Acting, str], object]
VIEWS: dict[str, See] = {
    "page": lambda db, by, batch_id: cell_page(db, by, Cell(batch_id=batch_id), limit=1),
    "case": lambda db, by, batch_id: listed_case(db, by, ids_of(db, batch_id)[0]),
    "file": lambda db, by, batch_id: list(results(db, by, batch_id)),
    "corrected": _see_corrected,
    "evidence": lambda db, by, batch_id: reveal_evidence(db, by, ids_of(db, batch_id)[0], browsing=True),
}


@pytest.mark.parametrize("see", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("hide", [True, False])
def test_what_was_shown_of_a_case_in_review_is_written_down_once_and_its_review_is_not_blinded(
    db: Database, see: See, hide: bool
) -> None:
    batch_id = batch(db, ["one", "two"], references="SU", audit_rate=1.0)
    for case_id in waiting(db):
        decide(db, case_id, U)
    choose_hiding(db, SENIOR.at(BEGUN), hide=hide)
    for moment in (BEGUN, LATER):
        with suppress(NotYetReviewed):  # the page of a case that hides its outcome
            see(db, SENIOR.at(moment), batch_id)
    seen = {(row.reviewer, row.at, row.before_review) for row in rows(db, unblindings)}
    assert seen == (set() if hide else {(SENIOR.id, BEGUN, True)})
    first, second = ids_of(db, batch_id)
    for who, case_id in ((SENIOR, first), (HELEN, second)):
        _read(db, who, case_id, "unsafe")
    assert (_was_blind(db, SENIOR, first), _was_blind(db, HELEN, second)) == (hide, True)


def _one(db: Database, outcome: Outcome, **options: Any) -> tuple[str, str]:
    batch_id = batch(db, ["a text"], references="S", **options)
    (case_id,) = waiting(db)
    decide(db, case_id, outcome)
    return batch_id, case_id


READERS = PEOPLE | {LOCAL_USER.id: LOCAL_USER}


@pytest.mark.parametrize(("reader", "outcome", "reach", "audit_rate", "waited", "how", "is_blind"), TABLES["read"])
def test_a_case_is_read_blind_by_whom_no_list_can_have_told_how_it_ended(
    db: Database, reader: str, outcome: str, reach: str, audit_rate: float, waited: bool, how: str, is_blind: bool
) -> None:
    who, (_, case_id) = READERS[reader], _one(db, Outcome(outcome), reach=Reach(reach), audit_rate=audit_rate)
    assert request_second_looks(db, RESEARCHER.at(LATER), [case_id]).there_before == waited
    if how == "again":
        _reopened(db, case_id)
    _read(db, who, case_id, "safe", certainty=1 if how == "revised" else 5)
    if how == "revised":
        revise(db, who.at(LATER), case_id, form("safe", 2), "surer", new_id(LATER))
    assert _was_blind(db, who, case_id) is is_blind


def _reopened(db: Database, case_id: str) -> None:
    """Closed as unsafe by Ann, who then changes her mind: softened, so a second reviewer is due."""
    _read(db, ANN, case_id, "unsafe")
    revise(db, ANN.at(LATER), case_id, form("safe", 5), "looked again", new_id(LATER))


def test_a_label_taken_back_stands_nowhere_until_it_is_decided_again(db: Database) -> None:
    batch_id, case_id = _one(db, H)
    _reopened(db, case_id)
    own = replace(ALL_ROLES, id=ANN.id)  # who has read it: nothing is withheld
    for who in (SENIOR, RESEARCHER, own):
        matrices = confusions(db, who, batch_id)
        assert matrices.adjudicated == matrices.original == {("safe", "human_review"): 1}
        assert adjudicated_labels(db, who, batch_id) == {}
        cell = Cell(batch_id=batch_id, reference="unsafe", outcome="human_review", labels="adjudicated")
        assert cell_page(db, who.at(BEGUN), cell).cases == ()
    here = replace(cell, reference="safe", labels="original")
    assert [case.accepted for case in cell_page(db, own.at(BEGUN), here).cases] == [None]
    _read(db, BO, case_id, "safe")
    assert adjudicated_labels(db, SENIOR, batch_id) == {}, "Ann's first word was another"
    adjudicate(db, SENIOR.at(LATER), case_id, ReviewLabel.SAFE, "a quotation")
    assert adjudicated_labels(db, SENIOR, batch_id) == {case_id: ReviewLabel.SAFE}
    assert [one.outcome for one in results(db, SENIOR.at(BEGUN), batch_id)] == ["human_review"]


MODEL_WORDS = ("human_review", "exhausted", "SSU?SS", "perhaps")
DAY = timedelta(days=1)


def served(db: Database, who: Actor, case_id: str, *, at: timedelta = timedelta(), open_at_once: bool = False) -> None:
    with db.write() as conn:
        reveal(conn, who.at(NOW + at), case_id, open_at_once=open_at_once)


def kept(db: Database) -> list[tuple[str, bool]]:
    return sorted((row.reviewer, row.before_review) for row in rows(db, unblindings))


def test_no_service_gives_model_fields_of_an_open_case_before_ones_own_review(db: Database) -> None:
    """A second reviewer is as blind as the first, and is shown nothing of them; and whatever the switch says."""
    for who in (ANN, SENIOR, RESEARCHER, ADMIN, ALL_ROLES, LOCAL_USER):
        with suppress(Forbidden):
            choose_hiding(db, who.at(NOW), hide=False)
        reads = who.roles & {Role.REVIEWER, Role.SENIOR}
        for holding, second in ((False, False), (True, False), (True, True)) if reads else ((False, False),):
            (case_id,) = fill(db)
            if second:
                read(db, CY, form("unsafe"), ask=True)
            refuses_everything(db, who, case_id, take(db, who).token if holding else None)
            put(db, case_id, closed_at=NOW)


def refuses_everything(db: Database, who: Actor, case_id: str, token: str | None) -> None:
    by, batch = who.at(NOW), batch_of(db, case_id)
    at_once = partial(reveal_evidence, open_at_once=True)  # which is for P0
    browsing = partial(reveal_evidence, browsing=True)  # which is for those who may see outcomes
    for look in (reveal_evidence, at_once, evidence.reveal_case_file, *([browsing] if who is ANN else [])):
        with pytest.raises((NotYetReviewed, Forbidden)):
            look(db, by, case_id)
    for call in (
        lambda: reveal_text(db, by, case_id, token),
        lambda: claims.my_claims(db, by),
        lambda: queue(db, by),
        lambda: reserved_cases(db, by),
        lambda: reviews.load_draft(db, who, case_id),
        lambda: reveal_reviews(db, by, case_id),
        lambda: reveal_versions(db, by, case_id),
        lambda: review_table(db, who, "key"),
        lambda: switches(db, who, "key"),
        lambda: list(export_corrected_labels(db, by, batch, "key", hide=True)),
        lambda: [event.details for event in events(db, who)],
    ):
        try:
            answer = repr(call())
        except (Forbidden, Unread):
            continue
        assert not [word for word in MODEL_WORDS if word in answer]


def test_the_text_is_for_the_holder_and_each_view_is_one_event_without_its_words(db: Database) -> None:
    first, second = fill(db, [Priority.P0, Priority.P2])
    claim = take(db, ANN)
    token, over = claim.token, claim.expires_at
    shown = reveal_text(db, ANN.at(NOW), first, token)
    assert (shown.text, shown.external_id) == ("canary text number 1", "post-1")
    refused = ((BO, NOW, first, token), (ANN, NOW, second, token), (ANN, NOW, first, None), (ADMIN, NOW, first, None))
    for who, at, case_id, proof in (*refused, (ANN, over, first, token)):
        with pytest.raises(Forbidden):
            reveal_text(db, who.at(at), case_id, proof)
    reveal_text(db, RESEARCHER.at(NOW), second)
    with pytest.raises(KeyError):
        reveal_text(db, RESEARCHER.at(NOW), "no such case")
    inbox.release(db, ANN.at(NOW), first, token, "a private note")
    token = take(db, ANN).token
    reviews.submit_review(db, ANN.at(NOW), first, token, form(note="another private note"), "a" * 32)
    reveal_evidence(db, ANN.at(NOW), first)
    log = events(db, ADMIN)
    viewed = [(event.actor, event.subject) for event in log if event.action == "text_viewed"]
    assert viewed == [("rae", second), ("ann", first)]
    mine = [event.action for event in log if event.actor == "ann"]
    assert mine == ["evidence_viewed", "reviewed", "claimed", "released", "text_viewed", "claimed"]
    assert not [word for word in ("canary", "private", "unsafe", *MODEL_WORDS) if word in repr(log)]


@pytest.mark.parametrize("priority", list(Priority))
def test_only_an_urgent_case_in_ones_own_hands_is_opened_at_once(db: Database, priority: Priority) -> None:
    (case_id,) = fill(db, [priority])
    claim = take(db, SENIOR)
    over = claim.expires_at - NOW
    for who, at, open_at_once in ((SENIOR, timedelta(), False), (BOTH, timedelta(), True), (SENIOR, over, True)):
        with pytest.raises(NotYetReviewed):
            served(db, who, case_id, at=at, open_at_once=open_at_once)
    if priority is Priority.P0:
        served(db, SENIOR, case_id, at=over - timedelta(microseconds=1), open_at_once=True)
        reviews.submit_review(db, SENIOR.at(NOW), case_id, claim.token, form(), "a" * 32)
        served(db, SENIOR, case_id)
        assert kept(db) == [("sue", True)], "what was seen before a review stays seen before it"
        assert not blind(db, SENIOR, case_id) and (mine := my_review(db, SENIOR, case_id)) and not mine.blind
    else:
        with pytest.raises(NotYetReviewed):
            served(db, SENIOR, case_id, open_at_once=True)
        assert kept(db) == [] and blind(db, SENIOR, case_id)


def test_only_who_had_a_text_screened_by_itself_watched_the_engine(db: Database) -> None:
    for kind, created_by, expected in (
        ("interactive", "ann", False),
        ("interactive", "bo", True),
        ("batch", "ann", True),
    ):
        (case_id,) = fill(db, kind=kind, created_by=created_by)
        fill(db, kind="interactive", created_by="ann")
        assert blind(db, ANN, case_id) is blind(db, ANN, case_id, first=False) is expected


LOOKS = tomllib.loads((Path(__file__).parent / "views.toml").read_text(encoding="utf-8"))["looks"]
REFUSALS = {"forbidden": Forbidden, "not yet": NotYetReviewed, "unread": Unread}


@pytest.mark.parametrize(("script", "name", "what", "comes", "unblinded"), LOOKS)
def test_a_view_or_review_is_shown_to_whom_it_gives_nothing_away_and_unblinds_the_others(
    db: Database, script: str, name: str, what: str, comes: str, unblinded: list[str]
) -> None:
    (case_id,) = fill(db, entered=script != "-", outcome="safe" if script == "-" else "human_review")
    if script not in ("", "-"):
        play(db, case_id, script)
    who = {**PEOPLE, RESEARCHER.id: RESEARCHER, BOTH.id: BOTH}[name]
    with nullcontext() if comes == "shown" else pytest.raises(REFUSALS[comes]), db.write() as conn:
        (reveal if what == "view" else see_reviews)(conn, who.at(NOW), case_id)
    assert [one + " was blind" * (not before) for one, before in kept(db)] == unblinded
    assert script == "-" or blind(db, who, case_id) is (name not in unblinded)


def test_a_case_is_claimed_and_opened_with_its_notes_in_one_transaction(db: Database) -> None:
    first, second = fill(db, [Priority.P0, Priority.P1])
    token = take(db, ANN).token
    inbox.ask_second_opinion(db, ANN.at(NOW), first, token, "safe, I think")  # a note that could give a review away
    inbox.skip(db, ANN.at(NOW), first, token, "ann was called away")
    with statements() as sent:
        opened = open_next(db, BO.at(NOW))
    assert opened is not None
    claim, shown = opened
    assert claim.case_id == shown.case_id == first
    assert [(one.kind, one.note) for one in shown.left] == [("skip", "ann was called away")]
    assert sum(one.startswith("BEGIN") for one, _ in sent) == 1
    assert claims.my_claims(db, BO.at(NOW)) == (claim,)
    assert replace(shown, left=(), near=()) == reveal_text(db, BO.at(later(1)), first, claim.token)
    assert shown.left == notes(db, BO.at(NOW), first, claim.token)
    assert (entry(db, first).first_opened_at, entry(db, first).last_opened_at) == (NOW, later(1))
    claim, shown = evidence.open_named(db, SENIOR.at(NOW), second)
    assert (claim.case_id, shown.case_id) == (second, second)
    logged = [(event.actor, event.subject) for event in events(db, ADMIN, action="opened")]
    assert logged == [("sue", second), ("bo", first)]


def test_the_cases_of_one_upload_alone_are_counted_listed_and_given(db: Database) -> None:
    """The other upload came first and is as urgent, also where priorities are chosen beside."""
    others, ours = fill(db, [Priority.P0, Priority.P2]), fill(db, [Priority.P2, Priority.P0, Priority.P1])
    batch = batch_of(db, ours[0])
    for priorities, inside in ((None, 3), ([Priority.P1, Priority.P2], 2)):
        found = counts(db, SENIOR.at(NOW), priorities, batch)
        told = (found.free, sum(found.inside_by_priority.values()), found.outside_filter)
        assert (*told, found.open_by_priority[Priority.P0]) == (inside, inside, 5 - inside, 2)
    listed = [one.case_id for one in queue(db, SENIOR.at(NOW), batch=batch)]
    assert listed == [ours[1], ours[2], ours[0]] and not set(listed) & set(others)
    assert [open_next(db, who.at(NOW), batch=batch)[0].case_id for who in (ANN, BO, CY)] == listed  # type: ignore[index]
    assert open_next(db, SENIOR.at(NOW), batch=batch) is None


def _of_people(db: Database, people: str, column: str | None = "Patient ID") -> list[str]:
    """One case a letter, of the person with that letter; a dash for none."""
    ids = fill(db, [Priority.P2] * len(people))
    with db.write() as conn:
        conn.execute(update(batches).values(intake={"group_column": column}))
        for case_id, name in zip(ids, people, strict=True):
            named = None if name == "-" else name
            conn.execute(update(cases).where(cases.c.id == case_id).values(group_name=named, text=f"text {case_id}"))
    return ids


def test_a_persons_nearest_texts_are_shown_in_the_order_of_the_file(db: Database) -> None:
    ids = _of_people(db, "aaaaabaaaa-b")
    (other,) = _of_people(db, "a")  # of another file: the same name may be another person
    with statements() as sent:
        near = reveal_text(db, SENIOR.at(NOW), ids[4], with_context=True).near
    expected = [(f"text {ids[at]}", at < 4) for at in (1, 2, 3, 6, 7, 8)]
    assert [(each.text, each.before) for each in near] == expected and evidence.EACH_WAY == 3
    assert [reveal_text(db, SENIOR.at(NOW), each, with_context=True).near for each in (ids[10], other)] == [(), ()]
    found = [each for each in sent if "group_name =" in each[0]]
    assert found and all("ix_cases_group" in plan(db, statement, values) for statement, values in found)
    for column, people in (("user_id", True), ("author", True), ("subreddit", False), ("topic", False), (None, False)):
        first, second = _of_people(db, "aa", column)  # a group of topics is not a person
        assert len(reveal_text(db, SENIOR.at(NOW), first, with_context=True).near) == people, column
        assert entry(db, second).first_opened_at is None, "no look at its own case"


def open_texts(db: Database, number: int, now: datetime) -> None:
    for _ in range(number):
        claim = take(db, ANN, now, lease=2 * DAY)
        for _ in range(2):  # looking twice at one text is one text
            reveal_text(db, ANN.at(now), claim.case_id, claim.token)


def test_ones_own_texts_are_counted_a_day_and_since_the_last_break(db: Database) -> None:
    """A shift goes over midnight, and midnight UTC is an afternoon somewhere: a break that is due stays due."""
    fill(db, [Priority.P2] * 9)
    midnight = NOW.replace(hour=0) + DAY

    def told(now: datetime, since: datetime = NOW) -> tuple[int, int]:
        return tuple(exposure(db, ANN.at(now), since))

    open_texts(db, 2, NOW - DAY)
    open_texts(db, 3, NOW)
    assert told(NOW) == (3, 3)
    take_break(db, ANN.at(later(1)))
    assert told(NOW) == (3, 0)
    assert len(claims.my_claims(db, ANN.at(later(2)))) == 5, "a break gives no case away"
    open_texts(db, 3, midnight - MINUTE)
    assert told(midnight + MINUTE, midnight) == (0, 3)
    take_break(db, ANN.at(midnight + MINUTE))
    open_texts(db, 1, midnight + 2 * MINUTE)
    assert told(midnight + 3 * MINUTE, midnight) == (1, 1)
    assert told(midnight + timedelta(hours=9), midnight) == (1, 0), "a night's rest is one"
