"""When a second reading is due, what agreement and disagreement do, and that nothing is overwritten."""

from collections.abc import Callable

import pytest
from sqlalchemy import select, update

from screening.review.actors import LOCAL_USER, Actor
from screening.review.policy import Forbidden
from screening.review.rating_form import RatingForm, RatingLabel
from screening.review.triage import Tier, second_reading_coin
from storage.database import Database
from storage.research.reading_table import reading_table
from storage.review import claims
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
from storage.review.evidence import reveal_evidence
from storage.review.follow_ups import For
from storage.review.queue import State, counts
from storage.review.ratings import my_rating, reveal_ratings, revise, submit_rating
from storage.review.standing import what_follows
from storage.schema import cases, second_reading_requests
from storage.settings_store import SecondReadingRule, SiteSettings, change
from storage.visibility import NotYetRated, Unread
from tests.storage.inbox_cases import ADMIN, ANN, BO, CY, MINUTE, NOW, RESEARCHER, SENIOR, fill, form, read, register

LATER = NOW + MINUTE
NO_SAMPLING = SiteSettings(second_reading_rate=0.0)


def site(db: Database, settings: SiteSettings = NO_SAMPLING, people: tuple[Actor, ...] = (ANN, BO, CY, SENIOR)) -> None:
    register(db, *people)
    change(db, ADMIN.at(NOW), settings, 0)


@pytest.mark.parametrize(
    ("filled", "more", "due"),
    [
        (form("safe", 2), (), True),
        (form("safe", 3), (), False),
        (form("unsafe", 2), (), True),
        (form("unsafe", 3), (), False),
        (form("insufficient_information", 5), (), True),
        (form("safe", 5), (SecondReadingRule.SAFE,), True),
        (form("unsafe", 5), (SecondReadingRule.UNSAFE,), True),
        (form("unsafe", 5), (SecondReadingRule.SAFE,), False),
    ],
)
def test_a_rule_asks_for_a_second_reading(
    db: Database, filled: RatingForm, more: tuple[SecondReadingRule, ...], due: bool
) -> None:
    rules = (*NO_SAMPLING.second_reading_rules, *more)
    site(db, NO_SAMPLING.model_copy(update={"second_reading_rules": rules}))
    (case_id,) = fill(db)
    assert read(db, ANN, filled, "a").next is (Next.SECOND_READING if due else Next.CLOSED)
    assert claims.claim_next(db, ANN.at(NOW)) is None, "never by the first reader"
    assert (claims.claim_next(db, BO.at(NOW)) is not None) is due
    assert (reveal_versions(db, ANN.at(NOW), case_id) == ()) is due


def test_a_site_with_one_reader_is_not_left_waiting(db: Database) -> None:
    """What the coin asks for is dropped; what a rule asks for stays open, whatever the label."""
    site(db, SiteSettings(second_reading_rate=1.0), (ANN, ADMIN, RESEARCHER))
    ids = fill(db, [Tier.P2] * 3)
    for filled, letter in ((form("safe", 5), "a"), (form("unsafe", 1), "b"), (form("insufficient_information"), "c")):
        assert read(db, ANN, filled, letter).next is Next.CLOSED
    assert [what_follows(db, ANN.at(NOW), each).next for each in ids] == [Next.CLOSED] * 3
    open_now = [[one.disposition for one in what_follows(db, ANN.at(NOW), each).follow_ups] for each in ids]
    assert open_now == [[], [For.SECOND_READING], [For.SECOND_READING]]


def test_what_was_asked_for_waits_even_there(db: Database) -> None:
    site(db, NO_SAMPLING, (ANN,))
    (case_id,) = fill(db)
    assert read(db, ANN, form(), "a", ask=True).next is Next.SECOND_READING
    assert counts(db, ANN.at(NOW)).by_state[State.READ] == 1
    assert adjudicate(db, SENIOR.at(NOW), case_id, RatingLabel.UNSAFE, "nobody else today").method is Method.SENIOR


def test_rules_can_be_switched_off(db: Database) -> None:
    site(db, SiteSettings(second_reading_rate=0.0, second_reading_rules=(SecondReadingRule.SOFTENED,)))
    fill(db)
    assert read(db, ANN, form("safe", 1), "a").next is Next.CLOSED


def test_the_sampling_coin_belongs_to_the_case_and_comes_up_at_its_rate(db: Database) -> None:
    site(db, SiteSettings(second_reading_rate=0.5, second_reading_rules=()))
    ids = fill(db, [Tier.P2] * 12)
    nexts = [read(db, ANN, form(), f"{number:x}").next for number in range(12)]
    assert nexts == [Next.SECOND_READING if second_reading_coin(case_id) < 0.5 else Next.CLOSED for case_id in ids]
    # 4,000 fair coins: standard deviation 31.6; five of them are beyond chance
    assert abs(sum(second_reading_coin(f"{number:032d}") < 0.5 for number in range(4_000)) - 2_000) < 158


