"""Who is at the desk: whose last session ends, or who signs out, gives back every case they hold or have set aside."""

from collections.abc import Collection
from datetime import datetime

from screening.review.actors import Acting, Actor, Role
from storage.database import Database
from storage.review.inbox import READINGS, release_all, release_set_aside
from storage.site import accounts
from storage.site.accounts import Account, SessionEnded, SignIn

READERS = frozenset({Role.REVIEWER, Role.SENIOR})
THIRD = frozenset({"third"})
"""The readings that are a senior's."""


def enter(
    db: Database, sign_in: SignIn, now: datetime, first_admins: Collection[str] = (), *, active: bool = True
) -> Actor:
    """As `accounts.enter`; a session that turns out to have ended gives back its person's cases, unless they are signed
    in elsewhere: an old page that is opened or awakes takes nothing from the desk they sit at. Raises SessionEnded.
    """
    try:
        return accounts.enter(db, sign_in, now, first_admins, active=active)
    except SessionEnded as over:
        _give_back(db, over.gone, now, "session ended")
        raise


def sign_out(db: Database, sign_in: SignIn, now: datetime) -> None:
    """End this sign-in's session and give back what the person holds."""
    _give_back(db, accounts.sign_out(db, sign_in, now), now, "signed out")


def set_roles(db: Database, by: Acting, account_id: str, roles: frozenset[Role]) -> Account:
    """As `accounts.set_roles`; who reads no cases any more gives back theirs, and who is no senior any more the third
    readings, with those that a colleague gave them. Raises KeyError, LastAdmin.
    """
    changed = accounts.set_roles(db, by, account_id, roles)
    if not roles & READERS:
        _free_all(db, changed.actor.at(by.now), "reads no cases any more", by_anybody=True)
    elif Role.SENIOR not in roles:
        _free_all(db, changed.actor.at(by.now), "is no senior any more", THIRD, by_anybody=True)
    return changed


def set_active(db: Database, by: Acting, account_id: str, active: bool) -> Account:
    """As `accounts.set_active`; who is switched off gives back what they hold and what was kept for them. Raises
    KeyError, LastAdmin.
    """
    changed = accounts.set_active(db, by, account_id, active)
    if not active:
        _free_all(db, changed.actor.at(by.now), "switched off", by_anybody=True)
    return changed


def revoke(db: Database, by: Acting, account_id: str) -> int:
    """As `accounts.revoke`; who is signed in nowhere then gives back what they hold and have set aside, also where no
    page of theirs is open to notice it.
    """
    ended = accounts.revoke(db, by, account_id)
    _free_all(db, Actor(id=account_id, name=account_id, roles=frozenset()).at(by.now), "session ended")
    return ended


def _give_back(db: Database, actor: Actor | None, now: datetime, note: str) -> None:
    if actor is not None and actor.roles & READERS:
        _free_all(db, actor.at(now), note)


def _free_all(
    db: Database, by: Acting, note: str, readings: Collection[str] = READINGS, *, by_anybody: bool = False
) -> None:
    release_all(db, by, note, readings)
    release_set_aside(db, by, readings, by_anybody=by_anybody)
