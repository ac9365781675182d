"""Readings are stored once, under the lease, and never overwritten; drafts outlive a lost lease."""

import pytest
from pydantic import ValidationError
from sqlalchemy import select

from screening.review.policy import Forbidden
from screening.review.rating_form import Disposition, RatingForm, contradictions
from screening.review.triage import Tier
from storage.database import Database
from storage.review import claims, inbox
from storage.review.adjudication import Next, ReasonNeeded
from storage.review.claims import LeaseLost
from storage.review.drafts import load_draft, save_draft
from storage.review.evidence import reveal_evidence
from storage.review.ratings import DispositionNeeded, reveal_ratings, revise, submit_rating
from storage.schema import adjudications, ratings
from storage.settings_store import SiteSettings, change
from tests.storage.inbox_cases import ADMIN, ANN, BO, MINUTE, NOW, SENIOR, fill, form, take

LATER = NOW + MINUTE


def rows(db: Database, table) -> list:  # type: ignore[no-untyped-def, type-arg]
    return list(db.rows(select(table)))


def test_one_reading_adjudicates_and_closes_the_case(db: Database) -> None:
    (case_id,) = fill(db)
    filled = form("unsafe", 4, ideation=2, plan="denied", reason_codes=["metaphor"], note="quotes a song")
    assert submit_rating(db, ANN.at(LATER), case_id, take(db, ANN).token, filled, "a" * 32) is Next.CLOSED
    (made,) = rows(db, adjudications)
    assert (made.label, made.method, made.by, made.version, made.rating_ids) == (
        "unsafe",
        "single",
        "ann",
        1,
        ["a" * 32],
    )
    (stored,) = reveal_ratings(db, ANN.at(NOW), case_id)
    assert (stored.form, stored.version, stored.blind, stored.reading) == (filled, 1, True, "first")
    assert claims.claim_next(db, BO.at(LATER)) is None


@pytest.mark.parametrize(
    ("tier", "label", "disposition", "stored"),
    [
        (Tier.P3, "unsafe", "undecided", False),
        (Tier.P1, "safe", "undecided", False),
        (Tier.P0, "insufficient_information", "undecided", False),
        (Tier.P2, "safe", "undecided", True),
        (Tier.P2, "insufficient_information", "undecided", True),
        (Tier.P0, "unsafe", "monitor", True),
        (Tier.P2, "safe", "in_care", False),  # not on this site's list
    ],
)
def test_what_happens_next_is_said_of_what_is_unsafe_or_urgent(
    db: Database, tier: Tier, label: str, disposition: str, stored: bool
) -> None:
    offered = (Disposition.MONITOR, Disposition.NONE)
    change(db, ADMIN.at(NOW), SiteSettings(dispositions=offered), 0)
    fill(db, [tier])
    held = take(db, ANN)
    filled = form(label, disposition=disposition)
    if stored:
        submit_rating(db, ANN.at(LATER), held.case_id, held.token, filled, "a" * 32)
    else:
        with pytest.raises(DispositionNeeded):
            submit_rating(db, ANN.at(LATER), held.case_id, held.token, filled, "a" * 32)
    assert len(rows(db, ratings)) == stored
    assert [one.token for one in claims.my_claims(db, ANN.at(LATER))] == ([] if stored else [held.token])


def test_a_change_needs_a_disposition_too_and_keeps_one_that_left_the_list(db: Database) -> None:
    (case_id,) = fill(db)
    submit_rating(db, ANN.at(NOW), case_id, take(db, ANN).token, form("safe", disposition="in_care"), "a" * 32)
    change(db, ADMIN.at(NOW), SiteSettings(dispositions=(Disposition.NONE,)), 0)
    for disposition in ("undecided", "monitor"):
        with pytest.raises(DispositionNeeded):
            revise(db, ANN.at(LATER), case_id, form("unsafe", disposition=disposition), "saw the plan", "b" * 32)
    revise(db, ANN.at(LATER), case_id, form("unsafe", disposition="in_care"), "saw the plan", "b" * 32)
    assert [row.version for row in rows(db, ratings)] == [1, 2]