def test_two_readings_that_agree_adjudicate(db: Database) -> None:
    site(db)
    (case_id,) = fill(db)
    read(db, ANN, form("unsafe", 4), "a", ask=True)
    assert read(db, BO, form("unsafe", 2), "b", LATER).next is Next.CLOSED
    (made,) = reveal_versions(db, ANN.at(NOW), case_id)
    assert (made.label, made.method, made.by) == (RatingLabel.UNSAFE, Method.AGREEMENT, "system")
    assert made.rating_ids == ("a" * 32, "b" * 32)
    assert [rating.reading for rating in reveal_ratings(db, BO.at(NOW), case_id)] == ["first", "second"]


def disagreement(db: Database) -> str:
    site(db)
    (case_id,) = fill(db)
    read(db, ANN, form("unsafe", 4), "a", ask=True)
    assert read(db, BO, form("safe", 5), "b", LATER).next is Next.SENIOR
    return case_id


def test_two_readings_that_disagree_wait_for_a_senior(db: Database) -> None:
    case_id = disagreement(db)
    assert claims.claim_next(db, CY.at(LATER)) is None
    assert counts(db, CY.at(LATER)).by_state[State.SENIOR] == 1
    (listed,) = disagreements(db, SENIOR)
    assert (listed.case_id, listed.read_by_me) == (case_id, False)
    assert "unsafe" not in repr(listed)
    for other in (ANN, ADMIN, RESEARCHER):
        with pytest.raises(Forbidden):
            disagreements(db, other)
        with pytest.raises(Forbidden):
            adjudicate(db, other.at(LATER), case_id, RatingLabel.SAFE, "why")
    made = adjudicate(db, SENIOR.at(LATER), case_id, RatingLabel.UNSAFE, "the second paragraph")
    assert (made.method, made.by, made.reason) == (Method.SENIOR, "sue", "the second paragraph")
    assert disagreements(db, SENIOR) == ()
    assert len(reveal_ratings(db, SENIOR.at(NOW), case_id)) == 2


def test_one_of_two_readers_who_disagree_does_not_decide_alone(db: Database) -> None:
    site(db)
    (case_id,) = fill(db)
    read(db, ANN, form("unsafe", 4), "a", ask=True)
    assert read(db, SENIOR, form("safe", 5), "b", LATER).next is Next.SENIOR
    with pytest.raises(NotAvailable, match="one of the two reviewers"):
        adjudicate(db, SENIOR.at(LATER), case_id, RatingLabel.SAFE, "mine was right")
    made = adjudicate(db, SENIOR.at(LATER), case_id, RatingLabel.UNSAFE, "with Ann", Method.DISCUSSION)
    assert made.method is Method.DISCUSSION


@pytest.mark.parametrize(
    ("who", "readers", "party"),
    [
        (SENIOR, ["ann", "sue"], True),
        (SENIOR, ["ann", "bo", "sue"], False),
        (SENIOR, ["sue"], False),
        (LOCAL_USER, ["local", "bo"], False),
    ],
)
def test_a_party_is_one_of_the_first_two_readers(who: Actor, readers: list[str], party: bool) -> None:
    assert is_party(who, readers) is party


def test_a_senior_may_read_blind_first_and_then_decide(db: Database) -> None:
    case_id = disagreement(db)
    claim = claims.claim_next(db, SENIOR.at(LATER))
    assert claim is not None
    assert claim.case_id == case_id
    with pytest.raises(NotYetRated):
        reveal_evidence(db, SENIOR.at(LATER), case_id)
    assert submit_rating(db, SENIOR.at(LATER), case_id, claim.token, form(), "c" * 32).next is Next.SENIOR
    assert reveal_evidence(db, SENIOR.at(LATER), case_id).outcome == "human_review"
    assert disagreements(db, SENIOR)[0].read_by_me
    made = adjudicate(db, SENIOR.at(LATER), case_id, RatingLabel.UNSAFE, "as discussed", Method.DISCUSSION)
    assert made.rating_ids == ("a" * 32, "b" * 32, "c" * 32)
    assert [rating.reading for rating in reveal_ratings(db, SENIOR.at(NOW), case_id)] == ["first", "second", "third"]


