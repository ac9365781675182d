"""Blind first: every way to the AI's view is shut until one's own review is in; every view is recorded, and what of it
makes a review no longer blinded.
"""

from datetime import timedelta

import pytest
from sqlalchemy import insert, select, update

from screening.review.actors import LOCAL_USER, Actor, Role
from screening.review.policy import Forbidden
from screening.review.triage import Priority
from storage.audit_log import events
from storage.database import Database
from storage.research.corrected_labels import export_corrected_labels
from storage.research.review_table import review_table, switches
from storage.review import claims, inbox
from storage.review.adjudication import reveal_versions
from storage.review.evidence import reveal_case_file, reveal_evidence, reveal_text
from storage.review.queue import queue, reserved_cases
from storage.review.reviews import load_draft, my_review, reveal_reviews, revise, submit_review
from storage.schema import case_errors, cases, inbox_entries, unblindings
from storage.visibility import NotYetRated, Unread, is_blind, reveal, see_reviews
from tests.databases import write
from tests.storage.inbox_cases import (
    ADMIN,
    ANN,
    BO,
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

EVERYTHING = person("eve", *Role)
LATER = NOW + MINUTE
MODEL_WORDS = ("human_review", "exhausted", "SSU?SS", "perhaps")


def batch_of(db: Database, case_id: str) -> str:
    return db.value(select(cases.c.batch_id).where(cases.c.id == case_id))


@pytest.mark.parametrize("holding", [False, True])
def test_no_service_gives_model_fields_of_an_open_case_before_ones_own_review(db: Database, holding: bool) -> None:
    for who in (ANN, SENIOR, RESEARCHER, ADMIN, EVERYTHING, LOCAL_USER):
        if holding and not who.roles & {Role.REVIEWER, Role.SENIOR}:
            continue
        (case_id,) = fill(db, [Priority.P2])
        claim = claims.claim_next(db, who.at(NOW)) if holding else None
        assert not holding or (claim is not None and claim.case_id == case_id)
        refuses_everything(db, who, case_id, claim.token if claim else None)
        write(db, update(inbox_entries).values(closed_at=NOW))


def refuses_everything(db: Database, who: Actor, case_id: str, token: str | None) -> None:
    for look in (
        lambda: reveal_evidence(db, who.at(NOW), case_id),
        lambda: reveal_evidence(db, who.at(NOW), case_id, open_at_once=True),  # which is for P0
        lambda: reveal_case_file(db, who.at(NOW), case_id),
    ):
        with pytest.raises((NotYetRated, Forbidden)):
            look()
    batch = batch_of(db, case_id)
    others = (
        lambda: reveal_text(db, who.at(NOW), case_id, token),
        lambda: claims.my_claims(db, who.at(NOW)),
        lambda: queue(db, who.at(NOW)),
        lambda: reserved_cases(db, who.at(NOW)),
        lambda: load_draft(db, who, case_id),
        lambda: reveal_reviews(db, who.at(NOW), case_id),
        lambda: reveal_versions(db, who.at(NOW), case_id),
        lambda: review_table(db, who, "key"),
        lambda: switches(db, who, "key"),
        lambda: list(export_corrected_labels(db, who.at(NOW), batch, "key", hide=True)),
        lambda: [event.details for event in events(db, who)],
    )
    for call in others:
        try:
            answer = repr(call())
        except (Forbidden, Unread):
            continue
        assert not [word for word in MODEL_WORDS if word in answer]


def test_after_ones_own_review_everything_is_shown(db: Database) -> None:
    (case_id,) = fill(db)
    token = take(db, ANN).token
    submit_review(db, ANN.at(NOW), case_id, token, form(), "a" * 32)
    shown = reveal_evidence(db, ANN.at(LATER), case_id)
    assert (shown.outcome, shown.reason, shown.calls, shown.delta) == ("human_review", "exhausted", 6, 0.05)
    (run,) = shown.runs
    assert (run.node, run.draws, run.unusable) == ("worker", "SSU?SS", {3: "perhaps"})
    assert (run.label, run.ended) == (None, "exhausted")
    assert shown.reference == "safe"
    assert shown.configuration == {"pipeline": {}}


def test_the_file_says_where_a_case_came_from_and_what_failed(db: Database) -> None:
    (case_id,) = fill(db)
    read(db, ANN, form())
    error = {"kind": "timeout", "message": "no answer", "calls": 2, "at": NOW}
    write(db, insert(case_errors).values(case_id=case_id, **error))
    write(db, update(cases).values(flags={"text": ["obfuscated"], "reply": []}, model_text="as read", reply="r"))
    file = reveal_case_file(db, ANN.at(NOW), case_id)
    assert (file.batch_name, file.row, file.parts["text"][1]) == ("posts.csv", 1, "as read")
    assert file.parts["reply"] == ("r", "r")
    assert file.flags == {"text": ("obfuscated",), "reply": ()}
    assert [(each.kind, each.calls) for each in file.errors] == [("timeout", 2)]
    assert file.entry is not None and file.entry.closed_at == NOW and not file.waits_for_retry
    with pytest.raises(KeyError):
        reveal_case_file(db, SENIOR.at(NOW), "0" * 32)


def test_a_second_reviewer_is_as_blind_as_the_first(db: Database) -> None:
    (case_id,) = fill(db)
    read(db, ANN, form(), "a", ask=True)
    second = take(db, BO)
    with pytest.raises(NotYetRated):
        reveal_evidence(db, BO.at(NOW), case_id)
    with pytest.raises(Forbidden):
        reveal_reviews(db, BO.at(NOW), case_id)
    submit_review(db, BO.at(NOW), case_id, second.token, form(), "b" * 32)
    assert reveal_evidence(db, BO.at(LATER), case_id).outcome == "human_review"
    assert [review.reviewer for review in reveal_reviews(db, BO.at(NOW), case_id)] == ["ann", "bo"]


def test_the_text_is_for_the_holder_and_each_view_is_one_event(db: Database) -> None:
    first, second = fill(db, [Priority.P2, Priority.P2])
    claim = take(db, ANN)
    token, over = claim.token, claim.expires_at
    shown = reveal_text(db, ANN.at(NOW), first, token)
    assert (shown.text, shown.external_id) == ("canary text number 1", "post-1")
    refused = ((BO, NOW, first, token), (ANN, NOW, second, token), (ANN, NOW, first, None), (ADMIN, NOW, first, None))
    for who, at, case_id, proof in (*refused, (ANN, over, first, token)):
        with pytest.raises(Forbidden):
            reveal_text(db, who.at(at), case_id, proof)
    reveal_text(db, RESEARCHER.at(NOW), second)
    seen = [(event.actor, event.subject) for event in events(db, ADMIN) if event.action == "text_viewed"]
    assert seen == [("rae", second), ("ann", first)]
    with pytest.raises(KeyError):
        reveal_text(db, RESEARCHER.at(NOW), "no such case")


def test_the_log_never_holds_message_text_or_notes(db: Database) -> None:
    (case_id,) = fill(db, [Priority.P0])
    token = take(db, ANN).token
    reveal_text(db, ANN.at(NOW), case_id, token)
    inbox.release(db, ANN.at(NOW), case_id, token, "a private note")
    token = take(db, ANN).token
    submit_review(db, ANN.at(NOW), case_id, token, form(note="another private note"), "a" * 32)
    reveal_evidence(db, ANN.at(NOW), case_id)
    log = repr(events(db, ADMIN))
    assert [event.action for event in events(db, ADMIN)] == [
        "evidence_viewed",
        "rated",
        "claimed",
        "released",
        "text_viewed",
        "claimed",
    ]
    assert not [word for word in ("canary", "private", "unsafe", *MODEL_WORDS) if word in log]


BOTH = person("eve", Role.REVIEWER, Role.RESEARCHER)


@pytest.fixture(autouse=True)
def people(db: Database) -> None:
    """All of them have accounts."""
    register(db, ANN, BO, SENIOR, BOTH)


def served(db: Database, who: Actor, case_id: str, *, at: timedelta = timedelta(), open_at_once: bool = False) -> None:
    with db.write() as conn:
        reveal(conn, who.at(NOW + at), case_id, open_at_once=open_at_once)


def blind(db: Database, who: Actor, case_id: str, *, first: bool = True) -> bool:
    with db.read() as conn:
        return is_blind(conn, who, case_id, first=first)


def kept(db: Database) -> list[tuple[str, bool]]:
    return [(row.reviewer, row.before_review) for row in db.rows(select(unblindings).order_by(unblindings.c.reviewer))]


@pytest.mark.parametrize("priority", list(Priority))
def test_only_an_urgent_case_in_ones_own_hands_is_opened_at_once(db: Database, priority: Priority) -> None:
    (case_id,) = fill(db, [priority])
    claim = take(db, SENIOR)
    with db.write() as conn, pytest.raises(NotYetRated):
        reveal(conn, SENIOR.at(NOW), case_id)
    with pytest.raises(NotYetRated):
        served(db, BOTH, case_id, open_at_once=True)
    over = claim.expires_at - NOW
    with pytest.raises(NotYetRated):
        served(db, SENIOR, case_id, at=over, open_at_once=True)
    if priority is Priority.P0:
        served(db, SENIOR, case_id, at=over - timedelta(microseconds=1), open_at_once=True)
        submit_review(db, SENIOR.at(NOW), case_id, claim.token, form(), "a" * 32)
        served(db, SENIOR, case_id)
        assert kept(db) == [("sue", True)], "what was seen before a review stays seen before it"
        assert not blind(db, SENIOR, case_id) and (mine := my_review(db, SENIOR, case_id)) and not mine.blind
    else:
        with pytest.raises(NotYetRated):
            served(db, SENIOR, case_id, open_at_once=True)
        assert kept(db) == [] and blind(db, SENIOR, case_id)


def test_a_reviewer_is_given_the_view_of_what_they_read_and_of_nothing_else(db: Database) -> None:
    first, second = fill(db, [Priority.P2] * 2)
    read(db, ANN, form("unsafe", 5), "a")
    served(db, ANN, first)
    assert kept(db) == [("ann", False)], "after their review: it was blind"
    for case_id in (first, second):
        with pytest.raises(Forbidden):
            served(db, BO, case_id)
    with pytest.raises(Forbidden):
        served(db, ANN, second)
    with pytest.raises(NotYetRated):
        served(db, BOTH, second)
    served(db, BOTH, first)
    assert kept(db) == [("ann", False), ("eve", True)]


def test_a_revision_is_blind_while_nothing_at_all_was_served(db: Database) -> None:
    one, other = fill(db, [Priority.P2] * 2)
    read(db, ANN, form("unsafe", 5), "a")
    read(db, ANN, form("unsafe", 5), "b")
    served(db, ANN, other)
    assert blind(db, ANN, one, first=False) and not blind(db, ANN, other, first=False)
    assert blind(db, ANN, other, first=True), "what is served after a review does not unblind that one"
    assert blind(db, BO, other, first=False), "it was served to Ann"
    for case_id, expected in ((one, True), (other, False)):
        revise(db, ANN.at(LATER), case_id, form("unsafe", 5), "surer", ("c" if expected else "d") * 32)
        mine = my_review(db, ANN, case_id)
        assert mine is not None and mine.blind is expected


@pytest.mark.parametrize(
    ("kind", "created_by", "expected"),
    [("interactive", "ann", False), ("interactive", "bo", True), ("batch", "ann", True)],
)
def test_only_who_had_a_text_screened_by_itself_watched_the_engine(
    db: Database, kind: str, created_by: str, expected: bool
) -> None:
    (case_id,) = fill(db, kind=kind, created_by=created_by)
    fill(db, kind="interactive", created_by="ann")
    assert blind(db, ANN, case_id) is expected
    assert blind(db, ANN, case_id, first=False) is expected


def test_reviews_of_an_open_case_are_for_those_who_read_it_and_for_a_senior_once_two_disagree(db: Database) -> None:
    (case_id,) = fill(db)
    read(db, ANN, form("unsafe", 5), "a", ask=True)
    for who, refusal in ((SENIOR, Unread), (RESEARCHER, Unread), (BO, Forbidden)):
        with db.write() as conn, pytest.raises(refusal):
            see_reviews(conn, who.at(NOW), case_id)
    with db.write() as conn:
        see_reviews(conn, ANN.at(NOW), case_id)
    assert kept(db) == [], "one's own review is in: nothing is given away"
    read(db, BO, form("safe", 5), "b")
    with db.write() as conn, pytest.raises(Unread):
        see_reviews(conn, RESEARCHER.at(NOW), case_id)
    with db.write() as conn:
        see_reviews(conn, SENIOR.at(NOW), case_id)
    assert kept(db) == [("sue", True)] and not blind(db, SENIOR, case_id)


def test_reviews_of_a_closed_case_unblind_whoever_looked_should_it_be_opened_again(db: Database) -> None:
    (case_id,) = fill(db)
    read(db, ANN, form("unsafe", 5), "a")
    with db.write() as conn:
        see_reviews(conn, BOTH.at(NOW), case_id)
    assert kept(db) == [("eve", True)] and not blind(db, BOTH, case_id)


def test_the_view_of_a_case_that_is_in_no_inbox_is_for_those_who_may_see_results(db: Database) -> None:
    (case_id,) = fill(db, entered=False, outcome="safe")
    served(db, RESEARCHER, case_id)
    with db.write() as conn:
        see_reviews(conn, RESEARCHER.at(NOW), case_id)
    with pytest.raises(Forbidden):
        served(db, ANN, case_id)
    write(db, update(inbox_entries).values(closed_at=NOW))
    assert kept(db) == [("rae", True)]