def test_the_same_submission_twice_is_one_rating(db: Database) -> None:
    (case_id,) = fill(db)
    token = take(db, ANN).token
    assert submit_rating(db, ANN.at(LATER), case_id, token, form(), "a" * 32) is Next.CLOSED
    assert submit_rating(db, ANN.at(LATER), case_id, token, form("safe"), "a" * 32) is None
    assert [row.label for row in rows(db, ratings)] == ["unsafe"]


def test_a_submission_id_cannot_be_borrowed(db: Database) -> None:
    ids = fill(db, [Tier.P2, Tier.P2])
    submit_rating(db, ANN.at(LATER), ids[0], take(db, ANN).token, form(), "a" * 32)
    with pytest.raises(Forbidden):
        submit_rating(db, BO.at(LATER), ids[0], "x", form(), "a" * 32)
    with pytest.raises(Forbidden):
        submit_rating(db, ANN.at(LATER), ids[1], "x", form(), "a" * 32)


@pytest.mark.parametrize("how", ["expired", "taken", "wrong token", "released", "never claimed"])
def test_without_the_current_token_nothing_is_stored_but_the_draft(db: Database, how: str) -> None:
    (case_id,) = fill(db)
    claim = take(db, ANN)
    now, token = LATER, claim.token
    if how in ("expired", "taken"):
        now = claim.expires_at
    if how == "taken":
        take(db, BO, now)
    if how == "wrong token":
        token = "f" * 64
    if how in ("released", "never claimed"):
        inbox.release(db, ANN.at(NOW), case_id, token)
    if how == "never claimed":
        token = ""
    filled = form("safe", 5, note="all of it")
    with pytest.raises(LeaseLost):
        submit_rating(db, ANN.at(now), case_id, token, filled, "a" * 32)
    assert rows(db, ratings) == rows(db, adjudications) == []
    assert RatingForm.model_validate(load_draft(db, ANN, case_id)) == filled


def test_a_draft_is_its_writers_survives_expiry_and_goes_with_the_rating(db: Database) -> None:
    (case_id,) = fill(db)
    claim = take(db, ANN)
    save_draft(db, ANN.at(NOW), case_id, {"label": "safe"})
    save_draft(db, ANN.at(LATER), case_id, {"label": "unsafe", "note": "so far"})
    assert load_draft(db, BO, case_id) is None
    again = claims.claim(db, ANN.at(claim.expires_at + MINUTE), case_id)
    assert load_draft(db, ANN, case_id) == {"label": "unsafe", "note": "so far"}
    submit_rating(db, ANN.at(claim.expires_at + MINUTE), case_id, again.token, form(), "a" * 32)
    assert load_draft(db, ANN, case_id) is None
    with pytest.raises(ValueError, match="too long"):
        save_draft(db, ANN.at(LATER), case_id, {"note": "x" * 30_000})


@pytest.mark.parametrize("letter", ["ж", "ش", "人", "\U0001f642"])
def test_a_draft_of_the_longest_notes_is_kept_in_any_script(db: Database, letter: str) -> None:
    (case_id,) = fill(db)
    longest = {"label": "unsafe", "note": letter * 4_000, "leaving": letter * 2_000, "reason": letter * 2_000}
    save_draft(db, ANN.at(NOW), case_id, longest)
    assert load_draft(db, ANN, case_id) == longest


def test_a_lost_lease_is_told_also_where_the_form_is_too_long_for_a_draft(db: Database) -> None:
    (case_id,) = fill(db)
    save_draft(db, ANN.at(NOW), case_id, {"label": "unsafe"})
    with pytest.raises(LeaseLost):
        submit_rating(db, ANN.at(LATER), case_id, "x", form(note="\x01" * 4_000), "a" * 32)
    assert load_draft(db, ANN, case_id) == {"label": "unsafe"}


