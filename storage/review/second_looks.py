"""A researcher sends decided cases to the inbox for a second look: blind, and mixed so that nothing gives them away."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select, update

from screening.review.actors import Acting
from screening.review.policy import Action, require
from screening.review.triage import audit_placement
from storage.audit_log import append
from storage.batches.entries import enter
from storage.database import Database
from storage.erased import was_erased
from storage.schema import cases, inbox_entries, screenings
from storage.settings_store import current_in
from storage.visibility import unblind

MOST = 500
"""Cases that one request may send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondLooks:
    """What became of a request: entries opened now, cases with an entry before, cases without an outcome as yet, and
    cases that are left out because they were erased.
    """

    opened: int
    there_before: int
    undecided: int
    erased: int = 0


def request_second_looks(
    db: Database,
    by: Acting,
    case_ids: Sequence[str],
    *,
    shown: Collection[str] = (),
    chances: Mapping[str, float] | None = None,
) -> SecondLooks:
    """Open an inbox entry for each of these cases that has an outcome and none yet; returns how many these are.

    Tier and reason are an audit sample's, so a reader cannot tell who sent the case or why. A reading asked for in this
    way enters no audit estimate: whoever picks the cases would pick the answer. ``chances`` are the probabilities of
    those that were drawn at random; the others were picked, and stand for none but themselves. Of ``shown`` cases the
    actor has seen the engine's view: a reading of their own of these is not blind. Raises Forbidden, ValueError for too
    many cases.
    """
    require(by.actor, Action.REQUEST_REVIEW)
    if len(case_ids) > MOST:
        raise ValueError(f"at most {MOST} cases at a time")
    with db.write() as conn:
        named = select(cases.c.id).where(cases.c.id.in_(case_ids))
        gone = set(conn.execute(named.where(was_erased(cases.c.id))).scalars())
        opened, share = list[str](), current_in(conn).settings.audit_urgent_share
        settled = named.join(screenings, screenings.c.case_id == cases.c.id).where(~was_erased(cases.c.id))
        rows = conn.execute(settled.add_columns(cases.c.flags).order_by(cases.c.id)).all()  # nor does the order show it
        for row in rows:
            place = audit_placement(row.id, share, row.flags["text"] + row.flags["reply"])
            entered = enter(conn, row.id, place, by.now)
            opened += [row.id] if entered else []
            chance = (chances or {}).get(row.id, 0.0)
            if entered or not chance:
                of_case = update(inbox_entries).where(inbox_entries.c.case_id == row.id)
                conn.execute(of_case.values(chance=chance))
        unblind(conn, by.id, sorted(shown), by.now)
        append(
            conn,
            by,
            "second_look_requested",
            None,
            {"asked": len(case_ids), "opened": len(opened)},
            rows={inbox_entries: opened},
        )
    undecided = len(set(case_ids).difference((row.id for row in rows), gone))
    return SecondLooks(opened=len(opened), there_before=len(rows) - len(opened), undecided=undecided, erased=len(gone))
