"""The draws of a running case, for whoever watches it; and what nobody watches any more."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update

from storage.batches.pending import end_starts, keep_error, park, waiting_single_texts
from storage.clock import shared_now
from storage.database import Database, insert_into
from storage.schema import live_runs, pending_cases

_NEVER = datetime.fromtimestamp(0, UTC)


def update_live(db: Database, case_id: str, node: str, variant: str, codes: str, now: datetime) -> bool:
    """Show these draws (as `encode_draws` writes them) as what the node has drawn so far.

    False, and nothing is shown, when the case was withdrawn meanwhile: whoever draws should stop.
    """
    table = live_runs.c
    waits = select(pending_cases.c.ready_at).where(pending_cases.c.case_id == case_id)
    with db.write() as conn:
        if conn.execute(waits).scalar() is None:
            return False
        draws = conn.execute(select(table.draws).where(table.case_id == case_id)).scalar() or {}
        shown = {"node": node, "draws": {**draws, f"{node}/{variant}": codes}, "updated_at": now}
        _insert_or_change(conn, {"case_id": case_id, "viewer_seen_at": shared_now(conn, now), **shown}, shown)
    return True


def record_viewer(db: Database, case_id: str, now: datetime) -> None:
    """Record that somebody is watching this case."""
    with db.write() as conn:
        _note_viewer(conn, case_id, shared_now(conn, now), now)


def record_viewers(db: Database, case_ids: Sequence[str], now: datetime) -> None:
    """Record that somebody still watches each of these cases; nothing of one that they left or that was withdrawn."""
    table = live_runs.c
    with db.write() as conn:
        watched = update(live_runs).where(table.case_id.in_(case_ids), table.viewer_seen_at > _NEVER)
        conn.execute(watched.values(viewer_seen_at=shared_now(conn, now)))


def forget_viewer(db: Database, case_id: str, now: datetime) -> None:
    """Note that nobody watches this case any more: `find_unwatched` has it at once."""
    with db.write() as conn:
        _note_viewer(conn, case_id, _NEVER, now)


def find_unwatched(db: Database, now: datetime, after: timedelta) -> list[str]:
    """Single texts still to be decided that nobody has watched for longer than ``after``.

    Who watches and who asks may be on two machines: on PostgreSQL its clock counts for both, not their ``now``.
    """
    with db.read() as conn:
        if not (texts := waiting_single_texts(conn)):
            return []
        return list(conn.execute(_UNSEEN, {"texts": texts, "since": shared_now(conn, now) - after}).scalars())


_UNSEEN = (
    select(live_runs.c.case_id)
    .join(pending_cases, pending_cases.c.case_id == live_runs.c.case_id)
    .where(
        pending_cases.c.batch_id.in_(bindparam("texts", expanding=True)),
        pending_cases.c.ready_at.is_not(None),
        live_runs.c.viewer_seen_at < bindparam("since"),
    )
)


def withdraw(db: Database, case_id: str, now: datetime) -> None:
    """Stop working on a case that nobody watches: it stays pending with that reason, until a retry request."""
    with db.write() as conn:
        keep_error(conn, case_id, "unwatched", "nobody watched this text any more", 0, now)
        end_starts(conn, case_id, now)
        park(conn, case_id)
        conn.execute(delete(live_runs).where(live_runs.c.case_id == case_id))


def _note_viewer(conn: Connection, case_id: str, at: datetime, now: datetime) -> None:
    row: dict[str, Any] = {"case_id": case_id, "node": None, "draws": {}, "updated_at": now, "viewer_seen_at": at}
    _insert_or_change(conn, row, {"viewer_seen_at": at})


def _insert_or_change(conn: Connection, row: Mapping[str, Any], change: Mapping[str, Any]) -> None:
    """The row where there is none, else the change: who watches and who draws may both be the first."""
    statement = insert_into(conn, live_runs).values(dict(row))
    conn.execute(statement.on_conflict_do_update(index_elements=["case_id"], set_=dict(change)))