def test_the_draft_of_a_change_goes_with_the_change_that_is_stored(db: Database) -> None:
    (case_id,) = fill(db)
    submit_rating(db, ANN.at(NOW), case_id, take(db, ANN).token, form("safe", 4), "a" * 32)
    save_draft(db, ANN.at(LATER), case_id, {"label": "safe", "revision": True})
    with pytest.raises(ReasonNeeded):
        revise(db, ANN.at(LATER), case_id, form("unsafe", 5), " ", "b" * 32)
    assert load_draft(db, ANN, case_id) is not None
    revise(db, ANN.at(LATER), case_id, form("unsafe", 5), "overlooked the last line", "b" * 32)
    assert load_draft(db, ANN, case_id) is None


def test_a_revision_is_a_new_version_with_its_reason_and_says_it_was_not_blind(db: Database) -> None:
    (case_id,) = fill(db)
    submit_rating(db, ANN.at(NOW), case_id, take(db, ANN).token, form("safe", 4), "a" * 32)
    reveal_evidence(db, ANN.at(LATER), case_id)
    changed = form("unsafe", 5)
    assert revise(db, ANN.at(LATER), case_id, changed, "overlooked the last line", "b" * 32) is Next.CLOSED
    assert revise(db, ANN.at(LATER), case_id, changed, "again", "b" * 32) is None
    first, second = reveal_ratings(db, ANN.at(NOW), case_id)
    assert (first.form.label, first.blind, first.version) == ("safe", True, 1)
    assert (second.form.label, second.blind, second.version) == ("unsafe", False, 2)
    assert second.reason == "overlooked the last line"
    assert [(row.version, row.label, row.method) for row in rows(db, adjudications)] == [
        (1, "safe", "single"),
        (2, "unsafe", "single"),
    ]


def test_only_ones_own_reading_can_be_revised_and_only_with_a_reason(db: Database) -> None:
    (case_id,) = fill(db)
    submit_rating(db, ANN.at(NOW), case_id, take(db, ANN).token, form(), "a" * 32)
    for other in (BO, SENIOR):
        with pytest.raises(Forbidden):
            revise(db, other.at(LATER), case_id, form(), "why", "b" * 32)
    with pytest.raises(ReasonNeeded):
        revise(db, ANN.at(LATER), case_id, form("safe"), "  ", "b" * 32)
    assert len(rows(db, ratings)) == 1


def test_only_label_and_certainty_are_compulsory() -> None:
    bare = RatingForm.model_validate({"label": "safe", "certainty": 3})
    assert (bare.plan, bare.ideation, bare.subject) == ("not_stated", None, None)
    for missing in ({"label": "safe"}, {"certainty": 3}, {"label": "escalate", "certainty": 3}):
        with pytest.raises(ValidationError):
            RatingForm.model_validate(missing)
    for wrong in ({"certainty": 0}, {"certainty": 6}, {"ideation": 6}, {"plan": "none"}, {"reason_codes": ["new"]}):
        with pytest.raises(ValidationError):
            RatingForm.model_validate({"label": "safe", "certainty": 3, **wrong})


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"plan": "full", "ideation": 2}, 1),
        ({"plan": "full", "ideation": 3}, 0),
        ({"plan": "full"}, 0),  # ideation not stated contradicts nothing
        ({"intent": "stated", "ideation": 3}, 1),
        ({"intent": "denied", "ideation": 4}, 1),
        ({"plan": "denied", "ideation": 5}, 1),
        ({"timeframe": "imminent", "ideation": 0}, 1),
        ({"protective_factors": ["denied", "people"]}, 1),
        ({"protective_factors": ["denied"]}, 0),
        ({"label": "safe", "ideation": 4}, 1),
        ({"label": "safe", "ideation": 4, "subject": "quotation_or_fiction"}, 0),
        ({"label": "safe", "timeframe": "imminent"}, 1),
        ({"label": "safe", "disposition": "contact_now"}, 1),
        ({"ideation": 0, "subject": "self"}, 1),
        ({"ideation": 0, "subject": "self", "behaviour": "self_harm"}, 0),
    ],
)
def test_contradictions_are_pointed_out(fields: dict, count: int) -> None:  # type: ignore[type-arg]
    assert len(contradictions(RatingForm.model_validate({"label": "unsafe", "certainty": 3} | fields))) == count
