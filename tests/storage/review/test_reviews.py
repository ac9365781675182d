"""Reviews are stored once, under the lease, and never overwritten; taken back at once nothing of one counts, nothing is
lost; drafts outlive a lost lease. What they make of a case: another review, by rule, coin or request; agreement; a
senior's word; amendments. A disposition that asks for something stays on the inbox until somebody closes it.

Nothing the inbox asks of the database grows with the number of cases that wait.
"""

import tomllib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import event, insert, select, text, update

from screening.evaluation.metrics import Proportion
from screening.review.policy import LOCAL_USER, SYSTEM, Actor, Forbidden, Role
from screening.review.review_form import Disposition, ReviewForm, ReviewLabel, contradictions
from screening.review.triage import TARGETS, Priority, second_review_coin
from storage import schema
from storage.audit_log import events
from storage.database import Database, Stale
from storage.review import adjudication, claims, follow_ups, inbox, reports, reviews
from storage.review.adjudication import Method, Next, adjudicate, is_party
from storage.review.claims import Incomplete, LeaseLost, NotAvailable
from storage.review.erasure import erase_rows
from storage.review.evidence import open_next, reveal_text
from storage.review.follow_ups import For, How, NotOpen, open_ones
from storage.review.inbox import Place, Standing, standing
from storage.review.queue import Sort, State, counts, queue, reserved_cases
from storage.review.reports import shift
from storage.schema.columns import new_id
from storage.settings_store import SiteSettings, change, current
from storage.site.accounts import release_all
from storage.visibility import Unread
from tests.databases import write
from tests.storage.inbox_cases import blind, entry, fill, form, play, put, read, register, rows, site, take
from tests.storage.people import ADMIN, ANN, BO, CY, HELEN, MINUTE, NOW, PEOPLE, RESEARCHER, SENIOR, later, person

LATER = NOW + MINUTE
SECOND = timedelta(seconds=1)
TABLES = tomllib.loads((Path(__file__).parent / "adjudication.toml").read_text(encoding="utf-8"))


def submit(db: Database, case_id: str, token: str, filled: ReviewForm, at: datetime = LATER) -> Next | None:
    return reviews.submit_review(db, ANN.at(at), case_id, token, filled, "a" * 32)


def test_what_happens_next_is_said_of_what_is_unsafe_or_urgent_and_is_on_the_sites_list(db: Database) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(dispositions=(Disposition.MONITOR, Disposition.IN_CARE)), 0)
    fill(db, [Priority.P0, Priority.P2])
    urgent, plain = take(db, ANN), take(db, ANN)
    for held, label, disposition in (
        (urgent, "safe", "undecided"),
        (plain, "unsafe", "undecided"),
        (plain, "safe", "none"),
    ):
        with pytest.raises(Incomplete):
            submit(db, held.case_id, held.token, form(label, disposition=disposition))
    assert rows(db, schema.reviews) == [] and claims.my_claims(db, ANN.at(LATER)) == (urgent, plain)
    submit(db, plain.case_id, plain.token, form("safe", disposition="undecided"))
    reviews.submit_review(db, ANN.at(NOW), urgent.case_id, urgent.token, form(disposition="in_care"), "b" * 32)
    change(db, ADMIN.at(NOW), SiteSettings(dispositions=(Disposition.NONE,)), 1)
    changed = partial(reviews.revise, db, ANN.at(LATER), urgent.case_id, reason="the plan", submission_id="c" * 32)
    for disposition in ("undecided", "monitor"):
        with pytest.raises(Incomplete):
            changed(form=form(disposition=disposition))
    changed(form=form(disposition="in_care"))  # it left the list, and this review had it
    assert sorted(row.version for row in rows(db, schema.reviews)) == [1, 1, 2]


def test_the_same_submission_twice_is_one_review(db: Database) -> None:
    """And its id is of this person and this case."""
    case_id, other = fill(db, [Priority.P2, Priority.P2])
    token = take(db, ANN).token
    filled = form("unsafe", 4, ideation=2, plan="denied", reason_codes=["metaphor"], note="quotes a song")
    assert submit(db, case_id, token, filled) is Next.CLOSED
    assert submit(db, case_id, token, form("safe")) is None
    for who, borrowed in ((BO, case_id), (ANN, other)):
        with pytest.raises(Forbidden):
            reviews.submit_review(db, who.at(LATER), borrowed, "x", form(), "a" * 32)
    (stored,) = reviews.reveal_reviews(db, ANN.at(NOW), case_id)
    assert (stored.form, stored.version, stored.blind, stored.review_round) == (filled, 1, True, "first")


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
    longest = {"label": "unsafe", "note": "\U0001f642" * 4_000, "leaving": "人" * 2_000, "reason": "ж" * 2_000}
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
    with pytest.raises(Incomplete):
        reviews.revise(db, ANN.at(LATER), case_id, changed, " ", "b" * 32)
    assert reviews.load_draft(db, ANN, case_id) is not None
    assert reviews.revise(db, ANN.at(LATER), case_id, changed, why, "b" * 32) is Next.CLOSED
    assert reviews.load_draft(db, ANN, case_id) is None
    assert reviews.revise(db, ANN.at(LATER), case_id, changed, "again", "b" * 32) is None
    first, second = reviews.reveal_reviews(db, ANN.at(NOW), case_id)
    assert (first.form.label, first.blind, first.version) == ("safe", True, 1)
    assert (second.form.label, second.blind, second.version, second.reason) == ("unsafe", False, 2, why)
    assert [(row.version, row.label) for row in rows(db, schema.adjudications)] == [(1, "safe"), (2, "unsafe")]


