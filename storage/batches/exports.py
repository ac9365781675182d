"""Exports of a batch: each file is written to the audit log, with who asked for it, before its first row is read."""

from collections.abc import Iterator

from screening.datasets.rows import RejectedRow
from screening.review.actors import SYSTEM, Acting
from screening.review.policy import Action, require
from storage.audit_log import append
from storage.batches.intake import read_rejected
from storage.batches.results import Result, results
from storage.database import Database


def export_results(
    db: Database, by: Acting, batch_id: str, *, after: int = 0, again: bool = False, hide: bool | None = None
) -> Iterator[Result]:
    """`results` to take away; ``again`` for more of a file that is in the log. Raises Forbidden at once."""
    if by.actor != SYSTEM:
        require(by.actor, Action.VIEW_RESULTS)
    if not again:
        _log(db, by, batch_id, "results")
    return results(db, by, batch_id, after=after, hide=hide)


def export_rejected(db: Database, by: Acting, batch_id: str) -> Iterator[RejectedRow]:
    """`rejected` to take away: these rows hold the texts as they came. Raises Forbidden at once."""
    require(by.actor, Action.VIEW_RESULTS)
    _log(db, by, batch_id, "rejected")
    return read_rejected(db, by.actor, batch_id)


def _log(db: Database, by: Acting, batch_id: str, kind: str) -> None:
    with db.write() as conn:
        append(conn, by, "exported", batch_id, {"kind": kind})
