"""Reviews are stored once, under the lease, and never overwritten; taken back at once nothing of one counts, nothing is
lost; drafts outlive a lost lease.
"""

import tomllib
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError

from screening.review.policy import Forbidden
from screening.review.review_form import Disposition, ReviewForm, ReviewLabel, contradictions
from screening.review.triage import Priority
from storage import schema
from storage.clock import new_id
from storage.database import Database
from storage.review import claims, inbox, reviews
from storage.review.adjudication import Next, ReasonNeeded
from storage.review.claims import LeaseLost
from storage.review.erasure import erase_rows
from storage.review.inbox import Place, Standing, standing
from storage.review.reviews import DispositionNeeded, TooLate
from storage.settings_store import SiteSettings, change
from tests.storage.inbox_cases import fill, form, play, read, register, rows, take
from tests.storage.people import ADMIN, ANN, BO, MINUTE, NOW, SENIOR

LATER = NOW + MINUTE
SECOND = timedelta(seconds=1)


def submit(db: Database, case_id: str, token: str, filled: ReviewForm, at: datetime = LATER) -> Next | None:
    return reviews.submit_review(db, ANN.at(at), case_id, token, filled, "a" * 32)


def test_one_review_adjudicates_and_closes_the_case(db: Database) -> None:
    (case_id,) = fill(db)
    filled = form("unsafe", 4, ideation=2, plan="denied", reason_codes=["metaphor"], note="quotes a song")
    assert submit(db, case_id, take(db, ANN).token, filled) is Next.CLOSED
    (made,) = rows(db, schema.adjudications)
    assert (made.label, made.method, made.by, made.version) == ("unsafe", "single", "ann", 1)
    assert made.review_ids == ["a" * 32]
    (stored,) = reviews.reveal_reviews(db, ANN.at(NOW), case_id)
    assert (stored.form, stored.version, stored.blind, stored.review_round) == (filled, 1, True, "first")


def test_what_happens_next_is_said_of_what_is_unsafe_or_urgent_and_is_on_the_sites_list(db: Database) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(dispositions=(Disposition.MONITOR, Disposition.IN_CARE)), 0)
    fill(db, [Priority.P0, Priority.P2])
    urgent, plain = take(db, ANN), take(db, ANN)
    for held, label, disposition in (
        (urgent, "safe", "undecided"),
        (plain, "unsafe", "undecided"),
        (plain, "safe", "none"),
    ):
        with pytest.raises(DispositionNeeded):
            submit(db, held.case_id, held.token, form(label, disposition=disposition))
    assert rows(db, schema.reviews) == [] and claims.my_claims(db, ANN.at(LATER)) == (urgent, plain)
    submit(db, plain.case_id, plain.token, form("safe", disposition="undecided"))
    reviews.submit_review(db, ANN.at(NOW), urgent.case_id, urgent.token, form(disposition="in_care"), "b" * 32)
    change(db, ADMIN.at(NOW), SiteSettings(dispositions=(Disposition.NONE,)), 1)
    changed = partial(reviews.revise, db, ANN.at(LATER), urgent.case_id, reason="the plan", submission_id="c" * 32)
    for disposition in ("undecided", "monitor"):
        with pytest.raises(DispositionNeeded):
            changed(form=form(disposition=disposition))
    changed(form=form(disposition="in_care"))  # it left the list, and this review had it
    assert sorted(row.version for row in rows(db, schema.reviews)) == [1, 1, 2]


def test_the_same_submission_twice_is_one_review(db: Database) -> None:
    """And its id is of this person and this case."""
    case_id, other = fill(db, [Priority.P2, Priority.P2])
    token = take(db, ANN).token
    assert submit(db, case_id, token, form()) is Next.CLOSED
    assert submit(db, case_id, token, form("safe")) is None
    for who, borrowed in ((BO, case_id), (ANN, other)):
        with pytest.raises(Forbidden):
            reviews.submit_review(db, who.at(LATER), borrowed, "x", form(), "a" * 32)
    assert [row.label for row in rows(db, schema.reviews)] == ["unsafe"]


@pytest.mark.parametrize("how", ["expired", "taken", "wrong token", "released", "never claimed"])
def test_without_the_current_token_nothing_is_stored_but_the_draft(db: Database, how: str) -> None:
    (case_id,) = fill(db)
    claim = take(db, ANN)
    now = claim.expires_at if how in ("expired", "taken") else LATER
    token = {"wrong token": "f" * 64, "never claimed": ""}.get(how, claim.token)
    if how == "taken":
        take(db, BO, now)
    if how in ("released", "never claimed"):
        inbox.release(db, ANN.at(NOW), case_id, claim.token)
    filled = form("safe", 5, note="all of it")
    with pytest.raises(LeaseLost):
        submit(db, case_id, token, filled, now)
    assert rows(db, schema.reviews) == rows(db, schema.adjudications) == []
    assert ReviewForm.model_validate(reviews.load_draft(db, ANN, case_id)) == filled