def test_only_label_and_certainty_are_compulsory_and_contradictions_are_pointed_out() -> None:
    bare = ReviewForm.model_validate({"label": "safe", "certainty": 3})
    assert (bare.plan, bare.ideation, bare.subject) == ("not_stated", None, None)
    wrong = ({"certainty": 0}, {"certainty": 6}, {"ideation": 6}, {"plan": "none"}, {"reason_codes": ["new"]})
    missing = ({"label": "safe"}, {"certainty": 3}, {"label": "escalate", "certainty": 3})
    for refused in (*missing, *({"label": "safe", "certainty": 3, **one} for one in wrong)):
        with pytest.raises(ValidationError):
            ReviewForm.model_validate(refused)
    table = tomllib.loads((Path(__file__).parent / "contradictions.toml").read_text(encoding="utf-8"))
    for number, forms in ((1, table["contradictory"]), (0, table["consistent"])):
        for fields in forms:
            filled = ReviewForm.model_validate({"label": "unsafe", "certainty": 3} | fields)
            assert len(contradictions(filled)) == number, fields


def test_a_review_taken_back_leaves_its_case_in_the_same_hands_and_the_next_is_the_first_and_blind(
    db: Database,
) -> None:
    """Its reviewer alone takes it back, once, with what it led to: a second review asked for by rule, an agreement."""
    register(db, ANN, BO)
    [case_id] = fill(db)
    given = "a" * 32
    read(db, ANN, form("insufficient_information"), "a")
    assert len(rows(db, schema.second_review_requests)) == 1
    with pytest.raises(Forbidden):
        reviews.take_back(db, BO.at(NOW + SECOND), case_id, given)
    held = [reviews.take_back(db, ANN.at(NOW + after * SECOND), case_id, given) for after in (1, 2)][-1]
    assert standing(db, ANN.at(NOW + 2 * SECOND), case_id, held.token) == Standing(place=Place.HELD)
    taken_back = (schema.adjudications, schema.reviews, schema.second_review_requests)
    assert [rows(db, table) for table in taken_back] == [[], [], []]
    assert [row.review_id for row in rows(db, schema.undone_reviews)] == [given]
    assert reviews.load_draft(db, ANN, case_id)["label"] == "insufficient_information"
    again = new_id(NOW)
    inbox.ask_second_opinion(db, ANN.at(NOW + 2 * SECOND), case_id, held.token)
    reviews.submit_review(db, ANN.at(NOW + 3 * SECOND), case_id, held.token, form("safe", 5), again)
    mine = reviews.my_review(db, ANN, case_id)
    assert mine is not None and (mine.id, mine.version, mine.blind, mine.form.label) == (again, 1, True, "safe")
    read(db, BO, form("safe"), "b", NOW + 4 * SECOND)
    assert [(row.label, row.method) for row in rows(db, schema.adjudications)] == [("safe", "agreement")]
    read_so = Standing(place=Place.READ, closed=True, at=NOW + 4 * SECOND, label=ReviewLabel.SAFE)
    assert standing(db, BO.at(NOW + 4 * SECOND), case_id, None) == read_so
    reviews.take_back(db, BO.at(NOW + 5 * SECOND), case_id, "b" * 32)
    assert (rows(db, schema.adjudications), [row.id for row in rows(db, schema.reviews)]) == ([], [again])
    assert "review_undone" in [row.action for row in rows(db, schema.audit_events)]


def _erase(db: Database, case_id: str, at: datetime) -> None:
    with db.write() as conn:
        erase_rows(conn, [case_id], None, at)


@pytest.mark.parametrize(("label", "certainty", "happens", "words"), TABLES["too_late"])
def test_it_is_too_late_and_all_stays_as_it_is_once_something_rests_on_it(
    db: Database, label: str, certainty: int, happens: str, words: str
) -> None:
    """Or the time is over."""
    register(db, ANN, BO, SENIOR)
    [case_id] = fill(db)
    read(db, ANN, form(label, certainty), "a", LATER - 2 * SECOND)
    if happens == "erased":
        _erase(db, case_id, LATER)
    elif happens == "taken":
        take(db, BO, LATER)
    elif happens:
        play(db, case_id, happens)
    tables = (schema.adjudications, schema.reviews, schema.inbox_entries, schema.undone_reviews, schema.drafts)
    before = [rows(db, table) for table in tables]
    with pytest.raises(reviews.TooLate, match=words):
        reviews.take_back(db, ANN.at(LATER if happens else LATER + MINUTE), case_id, "a" * 32)
    assert [rows(db, table) for table in tables] == before


SAFE, UNSAFE = ReviewLabel.SAFE, ReviewLabel.UNSAFE
ANOTHER, SENIOR_DUE, CLOSED = Next.SECOND_REVIEW, Next.SENIOR, Next.CLOSED


