"""What reviews make of a case: another review, by rule, coin or request; agreement; a senior's word; amendments."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from screening.review.actors import LOCAL_USER, SYSTEM, Actor, Role
from screening.review.policy import Forbidden
from screening.review.review_form import ReviewForm, ReviewLabel
from screening.review.triage import TARGETS, Priority, second_review_coin
from storage.audit_log import events
from storage.database import Database
from storage.research.review_table import review_table
from storage.review import claims, inbox
from storage.review.adjudication import (
    Method,
    Next,
    ReasonNeeded,
    StaleVersion,
    adjudicate,
    amend,
    disagreements,
    is_party,
    reveal_versions,
)
from storage.review.claims import NotAvailable
from storage.review.erasure import erase_rows
from storage.review.evidence import reveal_evidence
from storage.review.follow_ups import For, open_ones
from storage.review.queue import State, counts
from storage.review.reports import shift
from storage.review.reviews import my_review, reveal_reviews, revise, take_back
from storage.schema import adjudications, cases, inbox_entries, second_review_requests
from storage.settings_store import SecondReviewRule, SiteSettings, change
from storage.visibility import NotYetRated, Unread
from tests.databases import write
from tests.storage.inbox_cases import (
    ADMIN,
    ANN,
    BO,
    CY,
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
from tests.storage.inbox_cases import read as read_next

HELEN = person("helen", Role.SENIOR)
PEOPLE = {who.id: who for who in (ANN, BO, CY, SENIOR, HELEN)}
SAFE, UNSAFE = ReviewLabel.SAFE, ReviewLabel.UNSAFE
SILENT = SiteSettings(second_review_rate=0.0)
ANOTHER, SENIOR_DUE, CLOSED = Next.SECOND_REVIEW, Next.SENIOR, Next.CLOSED
STATED = {"text": ["stated_risk"], "reply": []}


def later(minutes: float) -> datetime:
    return NOW + minutes * MINUTE


def site(db: Database, settings: SiteSettings = SILENT, people: tuple[Actor, ...] = tuple(PEOPLE.values())) -> None:
    register(db, *people)
    change(db, ADMIN.at(NOW), settings, 0)


@pytest.fixture
def case_id(db: Database) -> str:
    """One open case of a site whose coin asks for nothing."""
    site(db)
    return fill(db)[0]


def play(db: Database, case_id: str, script: str) -> Next:
    """What a script does: "ann asks unsafe, bo safe 5" are reviews, "ann revises safe" and "ann sees" what follows
    them, "sue decides unsafe" and "sue amends safe" a senior's word. Each step is a minute after the one before it.
    Returns what is next after the last review or revision.
    """
    following, number = CLOSED, 0
    for step in script.split(", "):
        name, *words = step.split()
        number, ask = number + 1, "asks" in words
        at, by = later(number), PEOPLE[name].at(later(number))
        label = next((one for one in words if one in tuple(ReviewLabel)), "unsafe")
        filled = form(label, int(words[-1]) if words[-1].isdigit() else 4)
        letter = f"{number:x}"
        if "sees" in words:
            reveal_evidence(db, by, case_id)
        elif "revises" in words:
            following = revise(db, by, case_id, filled, "read again", letter * 32) or following
        elif "decides" in words:
            adjudicate(db, by, case_id, ReviewLabel(label), "why")
        elif "amends" in words:
            amend(db, by, case_id, ReviewLabel(label), "why", reveal_versions(db, by, case_id)[-1].version)
        else:
            following = read_next(db, PEOPLE[name], filled, letter, at, ask=ask) or following
    return following


def entry(db: Database, case_id: str) -> Any:
    return db.row(select(inbox_entries).where(inbox_entries.c.case_id == case_id))


def requests(db: Database) -> list[tuple[str, str]]:
    """Why further reviews were asked for, and by whom."""
    table = second_review_requests.c
    return [(row.why, row.asked_by) for row in db.rows(select(table.why, table.asked_by).order_by(table.id))]


def labels(db: Database, case_id: str) -> list[tuple[str, str, str]]:
    """Every version of the case's label: label, how, by whom."""
    made = adjudications.c
    rows = db.rows(select(adjudications).where(made.case_id == case_id).order_by(made.version))
    return [(row.label, row.method, row.by) for row in rows]


