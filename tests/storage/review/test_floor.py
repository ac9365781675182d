"""What a text states outright sets the least urgent place it may have, by whatever way it comes into the queue."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import select

from screening.datasets.rows import NewCase
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.review.triage import Tier
from screening.text.received import receive
from storage.batches.batches import NewBatch
from storage.batches.configurations import save_configuration
from storage.batches.single_texts import submit
from storage.batches.unscreened import bring_in
from storage.database import Database
from storage.review.worklist import request_second_looks
from storage.schema import cases, inbox_entries
from storage.settings_store import SiteSettings, change
from tests.storage.batch_of import CONFIGURATION, NOW, batch, decide, waiting
from tests.storage.inbox_cases import ADMIN, ANN, BO, SENIOR, form, read, register

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
    **dict.fromkeys(IMMINENT, (Tier.P0,)),
    **dict.fromkeys(STATED, (Tier.P0, Tier.P1)),
    **dict.fromkeys(PLAIN, (Tier.P1, Tier.P2, Tier.P3)),
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
    assert bring_in(db, NOW + timedelta(minutes=16)) == len(DUE)


def sent_to_review(db: Database, **options: bool) -> None:
    _decided(db, Outcome.UNSAFE, **options)
    request_second_looks(db, SENIOR.at(NOW), db.values(select(cases.c.id)))


def reviewed_by_two_who_disagree(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    escalated(db)
    for number in range(len(DUE)):
        read(db, ANN, form("unsafe", disposition="contact_now"), chr(0x100 + number), ask=True)
        read(db, BO, form("safe", disposition="none"), chr(0x200 + number))
    assert set(db.values(select(inbox_entries.c.reading))) == {"third"}


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
    placed = select(cases.c.text, inbox_entries.c.tier).join(inbox_entries, inbox_entries.c.case_id == cases.c.id)
    found = {row.text: Tier(row.tier) for row in db.rows(placed)}
    assert {text for text in DUE if found.get(text) not in DUE[text]} == set()


@pytest.mark.parametrize("way", WAYS[:5], ids=lambda way: way.__name__)
def test_a_set_without_living_authors_stands_in_random_order_whatever_its_texts_say(
    db: Database, way: Callable[..., None]
) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(audit_urgent_share=1.0), 0)
    way(db, research_order=True)
    query = select(cases.c.text, inbox_entries.c.tier, inbox_entries.c.why, inbox_entries.c.due_at)
    found = db.rows(query.join(inbox_entries).order_by(inbox_entries.c.due_at, cases.c.row))
    assert {row.tier for row in found} == {Tier.P3} and len({row.why for row in found}) == 1
    assert len({row.due_at for row in found}) == len(DUE) and [row.text for row in found] != list(DUE)
    assert all(timedelta(hours=12) <= row.due_at - NOW <= timedelta(hours=25) for row in found)
