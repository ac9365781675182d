"""What reviews make of a case: another review, by rule, coin or request; agreement; a senior's word; amendments."""

import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from screening.review.actors import LOCAL_USER, SYSTEM
from screening.review.policy import Forbidden
from screening.review.review_form import ReviewLabel
from screening.review.triage import TARGETS, Priority, second_review_coin
from storage.audit_log import events
from storage.database import Database
from storage.research.review_table import review_table
from storage.review import adjudication, claims, inbox
from storage.review.adjudication import Method, Next, ReasonNeeded, StaleVersion, adjudicate, amend, is_party
from storage.review.claims import NotAvailable
from storage.review.erasure import erase_rows
from storage.review.follow_ups import For, open_ones
from storage.review.queue import State, counts
from storage.review.reports import shift
from storage.review.reviews import my_review, reveal_reviews, revise, take_back
from storage.schema import adjudications, cases, inbox_entries, second_review_requests
from storage.settings_store import SiteSettings, change
from storage.visibility import Unread
from tests.databases import write
from tests.storage.inbox_cases import entry, fill, form, play, read, rows, site, take
from tests.storage.people import ADMIN, ANN, BO, CY, HELEN, NOW, RESEARCHER, SENIOR, later

SAFE, UNSAFE = ReviewLabel.SAFE, ReviewLabel.UNSAFE
ANOTHER, SENIOR_DUE, CLOSED = Next.SECOND_REVIEW, Next.SENIOR, Next.CLOSED


@pytest.fixture
def case_id(db: Database) -> str:
    """One open case of a site whose coin asks for nothing."""
    site(db)
    return fill(db)[0]


def requests(db: Database) -> list[str]:
    """Why further reviews were asked for, and by whom."""
    return [f"{row.why} {row.asked_by}" for row in sorted(rows(db, second_review_requests), key=lambda row: row.id)]


TABLES = tomllib.loads((Path(__file__).parent / "adjudication.toml").read_text(encoding="utf-8"))
BY_RULE = [f"rule {SYSTEM.id}"]


@pytest.mark.parametrize("script", TABLES["scripts"])
def test_what_reviews_make_of_a_case(db: Database, case_id: str, script: str) -> None:
    expected, following = TABLES["scripts"][script], play(db, case_id, script)
    assert (following.value, requests(db)) == (expected["next"], expected["asked"])
    made = sorted(rows(db, adjudications), key=lambda row: row.version)
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
    for version, (rules, label, certainty, due) in enumerate(TABLES["rules"], start=1):
        change(db, ADMIN.at(NOW), SiteSettings(second_review_rate=0.0, second_review_rules=rules), version)
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
    write(db, update(cases).where(cases.c.id == case_id).values(flags={"text": stated, "reply": []}))
    if others == "who declined":
        inbox.decline(db, BO.at(NOW), case_id, take(db, BO).token)
    if afterthought:
        read(db, ANN, form("insufficient_information", 5), "a")
        following = revise(db, ANN.at(later(1)), case_id, form(label, 5), "read again", "b" * 32)
    else:
        following = read(db, ANN, form(label, 5), "a")
    waits = doubtful and others == "another"
    assert following is (ANOTHER if waits else CLOSED)
    assert requests(db) == (BY_RULE if waits else [])
    kept = [(one.case_id, one.disposition) for one in open_ones(db, ANN.at(NOW)).shown]
    assert kept == ([(case_id, For.SECOND_REVIEW)] if doubtful and not waits else [])
    if kept and not afterthought:
        take_back(db, ANN.at(NOW), case_id, "a" * 32)
        assert not open_ones(db, ANN.at(NOW)).shown, "it goes with the review that is taken back"
    assert entry(db, other).closed_at is None


