"""How urgent a case is, that an audit sample cannot be told from the cases around it, and that what a text states
outright sets the least urgent place it may have, by whatever way it comes into the queue.
"""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import select

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.pipeline.engine import Reason, Screening
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.review.triage import TARGETS, Priority, Why, audit_placement, due_at, priority_for, unscreened_placement
from screening.text.received import receive
from storage.batches.batches import NewBatch
from storage.batches.configurations import save_configuration
from storage.batches.entries import bring_in
from storage.batches.single_texts import submit
from storage.database import Database
from storage.review.worklist import request_second_looks
from storage.schema import cases, inbox_entries
from storage.settings_store import SiteSettings, change
from tests.storage.batch_of import CONFIGURATION, NOW, batch, decide, run, screening, waiting
from tests.storage.inbox_cases import ADMIN, ANN, BO, SENIOR, form, read, register

WORKER = run("EEEEEE", Label.ESCALATE)


def _left(*runs: object, reason: Reason = Reason.EXHAUSTED) -> Screening:
    return screening(Outcome.HUMAN_REVIEW, *runs, reason=reason)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ended", "priority", "why"),
    [
        (_left(WORKER, run("UUUUS", None, node="risk")), Priority.P0, Why.LIKELY_URGENT),
        (_left(WORKER, run("UUSS", None, node="risk")), Priority.P1, Why.PERSON_NEEDED),  # half is not more than half
        (_left(run("UUUUS", None)), Priority.P1, Why.PERSON_NEEDED),  # the first node is no second review
        (
            _left(WORKER, run("EEEEEE", Label.ESCALATE, node="risk"), reason=Reason.ESCALATED),
            Priority.P1,
            Why.PERSON_NEEDED,
        ),
        (_left(run("SSSSSS"), reason=Reason.SECOND_LOOK_DISAGREED), Priority.P1, Why.PERSON_NEEDED),
        (_left(run("SSSSSS"), reason=Reason.SUSPECTED_INJECTION), Priority.P1, Why.ADDRESSES_MODEL),
        (_left(run("SSUSES", None)), Priority.P2, Why.UNSETTLED),
        (_left(run("SSESES", None), reason=Reason.FUTILITY), Priority.P3, Why.UNSETTLED),
        (_left(reason=Reason.UNSUPPORTED_LANGUAGE), Priority.P1, Why.NOT_SCREENABLE),  # nobody has looked at it
        (_left(reason=Reason.TOO_LONG), Priority.P2, Why.NOT_SCREENABLE),
        (_left(reason=Reason.UNREADABLE), Priority.P2, Why.NOT_SCREENABLE),
        (_left(reason=Reason.REPEATED_FAILURE), Priority.P2, Why.FAILED),
        (_left(reason=Reason.STOPPED), Priority.P2, Why.FAILED),
    ],
)
def test_the_first_rule_that_fits_decides(ended: Screening, priority: Priority, why: Why) -> None:
    found = priority_for(ended, [])
    assert (found.priority, found.why) == (priority, why)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_priority(reason: Reason) -> None:
    assert priority_for(_left(reason=reason), []).priority in Priority


def test_a_case_called_safe_has_no_priority_of_its_own() -> None:
    with pytest.raises(ValueError, match="no priority of its own"):
        priority_for(screening(Outcome.SAFE, run("SSSSSS")), [])


@pytest.mark.parametrize(
    ("node", "flags", "priority"),
    [
        ("worker", [], Priority.P1),
        ("risk", [], Priority.P0),  # a second reviewer said so
        ("worker", ["stated_risk"], Priority.P1),
        ("worker", ["stated_risk", "stated_imminent"], Priority.P0),
    ],
)
def test_what_is_called_unsafe_is_urgent(node: str, flags: list[str], priority: Priority) -> None:
    runs = [run("EEEEEE", Label.ESCALATE)] if node == "risk" else []
    ended = screening(Outcome.UNSAFE, *runs, run("UUUUUU", Label.UNSAFE, node), node=node)
    assert priority_for(ended, flags).priority is priority


def test_audit_samples_look_like_other_cases_of_their_priorities() -> None:
    called = priority_for(screening(Outcome.UNSAFE, run("UUUUUU", Label.UNSAFE)), [])
    alike = [called, priority_for(_left(run("SSUSES", None)), []), priority_for(_left(run("SSESES", None)), [])]
    for flags, places in (([], set(alike)), (["stated_risk"], {called})):
        drawn = [audit_placement(f"{number:032x}", 0.1, flags) for number in range(2_000)]
        assert set(drawn) == places
        assert flags or 150 < drawn.count(called) < 250  # 200 expected, +- 3.7 deviations of 13.4
    imminent = priority_for(_left(run("SSESES", None)), ["stated_imminent"])
    assert {audit_placement(f"{number:032x}", 0.1, ["stated_imminent"]) for number in range(99)} == {imminent}


