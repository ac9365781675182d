"""What the audit of a configuration says, for every page that tells of it: computed again where anything that it
follows from is another.
"""

from pages.components import resources
from pages.components.computed import READING, compute, compute_meanwhile
from pages.research.claims import Verified, verify_now
from screening.review.actors import Actor
from storage.research.standing import configuration_now, count_readings
from storage.settings_store import audit_plan


def verification(person: Actor, version: str) -> Verified:
    """Whoever asks waits for it."""
    db = resources.database()
    standing, cases = configuration_now(db, version), READING * count_readings(db)
    return compute(verify_now, person, version, audit_plan(db), standing, cases=cases)


def verification_meanwhile(person: Actor, version: str) -> Verified | None:
    """None while it is computed beside the server. Raises NotComputed."""
    db = resources.database()
    standing, cases = configuration_now(db, version), READING * count_readings(db)
    return compute_meanwhile(verify_now, person, version, audit_plan(db), standing, cases=cases)
