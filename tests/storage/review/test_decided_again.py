"""What a revised reading, a decision pressed twice and an amendment do to a case, and what they leave alone."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, update

from screening.review.actors import SYSTEM, Actor, Role
from screening.review.rating_form import RatingLabel
from screening.review.triage import TARGETS, Tier
from storage.audit_log import events
from storage.database import Database
from storage.review import claims
from storage.review.adjudication import Method, Next, StaleVersion, adjudicate, amend, reveal_versions
from storage.review.claims import NotAvailable
from storage.review.erasure import erase_rows
from storage.review.ratings import revise, take_back
from storage.review.reports import shift
from storage.schema import follow_ups, inbox_entries, second_reading_requests
from storage.settings_store import SiteSettings, change
from tests.databases import write
from tests.storage.inbox_cases import ADMIN, ANN, BO, CY, MINUTE, NOW, SENIOR, fill, form, person, read, register

SAFE, UNSAFE = RatingLabel.SAFE, RatingLabel.UNSAFE
HELEN = person("helen", Role.SENIOR)


@pytest.fixture
def case_id(db: Database) -> str:
    """One open case of a site whose coin asks for nothing."""
    register(db, ANN, BO, CY, SENIOR, HELEN)
    change(db, ADMIN.at(NOW), SiteSettings(second_reading_rate=0.0), 0)
    return fill(db)[0]


def later(minutes: int) -> datetime:
    return NOW + minutes * MINUTE


def entry(db: Database, case_id: str) -> dict[str, object]:
    return dict(db.row(select(inbox_entries).where(inbox_entries.c.case_id == case_id))._mapping)


def reasons(db: Database) -> list[tuple[str, str]]:
    """Why further readings were asked for, and by whom."""
    table = second_reading_requests.c
    return [(row.why, row.asked_by) for row in db.rows(select(table.why, table.asked_by).order_by(table.id))]


def versions(db: Database, case_id: str, who: Actor = HELEN) -> list[tuple[int, RatingLabel, Method, str, str | None]]:
    return [
        (one.version, one.label, one.method, one.by, one.reason)
        for one in reveal_versions(db, who.at(later(60)), case_id)
    ]


# --- revised readings


def test_a_revision_while_a_senior_is_waited_for_leaves_the_case_to_the_senior(db: Database, case_id: str) -> None:
    read(db, ANN, form("unsafe"), "a", ask=True)
    read(db, BO, form("safe", 5), "b")
    assert revise(db, BO.at(later(1)), case_id, form("unsafe"), "overlooked", "c" * 32).next is Next.SENIOR
    assert (entry(db, case_id)["reading"], entry(db, case_id)["closed_at"]) == ("third", None)


def test_a_reader_alone_amends_their_own_label_with_a_reason(db: Database, case_id: str) -> None:
    read(db, ANN, form("safe", 5), "a")
    receipt = revise(db, ANN.at(later(1)), case_id, form("unsafe"), " the last line ", "b" * 32)
    assert receipt.next is Next.CLOSED
    assert versions(db, case_id) == [
        (1, SAFE, Method.SINGLE, "ann", None),
        (2, UNSAFE, Method.SINGLE, "ann", "the last line"),
    ]


def test_a_reader_does_not_overrule_the_senior_who_amended_their_label(db: Database, case_id: str) -> None:
    """One reading alone, but the label in force is a senior's: the two of them disagree."""
    read(db, ANN, form("unsafe"), "a")
    amend(db, SENIOR.at(later(1)), case_id, SAFE, "song lyrics", 1)
    again = revise(db, ANN.at(later(2)), case_id, form("insufficient_information", 5), "unsure", "b" * 32)
    assert again.next is Next.SENIOR
    assert reasons(db) == [("disagreement", SYSTEM.id)]
    assert entry(db, case_id)["reading"] == "third"


def test_a_label_that_was_softened_waits_for_a_second_reader(db: Database, case_id: str) -> None:
    read(db, ANN, form("unsafe"), "a")
    assert revise(db, ANN.at(later(1)), case_id, form("safe", 5), "a quote", "b" * 32).next is Next.SECOND_READING
    assert reasons(db) == [("rule", SYSTEM.id)]
    assert (entry(db, case_id)["reading"], entry(db, case_id)["closed_at"]) == ("second", None)


def test_unsafe_where_the_engine_said_safe_is_read_again_also_when_it_is_an_afterthought(db: Database) -> None:
    register(db, ANN, BO)
    change(db, ADMIN.at(NOW), SiteSettings(second_reading_rate=0.0), 0)
    (case_id,) = fill(db, outcome="safe")
    assert read(db, ANN, form("safe", 5), "a").next is Next.CLOSED
    assert revise(db, ANN.at(later(1)), case_id, form("unsafe"), "read again", "b" * 32).next is Next.SECOND_READING