def test_what_is_not_screened_is_as_urgent_as_its_text() -> None:
    found = [unscreened_placement(flags).priority for flags in ([], ["no_words"], ["stated_risk"], ["stated_imminent"])]
    assert found == [Priority.P2, Priority.P2, Priority.P1, Priority.P0]


def test_each_priority_is_due_after_its_target() -> None:
    assert [(due_at(priority, NOW) - NOW).total_seconds() / 60 for priority in Priority] == [5, 15, 240, 1440]
    assert list(TARGETS) == list(Priority)


IMMINENT = (
    "I have decided. I am going to end my life this weekend.",
    "I feel suicidal tonight and I am alone in the house.",
    "I will kill myself tonight.",
    "I want to die and I have the pills ready.",
    "I took all my pills just now.",
    "I am standing on the bridge and about to jump.",
    "The noose is ready.",
    "I have a loaded gun next to me.",
    "By tomorrow I will be dead.",
    "My suicide note is written. Goodbye.",
    "I tried to hang myself last night.",
    "I don't want to live anymore, I will overdose on my pills.",
    "I am going to hang myself when my parents are asleep.",
    "Quiero matarme esta noche",
)
STATED = ("I want to die.", "I have thought about killing myself.")
PLAIN = ("The waiting list is long and the letter never came.",)
DUE = {
    **dict.fromkeys(IMMINENT, (Priority.P0,)),
    **dict.fromkeys(STATED, (Priority.P0, Priority.P1)),
    **dict.fromkeys(PLAIN, (Priority.P1, Priority.P2, Priority.P3)),
}


def _decided(db: Database, outcome: Outcome, **options: object) -> None:
    batch(db, DUE, **options)  # type: ignore[arg-type]
    for case_id in waiting(db):
        decide(db, case_id, outcome)


def escalated(db: Database, **options: bool) -> None:
    _decided(db, Outcome.HUMAN_REVIEW, **options)


def unsafe(db: Database, **options: bool) -> None:
    _decided(db, Outcome.UNSAFE, reach=Reach.READ, **options)


def quality_check(db: Database, **options: bool) -> None:
    _decided(db, Outcome.UNSAFE, audit_rate=1.0, **options)


def unscreened(db: Database, **options: bool) -> None:
    batch(db, DUE, reach=Reach.READ, **options)
    bring_in(db, NOW + timedelta(minutes=16))
    assert len(db.rows(select(inbox_entries))) == len(DUE)


def sent_to_review(db: Database, **options: bool) -> None:
    _decided(db, Outcome.UNSAFE, **options)
    request_second_looks(db, SENIOR.at(NOW), db.values(select(cases.c.id)))


def reviewed_by_two_who_disagree(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    escalated(db)
    for number in range(len(DUE)):
        read(db, ANN, form("unsafe", disposition="contact_now"), chr(0x100 + number), ask=True)
        read(db, BO, form("safe", disposition="none"), chr(0x200 + number))
    assert set(db.values(select(inbox_entries.c.review_round))) == {"third"}


def handed_in_one_by_one(db: Database) -> None:
    version = save_configuration(db, CONFIGURATION, NOW)
    for number, text in enumerate(DUE):
        new = NewBatch(name="one", configuration_version=version, seed=1, kind="interactive", submission=str(number))
        submit(db, LOCAL_USER.at(NOW), NewCase(row=1, external_id="text", text=receive(text)), new)
    for case_id in waiting(db):
        decide(db, case_id, Outcome.HUMAN_REVIEW)


WAYS = (
    escalated,
    unsafe,
    quality_check,
    unscreened,
    sent_to_review,
    reviewed_by_two_who_disagree,
    handed_in_one_by_one,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_way_into_the_queue_keeps_to_the_floor_of_the_text(db: Database, way: Callable[[Database], None]) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(audit_urgent_share=0.0), 0)  # the coin alone would say P2 or P3
    way(db)
    placed = select(cases.c.text, inbox_entries.c.priority).join(inbox_entries, inbox_entries.c.case_id == cases.c.id)
    found = {row.text: Priority(row.priority) for row in db.rows(placed)}
    assert {text for text in DUE if found.get(text) not in DUE[text]} == set()


@pytest.mark.parametrize("way", WAYS[:5], ids=lambda way: way.__name__)
def test_a_set_without_living_authors_stands_in_random_order_whatever_its_texts_say(
    db: Database, way: Callable[..., None]
) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(audit_urgent_share=1.0), 0)
    way(db, research_order=True)
    query = select(cases.c.text, inbox_entries.c.priority, inbox_entries.c.why, inbox_entries.c.due_at)
    found = db.rows(query.join(inbox_entries).order_by(inbox_entries.c.due_at, cases.c.row))
    assert {row.priority for row in found} == {Priority.P3} and len({row.why for row in found}) == 1
    assert len({row.due_at for row in found}) == len(DUE) and [row.text for row in found] != list(DUE)
    assert all(timedelta(hours=12) <= row.due_at - NOW <= timedelta(hours=25) for row in found)