AGREED = [("asked", "ann")]
DISPUTED = [("asked", "ann"), ("disagreement", SYSTEM.id)]
BY_RULE = [("rule", SYSTEM.id)]


@pytest.mark.parametrize(
    ("script", "following", "why", "made"),
    [
        ("ann unsafe", CLOSED, [], [("unsafe", "single", "ann")]),
        ("ann safe 2", ANOTHER, BY_RULE, []),
        ("ann insufficient_information 5", ANOTHER, BY_RULE, []),
        ("ann asks unsafe, bo unsafe 2", CLOSED, AGREED, [("unsafe", "agreement", "system")]),
        ("ann asks unsafe, bo safe 5", SENIOR_DUE, DISPUTED, []),
        ("ann asks unsafe, bo safe 5, sue unsafe", SENIOR_DUE, DISPUTED, []),
        ("ann asks unsafe, bo safe 5, sue decides unsafe", SENIOR_DUE, DISPUTED, [("unsafe", "senior", "sue")]),
        ("ann asks unsafe, bo safe 5, bo revises unsafe", SENIOR_DUE, DISPUTED, []),
        # one's own label, changed: an amendment of one's own, or another review where it was softened
        ("ann safe 5, ann revises unsafe", CLOSED, [], [("safe", "single", "ann"), ("unsafe", "single", "ann")]),
        ("ann safe, ann revises safe 1", CLOSED, [], [("safe", "single", "ann")]),
        ("ann unsafe, ann revises safe 5", ANOTHER, BY_RULE, [("unsafe", "single", "ann")]),
        ("ann unsafe, ann sees, ann revises safe 5, bo unsafe", SENIOR_DUE, [*BY_RULE, DISPUTED[1]],
         [("unsafe", "single", "ann")]),
        # the word before the result was seen is compared too
        ("ann asks unsafe, ann sees, ann revises safe 5, bo safe", SENIOR_DUE, DISPUTED, []),
        ("ann asks safe, ann sees, ann revises unsafe 5, bo unsafe", SENIOR_DUE, DISPUTED, []),
        ("ann asks safe, ann sees, ann revises unsafe 5, bo safe", SENIOR_DUE, DISPUTED, []),
        ("ann asks safe, ann revises unsafe", ANOTHER, AGREED, []),
        # a closed case whose reviewer changes their mind is never left with the label they took back
        ("ann asks safe, bo safe, bo revises unsafe 5", SENIOR_DUE, DISPUTED, [("safe", "agreement", "system")]),
        ("ann unsafe, sue amends safe, ann revises insufficient_information 5", SENIOR_DUE,
         [("disagreement", SYSTEM.id)], [("unsafe", "single", "ann"), ("safe", "amendment", "sue")]),
    ],
)  # fmt: skip
def test_what_reviews_make_of_a_case(
    db: Database, case_id: str, script: str, following: Next, why: list[tuple[str, str]], made: list[tuple[str, ...]]
) -> None:
    assert play(db, case_id, script) is following
    assert (requests(db), labels(db, case_id)) == (why, made)
    is_open = following is not CLOSED and "decides" not in script
    assert (entry(db, case_id).closed_at is None) is is_open
    if is_open:
        assert entry(db, case_id).review_round == ("third" if following is SENIOR_DUE else "second")
        with pytest.raises(Unread):
            reveal_versions(db, RESEARCHER.at(later(60)), case_id)
    assert claims.claim_next(db, ANN.at(later(60))) is None, "never by its first reviewer again"
    assert (claims.claim_next(db, CY.at(later(60))) is not None) is (following is ANOTHER)


@pytest.mark.parametrize(
    ("rules", "filled", "due"),
    [
        ((), form("safe", 1), False),
        ((SecondReviewRule.UNSURE,), form("safe", 2), True),
        ((SecondReviewRule.UNSURE,), form("unsafe", 2), True),
        ((SecondReviewRule.UNSURE,), form("safe", 3), False),
        ((SecondReviewRule.SAFE,), form("safe", 5), True),
        ((SecondReviewRule.UNSAFE,), form("unsafe", 5), True),
        ((SecondReviewRule.SAFE,), form("unsafe", 5), False),
        ((SecondReviewRule.INSUFFICIENT_INFORMATION,), form("insufficient_information", 5), True),
    ],
)
def test_a_rule_asks_for_another_review(
    db: Database, rules: tuple[SecondReviewRule, ...], filled: ReviewForm, due: bool
) -> None:
    site(db, SILENT.model_copy(update={"second_review_rules": rules}))
    fill(db)
    assert read_next(db, ANN, filled, "a") is (ANOTHER if due else CLOSED)