@pytest.fixture
def case_id(db: Database) -> str:
    """One open case of a site whose coin asks for nothing."""
    site(db)
    return fill(db)[0]


def requests(db: Database) -> list[str]:
    """Why further reviews were asked for, and by whom."""
    asked = sorted(rows(db, schema.second_review_requests), key=lambda row: row.id)
    return [f"{row.why} {row.asked_by}" for row in asked]


@pytest.mark.parametrize("script", TABLES["scripts"])
def test_what_reviews_make_of_a_case(db: Database, case_id: str, script: str) -> None:
    expected, following = TABLES["scripts"][script], play(db, case_id, script)
    assert (following.value, requests(db)) == (expected["next"], expected["asked"])
    made = sorted(rows(db, schema.adjudications), key=lambda row: row.version)
    assert [f"{row.label} {row.method} {row.by}" for row in made] == expected["labels"]
    is_open = following is not CLOSED and "decides" not in script
    assert (entry(db, case_id).closed_at is None) is is_open
    if is_open:
        assert entry(db, case_id).review_round == ("third" if following is SENIOR_DUE else "second")
        with pytest.raises(Unread):
            adjudication.reveal_versions(db, RESEARCHER.at(later(60)), case_id)
    assert claims.claim_next(db, ANN.at(later(60))) is None, "never by its first reviewer again"
    assert (claims.claim_next(db, CY.at(later(60))) is not None) is (following is ANOTHER)


def test_a_rule_asks_for_another_review(db: Database) -> None:
    site(db)
    for rules, label, certainty, due in TABLES["rules"]:
        asked = SiteSettings(second_review_rate=0.0, second_review_rules=rules)
        change(db, ADMIN.at(NOW), asked, current(db).version)
        fill(db)
        assert read(db, ANN, form(label, certainty)) is (ANOTHER if due else CLOSED), (rules, label)


@pytest.mark.parametrize(("priority", "ai", "stated", "label", "doubtful"), TABLES["doubts"])
@pytest.mark.parametrize("others", ["another", "none", "who declined"])
@pytest.mark.parametrize("afterthought", [False, True])
def test_what_contradicts_priority_ai_or_text_is_never_one_persons_word_alone(
    db: Database, priority: int, ai: str, stated: list[str], label: str, doubtful: bool, others: str, afterthought: bool
) -> None:
    """Whatever the rules. Where nobody else could review it the case closes and the review stays asked for."""
    site(db, *((ANN,) if others == "none" else (ANN, BO)), second_review_rules=())
    case_id, other = fill(db, [Priority(priority), Priority.P3], outcome=ai)
    write(db, update(schema.cases).where(schema.cases.c.id == case_id).values(flags={"text": stated, "reply": []}))
    if others == "who declined":
        inbox.decline(db, BO.at(NOW), case_id, take(db, BO).token)
    if afterthought:
        read(db, ANN, form("insufficient_information", 5), "a")
        following = reviews.revise(db, ANN.at(later(1)), case_id, form(label, 5), "read again", "b" * 32)
    else:
        following = read(db, ANN, form(label, 5), "a")
    waits = doubtful and others == "another"
    assert following is (ANOTHER if waits else CLOSED)
    assert requests(db) == ([f"rule {SYSTEM.id}"] if waits else [])
    kept = [(one.case_id, one.disposition) for one in open_ones(db, ANN.at(NOW))]
    assert kept == ([(case_id, For.SECOND_REVIEW)] if doubtful and not waits else [])
    if kept and not afterthought:
        reviews.take_back(db, ANN.at(NOW), case_id, "a" * 32)
        assert not open_ones(db, ANN.at(NOW)), "it goes with the review that is taken back"
    assert entry(db, other).closed_at is None


def test_the_sampling_coin_belongs_to_the_case_and_comes_up_at_its_rate(db: Database) -> None:
    site(db, second_review_rate=0.5, second_review_rules=())
    ids = fill(db, [Priority.P2] * 12)
    nexts = [read(db, ANN, form(), f"{number:x}") for number in range(12)]
    drawn = [second_review_coin(case_id) < 0.5 for case_id in ids]
    assert nexts == [ANOTHER if each else CLOSED for each in drawn]
    assert requests(db) == [f"sampled {SYSTEM.id}"] * sum(drawn)
    # 4,000 fair coins: standard deviation 31.6; five of them are beyond chance
    assert abs(sum(second_review_coin(f"{number:032d}") < 0.5 for number in range(4_000)) - 2_000) < 158


def test_what_two_disagree_on_is_listed_for_seniors_without_labels(db: Database, case_id: str) -> None:
    play(db, case_id, "ann asks unsafe, bo safe 5")
    assert counts(db, CY.at(later(3))).by_state[State.SENIOR] == 1
    (listed,) = adjudication.disagreements(db, SENIOR)
    assert (listed.case_id, listed.read_by_me) == (case_id, False) and "unsafe" not in repr(listed)
    assert reviews.my_review(db, SENIOR, case_id) is None and (mine := reviews.my_review(db, BO, case_id)) is not None
    assert (mine.reviewer, mine.review_round) == ("bo", "second"), "one's own review shows nothing of the others"
    read(db, SENIOR, form(), "c", later(5))
    assert adjudication.disagreements(db, SENIOR)[0].read_by_me
    made = adjudicate(db, SENIOR.at(later(6)), case_id, UNSAFE, "as discussed", discussed=True)
    assert made.review_ids == ["1" * 32, "2" * 32, "c" * 32] and adjudication.disagreements(db, SENIOR) == []
    seen = reviews.reveal_reviews(db, RESEARCHER.at(later(7)), case_id)
    assert [(one.review_round, one.blind) for one in seen] == [("first", True), ("second", True), ("third", True)]


