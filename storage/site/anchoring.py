"""When the end of the audit log is to be written to its second place."""

from datetime import datetime, timedelta

from sqlalchemy import select

from storage.audit_log import Anchor, anchor_in
from storage.database import Database, insert_once
from storage.schema import audit_anchors


def due_anchor(db: Database, now: datetime, events: int, every: timedelta) -> Anchor | None:
    """The log's end, where ``events`` more were written since the last anchor, or some and ``every`` has passed."""
    with db.read() as conn:
        end = anchor_in(conn)
        last = conn.execute(select(audit_anchors).order_by(audit_anchors.c.events.desc()).limit(1)).first()
    if last is None:
        return end if end.count else None
    more = end.count - last.events
    return end if more >= events or (more > 0 and now - last.at >= every) else None


def record_anchor(db: Database, made: Anchor, now: datetime) -> None:
    """Record that this anchor was written to its second place."""
    with db.write() as conn:
        insert_once(conn, audit_anchors, {"events": made.count, "last_hash": made.last_hash, "at": now})
