"""Blind first: every way to the engine's view is shut until one's own rating is in, and every view is recorded."""

import pytest
from sqlalchemy import select, update

from screening.review.actors import LOCAL_USER, Actor, Role
from screening.review.policy import Forbidden
from screening.review.triage import Tier
from storage.audit_log import events
from storage.database import Database
from storage.research.reading_table import reading_table, switches
from storage.research.relabelled import export_relabelled
from storage.review import claims, inbox
from storage.review.adjudication import reveal_versions
from storage.review.drafts import load_draft
from storage.review.evidence import reveal_evidence, reveal_text
from storage.review.queue import queue, reserved_cases
from storage.review.ratings import reveal_ratings, submit_rating
from storage.schema import cases, inbox_entries
from storage.visibility import NotYetRated, Unread
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
    register,
    take,
)

EVERYTHING = person("eve", *Role)
LATER = NOW + MINUTE
MODEL_WORDS = ("human_review", "exhausted", "SSU?SS", "perhaps")


def batch_of(db: Database, case_id: str) -> str:
    return db.value(select(cases.c.batch_id).where(cases.c.id == case_id))


@pytest.mark.parametrize("holding", [False, True])
def test_no_service_gives_model_fields_of_an_open_case_before_ones_own_rating(db: Database, holding: bool) -> None:
    for who in (ANN, SENIOR, RESEARCHER, ADMIN, EVERYTHING, LOCAL_USER):
        if holding and not who.roles & {Role.REVIEWER, Role.SENIOR}:
            continue
        (case_id,) = fill(db, [Tier.P2])
        claim = claims.claim_next(db, who.at(NOW)) if holding else None
        assert not holding or (claim is not None and claim.case_id == case_id)
        refuses_everything(db, who, case_id, claim.token if claim else None)
        write(db, update(inbox_entries).values(closed_at=NOW))


def refuses_everything(db: Database, who: Actor, case_id: str, token: str | None) -> None:
    for at_once in (False, True):  # opening at once is for P0
        with pytest.raises((NotYetRated, Forbidden)):
            reveal_evidence(db, who.at(NOW), case_id, open_at_once=at_once)
    batch = batch_of(db, case_id)
    others = (
        lambda: reveal_text(db, who.at(NOW), case_id, token),
        lambda: claims.my_claims(db, who.at(NOW)),
        lambda: queue(db, who.at(NOW)),
        lambda: reserved_cases(db, who.at(NOW)),
        lambda: load_draft(db, who, case_id),
        lambda: reveal_ratings(db, who.at(NOW), case_id),
        lambda: reveal_versions(db, who.at(NOW), case_id),
        lambda: reading_table(db, who, "key"),
        lambda: switches(db, who, "key"),
        lambda: list(export_relabelled(db, who.at(NOW), batch, "key", hide=True)),
        lambda: [event.details for event in events(db, who)],
    )
    for call in others:
        try:
            answer = repr(call())
        except (Forbidden, Unread):
            continue
        assert not [word for word in MODEL_WORDS if word in answer]


def test_after_ones_own_rating_everything_is_shown(db: Database) -> None:
    (case_id,) = fill(db)
    token = take(db, ANN).token
    submit_rating(db, ANN.at(NOW), case_id, token, form(), "a" * 32)
    shown = reveal_evidence(db, ANN.at(LATER), case_id)
    assert (shown.outcome, shown.reason, shown.calls, shown.delta) == ("human_review", "exhausted", 6, 0.05)
    (run,) = shown.runs
    assert (run.node, run.draws, run.unusable, run.label, run.ended) == (
        "worker",
        "SSU?SS",
        {3: "perhaps"},
        None,
        "exhausted",
    )
    assert shown.reference == "safe"
    assert shown.configuration == {"pipeline": {}}


def test_a_second_reader_is_as_blind_as_the_first(db: Database) -> None:
    register(db, ANN, BO)
    (case_id,) = fill(db)
    token = take(db, ANN).token
    inbox.ask_second_opinion(db, ANN.at(NOW), case_id, token, "slang")
    submit_rating(db, ANN.at(NOW), case_id, token, form(), "a" * 32)
    second = take(db, BO)
    for refused in (
        lambda: reveal_evidence(db, BO.at(NOW), case_id),
        lambda: reveal_ratings(db, SENIOR.at(NOW), case_id),
    ):
        with pytest.raises((NotYetRated, Unread)):
            refused()
    with pytest.raises(Forbidden):
        reveal_ratings(db, BO.at(NOW), case_id)
    submit_rating(db, BO.at(NOW), case_id, second.token, form(), "b" * 32)
    assert reveal_evidence(db, BO.at(LATER), case_id).outcome == "human_review"
    assert [rating.reviewer for rating in reveal_ratings(db, BO.at(NOW), case_id)] == ["ann", "bo"]


def test_the_text_is_for_the_holder_and_each_view_is_one_event(db: Database) -> None:
    first, second = fill(db, [Tier.P2, Tier.P2])
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
    (case_id,) = fill(db, [Tier.P0])
    token = take(db, ANN).token
    reveal_text(db, ANN.at(NOW), case_id, token)
    inbox.release(db, ANN.at(NOW), case_id, token, "a private note")
    token = take(db, ANN).token
    submit_rating(db, ANN.at(NOW), case_id, token, form(note="another private note"), "a" * 32)
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