@pytest.mark.parametrize(
    ("priority", "ai", "flags", "label", "doubtful"),
    [
        (Priority.P0, "human_review", None, "safe", True),
        (Priority.P2, "unsafe", None, "safe", True),
        (Priority.P2, "human_review", STATED, "safe", True),
        (Priority.P2, "human_review", None, "safe", False),
        (Priority.P0, "human_review", None, "unsafe", False),
        (Priority.P2, "unsafe", STATED, "unsafe", False),
        (Priority.P2, "safe", None, "unsafe", True),
        (Priority.P2, "safe", None, "safe", False),
    ],
)
@pytest.mark.parametrize("others", ["another", "none", "who declined"])
@pytest.mark.parametrize("afterthought", [False, True])
def test_what_contradicts_priority_ai_or_text_is_never_one_persons_word_alone(
    db: Database, priority: Priority, ai: str, flags: Any, label: str, doubtful: bool, others: str, afterthought: bool
) -> None:
    """Whatever the rules. Where nobody else could review it the case closes and the review stays asked for."""
    site(db, SiteSettings(second_review_rate=0.0, second_review_rules=()), (ANN,) if others == "none" else (ANN, BO))
    case_id, other = fill(db, [priority, Priority.P3], outcome=ai)
    if flags:
        write(db, update(cases).where(cases.c.id == case_id).values(flags=flags))
    if others == "who declined":
        held = take(db, BO)
        inbox.decline(db, BO.at(NOW), held.case_id, held.token)
    if afterthought:
        read_next(db, ANN, form("insufficient_information", 5), "a")
        following = revise(db, ANN.at(later(1)), case_id, form(label, 5), "read again", "b" * 32)
    else:
        following = read_next(db, ANN, form(label, 5), "a")
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
    site(db, SiteSettings(second_review_rate=1.0), (ANN, ADMIN, RESEARCHER))
    _, asked = fill(db, [Priority.P1, Priority.P2])
    assert read_next(db, ANN, form("safe", 5), "a") is CLOSED
    assert read_next(db, ANN, form(), "b", ask=True) is ANOTHER
    assert counts(db, ANN.at(NOW)).by_state[State.READ] == 1
    assert adjudicate(db, SENIOR.at(NOW), asked, UNSAFE, "nobody else today").method is Method.SENIOR


def test_the_sampling_coin_belongs_to_the_case_and_comes_up_at_its_rate(db: Database) -> None:
    site(db, SiteSettings(second_review_rate=0.5, second_review_rules=()))
    ids = fill(db, [Priority.P2] * 12)
    nexts = [read_next(db, ANN, form(), f"{number:x}") for number in range(12)]
    drawn = [second_review_coin(case_id) < 0.5 for case_id in ids]
    assert nexts == [ANOTHER if each else CLOSED for each in drawn]
    assert requests(db) == [("sampled", SYSTEM.id)] * sum(drawn)
    # 4,000 fair coins: standard deviation 31.6; five of them are beyond chance
    assert abs(sum(second_review_coin(f"{number:032d}") < 0.5 for number in range(4_000)) - 2_000) < 158


