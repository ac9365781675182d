"""Exports of a batch: each file is written to the audit log, with who asked for it, before its first row is read."""

from collections.abc import Iterator
from datetime import datetime

from screening.datasets.rows import RejectedRow
from screening.review.actors import SYSTEM, Actor
from screening.review.policy import Action, require
from storage.audit_log import append
from storage.batches.intake import read_rejected
from storage.batches.results import Result, results
from storage.database import Database


def export_results(
    db: Database, actor: Actor, batch_id: str, now: datetime, *, after: int = 0, again: bool = False
) -> Iterator[Result]:
    """`results` to take away; ``again`` for more of a file that is in the log. Raises Forbidden at once."""
    if actor != SYSTEM:
        require(actor, Action.VIEW_RESULTS)
    if not again:
        _log(db, actor, batch_id, "results", now)
    return results(db, actor, batch_id, after=after)


def export_rejected(db: Database, actor: Actor, batch_id: str, now: datetime) -> Iterator[RejectedRow]:
    """`rejected` to take away: these rows hold the texts as they came. Raises Forbidden at once."""
    require(actor, Action.VIEW_RESULTS)
    _log(db, actor, batch_id, "rejected", now)
    return read_rejected(db, actor, batch_id)


def _log(db: Database, actor: Actor, batch_id: str, kind: str, now: datetime) -> None:
    with db.write() as conn:
        append(conn, actor, "exported", batch_id, {"kind": kind}, now)
