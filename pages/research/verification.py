"""What the audit of a configuration says, for every page that tells of it: computed again where anything that it
follows from is another.
"""

from datetime import date
from typing import TypedDict

from pages.research.claims import Verified, verify_now
from pages.ui import context
from pages.ui.compute import READING, compute, compute_meanwhile
from screening.review.actors import Actor
from storage.research.standing import Standing, configuration_now, count_readings
from storage.settings_store import audit_plan


def verification(person: Actor, version: str) -> Verified:
    """Whoever asks waits for it."""
    return compute(verify_now, person, version, audit_plan(context.database()), today(), **_now(version))


def verification_meanwhile(person: Actor, version: str) -> Verified | None:
    """None while it is computed beside the server. Raises NotComputed."""
    return compute_meanwhile(verify_now, person, version, audit_plan(context.database()), today(), **_now(version))


def today() -> date:
    """The day of today, UTC."""
    return context.now().date()


class _Now(TypedDict):
    standing: Standing
    cases: int


def _now(version: str) -> _Now:
    """What it follows from beside its arguments, and how much there is to compute."""
    db = context.database()
    return {"standing": configuration_now(db, version), "cases": READING * count_readings(db)}
