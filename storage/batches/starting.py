"""A case's start as one transaction: what its job needs to know, and that it was begun; and how it is given back."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select

from screening.engine.screen import NodeRun
from storage.batches.configurations import Configurations
from storage.batches.pending import end_starts, keep_error, unended_starts
from storage.batches.runs import runs_of
from storage.batches.screenings import CaseForScreening, case_of, case_row
from storage.database import Database
from storage.schema import case_errors, case_starts, pending_cases
from storage.site.settings_store import current_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A begun case. ``starts`` counts those that have not ended, this one included; ``runs`` are committed already.

    ``stopped`` says that the site's stop button is pressed.
    """

    case: CaseForScreening
    starts: int
    runs: tuple[NodeRun, ...]
    stopped: bool


class Suspect(Exception):
    """Workers died over this case: it was not begun, and may be only with ``alone``."""


def start_case(
    db: Database,
    known: Configurations,
    case_id: str,
    worker: str,
    now: datetime,
    *,
    suspect_after: int | None = None,
) -> Started | None:
    """Begin a case; None, and nothing noted, where it has its outcome.

    Raises UnknownCase, and Suspect instead of beginning a case that has ``suspect_after`` unended starts or more.
    """
    with db.write() as conn:
        row = case_row(conn, case_id)
        if row.outcome is not None:
            return None
        earlier = unended_starts(conn, case_id)
        if suspect_after is not None and earlier >= suspect_after:
            raise Suspect(case_id)
        conn.execute(insert(case_starts), {"case_id": case_id, "worker": worker, "at": now})
        runs, stopped = runs_of(conn, case_id), current_in(conn).settings.stopped
    case = case_of(row, known.get(db, row.configuration))
    return Started(case=case, starts=earlier + 1, runs=runs, stopped=stopped)


def give_back(db: Database, case: CaseForScreening, now: datetime, *, calls: int) -> None:
    """Note that the attempt ended in an orderly way without an outcome: capped, cancelled, shut down.

    ``calls`` were paid for draws of a node that did not end: they are lost, and count towards the batch's caps.
    """
    with db.write() as conn:
        if calls:
            why = _known_failure(conn, case.case_id) or "withdrawn"
            keep_error(conn, case.case_id, why, "broken off in the middle of a node", calls, now)
        end_starts(conn, case.case_id, now)


def _known_failure(conn: Connection, case_id: str) -> str | None:
    """Why the case waits for a retry request already, so that this stays its last error; None where it does not."""
    parked = (pending_cases.c.case_id == case_id, pending_cases.c.ready_at.is_(None))
    last = select(case_errors.c.kind).join(pending_cases, pending_cases.c.case_id == case_errors.c.case_id)
    return conn.execute(last.where(*parked).order_by(case_errors.c.id.desc()).limit(1)).scalar()
