"""The one place where a case enters the inbox, whatever brings it there."""

from datetime import datetime

from sqlalchemy import Connection

from screening.review.tiers import Placement, due_at
from storage.database import insert_once
from storage.schema import inbox_entries
from storage.site.settings_store import current_in


def enter(conn: Connection, case_id: str, placement: Placement, now: datetime, cause: str | None = None) -> bool:
    """Open the case's entry, in the caller's transaction; False, and nothing is changed, where it has one.

    ``cause`` is why it could not be screened, where that is what brings it here.
    """
    row = {
        "case_id": case_id,
        "tier": int(placement.tier),
        "why": placement.why.value,
        "cause": cause,
        "entered_at": now,
        "due_at": due_at(placement.tier, now, current_in(conn).settings.targets),
    }
    return insert_once(conn, inbox_entries, row)