def test_one_of_two_who_disagree_does_not_decide_alone(db: Database, case_id: str) -> None:
    play(db, case_id, "ann asks unsafe, sue safe 5")
    with pytest.raises(NotAvailable, match="one of the two reviewers"):
        adjudicate(db, SENIOR.at(later(3)), case_id, SAFE, "mine was right")
    assert adjudicate(db, SENIOR.at(later(3)), case_id, UNSAFE, "with Ann", discussed=True).version == 1
    assert is_party(SENIOR, ["ann", "sue"])
    others = ((SENIOR, ["ann", "bo", "sue"]), (SENIOR, ["sue"]), (LOCAL_USER, ["local", "bo"]))
    assert not any(is_party(who, reviewers) for who, reviewers in others)


def test_an_adjudication_needs_a_reason_a_review_and_a_case_that_is_free_or_ones_own(
    db: Database, case_id: str
) -> None:
    def refused(why: str, at: float = 2, reason: str = "why", case_id: str = case_id) -> None:
        with pytest.raises((NotAvailable, Incomplete), match=why):
            adjudicate(db, SENIOR.at(later(at)), case_id, SAFE, reason)

    refused("reviewed this case yet")
    play(db, case_id, "ann asks unsafe")
    refused("say why", reason=" ")
    held = take(db, BO, later(2))
    refused("reviewing this case", at=(held.expires_at - NOW - timedelta(seconds=1)) / timedelta(minutes=1))
    over = {"assigned_until": held.expires_at, "assignee": "cy", "assigned_by": "bo", "lease_token": "t"}
    (other,) = fill(db)
    write(db, update(schema.inbox_entries).values(over))
    adjudicate(db, SENIOR.at(held.expires_at), case_id, SAFE, "why")
    closed, still = entry(db, case_id)._mapping, entry(db, other)._mapping
    assert closed["closed_at"] == held.expires_at and {closed[name] for name in over} == {None}, "and free of all hands"
    assert still["closed_at"] is None and {name: still[name] for name in over} == over
    refused("not open", at=60, reason="twice")
    refused("not open", case_id="no such case")
    read(db, CY, form(), "c", later(60), ask=True)
    assert take(db, SENIOR, later(61)).case_id == other
    assert adjudicate(db, SENIOR.at(later(61)), other, UNSAFE, "in hands").method is Method.SENIOR


def test_an_adjudication_rests_on_each_reviewers_last_word(db: Database, case_id: str) -> None:
    """In the order of the first ones, also after a clock was set back."""
    play(db, case_id, "bo asks safe, ann unsafe, bo revises safe 3")
    made = adjudicate(db, SENIOR.at(later(9)), case_id, UNSAFE, "agreed")
    assert made.review_ids == ["3" * 32, "2" * 32]
    (other,) = fill(db)
    read(db, ANN, form("unsafe"), "d", ask=True)
    read(db, BO, form("safe", 5), "b")  # at the same moment: in the order of their ids
    reviews.revise(db, ANN.at(later(-5)), other, form("unsafe", 5), "surer", "a" * 32)
    assert adjudicate(db, SENIOR.at(later(3)), other, UNSAFE, "agreed").review_ids == ["b" * 32, "a" * 32]


def test_a_decision_pressed_twice_is_one_and_any_other_is_refused(db: Database, case_id: str) -> None:
    play(db, case_id, "ann asks unsafe")
    made = adjudicate(db, SENIOR.at(later(2)), case_id, UNSAFE, " it says so ")
    assert adjudicate(db, SENIOR.at(later(3)), case_id, UNSAFE, "it says so") == made
    others = ((HELEN, UNSAFE, "it says so"), (SENIOR, SAFE, "it says so"), (SENIOR, UNSAFE, "it says it"))
    for (who, label, why), discussed in (*((other, False) for other in others), ((SENIOR, UNSAFE, "it says so"), True)):
        with pytest.raises(NotAvailable, match="not open"):
            adjudicate(db, who.at(later(4)), case_id, label, why, discussed=discussed)
    reviews.revise(db, ANN.at(later(5)), case_id, form("safe", 5), "a quote", "b" * 32)
    assert adjudicate(db, SENIOR.at(later(6)), case_id, UNSAFE, "it says so").version == 2, "opened again: another one"
    assert entry(db, case_id).closed_at == later(6)


