"""Blind first: every way to the AI's view is shut until one's own review is in; every view is recorded, and what of it
makes a review no longer blinded. A case taken with its text is what claiming it, opening it and asking for its notes
were; the same person's other texts are beside it, only where the file's column names people. What was opened is
counted; a break starts that again.
"""

import tomllib
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from screening.review.actors import LOCAL_USER, Actor, Role
from screening.review.policy import Forbidden
from screening.review.triage import Priority
from storage.audit_log import events
from storage.database import Database
from storage.research.corrected_labels import export_corrected_labels
from storage.research.review_table import review_table, switches
from storage.review import claims, evidence, inbox, reviews
from storage.review.adjudication import reveal_versions
from storage.review.evidence import notes, open_next, reveal_evidence, reveal_text
from storage.review.queue import counts, queue, reserved_cases
from storage.review.reports import exposure, take_break
from storage.review.reviews import my_review, reveal_reviews
from storage.schema import batches, case_errors, cases, unblindings
from storage.settings_store import SiteSettings, change
from storage.visibility import NotYetRated, Unread, reveal, see_reviews
from tests.databases import write
from tests.storage.inbox_cases import blind, entry, fill, form, play, put, read, register, rows, take
from tests.storage.people import ADMIN, ANN, BO, CY, MINUTE, NOW, PEOPLE, RESEARCHER, SENIOR, later, person
from tests.storage.statements import plan, statements

EVERYTHING = person("eve", *Role)
BOTH = person("eve", Role.REVIEWER, Role.RESEARCHER)
MODEL_WORDS = ("human_review", "exhausted", "SSU?SS", "perhaps")
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def people(db: Database) -> None:
    """All of them have accounts."""
    register(db, ANN, BO, SENIOR, BOTH)


def batch_of(db: Database, case_id: str) -> str:
    return db.value(select(cases.c.batch_id).where(cases.c.id == case_id))


def served(db: Database, who: Actor, case_id: str, *, at: timedelta = timedelta(), open_at_once: bool = False) -> None:
    with db.write() as conn:
        reveal(conn, who.at(NOW + at), case_id, open_at_once=open_at_once)


def kept(db: Database) -> list[tuple[str, bool]]:
    return sorted((row.reviewer, row.before_review) for row in rows(db, unblindings))


def test_no_service_gives_model_fields_of_an_open_case_before_ones_own_review(db: Database) -> None:
    """A second reviewer is as blind as the first, and is shown nothing of them."""
    for who in (ANN, SENIOR, RESEARCHER, ADMIN, EVERYTHING, LOCAL_USER):
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
    for look in (reveal_evidence, at_once, evidence.reveal_case_file):
        with pytest.raises((NotYetRated, Forbidden)):
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


def test_after_ones_own_review_everything_is_shown_with_where_the_case_came_from_and_what_failed(db: Database) -> None:
    (case_id,) = fill(db)
    play(db, case_id, "ann unsafe")
    shown = reveal_evidence(db, ANN.at(later(2)), case_id)
    assert (shown.outcome, shown.reason, shown.calls, shown.delta) == ("human_review", "exhausted", 6, 0.05)
    (run,) = shown.runs
    assert (run.node, run.draws, run.unusable) == ("worker", "SSU?SS", {3: "perhaps"})
    assert (run.label, run.ended) == (None, "exhausted")
    assert (shown.reference, shown.configuration) == ("safe", {"pipeline": {}})
    error = {"kind": "timeout", "message": "no answer", "calls": 2, "at": NOW}
    write(db, insert(case_errors).values(case_id=case_id, **error))
    write(db, update(cases).values(flags={"text": ["obfuscated"], "reply": []}, model_text="as read", reply="r"))
    file = evidence.reveal_case_file(db, ANN.at(NOW), case_id)
    assert (file.batch_name, file.row, file.parts["text"][1]) == ("posts.csv", 1, "as read")
    assert (file.parts["reply"], file.flags) == (("r", "r"), {"text": ("obfuscated",), "reply": ()})
    assert [(each.kind, each.calls) for each in file.errors] == [("timeout", 2)]
    assert file.entry is not None and file.entry.closed_at == later(1) and not file.waits_for_retry
    with pytest.raises(KeyError):
        evidence.reveal_case_file(db, SENIOR.at(NOW), "0" * 32)


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
    assert [(event.actor, event.subject) for event in log if event.action == "text_viewed"] == [
        ("rae", second),
        ("ann", first),
    ]
    mine = [event.action for event in log if event.actor == "ann"]
    assert mine == ["evidence_viewed", "rated", "claimed", "released", "text_viewed", "claimed"]
    assert not [word for word in ("canary", "private", "unsafe", *MODEL_WORDS) if word in repr(log)]