def test_a_site_with_one_reviewer_is_not_left_waiting_but_for_what_was_asked_for(db: Database) -> None:
    """A second review that was only drawn at random is dropped."""
    site(db, ANN, ADMIN, RESEARCHER, second_review_rate=1.0)
    _, asked = fill(db, [Priority.P1, Priority.P2])
    assert play(db, asked, "ann safe 5") is CLOSED
    assert read(db, ANN, form(), "b", ask=True) is ANOTHER
    assert counts(db, ANN.at(NOW)).by_state[State.READ] == 1
    assert adjudicate(db, SENIOR.at(NOW), asked, UNSAFE, "nobody else today").method is Method.SENIOR


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
    assert my_review(db, SENIOR, case_id) is None and (mine := my_review(db, BO, case_id)) is not None
    assert (mine.reviewer, mine.review_round) == ("bo", "second"), "one's own review shows nothing of the others"
    read(db, SENIOR, form(), "c", later(5))
    assert adjudication.disagreements(db, SENIOR)[0].read_by_me
    made = adjudicate(db, SENIOR.at(later(6)), case_id, UNSAFE, "as discussed", Method.DISCUSSION)
    assert made.review_ids == ("1" * 32, "2" * 32, "c" * 32) and adjudication.disagreements(db, SENIOR) == []
    seen = reveal_reviews(db, RESEARCHER.at(later(7)), case_id)
    assert [(one.review_round, one.blind) for one in seen] == [("first", True), ("second", True), ("third", True)]


@pytest.mark.parametrize("look", [reveal_reviews, adjudication.reveal_versions])
def test_a_senior_who_was_shown_the_reviews_does_not_review_blind(
    db: Database, case_id: str, look: Callable[..., object]
) -> None:
    play(db, case_id, "ann asks unsafe, bo safe 5")
    look(db, SENIOR.at(later(3)), case_id)
    read(db, SENIOR, form(), "c", later(4))
    adjudicate(db, SENIOR.at(later(5)), case_id, UNSAFE, "read")
    assert [one.blind for one in reveal_reviews(db, ANN.at(later(6)), case_id)] == [True, True, False]
    (found,) = review_table(db, SENIOR, "key").labels
    assert len(found) == 2, "agreement is among those who did not know what the others said"


def test_one_of_two_who_disagree_does_not_decide_alone(db: Database, case_id: str) -> None:
    play(db, case_id, "ann asks unsafe, sue safe 5")
    with pytest.raises(NotAvailable, match="one of the two reviewers"):
        adjudicate(db, SENIOR.at(later(3)), case_id, SAFE, "mine was right")
    assert adjudicate(db, SENIOR.at(later(3)), case_id, UNSAFE, "with Ann", Method.DISCUSSION).version == 1
    assert is_party(SENIOR, ["ann", "sue"])
    others = ((SENIOR, ["ann", "bo", "sue"]), (SENIOR, ["sue"]), (LOCAL_USER, ["local", "bo"]))
    assert not any(is_party(who, reviewers) for who, reviewers in others)


def test_an_adjudication_needs_a_reason_a_review_and_a_case_that_is_free_or_ones_own(
    db: Database, case_id: str
) -> None:
    def refused(why: str, at: float = 2, reason: str = "why", case_id: str = case_id) -> None:
        with pytest.raises((NotAvailable, ReasonNeeded), match=why):
            adjudicate(db, SENIOR.at(later(at)), case_id, SAFE, reason)

    refused("reviewed this case yet")
    play(db, case_id, "ann asks unsafe")
    refused("say why", reason=" ")
    held = take(db, BO, later(2))
    refused("reviewing this case", at=(held.expires_at - NOW - timedelta(seconds=1)) / timedelta(minutes=1))
    over = {"assigned_until": held.expires_at, "assignee": "cy", "assigned_by": "bo", "lease_token": "t"}
    (other,) = fill(db)
    write(db, update(inbox_entries).values(over))
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
    assert made.review_ids == ("3" * 32, "2" * 32)
    (other,) = fill(db)
    read(db, ANN, form("unsafe"), "d", ask=True)
    read(db, BO, form("safe", 5), "b")  # at the same moment: in the order of their ids
    revise(db, ANN.at(later(-5)), other, form("unsafe", 5), "surer", "a" * 32)
    assert adjudicate(db, SENIOR.at(later(3)), other, UNSAFE, "agreed").review_ids == ("b" * 32, "a" * 32)