def test_amendments_are_versions_with_reasons_and_lose_no_race(db: Database, case_id: str) -> None:
    for which in (case_id, "no such case"):
        with pytest.raises(NotAvailable, match="only a closed case"):
            adjudicate(db, SENIOR.at(NOW), which, SAFE, "too early", 1)
    play(db, case_id, "ann unsafe")
    made = adjudicate(db, SENIOR.at(later(2)), case_id, SAFE, " song lyrics ", 1)
    assert (made.version, made.method, made.reason) == (2, Method.AMENDMENT, "song lyrics")
    assert adjudicate(db, SENIOR.at(later(3)), case_id, SAFE, "song lyrics", 1) == made, "pressed twice is one"
    for who, label, reason, based_on, refusal in (
        (HELEN, SAFE, "song lyrics", 1, Stale),
        (SENIOR, UNSAFE, "song lyrics", 1, Stale),
        (SENIOR, SAFE, "lyrics", 1, Stale),
        (SENIOR, UNSAFE, "", 2, Incomplete),
        (ANN, UNSAFE, "mine", 2, Forbidden),
    ):
        with pytest.raises(refusal):
            adjudicate(db, who.at(later(3)), case_id, label, reason, based_on)
    assert adjudicate(db, SENIOR.at(later(4)), case_id, SAFE, "song lyrics", 2).version == 3, "on one's own: another"
    told = events(db, ADMIN, action="amended")
    assert [(one.actor, one.subject, one.details["version"]) for one in told] == [("sue", case_id, n) for n in (3, 2)]
    _erase(db, case_id, NOW)
    with pytest.raises(NotAvailable, match="deleted"):
        adjudicate(db, SENIOR.at(later(5)), case_id, SAFE, "why", 3)


def test_another_review_is_due_by_a_target_of_its_own_and_the_first_one_keeps_its(db: Database, case_id: str) -> None:
    late, first = later(300), entry(db, case_id).due_at
    read(db, ANN, form("unsafe"), "a", ask=True, now=late)
    assert (entry(db, case_id).due_at, entry(db, case_id).first_due_at) == (late + TARGETS[Priority.P2], first)
    assert shift(db, ADMIN, NOW, later(360)).priorities[Priority.P2].overdue == 1, "the first one was"
    reviews.take_back(db, ANN.at(late + timedelta(seconds=2)), case_id, "a" * 32)
    assert (entry(db, case_id).due_at, entry(db, case_id).first_due_at) == (first, None)


def ask(db: Database, who: Actor, disposition: str, review_id: str = "a") -> str:
    """They open and read the next case, and ask for this; the case."""
    claim = take(db, who)
    reveal_text(db, who.at(NOW), claim.case_id, claim.token)
    filled = form("unsafe", 5, disposition=disposition)
    reviews.submit_review(db, who.at(NOW), claim.case_id, claim.token, filled, review_id * 32)
    return claim.case_id


def urgent(db: Database, *people: Actor, second_review_rate: float = 1.0) -> Any:
    """At a site of these people, where every case waits for a second one: what Ann asked for who read the first."""
    site(db, *people, second_review_rate=second_review_rate)
    fill(db)
    ask(db, ANN, "contact_now")
    (one,) = follow_ups.open_ones(db, ANN.at(NOW))
    return one