def test_an_adjudication_rests_on_each_readers_last_word_in_the_order_of_their_first(
    db: Database, case_id: str
) -> None:
    read(db, ANN, form("unsafe"), "a", ask=True)
    read(db, BO, form("safe", 5), "b", now=later(1))
    revise(db, ANN.at(later(2)), case_id, form("unsafe", 5), "surer", "c" * 32)
    assert adjudicate(db, SENIOR.at(later(3)), case_id, UNSAFE, "agreed").rating_ids == ("c" * 32, "b" * 32)


def test_the_last_version_counts_also_after_a_clock_was_set_back_and_readers_stand_as_they_read(
    db: Database, case_id: str
) -> None:
    read(db, ANN, form("unsafe"), "d", ask=True)
    read(db, BO, form("safe", 5), "b", now=later(1))
    revise(db, ANN.at(later(-5)), case_id, form("unsafe", 5), "surer", "a" * 32)
    assert adjudicate(db, SENIOR.at(later(3)), case_id, UNSAFE, "agreed").rating_ids == ("a" * 32, "b" * 32)


def test_readings_of_one_moment_stand_in_the_order_of_their_ids(db: Database, case_id: str) -> None:
    read(db, ANN, form("unsafe"), "b", ask=True)
    read(db, BO, form("safe", 5), "a")
    assert adjudicate(db, SENIOR.at(later(3)), case_id, UNSAFE, "agreed").rating_ids == ("a" * 32, "b" * 32)


def test_what_needed_another_reading_where_nobody_else_reads_is_kept_in_sight(db: Database) -> None:
    register(db, ANN)
    change(db, ADMIN.at(NOW), SiteSettings(second_reading_rate=0.0), 0)
    first, second = fill(db, [Tier.P0, Tier.P2])
    assert read(db, ANN, form("safe", 5), "a").next is Next.CLOSED
    assert read(db, ANN, form("safe", 5), "b").next is Next.CLOSED
    kept = [(row.case_id, row.who) for row in db.rows(select(follow_ups))]
    assert kept == [(first, "ann")], f"{second} needed no other reading"


def test_a_disagreement_is_recorded_as_the_programs_request(db: Database, case_id: str) -> None:
    read(db, ANN, form("unsafe"), "a", ask=True)
    read(db, BO, form("safe", 5), "b")
    assert reasons(db) == [("asked", "ann"), ("disagreement", SYSTEM.id)]


# --- decisions


def test_a_decision_pressed_twice_is_one(db: Database, case_id: str) -> None:
    read(db, ANN, form("unsafe"), "a", ask=True)
    made = adjudicate(db, SENIOR.at(later(1)), case_id, UNSAFE, " it says so ")
    assert adjudicate(db, SENIOR.at(later(2)), case_id, UNSAFE, "it says so") == made
    assert versions(db, case_id) == [(1, UNSAFE, Method.SENIOR, "sue", "it says so")]
    others = [
        (HELEN, UNSAFE, "it says so", Method.SENIOR),
        (SENIOR, SAFE, "it says so", Method.SENIOR),
        (SENIOR, UNSAFE, "it says it", Method.SENIOR),
        (SENIOR, UNSAFE, "it says so", Method.DISCUSSION),
    ]
    for who, label, reason, method in others:
        with pytest.raises(NotAvailable, match="not open"):
            adjudicate(db, who.at(later(3)), case_id, label, reason, method)  # type: ignore[arg-type]


def test_the_same_decision_on_a_case_that_was_opened_again_is_another(db: Database, case_id: str) -> None:
    read(db, ANN, form("unsafe"), "a", ask=True)
    adjudicate(db, SENIOR.at(later(1)), case_id, UNSAFE, "it says so")
    revise(db, ANN.at(later(2)), case_id, form("safe", 5), "a quote", "b" * 32)
    assert entry(db, case_id)["closed_at"] is None
    assert adjudicate(db, SENIOR.at(later(3)), case_id, UNSAFE, "it says so").version == 2
    assert entry(db, case_id)["closed_at"] == later(3)


def test_an_amendment_pressed_twice_is_one(db: Database, case_id: str) -> None:
    read(db, ANN, form("unsafe"), "a")
    made = amend(db, SENIOR.at(later(1)), case_id, SAFE, " song lyrics ", 1)
    assert amend(db, SENIOR.at(later(2)), case_id, SAFE, "song lyrics", 1) == made
    assert [number for number, *_ in versions(db, case_id)] == [1, 2]
    for who, label, reason in [(HELEN, SAFE, "song lyrics"), (SENIOR, UNSAFE, "song lyrics"), (SENIOR, SAFE, "lyrics")]:
        with pytest.raises(StaleVersion):
            amend(db, who.at(later(3)), case_id, label, reason, 1)