def test_a_draft_is_its_writers_survives_expiry_and_goes_with_the_review(db: Database) -> None:
    (case_id,) = fill(db)
    claim = take(db, ANN)
    reviews.save_draft(db, ANN.at(NOW), case_id, {"label": "safe"})
    reviews.save_draft(db, ANN.at(LATER), case_id, {"label": "unsafe", "note": "so far"})
    with pytest.raises(ValueError, match="too long"):
        reviews.save_draft(db, ANN.at(LATER), case_id, {"note": "x" * 30_000})
    with pytest.raises(LeaseLost):  # also where the form is too long for a draft
        submit(db, case_id, "x", form(note="\x01" * 4_000))
    assert reviews.load_draft(db, BO, case_id) is None
    over = claim.expires_at + MINUTE
    again = claims.claim(db, ANN.at(over), case_id)
    assert reviews.load_draft(db, ANN, case_id) == {"label": "unsafe", "note": "so far"}
    submit(db, case_id, again.token, form(), over)
    assert reviews.load_draft(db, ANN, case_id) is None
    for letter in ("ж", "ش", "人", "\U0001f642"):  # the longest notes, in any script
        longest = {"label": "unsafe", "note": letter * 4_000, "leaving": letter * 2_000, "reason": letter * 2_000}
        reviews.save_draft(db, ANN.at(NOW), case_id, longest)
        assert reviews.load_draft(db, ANN, case_id) == longest


def test_a_revision_is_a_new_version_of_ones_own_with_its_reason_and_says_it_was_not_blind(db: Database) -> None:
    (case_id,) = fill(db)
    play(db, case_id, "ann safe, ann sees")
    reviews.save_draft(db, ANN.at(LATER), case_id, {"label": "safe", "revision": True})
    changed, why = form("unsafe", 5), "overlooked the last line"
    for other in (BO, SENIOR):
        with pytest.raises(Forbidden):
            reviews.revise(db, other.at(LATER), case_id, changed, why, "b" * 32)
    with pytest.raises(ReasonNeeded):
        reviews.revise(db, ANN.at(LATER), case_id, changed, " ", "b" * 32)
    assert reviews.load_draft(db, ANN, case_id) is not None
    assert reviews.revise(db, ANN.at(LATER), case_id, changed, why, "b" * 32) is Next.CLOSED
    assert reviews.load_draft(db, ANN, case_id) is None
    assert reviews.revise(db, ANN.at(LATER), case_id, changed, "again", "b" * 32) is None
    first, second = reviews.reveal_reviews(db, ANN.at(NOW), case_id)
    assert (first.form.label, first.blind, first.version) == ("safe", True, 1)
    assert (second.form.label, second.blind, second.version, second.reason) == ("unsafe", False, 2, why)
    assert [(row.version, row.label) for row in rows(db, schema.adjudications)] == [(1, "safe"), (2, "unsafe")]


def test_only_label_and_certainty_are_compulsory() -> None:
    bare = ReviewForm.model_validate({"label": "safe", "certainty": 3})
    assert (bare.plan, bare.ideation, bare.subject) == ("not_stated", None, None)
    wrong = ({"certainty": 0}, {"certainty": 6}, {"ideation": 6}, {"plan": "none"}, {"reason_codes": ["new"]})
    missing = ({"label": "safe"}, {"certainty": 3}, {"label": "escalate", "certainty": 3})
    for refused in (*missing, *({"label": "safe", "certainty": 3, **one} for one in wrong)):
        with pytest.raises(ValidationError):
            ReviewForm.model_validate(refused)


def test_contradictions_are_pointed_out() -> None:
    table = tomllib.loads((Path(__file__).parent / "contradictions.toml").read_text(encoding="utf-8"))
    for number, forms in ((1, table["contradictory"]), (0, table["consistent"])):
        for fields in forms:
            filled = ReviewForm.model_validate({"label": "unsafe", "certainty": 3} | fields)
            assert len(contradictions(filled)) == number, fields


def _read(db: Database, case_id: str, label: str = "unsafe", at: datetime = NOW, certainty: int = 4) -> str:
    given = new_id(at)
    reviews.submit_review(db, ANN.at(at), case_id, take(db, ANN, at).token, form(label, certainty), given)
    return given


def test_the_case_is_open_in_the_same_hands_and_the_next_review_is_the_first_and_blind(db: Database) -> None:
    register(db, ANN, BO)
    [case_id] = fill(db)
    given = _read(db, case_id)
    read_so = Standing(place=Place.READ, closed=True, at=NOW, label=ReviewLabel.UNSAFE)
    assert standing(db, ANN.at(NOW), case_id, None) == read_so
    claim = reviews.take_back(db, ANN.at(NOW + 20 * SECOND), case_id, given)
    assert standing(db, ANN.at(NOW + 21 * SECOND), case_id, claim.token) == Standing(place=Place.HELD)
    assert rows(db, schema.adjudications) == [] == rows(db, schema.reviews)
    assert [row.review_id for row in rows(db, schema.undone_reviews)] == [given]
    assert reviews.load_draft(db, ANN, case_id)["label"] == "unsafe"
    again = new_id(NOW)
    reviews.submit_review(db, ANN.at(NOW + 30 * SECOND), case_id, claim.token, form("safe", 5), again)
    mine = reviews.my_review(db, ANN, case_id)
    assert mine is not None and (mine.id, mine.version, mine.blind, mine.form.label) == (again, 1, True, "safe")
    assert [row.label for row in rows(db, schema.adjudications)] == ["safe"]
    assert "review_undone" in [row.action for row in rows(db, schema.audit_events)]