def test_what_two_disagree_on_is_listed_for_seniors_without_labels(db: Database, case_id: str) -> None:
    play(db, case_id, "ann asks unsafe, bo safe 5")
    assert counts(db, CY.at(later(3))).by_state[State.SENIOR] == 1
    (listed,) = disagreements(db, SENIOR)
    assert (listed.case_id, listed.read_by_me) == (case_id, False) and "unsafe" not in repr(listed)
    for other in (ANN, ADMIN, RESEARCHER):
        with pytest.raises(Forbidden):
            disagreements(db, other)
        with pytest.raises(Forbidden):
            adjudicate(db, other.at(later(3)), case_id, SAFE, "why")
    assert my_review(db, SENIOR, case_id) is None and (mine := my_review(db, BO, case_id)) is not None
    assert (mine.reviewer, mine.review_round) == ("bo", "second"), "one's own review shows nothing of the others"
    claim = take(db, SENIOR, later(4))
    assert claim.case_id == case_id, "a senior may review it blind first"
    with pytest.raises(NotYetRated):
        reveal_evidence(db, SENIOR.at(later(4)), case_id)
    inbox.release(db, SENIOR.at(later(4)), case_id, claim.token)
    read_next(db, SENIOR, form(), "c", later(5))
    assert disagreements(db, SENIOR)[0].read_by_me
    made = adjudicate(db, SENIOR.at(later(6)), case_id, UNSAFE, "as discussed", Method.DISCUSSION)
    assert made.review_ids == ("1" * 32, "2" * 32, "c" * 32) and disagreements(db, SENIOR) == []
    seen = reveal_reviews(db, RESEARCHER.at(later(7)), case_id)
    assert [(one.review_round, one.blind) for one in seen] == [("first", True), ("second", True), ("third", True)]


@pytest.mark.parametrize("look", [reveal_reviews, reveal_versions])
def test_a_senior_who_was_shown_the_reviews_does_not_review_blind(
    db: Database, case_id: str, look: Callable[..., object]
) -> None:
    play(db, case_id, "ann asks unsafe, bo safe 5")
    look(db, SENIOR.at(later(3)), case_id)
    read_next(db, SENIOR, form(), "c", later(4))
    adjudicate(db, SENIOR.at(later(5)), case_id, UNSAFE, "read")
    assert [one.blind for one in reveal_reviews(db, ANN.at(later(6)), case_id)] == [True, True, False]
    (found,) = review_table(db, SENIOR, "key").labels
    assert len(found) == 2, "agreement is among those who did not know what the others said"


@pytest.mark.parametrize(
    ("who", "reviewers", "party"),
    [
        (SENIOR, ["ann", "sue"], True),
        (SENIOR, ["ann", "bo", "sue"], False),
        (SENIOR, ["sue"], False),
        (LOCAL_USER, ["local", "bo"], False),
    ],
)
def test_a_party_is_one_of_the_first_two_reviewers(who: Actor, reviewers: list[str], party: bool) -> None:
    assert is_party(who, reviewers) is party


def test_one_of_two_who_disagree_does_not_decide_alone(db: Database, case_id: str) -> None:
    play(db, case_id, "ann asks unsafe, sue safe 5")
    with pytest.raises(NotAvailable, match="one of the two reviewers"):
        adjudicate(db, SENIOR.at(later(3)), case_id, SAFE, "mine was right")
    assert adjudicate(db, SENIOR.at(later(3)), case_id, UNSAFE, "with Ann", Method.DISCUSSION).version == 1


def test_an_adjudication_needs_a_reason_a_review_and_a_free_case(db: Database, case_id: str) -> None:
    with pytest.raises(NotAvailable, match="reviewed this case yet"):
        adjudicate(db, SENIOR.at(NOW), case_id, SAFE, "why")
    play(db, case_id, "ann asks unsafe")
    with pytest.raises(ReasonNeeded):
        adjudicate(db, SENIOR.at(later(2)), case_id, SAFE, " ")
    held = take(db, BO, later(2))
    with pytest.raises(NotAvailable, match="reviewing this case"):
        adjudicate(db, SENIOR.at(held.expires_at - timedelta(seconds=1)), case_id, SAFE, "why")
    adjudicate(db, SENIOR.at(held.expires_at), case_id, SAFE, "why")
    for unknown, wrong in ((case_id, "not open"), ("no such case", "not open")):
        with pytest.raises(NotAvailable, match=wrong):
            adjudicate(db, SENIOR.at(later(60)), unknown, SAFE, "twice")


@pytest.mark.parametrize(
    ("script", "ids"),
    [
        ("ann asks unsafe, bo safe 5, ann revises unsafe 5", "32"),  # each one's last word, in the order of the first
        ("bo asks safe, ann unsafe, bo revises safe 3", "32"),
    ],
)
def test_an_adjudication_rests_on_each_reviewers_last_word(db: Database, case_id: str, script: str, ids: str) -> None:
    play(db, case_id, script)
    made = adjudicate(db, SENIOR.at(later(9)), case_id, UNSAFE, "agreed")
    assert made.review_ids == tuple(each * 32 for each in ids)