@pytest.mark.parametrize("priority", list(Priority))
def test_only_an_urgent_case_in_ones_own_hands_is_opened_at_once(db: Database, priority: Priority) -> None:
    (case_id,) = fill(db, [priority])
    claim = take(db, SENIOR)
    over = claim.expires_at - NOW
    for who, at, open_at_once in ((SENIOR, timedelta(), False), (BOTH, timedelta(), True), (SENIOR, over, True)):
        with pytest.raises(NotYetRated):
            served(db, who, case_id, at=at, open_at_once=open_at_once)
    if priority is Priority.P0:
        served(db, SENIOR, case_id, at=over - timedelta(microseconds=1), open_at_once=True)
        reviews.submit_review(db, SENIOR.at(NOW), case_id, claim.token, form(), "a" * 32)
        served(db, SENIOR, case_id)
        assert kept(db) == [("sue", True)], "what was seen before a review stays seen before it"
        assert not blind(db, SENIOR, case_id) and (mine := my_review(db, SENIOR, case_id)) and not mine.blind
    else:
        with pytest.raises(NotYetRated):
            served(db, SENIOR, case_id, open_at_once=True)
        assert kept(db) == [] and blind(db, SENIOR, case_id)


def test_a_revision_is_blind_while_nothing_at_all_was_served(db: Database) -> None:
    one, other = fill(db, [Priority.P2] * 2)
    play(db, one, "ann unsafe 5, ann unsafe 5")
    served(db, ANN, other)
    assert blind(db, ANN, one, first=False) and not blind(db, ANN, other, first=False)
    assert blind(db, ANN, other, first=True), "what is served after a review does not unblind that one"
    assert blind(db, BO, other, first=False), "it was served to Ann"
    for case_id, expected in ((one, True), (other, False)):
        reviews.revise(db, ANN.at(later(3)), case_id, form("unsafe", 5), "surer", case_id)
        mine = my_review(db, ANN, case_id)
        assert mine is not None and mine.blind is expected


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
REFUSALS = {"forbidden": Forbidden, "not yet": NotYetRated, "unread": Unread}


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
    claims.claim_next(db, ANN.at(NOW), token=lambda: "t")
    inbox.ask_second_opinion(db, ANN.at(NOW), first, "t", "safe, I think")  # a note that could give a review away
    inbox.skip(db, ANN.at(NOW), first, "t", "ann was called away")
    before = len(events(db, ADMIN))
    with statements() as sent:
        opened = open_next(db, BO.at(NOW))
    assert opened is not None
    claim, shown = opened
    assert claim.case_id == shown.case_id == first
    assert [(one.kind, one.note) for one in shown.left] == [("skip", "ann was called away")]
    (logged,) = events(db, ADMIN)[:-before]
    assert (logged.actor, logged.action, logged.subject) == ("bo", "opened", first)
    assert sum(one.startswith("BEGIN") for one, _ in sent) == 1
    assert claims.my_claims(db, BO.at(NOW)) == (claim,)
    assert replace(shown, left=(), near=()) == reveal_text(db, BO.at(NOW), first, claim.token)
    assert shown.left == notes(db, BO.at(NOW), first, claim.token)
    reveal_text(db, BO.at(later(1)), first, claim.token)
    assert (entry(db, first).first_opened_at, entry(db, first).last_opened_at) == (NOW, later(1))
    claim, shown = evidence.open_named(db, SENIOR.at(NOW), second)
    assert (claim.case_id, shown.case_id) == (second, second)
    assert (events(db, ADMIN)[0].action, events(db, ADMIN)[0].subject) == ("opened", second)
    assert claims.claim(db, SENIOR.at(later(20)), second).case_id == second, "by who held it last"
    assert open_next(db, ANN.at(later(1))) is None


