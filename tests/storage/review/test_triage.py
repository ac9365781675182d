"""How urgent a case is, that an audit sample cannot be told from the cases around it, and that what a text states
outright sets the least urgent place it may have, by whatever way it comes into the queue.
"""

import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.pipeline.engine import NodeRun, Reason, Screening
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.review.triage import TARGETS, Priority, audit_placement, due_at, priority_for, unscreened_placement
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
from tests.storage.inbox_cases import form, read, register, rows
from tests.storage.people import ADMIN, ANN, BO, SENIOR

P0, P1, P2, P3 = Priority


def _left(*runs: NodeRun, reason: Reason = Reason.EXHAUSTED) -> Screening:
    return screening(Outcome.HUMAN_REVIEW, *runs, reason=reason)


TABLES = tomllib.loads((Path(__file__).parent / "triage.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("agents", "reason", "stated", "priority", "why"), TABLES["rules"])
def test_the_first_rule_that_fits_decides(agents: str, reason: str, stated: str, priority: int, why: str) -> None:
    asked = [each.split() for each in agents.split(", ") if each]
    runs = [run(draws, Label(label[0]) if label else None, node) for node, draws, *label in asked]
    ended = _left(*runs, reason=Reason(reason)) if reason else screening(Outcome.UNSAFE, *runs, node=asked[-1][0])
    found = priority_for(ended, stated.split())
    assert (found.priority, why or found.why) == (priority, found.why)


def test_every_reason_has_a_priority_and_a_case_called_safe_has_none_of_its_own() -> None:
    assert {priority_for(_left(reason=reason), []).priority for reason in Reason} <= set(Priority)
    with pytest.raises(ValueError, match="no priority of its own"):
        priority_for(screening(Outcome.SAFE, run("SSSSSS")), [])


def test_audit_samples_look_like_other_cases_of_their_priorities() -> None:
    called = priority_for(screening(Outcome.UNSAFE, run("UUUUUU", Label.UNSAFE)), [])
    alike = [called, priority_for(_left(run("SSUSES", None)), []), priority_for(_left(run("SSESES", None)), [])]
    for flags, places in (([], set(alike)), (["stated_risk"], {called})):
        drawn = [audit_placement(f"{number:032x}", 0.1, flags) for number in range(2_000)]
        assert set(drawn) == places
        assert flags or 150 < drawn.count(called) < 250  # 200 expected, +- 3.7 deviations of 13.4
    imminent = priority_for(_left(run("SSESES", None)), ["stated_imminent"])
    assert {audit_placement(f"{number:032x}", 0.1, ["stated_imminent"]) for number in range(99)} == {imminent}


def test_what_is_not_screened_is_as_urgent_as_its_text_and_each_priority_has_its_target() -> None:
    found = [unscreened_placement(flags).priority for flags in ([], ["no_words"], ["stated_risk"], ["stated_imminent"])]
    assert found == [P2, P2, P1, P0]
    assert [(due_at(priority, NOW) - NOW).total_seconds() / 60 for priority in Priority] == [5, 15, 240, 1440]
    assert list(TARGETS) == list(Priority)


DUE = {
    text: [Priority[name] for name in each["places"]] for each in TABLES["stated"].values() for text in each["texts"]
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


def sent_to_review(db: Database, **options: bool) -> None:
    _decided(db, Outcome.UNSAFE, **options)
    request_second_looks(db, SENIOR.at(NOW), db.values(select(cases.c.id)))


def reviewed_by_two_who_disagree(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    escalated(db)
    for number in range(len(DUE)):
        read(db, ANN, form("unsafe", disposition="contact_now"), chr(0x100 + number), ask=True)
        read(db, BO, form("safe"), chr(0x200 + number))
    assert {row.review_round for row in rows(db, inbox_entries)} == {"third"}


def handed_in_one_by_one(db: Database) -> None:
    version = save_configuration(db, CONFIGURATION, NOW)
    for number, text in enumerate(DUE):
        new = NewBatch(name="one", configuration_version=version, seed=1, kind="interactive", submission=str(number))
        submit(db, LOCAL_USER.at(NOW), NewCase(row=1, external_id="text", text=receive(text)), new)
    for case_id in waiting(db):
        decide(db, case_id, Outcome.HUMAN_REVIEW)


SETS = (escalated, unsafe, quality_check, unscreened, sent_to_review)
PLACED = select(cases.c.text, inbox_entries).join(inbox_entries).order_by(inbox_entries.c.due_at, cases.c.row)


@pytest.mark.parametrize(
    "way", [*SETS, reviewed_by_two_who_disagree, handed_in_one_by_one], ids=lambda way: way.__name__
)
def test_every_way_into_the_queue_keeps_to_the_floor_of_the_text(db: Database, way: Callable[[Database], None]) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(audit_urgent_share=0.0), 0)  # the coin alone would say P2 or P3
    way(db)
    found = {row.text: row.priority for row in db.rows(PLACED)}
    assert {text for text in DUE if found.get(text) not in DUE[text]} == set()


@pytest.mark.parametrize("way", SETS, ids=lambda way: way.__name__)
def test_a_set_without_living_authors_stands_in_random_order_whatever_its_texts_say(
    db: Database, way: Callable[..., None]
) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(audit_urgent_share=1.0), 0)
    way(db, research_order=True)
    found = db.rows(PLACED)
    assert {row.priority for row in found} == {P3} and len({row.why for row in found}) == 1
    assert len({row.due_at for row in found}) == len(DUE) and [row.text for row in found] != list(DUE)
    assert all(timedelta(hours=12) <= row.due_at - NOW <= timedelta(hours=25) for row in found)