def test_its_reviewer_alone_takes_it_back_once_with_what_it_led_to(db: Database) -> None:
    """The second review asked for by rule, and an agreement; the first review stays."""
    register(db, ANN, BO)
    [case_id] = fill(db)
    given = _read(db, case_id, "insufficient_information")
    assert len(rows(db, schema.second_review_requests)) == 1
    with pytest.raises(Forbidden):
        reviews.take_back(db, BO.at(NOW + SECOND), case_id, given)
    held = [reviews.take_back(db, ANN.at(NOW + after * SECOND), case_id, given) for after in (1, 2)][-1]
    assert rows(db, schema.second_review_requests) == [] and len(rows(db, schema.undone_reviews)) == 1
    inbox.release(db, ANN.at(NOW + 2 * SECOND), case_id, held.token)
    read(db, BO, form(), "b", ask=True)
    given = _read(db, case_id, at=NOW + 3 * SECOND)
    assert [row.method for row in rows(db, schema.adjudications)] == ["agreement"]
    reviews.take_back(db, ANN.at(NOW + 4 * SECOND), case_id, given)
    assert (rows(db, schema.adjudications), [row.id for row in rows(db, schema.reviews)]) == ([], ["b" * 32])


Happens = Callable[[Database, str, datetime], object]


def _erase(db: Database, case_id: str, at: datetime) -> None:
    with db.write() as conn:
        erase_rows(conn, [case_id], None, at)


def _plays(script: str) -> Happens:
    return lambda db, case_id, _at: play(db, case_id, script)


def _is_taken(db: Database, _case_id: str, at: datetime) -> None:
    take(db, BO, at)


@pytest.mark.parametrize(
    ("label", "certainty", "happens", "words"),
    [
        pytest.param("unsafe", 4, _plays("ann sees"), "you have seen the AI", id="seen"),
        pytest.param("insufficient_information", 4, _is_taken, "has begun", id="taken"),
        pytest.param("safe", 1, _plays("bo unsafe 5"), "another reviewer", id="read"),
        pytest.param("safe", 5, _plays("sue amends unsafe"), "decided since", id="amended"),
        pytest.param("insufficient_information", 5, _plays("sue decides unsafe"), "decided since", id="decided"),
        pytest.param("unsafe", 4, _plays("ann revises safe 5"), "you have changed your review since", id="changed"),
        pytest.param("unsafe", 4, _erase, "was deleted", id="erased"),
        pytest.param("unsafe", 4, lambda *_: None, None, id="nothing, but the time is over"),
    ],
)
def test_it_is_too_late_and_all_stays_as_it_is_once_something_rests_on_it(
    db: Database, label: str, certainty: int, happens: Happens, words: str | None
) -> None:
    register(db, ANN, BO, SENIOR)
    [case_id] = fill(db)
    given = _read(db, case_id, label, LATER - 2 * SECOND, certainty=certainty)
    happens(db, case_id, LATER - SECOND)
    tables = (schema.adjudications, schema.reviews, schema.inbox_entries, schema.undone_reviews, schema.drafts)
    before = [rows(db, table) for table in tables]
    with pytest.raises(TooLate, match=words):
        reviews.take_back(db, ANN.at(LATER if words else LATER + MINUTE), case_id, given)
    assert [rows(db, table) for table in tables] == before


def test_my_reviews_say_what_became_of_them(db: Database) -> None:
    register(db, ANN, BO)
    plain, waiting = fill(db, [Priority.P2, Priority.P3])
    _read(db, plain)
    _read(db, waiting, "insufficient_information", NOW + MINUTE)
    newest, oldest = reviews.my_reviews(db, ANN)
    assert (newest.case_id, newest.waits_for, newest.accepted, newest.otherwise) == (waiting, "second", None, False)
    assert (oldest.case_id, oldest.accepted, oldest.otherwise) == (plain, ReviewLabel.UNSAFE, False)
    reviews.revise(db, ANN.at(NOW + 2 * MINUTE), plain, form("safe", 5), "second thoughts", new_id(NOW))
    revised, before = reviews.my_reviews(db, ANN)
    assert (revised.case_id, revised.label, before.case_id) == (plain, ReviewLabel.SAFE, waiting)
    assert reviews.my_reviews(db, BO) == () and reviews.my_reviews(db, ANN, before=NOW + MINUTE) == ()
    assert reviews.my_reviews(db, ANN, before=revised.at) == (before,)
    _erase(db, waiting, NOW)
    erased = reviews.my_reviews(db, ANN)[1]
    assert (erased.case_id, erased.waits_for, erased.accepted) == (waiting, None, None)
