"""Blind first: every way to the engine's view is shut until one's own rating is in, and every view is recorded."""

import pytest
from sqlalchemy import insert, select, update

from screening.review.actors import LOCAL_USER, Actor, Role
from screening.review.policy import Forbidden
from screening.review.triage import Tier
from storage.audit_log import events
from storage.blindness import NotYetRated, Unread
from storage.database import Database
from storage.research.reading_table import reading_table, switches
from storage.research.relabelled import export_relabelled
from storage.review import claims, inbox
from storage.review.adjudication import reveal_versions
from storage.review.drafts import load_draft
from storage.review.evidence import reveal_evidence, reveal_text
from storage.review.queue import queue, set_aside
from storage.review.ratings import reveal_ratings, submit_rating
from storage.schema import cases, inbox_entries
from tests.storage.inbox_cases import ADMIN, ANN, BO, MINUTE, NOW, RESEARCHER, SENIOR, fill, form, person, register

EVERYTHING = person("eve", *Role)
LATER = NOW + MINUTE
MODEL_WORDS = ("human_review", "exhausted", "SSU?SS", "perhaps")


def batch_of(db: Database, case_id: str) -> str:
    with db.read() as conn:
        return str(conn.execute(select(cases.c.batch_id).where(cases.c.id == case_id)).scalar_one())


@pytest.mark.parametrize("holding", [False, True])
def test_no_service_gives_model_fields_of_an_open_case_before_ones_own_rating(db: Database, holding: bool) -> None:
    for who in (ANN, SENIOR, RESEARCHER, ADMIN, EVERYTHING, LOCAL_USER):
        if holding and not who.roles & {Role.REVIEWER, Role.SENIOR}:
            continue
        (case_id,) = fill(db, [Tier.P2])
        claim = claims.claim_next(db, who, NOW) if holding else None
        assert not holding or (claim is not None and claim.case_id == case_id)
        refuses_everything(db, who, case_id, claim.token if claim else None)
        with db.write() as conn:
            conn.execute(update(inbox_entries).values(closed_at=NOW))