@pytest.mark.parametrize("look", [reveal_ratings, reveal_versions])
def test_a_senior_who_was_shown_the_readings_does_not_read_blind(db: Database, look: Callable[..., object]) -> None:
    case_id = disagreement(db)
    look(db, SENIOR.at(LATER), case_id)
    claim = claims.claim_next(db, SENIOR.at(LATER))
    assert claim is not None and claim.case_id == case_id
    with pytest.raises(NotYetRated):
        reveal_evidence(db, SENIOR.at(LATER), case_id)
    submit_rating(db, SENIOR.at(LATER), case_id, claim.token, form(), "c" * 32)
    adjudicate(db, SENIOR.at(LATER), case_id, RatingLabel.UNSAFE, "read")
    assert [rating.blind for rating in reveal_ratings(db, ANN.at(LATER), case_id)] == [True, True, False]
    (labels,) = reading_table(db, SENIOR, "key").labels
    assert len(labels) == 2, "agreement is among those who did not know what the others said"


def test_ones_own_reading_shows_nothing_of_the_others(db: Database) -> None:
    case_id = disagreement(db)
    assert my_rating(db, SENIOR, case_id) is None
    mine = my_rating(db, BO, case_id)
    assert mine is not None and (mine.reviewer, mine.reading) == ("bo", "second")
    claim = claims.claim_next(db, SENIOR.at(LATER))
    assert claim is not None
    submit_rating(db, SENIOR.at(LATER), case_id, claim.token, form(), "c" * 32)
    assert [rating.blind for rating in reveal_ratings(db, SENIOR.at(LATER), case_id)] == [True, True, True]
    with pytest.raises(Forbidden):
        my_rating(db, ADMIN, case_id)


def test_an_adjudication_needs_a_reason_a_reading_and_a_free_case(db: Database) -> None:
    site(db)
    (case_id,) = fill(db)
    with pytest.raises(NotAvailable, match="reviewed this case yet"):
        adjudicate(db, SENIOR.at(NOW), case_id, RatingLabel.SAFE, "why")
    read(db, ANN, form(), "a", ask=True)
    with pytest.raises(ReasonNeeded):
        adjudicate(db, SENIOR.at(NOW), case_id, RatingLabel.SAFE, " ")
    assert claims.claim_next(db, BO.at(NOW)) is not None
    with pytest.raises(NotAvailable, match="reviewing this case"):
        adjudicate(db, SENIOR.at(NOW), case_id, RatingLabel.SAFE, "why")
    adjudicate(db, SENIOR.at(NOW + 60 * MINUTE), case_id, RatingLabel.SAFE, "why")
    with pytest.raises(NotAvailable, match="not open"):
        adjudicate(db, SENIOR.at(NOW + 60 * MINUTE), case_id, RatingLabel.SAFE, "twice")
    with pytest.raises(NotAvailable):
        adjudicate(db, SENIOR.at(NOW), "no such case", RatingLabel.SAFE, "why")


def test_amendments_are_versions_with_reasons_and_lose_no_race(db: Database) -> None:
    site(db)
    (case_id,) = fill(db)
    with pytest.raises(NotAvailable):
        amend(db, SENIOR.at(NOW), case_id, RatingLabel.SAFE, "too early", 1)
    read(db, ANN, form("unsafe", 4), "a")
    made = amend(db, SENIOR.at(LATER), case_id, RatingLabel.SAFE, "song lyrics", 1)
    assert (made.version, made.method, made.reason) == (2, Method.AMENDMENT, "song lyrics")
    with pytest.raises(StaleVersion):
        amend(db, SENIOR.at(LATER), case_id, RatingLabel.UNSAFE, "unaware of the first", 1)
    with pytest.raises(ReasonNeeded):
        amend(db, SENIOR.at(LATER), case_id, RatingLabel.UNSAFE, "", 2)
    with pytest.raises(Forbidden):
        amend(db, ANN.at(LATER), case_id, RatingLabel.UNSAFE, "mine", 2)
    assert [(one.version, one.label) for one in reveal_versions(db, RESEARCHER.at(NOW), case_id)] == [
        (1, "unsafe"),
        (2, "safe"),
    ]


def test_unsafe_softened_after_the_reveal_is_read_again(db: Database) -> None:
    site(db)
    (case_id,) = fill(db)
    read(db, ANN, form("unsafe", 4), "a")
    reveal_evidence(db, ANN.at(LATER), case_id)
    assert (
        revise(db, ANN.at(LATER), case_id, form("safe", 5), "the engine says so", "b" * 32).next is Next.SECOND_READING
    )
    with pytest.raises(Unread):
        reveal_versions(db, RESEARCHER.at(NOW), case_id)
    assert read(db, BO, form("unsafe", 4), "c", LATER).next is Next.SENIOR
    assert [one.label for one in reveal_versions(db, ANN.at(NOW), case_id)] == ["unsafe"], "until a senior has decided"


