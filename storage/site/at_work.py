"""Who works at this moment, and what is down: for whoever signs in."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from storage.database import Database
from storage.schema import Moment, node_runs
from storage.site.faults import Lasting, open_faults_in
from storage.site.heartbeats import Silence, live_workers, workers_silence_in

_LAST = select(func.max(node_runs.c.ended_at, type_=Moment))


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork:
    """Workers that count as alive, whether none of them answers any more, the faults that last, and when an agent last
    ended its work on a text; None where that never was.
    """

    workers: int
    silence: Silence | None
    faults: tuple[Lasting, ...]
    finished: datetime | None


def at_work(db: Database, now: datetime) -> AtWork:
    """As it is now."""
    with db.read() as conn:
        return AtWork(
            workers=live_workers(conn, now),
            silence=workers_silence_in(conn, now),
            faults=open_faults_in(conn),
            finished=conn.execute(_LAST).scalar(),
        )
