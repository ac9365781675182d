"""Audit probabilities by what speaks against a ``safe``, as versions: one holds for the batches begun under it."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select

from screening.review.actors import Acting
from screening.review.policy import Action, require
from screening.statistics.verification import Allocation
from storage.audit_log import append
from storage.database import Database
from storage.schema import audit_allocations

_VERSION = audit_allocations.c.version


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationVersion:
    """An allocation with its number, and since when batches have begun under it."""

    version: int
    allocation: Allocation
    at: datetime


def allocation_in_force(conn: Connection) -> int | None:
    """The version that a batch begun now is bound to; None while there is none."""
    return conn.execute(select(_VERSION).order_by(_VERSION.desc()).limit(1)).scalar()


def current_allocation(db: Database) -> AllocationVersion | None:
    """The allocation in force; None while every case is audited with its batch's π."""
    with db.read() as conn:
        row = conn.execute(select(audit_allocations).order_by(_VERSION.desc()).limit(1)).first()
    if row is None:
        return None
    return AllocationVersion(version=row.version, allocation=Allocation(probabilities=row.probabilities), at=row.at)


def allocate(db: Database, by: Acting, allocation: Allocation) -> int:
    """Put an allocation in force for batches that begin from now on; its version. Raises Forbidden.

    Batches that have begun keep theirs: what a case is audited with was fixed before it came in.
    """
    require(by.actor, Action.CHANGE_SETTINGS)
    row = {"probabilities": dict(allocation.probabilities), "by": by.id, "at": by.now}
    with db.write() as conn:
        version = int(conn.execute(insert(audit_allocations).values(row).returning(_VERSION)).scalar_one())
        said = [f"{doubt} {probability:g}" for doubt, probability in allocation.probabilities.items()]
        append(conn, by, "audit_allocated", f"audit_allocations/{version}", {"probabilities": said})
    return version
