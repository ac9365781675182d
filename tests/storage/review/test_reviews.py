"""Reviews are stored once, under the lease, and never overwritten; taken back at once nothing of one counts, nothing is
lost; drafts outlive a lost lease.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from pydantic import ValidationError
from sqlalchemy import select

from screening.review.policy import Forbidden
from screening.review.review_form import Disposition, ReviewForm, ReviewLabel, contradictions
from screening.review.triage import Priority
from storage.clock import new_id
from storage.database import Database
from storage.review import claims, inbox
from storage.review.adjudication import Next, ReasonNeeded, adjudicate, amend
from storage.review.claims import LeaseLost
from storage.review.erasure import erase_rows
from storage.review.evidence import reveal_evidence
from storage.review.inbox import Place, Standing, standing
from storage.review.reviews import (
    DispositionNeeded,
    TooLate,
    load_draft,
    my_review,
    my_reviews,
    reveal_reviews,
    revise,
    save_draft,
    submit_review,
    take_back,
)
from storage.schema import (
    adjudications,
    audit_events,
    drafts,
    inbox_entries,
    reviews,
    second_review_requests,
    undone_reviews,
)
from storage.settings_store import SiteSettings, change
from storage.site.accounts import colleagues
from tests.storage.inbox_cases import ADMIN, ANN, BO, MINUTE, NOW, SENIOR, fill, form, read, register, take

LATER = NOW + MINUTE


def rows(db: Database, table) -> list:  # type: ignore[no-untyped-def, type-arg]
    return list(db.rows(select(table)))


def test_one_review_adjudicates_and_closes_the_case(db: Database) -> None:
    (case_id,) = fill(db)
    filled = form("unsafe", 4, ideation=2, plan="denied", reason_codes=["metaphor"], note="quotes a song")
    assert submit_review(db, ANN.at(LATER), case_id, take(db, ANN).token, filled, "a" * 32) is Next.CLOSED
    (made,) = rows(db, adjudications)
    assert (made.label, made.method, made.by, made.version) == ("unsafe", "single", "ann", 1)
    assert made.review_ids == ["a" * 32]
    (stored,) = reveal_reviews(db, ANN.at(NOW), case_id)
    assert (stored.form, stored.version, stored.blind, stored.review_round) == (filled, 1, True, "first")
    assert claims.claim_next(db, BO.at(LATER)) is None


@pytest.mark.parametrize(
    ("priority", "label", "disposition", "stored"),
    [
        (Priority.P3, "unsafe", "undecided", False),
        (Priority.P1, "safe", "undecided", False),
        (Priority.P0, "insufficient_information", "undecided", False),
        (Priority.P2, "safe", "undecided", True),
        (Priority.P2, "insufficient_information", "undecided", True),
        (Priority.P0, "unsafe", "monitor", True),
        (Priority.P2, "safe", "in_care", False),  # not on this site's list
    ],
)
def test_what_happens_next_is_said_of_what_is_unsafe_or_urgent(
    db: Database, priority: Priority, label: str, disposition: str, stored: bool
) -> None:
    offered = (Disposition.MONITOR, Disposition.NONE)
    change(db, ADMIN.at(NOW), SiteSettings(dispositions=offered), 0)
    fill(db, [priority])
    held = take(db, ANN)
    filled = form(label, disposition=disposition)
    if stored:
        submit_review(db, ANN.at(LATER), held.case_id, held.token, filled, "a" * 32)
    else:
        with pytest.raises(DispositionNeeded):
            submit_review(db, ANN.at(LATER), held.case_id, held.token, filled, "a" * 32)
    assert len(rows(db, reviews)) == stored
    assert [one.token for one in claims.my_claims(db, ANN.at(LATER))] == ([] if stored else [held.token])


def test_a_change_needs_a_disposition_too_and_keeps_one_that_left_the_list(db: Database) -> None:
    (case_id,) = fill(db)
    submit_review(db, ANN.at(NOW), case_id, take(db, ANN).token, form("safe", disposition="in_care"), "a" * 32)
    change(db, ADMIN.at(NOW), SiteSettings(dispositions=(Disposition.NONE,)), 0)
    for disposition in ("undecided", "monitor"):
        with pytest.raises(DispositionNeeded):
            revise(db, ANN.at(LATER), case_id, form("unsafe", disposition=disposition), "saw the plan", "b" * 32)
    revise(db, ANN.at(LATER), case_id, form("unsafe", disposition="in_care"), "saw the plan", "b" * 32)
    assert [row.version for row in rows(db, reviews)] == [1, 2]


def test_the_same_submission_twice_is_one_review(db: Database) -> None:
    (case_id,) = fill(db)
    token = take(db, ANN).token
    assert submit_review(db, ANN.at(LATER), case_id, token, form(), "a" * 32) is Next.CLOSED
    assert submit_review(db, ANN.at(LATER), case_id, token, form("safe"), "a" * 32) is None
    assert [row.label for row in rows(db, reviews)] == ["unsafe"]


def test_a_submission_id_cannot_be_borrowed(db: Database) -> None:
    ids = fill(db, [Priority.P2, Priority.P2])
    submit_review(db, ANN.at(LATER), ids[0], take(db, ANN).token, form(), "a" * 32)
    with pytest.raises(Forbidden):
        submit_review(db, BO.at(LATER), ids[0], "x", form(), "a" * 32)
    with pytest.raises(Forbidden):
        submit_review(db, ANN.at(LATER), ids[1], "x", form(), "a" * 32)


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
        submit_review(db, ANN.at(now), case_id, token, filled, "a" * 32)
    assert rows(db, reviews) == rows(db, adjudications) == []
    assert ReviewForm.model_validate(load_draft(db, ANN, case_id)) == filled


def test_a_draft_is_its_writers_survives_expiry_and_goes_with_the_review(db: Database) -> None:
    (case_id,) = fill(db)
    claim = take(db, ANN)
    save_draft(db, ANN.at(NOW), case_id, {"label": "safe"})
    save_draft(db, ANN.at(LATER), case_id, {"label": "unsafe", "note": "so far"})
    assert load_draft(db, BO, case_id) is None
    again = claims.claim(db, ANN.at(claim.expires_at + MINUTE), case_id)
    assert load_draft(db, ANN, case_id) == {"label": "unsafe", "note": "so far"}
    submit_review(db, ANN.at(claim.expires_at + MINUTE), case_id, again.token, form(), "a" * 32)
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
        submit_review(db, ANN.at(LATER), case_id, "x", form(note="\x01" * 4_000), "a" * 32)
    assert load_draft(db, ANN, case_id) == {"label": "unsafe"}


def test_a_change_is_of_ones_own_review_needs_a_reason_and_its_draft_goes_once_it_is_stored(db: Database) -> None:
    (case_id,) = fill(db)
    submit_review(db, ANN.at(NOW), case_id, take(db, ANN).token, form("safe", 4), "a" * 32)
    save_draft(db, ANN.at(LATER), case_id, {"label": "safe", "revision": True})
    for other in (BO, SENIOR):
        with pytest.raises(Forbidden):
            revise(db, other.at(LATER), case_id, form(), "why", "b" * 32)
    with pytest.raises(ReasonNeeded):
        revise(db, ANN.at(LATER), case_id, form("unsafe", 5), " ", "b" * 32)
    assert load_draft(db, ANN, case_id) is not None
    revise(db, ANN.at(LATER), case_id, form("unsafe", 5), "overlooked the last line", "b" * 32)
    assert load_draft(db, ANN, case_id) is None


def test_a_revision_is_a_new_version_with_its_reason_and_says_it_was_not_blind(db: Database) -> None:
    (case_id,) = fill(db)
    submit_review(db, ANN.at(NOW), case_id, take(db, ANN).token, form("safe", 4), "a" * 32)
    reveal_evidence(db, ANN.at(LATER), case_id)
    changed = form("unsafe", 5)
    assert revise(db, ANN.at(LATER), case_id, changed, "overlooked the last line", "b" * 32) is Next.CLOSED
    assert revise(db, ANN.at(LATER), case_id, changed, "again", "b" * 32) is None
    first, second = reveal_reviews(db, ANN.at(NOW), case_id)
    assert (first.form.label, first.blind, first.version) == ("safe", True, 1)
    assert (second.form.label, second.blind, second.version) == ("unsafe", False, 2)
    assert second.reason == "overlooked the last line"
    assert [(row.version, row.label, row.method) for row in rows(db, adjudications)] == [
        (1, "safe", "single"),
        (2, "unsafe", "single"),
    ]


def test_only_label_and_certainty_are_compulsory() -> None:
    bare = ReviewForm.model_validate({"label": "safe", "certainty": 3})
    assert (bare.plan, bare.ideation, bare.subject) == ("not_stated", None, None)
    for missing in ({"label": "safe"}, {"certainty": 3}, {"label": "escalate", "certainty": 3}):
        with pytest.raises(ValidationError):
            ReviewForm.model_validate(missing)
    for wrong in ({"certainty": 0}, {"certainty": 6}, {"ideation": 6}, {"plan": "none"}, {"reason_codes": ["new"]}):
        with pytest.raises(ValidationError):
            ReviewForm.model_validate({"label": "safe", "certainty": 3, **wrong})


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
    assert len(contradictions(ReviewForm.model_validate({"label": "unsafe", "certainty": 3} | fields))) == count


SECOND = timedelta(seconds=1)


def _read(db: Database, case_id: str, label: str = "unsafe", at: datetime = NOW, certainty: int = 4) -> str:
    taken = take(db, ANN, at)
    assert taken.case_id == case_id
    given = new_id(at)
    submit_review(db, ANN.at(at), case_id, taken.token, form(label, certainty), given)
    return given


def test_the_case_is_open_in_the_same_hands_and_the_next_review_is_the_first_and_blind(db: Database) -> None:
    register(db, ANN, BO)
    [case_id] = fill(db)
    given = _read(db, case_id)
    assert standing(db, ANN.at(NOW), case_id, None) == Standing(
        place=Place.READ, closed=True, at=NOW, label=ReviewLabel.UNSAFE
    )
    claim = take_back(db, ANN.at(NOW + 20 * SECOND), case_id, given)
    assert standing(db, ANN.at(NOW + 21 * SECOND), case_id, claim.token) == Standing(place=Place.HELD)
    assert rows(db, adjudications) == [] == rows(db, reviews)
    assert [row.review_id for row in rows(db, undone_reviews)] == [given]
    assert load_draft(db, ANN, case_id)["label"] == "unsafe"
    again = new_id(NOW)
    submit_review(db, ANN.at(NOW + 30 * SECOND), case_id, claim.token, form("safe", 5), again)
    mine = my_review(db, ANN, case_id)
    assert mine is not None and (mine.id, mine.version, mine.blind, mine.form.label) == (again, 1, True, "safe")
    assert [row.label for row in rows(db, adjudications)] == ["safe"]
    assert "review_undone" in [row.action for row in rows(db, audit_events)]


def test_its_reviewer_takes_it_back_once_with_the_second_review_asked_for_by_rule(db: Database) -> None:
    """And nobody else does."""
    register(db, ANN, BO)
    [case_id] = fill(db)
    given = _read(db, case_id, "insufficient_information")
    assert len(rows(db, second_review_requests)) == 1 and len(colleagues(db, ANN)) == 1
    with pytest.raises(Forbidden):
        take_back(db, BO.at(NOW + SECOND), case_id, given)
    take_back(db, ANN.at(NOW + SECOND), case_id, given)
    assert rows(db, second_review_requests) == []
    assert take_back(db, ANN.at(NOW + 2 * SECOND), case_id, given).case_id == case_id
    assert len(rows(db, undone_reviews)) == 1


def _senior_decides(db: Database, case_id: str, at: datetime) -> None:
    adjudicate(db, SENIOR.at(at), case_id, ReviewLabel.UNSAFE, "a plan in the last line")


def _erase(db: Database, case_id: str, at: datetime) -> None:
    with db.write() as conn:
        erase_rows(conn, [case_id], None, at)


@pytest.mark.parametrize(
    ("label", "certainty", "happens", "words"),
    [
        ("unsafe", 4, lambda db, case_id, at: reveal_evidence(db, ANN.at(at), case_id), "you have seen the AI"),
        ("insufficient_information", 4, lambda db, case_id, at: claims.claim_next(db, BO.at(at)), "has begun"),
        ("safe", 1, lambda db, case_id, at: read(db, BO, form("unsafe", 5), "b", at), "another reviewer"),
        (
            "safe",
            5,
            lambda db, case_id, at: amend(db, SENIOR.at(at), case_id, ReviewLabel.UNSAFE, "a plan in it", 1),
            "decided since",
        ),
        ("insufficient_information", 5, _senior_decides, "decided since"),
        (
            "unsafe",
            4,
            lambda db, case_id, at: revise(db, ANN.at(at), case_id, form("safe", 5), "thought again", "c" * 32),
            "you have changed your review since",
        ),
        ("unsafe", 4, _erase, "was deleted"),
        ("unsafe", 4, lambda db, case_id, at: None, None),
    ],
    ids=["seen", "taken", "read", "amended", "decided", "changed", "erased", "nothing, but the time is over"],
)
def test_it_is_too_late_and_all_stays_as_it_is_once_something_rests_on_it(
    db: Database, label: str, certainty: int, happens: Callable[[Database, str, datetime], object], words: str | None
) -> None:
    register(db, ANN, BO, SENIOR)
    [case_id] = fill(db)
    given = _read(db, case_id, label, certainty=certainty)
    happens(db, case_id, NOW + SECOND)
    tables = (adjudications, reviews, inbox_entries, undone_reviews, drafts)
    before = [rows(db, table) for table in tables]
    with pytest.raises(TooLate, match=words):
        take_back(db, ANN.at(NOW + (2 * SECOND if words else MINUTE)), case_id, given)
    assert [rows(db, table) for table in tables] == before


def test_an_agreement_goes_with_the_review_that_made_it_and_the_first_review_stays(db: Database) -> None:
    register(db, ANN, BO)
    [case_id] = fill(db)
    read(db, BO, form(), "b", ask=True)
    given = _read(db, case_id, at=NOW + SECOND)
    assert [row.method for row in rows(db, adjudications)] == ["agreement"]
    take_back(db, ANN.at(NOW + 2 * SECOND), case_id, given)
    assert (rows(db, adjudications), [row.id for row in rows(db, reviews)]) == ([], ["b" * 32])


def test_a_review_is_moved_only_where_its_reviewer_gets_the_case(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    [case_id] = fill(db)
    given = _read(db, case_id)

    def refuse(*_args: object) -> None:
        raise claims.NotAvailable("this case is assigned to somebody else")

    monkeypatch.setattr("storage.review.reviews.claim_in", refuse)
    with pytest.raises(claims.NotAvailable):
        take_back(db, ANN.at(NOW + SECOND), case_id, given)
    assert [row.id for row in rows(db, reviews)] == [given] and len(rows(db, adjudications)) == 1
    assert rows(db, undone_reviews) == []


def test_my_reviews_say_what_became_of_them(db: Database) -> None:
    register(db, ANN, BO)
    plain, waiting = fill(db, [Priority.P2, Priority.P3])
    _read(db, plain)
    _read(db, waiting, "insufficient_information", NOW + MINUTE)
    newest, oldest = my_reviews(db, ANN)
    assert (newest.case_id, newest.waits_for, newest.accepted, newest.otherwise) == (waiting, "second", None, False)
    assert (oldest.case_id, oldest.accepted, oldest.otherwise) == (plain, ReviewLabel.UNSAFE, False)
    revise(db, ANN.at(NOW + 2 * MINUTE), plain, form("safe", 5), "second thoughts", new_id(NOW))
    revised, before = my_reviews(db, ANN)
    assert (revised.case_id, revised.label, before.case_id) == (plain, ReviewLabel.SAFE, waiting)
    assert my_reviews(db, BO) == () and my_reviews(db, ANN, before=NOW + MINUTE) == ()
    assert my_reviews(db, ANN, before=revised.at) == (before,)
    with db.write() as conn:
        erase_rows(conn, [waiting], None, NOW)
    erased = my_reviews(db, ANN)[1]
    assert (erased.case_id, erased.waits_for, erased.accepted) == (waiting, None, None)
