"""A senior gives several open cases to a colleague at once: reserved for them, like one that is handed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update

from screening.review.actors import Acting
from screening.review.policy import Action, require
from screening.review.triage import Tier
from storage.audit_log import append
from storage.database import Database
from storage.review.inbox import RESERVATION, RESERVATIONS, is_senior, obstacle
from storage.schema import inbox_entries

MOST = 200
"""Cases given at once."""
_entry = inbox_entries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """Which cases are reserved now, and why each of the others is not, in words."""

    given: tuple[str, ...]
    refused: Mapping[str, str]


def assign(db: Database, by: Acting, case_ids: Sequence[str], to: str) -> Assigned:
    """Reserve these cases for ``to``, an account's id, each as it stands now: one taken meanwhile is left alone.

    Raises Forbidden, NotAvailable where that person cannot read cases, ValueError for none or too many.
    """
    require(by.actor, Action.ASSIGN)
    chosen = sorted(set(case_ids))
    if not 1 <= len(chosen) <= MOST:
        raise ValueError(f"choose 1 to {MOST} cases")
    given, refused = [], {}
    with db.write() as conn:
        senior = is_senior(conn, by.actor, to)
        for case_id in chosen:  # in one order, so that two who do this at once wait in line and not for each other
            entry = conn.execute(select(inbox_entries).where(_entry.case_id == case_id).with_for_update()).first()
            reason = obstacle(conn, entry, to, by.now, senior=senior)
            if reason:
                refused[case_id] = reason
            else:
                _give(conn, by, entry, to)
                given.append(case_id)
    return Assigned(given=tuple(given), refused=refused)


def _give(conn: Connection, by: Acting, entry: Any, to: str) -> None:
    until = by.now + RESERVATIONS.get(Tier(entry.tier), RESERVATION)
    values = {"held_by": by.id, "handed_to": to, "reserved_until": until}
    conn.execute(update(inbox_entries).where(_entry.case_id == entry.case_id).values(values))
    append(conn, by, "assigned", entry.case_id, {"to": to, "until": until.isoformat()})