def test_the_cases_of_one_upload_alone_are_counted_listed_and_given(db: Database) -> None:
    """The other upload came first and is as urgent; within the filter nothing of it is counted as inside, listed or
    given, also where priorities are chosen beside; urgent cases outside are still counted as open.
    """
    others, ours = fill(db, [Priority.P0, Priority.P2]), fill(db, [Priority.P2, Priority.P0, Priority.P1])
    batch = batch_of(db, ours[0])
    for priorities, inside in ((None, 3), ([Priority.P1, Priority.P2], 2)):
        found = counts(db, SENIOR.at(NOW), priorities, batch)
        told = (found.free, sum(found.inside_by_priority.values()), found.outside_filter)
        assert told == (inside, inside, 5 - inside)
        assert found.open_by_priority[Priority.P0] == 2
    listed = [one.case_id for one in queue(db, SENIOR.at(NOW), batch=batch)]
    assert listed == [ours[1], ours[2], ours[0]] and not set(listed) & set(others)
    given = [open_next(db, who.at(NOW), batch=batch) for who in (ANN, BO, CY)]
    assert [one and one[0].case_id for one in given] == listed
    assert open_next(db, SENIOR.at(NOW), priorities=[Priority.P0], batch=batch) is None
    assert counts(db, SENIOR.at(NOW), None, batch).held == 3 and counts(db, ANN.at(NOW), None, batch).free == 0
    assert counts(db, SENIOR.at(NOW)).free == 2


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
        near = evidence.show(db, SENIOR.at(NOW), ids[4]).near
    expected = [(f"text {ids[at]}", at < 4) for at in (1, 2, 3, 6, 7, 8)]
    assert [(each.text, each.before) for each in near] == expected and evidence.EACH_WAY == 3
    assert [evidence.show(db, SENIOR.at(NOW), each).near for each in (ids[10], other)] == [(), ()]
    found = [each for each in sent if "group_name =" in each[0]]
    assert found and all("ix_cases_group" in plan(db, statement, values) for statement, values in found)


@pytest.mark.parametrize("column", ["user_id", "author", "subreddit", "topic", None])
def test_a_group_of_topics_is_not_a_person(db: Database, column: str | None) -> None:
    ids = _of_people(db, "aa", column)
    opened = open_next(db, ANN.at(NOW))
    assert opened is not None and len(opened[1].near) == (column in ("user_id", "author"))
    assert entry(db, ids[1]).first_opened_at is None, "no look at its own case"


def open_texts(db: Database, number: int, now: datetime) -> None:
    for _ in range(number):
        claim = take(db, ANN, now, lease=2 * DAY)
        for _ in range(2):  # looking twice at one text is one text
            reveal_text(db, ANN.at(now), claim.case_id, claim.token)


def test_ones_own_texts_are_counted_a_day_and_a_break_is_due_at_the_sites_number(db: Database) -> None:
    """A shift goes over midnight, and midnight UTC is an afternoon somewhere: a break that is due stays due."""
    change(db, ADMIN.at(NOW), SiteSettings(break_after_texts=3), 0)
    fill(db, [Priority.P2] * 9)
    midnight = NOW.replace(hour=0) + DAY

    def told(now: datetime, since: datetime = NOW) -> tuple[int, int, bool]:
        seen = exposure(db, ANN.at(now), since)
        return seen.texts, seen.since_break, seen.break_due

    open_texts(db, 2, NOW - DAY)
    open_texts(db, 2, NOW)
    assert told(NOW) == (2, 2, False)
    open_texts(db, 1, NOW)
    assert told(NOW) == (3, 3, True)
    take_break(db, ANN.at(later(1)))
    assert told(NOW) == (3, 0, False)
    assert len(claims.my_claims(db, ANN.at(later(2)))) == 5, "a break gives no case away"
    open_texts(db, 3, midnight - MINUTE)
    assert told(midnight + MINUTE, midnight) == (0, 3, True)
    take_break(db, ANN.at(midnight + MINUTE))
    open_texts(db, 1, midnight + 2 * MINUTE)
    assert told(midnight + 3 * MINUTE, midnight) == (1, 1, False)
    assert told(midnight + timedelta(hours=9), midnight) == (1, 0, False), "a night's rest is one"
    assert exposure(db, BO.at(NOW), NOW).texts == 0