@pytest.mark.parametrize(
    ("first", "revised", "second"),
    [("unsafe", "safe", "safe"), ("safe", "unsafe", "unsafe"), ("safe", "unsafe", "safe")],
)
def test_what_a_reader_said_before_the_reveal_is_compared_with_the_second_reading(
    db: Database, first: str, revised: str, second: str
) -> None:
    site(db)
    (case_id,) = fill(db)
    read(db, ANN, form(first), "a", ask=True)
    reveal_evidence(db, ANN.at(LATER), case_id)
    revise(db, ANN.at(LATER), case_id, form(revised, 5), "the engine says so", "b" * 32)
    assert read(db, BO, form(second), "c", LATER).next is Next.SENIOR
    assert reveal_versions(db, BO.at(LATER), case_id) == (), "nothing is settled by what came after the reveal"
    seen = [(one.reviewer, one.version, one.form.label) for one in reveal_ratings(db, SENIOR.at(LATER), case_id)]
    assert sorted(seen) == [("ann", 1, first), ("ann", 2, revised), ("bo", 1, second)], "who decides sees every version"


def test_a_closed_case_whose_reader_changes_their_mind_is_opened_again(db: Database) -> None:
    site(db)
    (case_id,) = fill(db)
    read(db, ANN, form("safe", 4), "a", ask=True)
    read(db, BO, form("safe", 4), "b")
    receipt = revise(db, BO.at(LATER), case_id, form("unsafe", 5), "overlooked the date", "c" * 32)
    assert receipt.next is Next.SENIOR
    assert [one.case_id for one in disagreements(db, SENIOR)] == [case_id]
    assert adjudicate(db, SENIOR.at(LATER), case_id, RatingLabel.UNSAFE, "agreed").version == 2


def test_a_revision_that_keeps_the_label_changes_nothing_else(db: Database) -> None:
    site(db)
    (case_id,) = fill(db)
    read(db, ANN, form("safe", 4), "a")
    assert revise(db, ANN.at(LATER), case_id, form("safe", 1), "less sure", "b" * 32).next is Next.CLOSED
    assert len(reveal_versions(db, ANN.at(NOW), case_id)) == 1


def test_revisions_while_the_case_is_open_only_add_versions(db: Database) -> None:
    site(db)
    fill(db)
    read(db, ANN, form("safe", 4), "a", ask=True)
    case_id = claims.claim_next(db, BO.at(NOW)).case_id  # type: ignore[union-attr]
    assert revise(db, ANN.at(LATER), case_id, form("unsafe", 4), "slipped", "b" * 32).next is Next.SECOND_READING
    token = claims.my_claims(db, BO.at(LATER))[0].token
    assert submit_rating(db, BO.at(LATER), case_id, token, form("unsafe", 3), "c" * 32).next is Next.SENIOR


def requested(db: Database) -> dict[str, str]:
    """Why a second reading is asked for, by case."""
    return {row.case_id: row.why for row in db.rows(select(second_reading_requests))}


def test_what_is_asked_of_one_case_asks_nothing_of_another(db: Database) -> None:
    site(db, NO_SAMPLING)
    fill(db, [Tier.P2] * 2)
    assert read(db, ANN, form(), "a", ask=True).next is Next.SECOND_READING
    assert read(db, ANN, form(), "b").next is Next.CLOSED
    assert list(requested(db).values()) == ["asked"]


@pytest.mark.parametrize(
    ("settings", "filled", "why"),
    [
        (NO_SAMPLING, form("safe", 2), "rule"),
        (SiteSettings(second_reading_rate=1.0, second_reading_rules=()), form(), "sampled"),
    ],
)
def test_why_a_case_is_read_again_is_recorded(
    db: Database, settings: SiteSettings, filled: RatingForm, why: str
) -> None:
    site(db, settings)
    (case_id,) = fill(db)
    assert read(db, ANN, filled, "a").next is Next.SECOND_READING
    assert requested(db) == {case_id: why}


@pytest.mark.parametrize(("label", "due"), [("unsafe", True), ("safe", False)])
def test_unsafe_where_the_engine_said_safe_is_read_again_whatever_the_rules(
    db: Database, label: str, due: bool
) -> None:
    site(db, SiteSettings(second_reading_rate=0.0, second_reading_rules=()))
    (case_id,) = fill(db, outcome="safe")
    assert read(db, ANN, form(label, 5), "a").next is (Next.SECOND_READING if due else Next.CLOSED)
    assert requested(db) == ({case_id: "rule"} if due else {})


@pytest.mark.parametrize("doubtful", [0, 1])
def test_the_doubt_of_one_case_is_not_anothers(db: Database, doubtful: int) -> None:
    site(db, NO_SAMPLING)
    ids = fill(db, [Tier.P2] * 2)
    with db.write() as conn:
        flags = {"text": ["stated_risk"], "reply": []}
        conn.execute(update(cases).where(cases.c.id == ids[doubtful]).values(flags=flags))
    found = [read(db, ANN, form("safe", 5), f"{number:x}").next for number in range(2)]
    assert found.count(Next.SECOND_READING) == 1 and list(requested(db)) == [ids[doubtful]]