SCRIPTS = tomllib.loads((Path(__file__).parent / "follow_ups.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_is_asked_for_is_with_whoever_asked_and_has_a_time_of_its_own(db: Database, script: str) -> None:
    people = {PEOPLE[step.split()[0]] for step in script.split(", ")}
    site(db, *people, second_review_rate=1.0, follow_up_minutes=(30, 90))
    play(db, fill(db, [Priority.P0])[0], script)
    found = sorted((one.due_at, one.disposition, one.who) for one in rows(db, schema.follow_ups))
    assert [f"{what} {who} {(due - NOW) // MINUTE}" for due, what, who in found] == SCRIPTS[script]


@pytest.mark.parametrize("gone", [{"active": False}, {"roles": ["admin", "researcher"]}])
def test_what_is_left_with_nobody_who_reads_cases_is_taken_over(db: Database, gone: dict[str, object]) -> None:
    """Of a case that others may still read they learn the number alone; nobody but its reviewer had seen it. Whoever
    sees to it has learnt of the review and reads no more blind, also whoever was handed it.
    """
    one, late = urgent(db, ANN, BO, CY, SENIOR), later(61)
    for who in (BO, SENIOR):
        found = follow_ups.count_open(db, who.at(late))
        assert (found.others, found.others_overdue, found.left, found.left_overdue) == (1, 1, 0, 0)
        assert follow_ups.open_ones(db, who.at(late)) == []
    assert follow_ups.take_over(db, BO.at(late)) == 0
    write(db, update(schema.accounts).where(schema.accounts.c.id == "ann").values(**gone))
    found = follow_ups.count_open(db, BO.at(late))
    assert (found.others, found.left, found.left_overdue) == (1, 1, 1) and follow_ups.open_ones(db, BO.at(late)) == []
    assert follow_ups.count_open(db, BO.at(NOW)).left_overdue == 0
    assert follow_ups.take_over(db, BO.at(late)) == 1
    assert [(mine.id, mine.who) for mine in follow_ups.open_ones(db, BO.at(late))] == [(one.id, "bo")]
    assert follow_ups.count_open(db, CY.at(late)).left == 0
    assert [blind(db, who, one.case_id) for who in (BO, CY, SENIOR)] == [False, True, True]
    follow_ups.hand_to(db, BO.at(later(62)), one.id, "sue", "call back at three")
    assert [blind(db, who, one.case_id) for who in (BO, CY, SENIOR)] == [False, True, False]
    learnt = sorted((row.reviewer, row.before_review, row.at) for row in rows(db, schema.unblindings))
    assert learnt == [("bo", True, late), ("sue", True, later(62))]


def test_it_is_handed_to_a_colleague_and_closed_with_a_note(db: Database) -> None:
    one = urgent(db, ANN, BO, CY, RESEARCHER, second_review_rate=0.0)
    for who, note, refusal in ((ANN, " ", Incomplete), (CY, "done", Forbidden)):
        with pytest.raises(refusal):
            follow_ups.close(db, who.at(NOW), one.id, How.DONE, note)
    with pytest.raises(NotOpen):
        follow_ups.close(db, ANN.at(NOW), one.id + 1, How.DONE, "there is no such one")
    write(db, update(schema.accounts).where(schema.accounts.c.id == "cy").values(active=False))
    for to in ("cy", "rae", "nobody"):
        with pytest.raises(KeyError, match=to):
            follow_ups.hand_to(db, ANN.at(NOW), one.id, to, "call back")
    assert follow_ups.open_ones(db, ANN.at(NOW)) == [one]
    follow_ups.hand_to(db, ANN.at(NOW), one.id, "bo", "call back at three")
    (handed,) = follow_ups.open_ones(db, BO.at(NOW))
    assert (handed.who, handed.note) == ("bo", "call back at three")
    with pytest.raises(Incomplete):  # whoever opened it may act on it still
        follow_ups.close(db, ANN.at(NOW), one.id, How.DONE, " ")
    follow_ups.close(db, BO.at(later(1)), one.id, How.HANDED_ON, "crisis team took over")
    assert follow_ups.open_ones(db, BO.at(NOW)) == []
    for who, told in ((ANN, 1), (BO, 1), (CY, 0), (SENIOR, 1)):
        ended = [(each.closed_by, each.how, each.note) for each in follow_ups.closed_ones(db, who, one.case_id)]
        assert ended == [("bo", How.HANDED_ON, "call back at three\ncrisis team took over")] * told
    with pytest.raises(NotOpen):
        follow_ups.close(db, BO.at(NOW), one.id, How.DONE, "again")
    logged = [(one.action, one.actor, one.details) for one in events(db, ADMIN) if "follow_up" in one.action]
    closed, handed = ("follow_up_closed", "bo", {"how": "handed_on"}), ("follow_up_handed", "ann", {"to": "bo"})
    assert logged == [closed, handed, ("follow_up_opened", "ann", {})], "without the words of the note"


def test_each_disposition_has_one_open_and_another_once_that_was_closed(db: Database) -> None:
    one, safeguarding = urgent(db, ANN, second_review_rate=0.0), Disposition.PROTECTIVE_SERVICES
    follow_ups.close(db, ANN.at(later(1)), one.id, How.DONE, " told the team ")
    asked: list[Disposition | For] = [safeguarding, Disposition.MONITOR, *[Disposition.CONTACT_NOW] * 2]
    with db.write() as conn:
        for minute, whats in ((0, asked[:1]), (2, [*asked[1:], safeguarding, *[For.SECOND_REVIEW] * 2])):
            by = ANN.at(later(minute))
            opened = [follow_ups.open_follow_up(conn, by, one.case_id, what) for what in whats]
    assert opened == [False, True, False, False, True, False]
    found = [(one.disposition, one.opened_at, one.due_at) for one in follow_ups.open_ones(db, ANN.at(NOW))]
    again = [(what, later(2), later(62)) for what in (For.CONTACT_NOW, For.SECOND_REVIEW)]
    assert found == [*again, (For.PROTECTIVE_SERVICES, NOW, later(1440))]
    (ended,) = follow_ups.closed_ones(db, ANN, one.case_id)
    assert (ended.disposition, ended.opened_at, ended.due_at) == (For.CONTACT_NOW, NOW, later(60))
    assert (ended.closed_at, ended.closed_by, ended.how, ended.note) == (later(1), "ann", How.DONE, "told the team")


def test_seniors_see_the_earliest_due_first_with_where_to_act_and_what_is_late(db: Database) -> None:
    """All that are open are counted, however many are shown."""
    site(db, ANN, SENIOR)
    ids = fill(db, [Priority.P1, Priority.P2, Priority.P2])
    write(db, update(schema.cases).where(schema.cases.c.id == ids[1]).values(where_to_act="ward 3"))
    for letter, disposition in zip("abc", ("protective_services", "contact_now", "contact_now"), strict=True):
        ask(db, ANN, disposition, letter)
    found = follow_ups.open_ones(db, SENIOR.at(NOW))
    shown = [(one.case_id, one.where_to_act, one.external_id, one.who_name) for one in found]
    wanted = ((ids[1], "ward 3", "post-2"), (ids[2], None, "post-3"), (ids[0], None, "post-1"))
    assert shown == [(*one, "Ann") for one in wanted]
    for minutes, late in ((59, 0), (60, 2), (1440, 3)):
        for who, others in ((BO, (3, late)), (SENIOR, (0, 0))):
            told, first = follow_ups.count_open(db, who.at(later(minutes))), follow_ups.open_ones(db, who.at(NOW), 1)
            assert [one.case_id for one in first] == ([ids[1]] if who is SENIOR else [])
            assert (told.open, told.open_overdue) == (3, late) and (told.others, told.others_overdue) == others
    follow_ups.close(db, SENIOR.at(NOW), found[0].id, How.NOT_NEEDED, "a senior may")
    assert follow_ups.count_open(db, BO.at(later(60))).others_overdue == 1
    with db.write() as conn:
        follow_ups.open_follow_up(conn, BO.at(NOW), ids[1], Disposition.CARE_TEAM)
    assert [one.who_name for one in follow_ups.open_ones(db, BO.at(NOW))] == ["bo"], "who has no account"


@pytest.mark.parametrize("closer", [ANN, SENIOR])
def test_how_one_ended_is_told_to_a_later_reviewer_only_once_the_case_is_closed(db: Database, closer: Actor) -> None:
    """But to whoever closed it, also of a case that they may yet read."""
    one = urgent(db, ANN, BO, SENIOR)

    def told() -> list[int]:
        return [len(follow_ups.closed_ones(db, who, one.case_id)) for who in (ANN, BO, SENIOR)]

    assert told() == [0, 0, 0]
    follow_ups.close(db, closer.at(NOW), one.id, How.DONE, "rang the family")
    assert told() == [1, 0, closer is SENIOR]
    ask(db, BO, "monitor", "b")
    assert told() == [1, 0, 1]
    with pytest.raises(Forbidden):
        follow_ups.closed_ones(db, RESEARCHER, one.case_id)


def test_a_shift_is_counted_by_priority_with_waits_and_shares(db: Database) -> None:
    register(db, ANN, SENIOR)
    entered = [later(-minutes) for minutes in (40, 8, 3, 2, 2)]
    first, second, third, *_ = fill(db, [*[Priority.P0] * 4, Priority.P2], entered_at=entered)
    ask(db, ANN, "contact_now")  # 40 minutes after it came: too late
    reviews.revise(db, ANN.at(NOW), first, form("insufficient_information"), "read again", "2" * 32)  # no other review
    for who, case_id, token in ((ANN, second, take(db, ANN).token), (SENIOR, third, "")):  # 8 minutes; 3: in time
        reveal_text(db, who.at(NOW), case_id, token or claims.claim(db, who.at(NOW), case_id).token)
    found = shift(db, ADMIN, later(-60), later(1))
    p0 = found.priorities[Priority.P0]
    assert (p0.arrived, p0.looked_at, p0.overdue, p0.read) == (4, 3, 2, 1)
    assert (p0.median, p0.p90) == (8 * MINUTE, 40 * MINUTE)
    assert p0.within_target == Proportion(1, 3), "the fourth may still be in time"
    assert (found.priorities[Priority.P2].arrived, found.priorities[Priority.P2].median) == (1, None)
    end = shift(db, ADMIN, later(-60), later(10)).priorities[Priority.P0]
    assert (end.overdue, end.within_target) == (3, Proportion(1, 4)), "its target has passed now"
    assert (found.follow_ups_opened, found.follow_ups_closed, found.follow_ups_overdue) == (1, 0, 0)
    put(db, first, closed_at=later(5))
    assert [shift(db, ADMIN, later(-60), end).left[Priority.P0] for end in (later(1), later(10))] == [(4, 1), (3, 3)]
    with pytest.raises(ValueError, match="before it begins"):
        shift(db, ADMIN, NOW, later(-1))


FEW, MANY = 800, 6_000
MOST_ROWS = 1_100
"""Rows that one step may touch on PostgreSQL, whatever waits: open and late ones counted (8 x 101) and some more."""
BOTH, DAYS_ON = person("both", Role.REVIEWER, Role.SENIOR), NOW + timedelta(days=2)
BY = BOTH.at(DAYS_ON)
P1, P2, P3 = Priority.P1, Priority.P2, Priority.P3


def _save(db: Database) -> None:
    claim = take(db, BOTH, DAYS_ON)
    reviews.submit_review(db, BY, claim.case_id, claim.token, form(), new_id(DAYS_ON))


def _renewed(db: Database) -> None:
    claim = take(db, BOTH, DAYS_ON)
    claims.renew(db, BY, claim.case_id, claim.token)
    reviews.save_draft(db, BY, claim.case_id, {})
    inbox.release(db, BY, claim.case_id, claim.token, note="flat")


STEPS: Mapping[str, Callable[[Database], object]] = {
    "counts": lambda db: counts(db, BY),
    "counts of a filter": lambda db: counts(db, BY, [P1]),
    "list": lambda db: queue(db, BY, limit=8),
    "list of a filter": lambda db: queue(db, BY, [P2, P3], limit=8),
    "list by when they came in": lambda db: queue(db, BY, limit=8, sort=Sort.NEWEST),
    "list of a filter, longest waiting": lambda db: queue(db, BY, [P2], limit=8, sort=Sort.LONGEST),
    "disagreements": lambda db: adjudication.disagreements(db, BOTH, limit=5),
    "on hold": lambda db: reserved_cases(db, BY),
    "mine": lambda db: claims.my_claims(db, BY),
    "mine of a batch": lambda db: claims.my_claims(db, BY, db.value(select(schema.cases.c.batch_id).limit(1))),
    "mine, read": lambda db: reviews.my_reviews(db, BOTH, limit=20),
    "read today": lambda db: reports.count_cases_read(db, BOTH, NOW),
    "exposure": lambda db: reports.exposure(db, BOTH.at(NOW), NOW),
    "follow-ups": lambda db: (open_ones(db, BY), follow_ups.count_open(db, BY)),
    "claim": lambda db: take(db, BOTH, DAYS_ON),
    "claim with its text": lambda db: open_next(db, BY),
    "claim of a filter": lambda db: claims.claim_next(db, BY, priorities=[P2, P3]),
    "save": _save,
    "renew, draft, release": _renewed,
    "release all": lambda db: release_all(db, BY, holds="own"),
}


def _wait(db: Database, first: int, end: int, only: Priority | None = None) -> None:
    """Cases with these numbers wait, of all priorities or one, a third of them late."""
    same = {"text": "waits", "text_sha256": "0" * 64, "flags": [], "created_at": NOW}
    texts, entries = list[dict[str, Any]](), list[dict[str, Any]]()
    batch = db.value(select(schema.cases.c.batch_id).limit(1))
    for row in range(first, end):
        priority, entered = only or Priority(row % 4), NOW + timedelta(seconds=row * 7919 % 80_000)
        texts.append(same | {"id": f"{row:032d}", "batch_id": batch, "row": row + 100, "external_id": f"post-{row}"})
        due = {"entered_at": entered, "due_at": entered + TARGETS[priority]}
        entries.append({"case_id": f"{row:032d}", "batch_id": batch, "priority": priority, "why": "unsettled", **due})
    with db.write() as conn:
        conn.execute(insert(schema.cases), texts)
        conn.execute(insert(schema.inbox_entries), entries)
        conn.execute(text("ANALYZE"))


def _begin(db: Database) -> None:
    """One case is disputed, and one has been read once."""
    disputed, again = fill(db, [P2, P3])
    put(db, disputed, review_round="third")
    put(db, again, review_round="second")


def _instructions(url: str, step: Callable[[Database], object]) -> int:
    """Instructions of SQLite's virtual machine that a step takes: the same every time."""
    db, taken = Database(url), [0]

    def on_connect(connection: Any, _record: Any) -> None:
        connection.set_progress_handler(lambda: taken.__setitem__(0, taken[0] + 1), 1)

    event.listen(db._engine, "connect", on_connect)
    step(db)
    db.close()
    return taken[0]


@pytest.mark.parametrize("only", [None, P2], ids=["all_priorities", "one_priority"])
def test_no_step_grows_with_what_waits_on_sqlite(
    sqlite_url: str, only: Priority | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner goes by what it knows of the columns: where all wait in one priority it may choose otherwise."""
    monkeypatch.setattr("storage.review.queue.MOST_COUNTED", 100)
    taken = {}
    for first, end in ((0, FEW), (FEW, MANY)):
        db = Database(sqlite_url)
        if not first:
            _begin(db)
        _wait(db, first, end, only)
        db.close()
        taken[end] = {name: _instructions(sqlite_url, step) for name, step in STEPS.items()}
    grown = {name: (few, taken[MANY][name]) for name, few in taken[FEW].items() if taken[MANY][name] > 1.5 * few + 300}
    assert not grown


def _rows_read(db: Database) -> int:
    """Rows that PostgreSQL has read so far, by index or from a table as it lies. Waits for what sessions report."""
    db.close()  # a session reports when it ends
    tables = db.value(text("SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables"))
    indexes = db.value(text("SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes"))
    db.close()
    return int(tables) + int(indexes)


@pytest.mark.postgresql
def test_no_step_reads_what_waits_on_postgresql(postgresql_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.review.queue.MOST_COUNTED", 100)
    _begin(postgresql_db)
    _wait(postgresql_db, 0, MANY)
    read = {}
    for name, step in STEPS.items():
        before = _rows_read(postgresql_db)
        step(postgresql_db)
        read[name] = _rows_read(postgresql_db) - before
    assert not {name: rows for name, rows in read.items() if rows > MOST_ROWS}
    assert read["claim"] > 0  # the figures are not simply missing


def test_cases_of_a_priority_are_counted_as_far_as_a_limit_beyond_what_somebody_has(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.review.queue.MOST_COUNTED", 10)
    fill(db, [P1] * 20 + [P3] * 3)
    due = NOW + TARGETS[P1]
    for number in range(15):
        take(db, person(f"p{number}"))
    early, late = (counts(db, BOTH.at(due + timedelta(seconds=off))) for off in (-1, 3_600))
    assert early.late_by_priority == dict.fromkeys(Priority, 0)
    assert late.late_by_priority == dict.fromkeys(Priority, 0) | {P1: 11}
    assert (late.free_by_priority[P1], late.free_by_priority[P3]) == (11, 3)
    held = counts(db, BOTH.at(NOW))
    hands = held.by_state["held"]
    assert (hands, held.free_by_priority[P1], held.free) == (15, 5, 8), "what is in other hands hides no free case"