def test_a_decision_pressed_twice_is_one_and_any_other_is_refused(db: Database, case_id: str) -> None:
    play(db, case_id, "ann asks unsafe")
    made = adjudicate(db, SENIOR.at(later(2)), case_id, UNSAFE, " it says so ")
    assert adjudicate(db, SENIOR.at(later(3)), case_id, UNSAFE, "it says so") == made
    for who, label, reason, method in (
        (HELEN, UNSAFE, "it says so", Method.SENIOR),
        (SENIOR, SAFE, "it says so", Method.SENIOR),
        (SENIOR, UNSAFE, "it says it", Method.SENIOR),
        (SENIOR, UNSAFE, "it says so", Method.DISCUSSION),
    ):
        with pytest.raises(NotAvailable, match="not open"):
            adjudicate(db, who.at(later(4)), case_id, label, reason, method)  # type: ignore[arg-type]
    revise(db, ANN.at(later(5)), case_id, form("safe", 5), "a quote", "b" * 32)
    assert adjudicate(db, SENIOR.at(later(6)), case_id, UNSAFE, "it says so").version == 2, "opened again: another one"
    assert entry(db, case_id).closed_at == later(6)


def test_amendments_are_versions_with_reasons_and_lose_no_race(db: Database, case_id: str) -> None:
    for which in (case_id, "no such case"):
        with pytest.raises(NotAvailable, match="only a closed case"):
            amend(db, SENIOR.at(NOW), which, SAFE, "too early", 1)
    play(db, case_id, "ann unsafe")
    made = amend(db, SENIOR.at(later(2)), case_id, SAFE, " song lyrics ", 1)
    assert (made.version, made.method, made.reason) == (2, Method.AMENDMENT, "song lyrics")
    assert amend(db, SENIOR.at(later(3)), case_id, SAFE, "song lyrics", 1) == made, "pressed twice is one"
    for who, label, reason, based_on, refusal in (
        (HELEN, SAFE, "song lyrics", 1, StaleVersion),
        (SENIOR, UNSAFE, "song lyrics", 1, StaleVersion),
        (SENIOR, SAFE, "lyrics", 1, StaleVersion),
        (SENIOR, UNSAFE, "", 2, ReasonNeeded),
        (ANN, UNSAFE, "mine", 2, Forbidden),
    ):
        with pytest.raises(refusal):
            amend(db, who.at(later(3)), case_id, label, reason, based_on)
    assert amend(db, SENIOR.at(later(4)), case_id, SAFE, "song lyrics", 2).version == 3, "on one's own, another one"
    told = events(db, ADMIN, action="amended")
    assert [(one.actor, one.subject, one.details["version"]) for one in told] == [("sue", case_id, n) for n in (3, 2)]
    with db.write() as conn:
        erase_rows(conn, [case_id], None, NOW)
    with pytest.raises(NotAvailable, match="deleted"):
        amend(db, SENIOR.at(later(5)), case_id, SAFE, "why", 3)


def test_another_review_is_due_by_a_target_of_its_own_and_the_first_one_keeps_its(db: Database, case_id: str) -> None:
    late, first = later(300), entry(db, case_id).due_at
    read(db, ANN, form("unsafe"), "a", ask=True, now=late)
    assert (entry(db, case_id).due_at, entry(db, case_id).first_due_at) == (late + TARGETS[Priority.P2], first)
    assert shift(db, ADMIN, NOW, later(360)).priorities[Priority.P2].overdue == 1, "the first one was"
    take_back(db, ANN.at(late + timedelta(seconds=2)), case_id, "a" * 32)
    assert (entry(db, case_id).due_at, entry(db, case_id).first_due_at) == (first, None)