def test_the_last_version_counts_also_after_a_clock_was_set_back(db: Database, case_id: str) -> None:
    read_next(db, ANN, form("unsafe"), "d", ask=True)
    read_next(db, BO, form("safe", 5), "b")  # at the same moment: in the order of their ids
    revise(db, ANN.at(later(-5)), case_id, form("unsafe", 5), "surer", "a" * 32)
    assert adjudicate(db, SENIOR.at(later(3)), case_id, UNSAFE, "agreed").review_ids == ("b" * 32, "a" * 32)


def test_a_decision_pressed_twice_is_one_and_any_other_is_refused(db: Database, case_id: str) -> None:
    play(db, case_id, "ann asks unsafe")
    made = adjudicate(db, SENIOR.at(later(2)), case_id, UNSAFE, " it says so ")
    assert adjudicate(db, SENIOR.at(later(3)), case_id, UNSAFE, "it says so") == made
    others = [
        (HELEN, UNSAFE, "it says so", Method.SENIOR),
        (SENIOR, SAFE, "it says so", Method.SENIOR),
        (SENIOR, UNSAFE, "it says it", Method.SENIOR),
        (SENIOR, UNSAFE, "it says so", Method.DISCUSSION),
    ]
    for who, label, reason, method in others:
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
    stale = [(HELEN, SAFE, "song lyrics"), (SENIOR, UNSAFE, "song lyrics"), (SENIOR, SAFE, "lyrics")]
    for who, label, reason in stale:
        with pytest.raises(StaleVersion):
            amend(db, who.at(later(3)), case_id, label, reason, 1)
    assert amend(db, SENIOR.at(later(4)), case_id, SAFE, "song lyrics", 2).version == 3, "on one's own, another one"
    with pytest.raises(ReasonNeeded):
        amend(db, SENIOR.at(later(4)), case_id, UNSAFE, "", 3)
    with pytest.raises(Forbidden):
        amend(db, ANN.at(later(4)), case_id, UNSAFE, "mine", 3)
    told = [one for one in events(db, ADMIN) if one.action == "amended"]
    assert [(one.actor, one.subject, one.details["version"]) for one in told] == [("sue", case_id, n) for n in (3, 2)]
    with db.write() as conn:
        erase_rows(conn, [case_id], None, NOW)
    with pytest.raises(NotAvailable, match="deleted"):
        amend(db, SENIOR.at(later(5)), case_id, SAFE, "why", 3)


def test_a_decision_closes_its_case_and_no_other_and_frees_it_of_every_hand(db: Database) -> None:
    site(db)
    decided, other = fill(db, [Priority.P2] * 2)
    play(db, decided, "ann asks unsafe")
    over = {"assignee": "cy", "assigned_by": "bo", "assigned_until": NOW, "lease_token": "t"}
    write(db, update(inbox_entries).values(over))
    adjudicate(db, SENIOR.at(later(2)), decided, UNSAFE, "why")
    closed, still = entry(db, decided)._mapping, entry(db, other)._mapping
    assert closed["closed_at"] == later(2) and {name: closed[name] for name in over} == dict.fromkeys(over)
    assert still["closed_at"] is None and {name: still[name] for name in over} == over


def test_a_senior_decides_on_a_case_in_their_own_hands(db: Database, case_id: str) -> None:
    play(db, case_id, "ann asks unsafe, bo safe 5")
    assert claims.claim_next(db, SENIOR.at(later(3))) is not None
    assert adjudicate(db, SENIOR.at(later(3)), case_id, UNSAFE, "why").method is Method.SENIOR


def test_another_review_is_due_by_a_target_of_its_own_and_the_first_one_keeps_its(db: Database, case_id: str) -> None:
    late, first = later(300), entry(db, case_id).due_at
    read_next(db, ANN, form("unsafe"), "a", ask=True, now=late)
    assert (entry(db, case_id).due_at, entry(db, case_id).first_due_at) == (late + TARGETS[Priority.P2], first)
    assert shift(db, ADMIN, NOW, later(360)).priorities[Priority.P2].overdue == 1, "the first one was"
    take_back(db, ANN.at(late + timedelta(seconds=2)), case_id, "a" * 32)
    assert (entry(db, case_id).due_at, entry(db, case_id).first_due_at) == (first, None)
