"""The next text in the browser before it is asked for: a reservation of a minute at most, and never a lease.

Only what can wait is sent ahead (P2, P3), and only while nothing is due before it; a P0 or P1 case is claimed when it
is asked for. The audit log has every text that was sent, and whether it was opened (`claims.claim_next`) or not.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, select, update

from screening.review.actors import Acting
from screening.review.policy import Action, require
from screening.review.triage import Tier
from storage.audit_log import append
from storage.database import Database
from storage.review.claims import by_urgency, next_free, note_ahead, take_back, why_of
from storage.review.evidence import TEXT_COLUMNS, CaseText, text_of
from storage.schema import cases, inbox_entries

AHEAD = timedelta(seconds=60)
"""How long a case stays with whom it was sent to before they ask for it."""
MAY_WAIT = (Tier.P2, Tier.P3)
_entry = inbox_entries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAhead:
    """A text that may be shown until ``until`` the moment its reader asks for the next one."""

    text: CaseText
    tier: Tier
    why: str
    entered_at: datetime
    due_at: datetime
    until: datetime


def send_ahead(
    db: Database, by: Acting, tiers: Collection[Tier] | None = None, keep: timedelta = AHEAD
) -> SentAhead | None:
    """The text that "the next one" would give now, kept free for this person for ``keep``.

    None where nothing is free or the case due next is P0 or P1. What was sent to them before is given up.
    Raises Forbidden.
    """
    require(by.actor, Action.CLAIM_NEXT)
    require(by.actor, Action.VIEW_TEXT, by.id)
    with db.write() as conn:
        before = take_back(conn, by)
        sent = _reserve(conn, by, tiers, by.now + min(keep, AHEAD))
        again = None if sent is None or before.get(sent.text.case_id) != by.id else sent.text.case_id
        note_ahead(conn, by, {case_id: to for case_id, to in before.items() if case_id != again})
        if sent is not None and again is None:
            append(conn, by, "sent_ahead", sent.text.case_id, {"tier": int(sent.tier)})
    return sent


def _reserve(conn: Connection, by: Acting, tiers: Collection[Tier] | None, until: datetime) -> SentAhead | None:
    due_first = next(iter(by_urgency(conn, by, tiers)), ())
    row = conn.execute(
        update(inbox_entries)
        .where(
            _entry.case_id == next_free(by.actor, by.now, due_first), _entry.tier.in_([int(tier) for tier in MAY_WAIT])
        )
        .values(ahead_for=by.id, ahead_until=until)
        .returning(*inbox_entries.c)
    ).first()
    return None if row is None else _reservation(conn, row)


def _reservation(conn: Connection, entry: Any) -> SentAhead:
    row = conn.execute(select(*TEXT_COLUMNS).where(cases.c.id == entry.case_id)).one()
    return SentAhead(
        text=text_of(entry.case_id, row),
        tier=Tier(entry.tier),
        why=why_of(entry),
        entered_at=entry.entered_at,
        due_at=entry.due_at,
        until=entry.ahead_until,
    )


def discard_ahead(db: Database, by: Acting) -> int:
    """Give up what was sent ahead and not opened, as leaving the inbox does; how many of theirs that was.
    Raises Forbidden.
    """
    require(by.actor, Action.CLAIM_NEXT)
    with db.write() as conn:
        back = take_back(conn, by)
        note_ahead(conn, by, back)
    return sum(to == by.id for to in back.values())