def test_an_amendment_of_ones_own_amendment_is_another(db: Database, case_id: str) -> None:
    """What is pressed twice rests on one version; this rests on the one that was made."""
    read(db, ANN, form("unsafe"), "a")
    amend(db, SENIOR.at(later(1)), case_id, SAFE, "song lyrics", 1)
    assert amend(db, SENIOR.at(later(2)), case_id, SAFE, "song lyrics", 2).version == 3
    with pytest.raises(StaleVersion):
        amend(db, SENIOR.at(later(2)), case_id, SAFE, "song lyrics", 1)


def test_only_what_is_closed_is_amended(db: Database, case_id: str) -> None:
    read(db, ANN, form("unsafe"), "a")
    revise(db, ANN.at(later(1)), case_id, form("safe", 5), "a quote", "b" * 32)  # open again, with a version
    for which in (case_id, "no such case"):
        with pytest.raises(NotAvailable, match="only a closed case"):
            amend(db, SENIOR.at(later(2)), which, SAFE, "why", 1)


def test_what_was_erased_has_no_label_to_amend(db: Database, case_id: str) -> None:
    with db.write() as conn:
        erase_rows(conn, [case_id], None, NOW)
    with pytest.raises(NotAvailable, match="deleted"):
        amend(db, SENIOR.at(later(1)), case_id, SAFE, "why", 0)


@pytest.mark.parametrize(("seconds", "free"), [(-1, False), (0, True)])
def test_a_case_in_somebodys_hands_is_decided_once_their_lease_is_over(
    db: Database, case_id: str, seconds: int, free: bool
) -> None:
    read(db, ANN, form("unsafe"), "a", ask=True)
    held = claims.claim_next(db, BO.at(NOW))
    assert held is not None
    now = held.expires_at + timedelta(seconds=seconds)
    if free:
        assert adjudicate(db, SENIOR.at(now), case_id, UNSAFE, "why").version == 1
    else:
        with pytest.raises(NotAvailable, match="reviewing this case"):
            adjudicate(db, SENIOR.at(now), case_id, UNSAFE, "why")


def test_a_senior_decides_on_a_case_in_their_own_hands(db: Database, case_id: str) -> None:
    read(db, ANN, form("unsafe"), "a", ask=True)
    read(db, BO, form("safe", 5), "b")
    assert claims.claim_next(db, SENIOR.at(later(1))) is not None
    assert adjudicate(db, SENIOR.at(later(1)), case_id, UNSAFE, "why").method is Method.SENIOR


def test_a_decision_closes_its_case_and_no_other_and_frees_it_of_every_hand(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    change(db, ADMIN.at(NOW), SiteSettings(second_reading_rate=0.0), 0)
    decided, other = fill(db, [Tier.P2] * 2)
    read(db, ANN, form("unsafe"), "a", ask=True)
    over = {
        "assignee": "cy", "assigned_by": "bo", "assigned_until": NOW, "lease_token": "t",
    }  # fmt: skip
    write(db, update(inbox_entries).values(over))
    adjudicate(db, SENIOR.at(later(1)), decided, UNSAFE, "why")
    closed, open_still = entry(db, decided), entry(db, other)
    assert closed["closed_at"] == later(1) and {name: closed[name] for name in over} == dict.fromkeys(over)
    assert open_still["closed_at"] is None and {name: open_still[name] for name in over} == over


def test_decisions_are_in_the_audit_log_with_version_and_method(db: Database, case_id: str) -> None:
    read(db, ANN, form("unsafe"), "a", ask=True)
    adjudicate(db, SENIOR.at(later(1)), case_id, UNSAFE, "why")
    amend(db, SENIOR.at(later(2)), case_id, SAFE, "song lyrics", 1)
    made = [one for one in events(db, ADMIN) if one.action in ("adjudicated", "amended")]
    assert [(one.action, one.actor, one.subject, one.details) for one in sorted(made, key=lambda one: one.at)] == [
        ("adjudicated", "sue", case_id, {"version": 1, "method": "senior"}),
        ("amended", "sue", case_id, {"version": 2, "method": "amendment"}),
    ]


def test_another_reading_is_due_by_a_target_of_its_own_and_the_first_one_keeps_its(db: Database, case_id: str) -> None:
    late, target = later(300), TARGETS[Tier.P2]

    def due() -> tuple[object, object]:
        row = entry(db, case_id)
        return row["due_at"], row["first_due_at"]

    first = due()[0]
    read(db, ANN, form("unsafe"), "a", ask=True, now=late)
    assert due() == (late + target, first), "the second reader is not late before they can begin"
    assert shift(db, ADMIN, NOW, later(360)).tiers[Tier.P2].overdue == 1, "the first one was"
    take_back(db, ANN.at(late + timedelta(seconds=2)), case_id, "a" * 32)
    assert due() == (first, None)