def refuses_everything(db: Database, who: Actor, case_id: str, token: str | None) -> None:
    for at_once in (False, True):  # opening at once is for P0
        with pytest.raises((NotYetRated, Forbidden)):
            reveal_evidence(db, who, case_id, NOW, open_at_once=at_once)
    batch = batch_of(db, case_id)
    others = (
        lambda: reveal_text(db, who, case_id, NOW, token),
        lambda: claims.my_claims(db, who, NOW),
        lambda: queue(db, who, NOW),
        lambda: set_aside(db, who, NOW),
        lambda: load_draft(db, who, case_id),
        lambda: reveal_ratings(db, who, case_id, NOW),
        lambda: reveal_versions(db, who, case_id, NOW),
        lambda: reading_table(db, who, "key"),
        lambda: switches(db, who, "key"),
        lambda: list(export_relabelled(db, who, batch, "key", NOW)),
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
    token = claims.claim_next(db, ANN, NOW).token  # type: ignore[union-attr]
    submit_rating(db, ANN, case_id, token, form(), NOW, "a" * 32)
    shown = reveal_evidence(db, ANN, case_id, LATER)
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
    token = claims.claim_next(db, ANN, NOW).token  # type: ignore[union-attr]
    inbox.ask_second_opinion(db, ANN, case_id, token, NOW, "slang")
    submit_rating(db, ANN, case_id, token, form(), NOW, "a" * 32)
    second = claims.claim_next(db, BO, NOW)
    assert second is not None
    for refused in (lambda: reveal_evidence(db, BO, case_id, NOW), lambda: reveal_ratings(db, SENIOR, case_id, NOW)):
        with pytest.raises((NotYetRated, Unread)):
            refused()
    with pytest.raises(Forbidden):
        reveal_ratings(db, BO, case_id, NOW)
    submit_rating(db, BO, case_id, second.token, form(), NOW, "b" * 32)
    assert reveal_evidence(db, BO, case_id, LATER).outcome == "human_review"
    assert [rating.reviewer for rating in reveal_ratings(db, BO, case_id, NOW)] == ["ann", "bo"]


def test_p0_may_be_opened_at_once_by_its_holder_and_the_rating_is_not_blind(db: Database) -> None:
    (case_id,) = fill(db, [Tier.P0])
    with pytest.raises(NotYetRated):
        reveal_evidence(db, SENIOR, case_id, NOW, open_at_once=True)
    token = claims.claim_next(db, ANN, NOW).token  # type: ignore[union-attr]
    with pytest.raises(NotYetRated):
        reveal_evidence(db, ANN, case_id, NOW)
    assert reveal_evidence(db, ANN, case_id, NOW, open_at_once=True).outcome == "human_review"
    submit_rating(db, ANN, case_id, token, form(), NOW, "a" * 32)
    (rating,) = reveal_ratings(db, ANN, case_id, NOW)
    assert rating.blind is False
    assert reading_table(db, RESEARCHER, "key").case_ids == (), "left out of accuracy and agreement"


def test_an_expired_holder_opens_nothing_at_once(db: Database) -> None:
    (case_id,) = fill(db, [Tier.P0])
    claim = claims.claim_next(db, ANN, NOW)
    assert claim is not None
    with pytest.raises((NotYetRated, Forbidden)):
        reveal_evidence(db, ANN, case_id, claim.expires_at, open_at_once=True)
    with pytest.raises(Forbidden):
        reveal_text(db, ANN, case_id, claim.expires_at, claim.token)


def test_whoever_saw_the_evidence_as_a_researcher_does_not_rate_blind_later(db: Database) -> None:
    (case_id,) = fill(db, entered=False, outcome="safe")
    assert reveal_evidence(db, EVERYTHING, case_id, NOW).outcome == "safe"
    with pytest.raises(Forbidden):
        reveal_evidence(db, ANN, case_id, NOW)
    with db.write() as conn:
        conn.execute(insert(inbox_entries).values(case_id=case_id, tier=3, why="x", entered_at=NOW, due_at=NOW))
    token = claims.claim_next(db, EVERYTHING, NOW).token  # type: ignore[union-attr]
    submit_rating(db, EVERYTHING, case_id, token, form(), NOW, "a" * 32)
    assert [rating.blind for rating in reveal_ratings(db, EVERYTHING, case_id, NOW)] == [False]


def test_whoever_watched_the_engine_live_does_not_rate_blind(db: Database) -> None:
    (case_id,) = fill(db, kind="interactive", created_by=ANN.id)
    token = claims.claim_next(db, ANN, NOW).token  # type: ignore[union-attr]
    submit_rating(db, ANN, case_id, token, form(), NOW, "a" * 32)
    assert [rating.blind for rating in reveal_ratings(db, ANN, case_id, NOW)] == [False]


def test_the_text_is_for_the_holder_and_each_view_is_one_event(db: Database) -> None:
    first, second = fill(db, [Tier.P2, Tier.P2])
    token = claims.claim_next(db, ANN, NOW).token  # type: ignore[union-attr]
    shown = reveal_text(db, ANN, first, NOW, token)
    assert (shown.text, shown.external_id) == ("canary text number 1", "post-1")
    for who, case_id, proof in ((BO, first, token), (ANN, second, token), (ANN, first, None), (ADMIN, first, None)):
        with pytest.raises(Forbidden):
            reveal_text(db, who, case_id, NOW, proof)
    reveal_text(db, RESEARCHER, second, NOW)
    seen = [(event.actor, event.subject) for event in events(db, ADMIN) if event.action == "text_viewed"]
    assert seen == [("rae", second), ("ann", first)]
    with pytest.raises(KeyError):
        reveal_text(db, RESEARCHER, "no such case", NOW)


def test_the_log_never_holds_message_text_or_notes(db: Database) -> None:
    (case_id,) = fill(db, [Tier.P0])
    token = claims.claim_next(db, ANN, NOW).token  # type: ignore[union-attr]
    reveal_text(db, ANN, case_id, NOW, token)
    inbox.release(db, ANN, case_id, token, NOW, "a private note")
    token = claims.claim_next(db, ANN, NOW).token  # type: ignore[union-attr]
    submit_rating(db, ANN, case_id, token, form(note="another private note"), NOW, "a" * 32)
    reveal_evidence(db, ANN, case_id, NOW)
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
