"""One text that a person submits and watches: handed in, looked at by whoever handed it in, stopped by them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, select

from screening.datasets.rows import NewCase
from screening.labels import Outcome
from screening.pipeline.config import PipelineConfig
from screening.pipeline.draws import read_distribution
from screening.pipeline.engine import Reason
from screening.review.policy import Acting, Action, Actor, Forbidden
from screening.text.conversation import Thread, thread_of
from storage.batches import batches, intake
from storage.batches.batch_state import BatchState, standing
from storage.batches.configurations import Configuration, load_configuration
from storage.batches.intake import IntakeClosed
from storage.batches.pending import record_error, waiting_single_texts
from storage.batches.screenings import committed_runs
from storage.database import Database, record, upsert
from storage.schema import batches as batches_table
from storage.schema import case_errors, cases, live_runs, pending_cases, screenings
from storage.schema.columns import shared_now
from storage.visibility import is_in_review


class UnknownText(LookupError):
    """There is no single text of this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleText:
    """A submitted text as it stands. ``draws`` are codes by "node/variant", of draws or of the distribution that was
    read off; ``outcome`` None is pending. ``reply`` is a chatbot's; ``thread`` says where the turns of a conversation
    stand; ``flags`` are by part. ``error`` is the kind of the last failure while it waits for a retry request.
    ``started``: a worker has begun; ``in_inbox``: it waits for a review. ``asked_first`` counts calls that told too
    little of their probabilities, so that answers were drawn. ``heard_at``: when an answer last came, or the watching
    began.
    """

    case_id: str
    batch_id: str
    text: str
    reply: str | None
    flags: Mapping[str, frozenset[str]]
    configuration: Configuration
    state: BatchState
    draws: Mapping[str, str]
    outcome: Outcome | None
    node: str | None
    reason: Reason | None
    cost_usd: float | None
    error: str | None
    started: bool
    in_inbox: bool
    submitted_at: datetime
    completed_at: datetime | None
    thread: Thread | None = None
    asked_first: int = 0
    heard_at: datetime | None = None

    @property
    def pipeline(self) -> PipelineConfig:
        """The configuration's pipeline as it decides this text."""
        return self.configuration.pipeline

    @property
    def calls(self) -> int:
        return self.asked_first + sum(1 if read_distribution(codes) else len(codes) for codes in self.draws.values())

    @property
    def ended(self) -> bool:
        """Whether no further draw will come by itself."""
        return self.outcome is not None or self.error is not None or self.state is BatchState.CANCELLED


def submit(db: Database, by: Acting, batch_id: str, case: NewCase) -> str:
    """Hand in one text or conversation, with a chatbot's reply where there is one, as all of an interactive batch that
    was begun for it; the case's id.
    """
    with suppress(IntakeClosed):  # an earlier press under the same key has done it all
        intake.add_rows(db, batch_id, [case], by.now)
    intake.close_intake(db, by, batch_id)
    return str(db.value(select(cases.c.id).where(cases.c.batch_id == batch_id)))


def look(db: Database, actor: Actor, case_id: str) -> SingleText:
    """As it stands, for the person who submitted it alone: others read it blind in the inbox. Raises UnknownText."""
    with db.read() as conn:
        row = _own_row(conn, actor, case_id)
        runs = committed_runs(conn, case_id)
        parked = row.waiting is not None and row.ready_at is None
        last = select(case_errors.c.kind).where(case_errors.c.case_id == case_id).order_by(case_errors.c.id.desc())
        failed = conn.execute(last.limit(1)).scalar() if parked else None
        state = standing(conn, row.batch_id, count_failed=parked).state
    return record(
        SingleText,
        row,
        case_id=case_id,
        thread=thread_of(row.turns),
        flags={part: frozenset(row.flags[part]) for part in ("text", "reply")},
        configuration=load_configuration(db, row.configuration),
        state=state,
        draws=dict(row.draws or {}) | {f"{run.node}/{run.variant}": run.codes for run in runs},
        outcome=None if row.outcome is None else Outcome(row.outcome),
        reason=None if row.reason is None else Reason(row.reason),
        error=failed,
        started=row.waiting is None or row.worker is not None,
        in_inbox=bool(row.in_inbox),
        submitted_at=row.created_at,
        asked_first=sum(run.calls - len(run.draws) for run in runs if run.draws),
    )


def watch(db: Database, by: Acting, case_id: str) -> None:
    """Record that the submitter is still watching. Raises UnknownText, Forbidden."""
    with db.read() as conn:
        _own_row(conn, by.actor, case_id)
    record_viewer(db, case_id, by.now)


def stop(db: Database, by: Acting, case_id: str) -> None:
    """End the screening of this text for good: it stays pending and undecided. Raises UnknownText, Forbidden."""
    with db.read() as conn:
        row = _own_row(conn, by.actor, case_id)
    batches.cancel(db, by, row.batch_id)
    record_viewer(db, case_id, by.now, watches=False)  # the worker lets go at once of what nobody watches


def _own_row(conn: Connection, actor: Actor, case_id: str) -> Row[Any]:
    row = conn.execute(_OWN, {"wanted": case_id}).first()
    if row is None:
        raise UnknownText(case_id)
    if row.created_by != actor.id:
        raise Forbidden(actor, Action.VIEW_EVIDENCE)
    return row


_OWN = (
    select(
        cases,
        batches_table.c.created_by,
        batches_table.c.configuration,
        pending_cases.c.case_id.label("waiting"),
        pending_cases.c.ready_at,
        live_runs.c.draws,
        live_runs.c.updated_at.label("heard_at"),
        pending_cases.c.worker,
        is_in_review(cases.c.id).label("in_inbox"),
        *(screenings.c[name] for name in ("outcome", "node", "reason", "cost_usd", "completed_at")),
    )
    .join(batches_table, batches_table.c.id == cases.c.batch_id)
    .outerjoin(pending_cases, pending_cases.c.case_id == cases.c.id)
    .outerjoin(screenings, screenings.c.case_id == cases.c.id)
    .outerjoin(live_runs, live_runs.c.case_id == cases.c.id)
    .where(cases.c.id == bindparam("wanted"), batches_table.c.kind == "interactive")
)
"""Written once: every watching page asks it twice a second."""
_NEVER = datetime.fromtimestamp(0, UTC)


def update_live(db: Database, case_id: str, node: str, variant: str, codes: str, now: datetime) -> bool:
    """Show what the node has drawn so far. False, and nothing is shown, when the case was withdrawn: stop drawing."""
    table = live_runs.c
    waits = select(pending_cases.c.ready_at).where(pending_cases.c.case_id == case_id)
    with db.write() as conn:
        if conn.execute(waits).scalar() is None:
            return False
        draws = conn.execute(select(table.draws).where(table.case_id == case_id)).scalar() or {}
        shown = {"node": node, "draws": {**draws, f"{node}/{variant}": codes}, "updated_at": now}
        row = {"case_id": case_id, "viewer_seen_at": shared_now(conn, now), **shown}
        upsert(conn, live_runs, row, *shown)  # who watches and who draws may both be the first
    return True


def record_viewer(db: Database, case_id: str, now: datetime, *, watches: bool = True) -> None:
    """Record that somebody is watching this case, or that nobody is any more: `find_unwatched` has it at once."""
    with db.write() as conn:
        seen = shared_now(conn, now) if watches else _NEVER
        row: dict[str, Any] = {"case_id": case_id, "node": None, "draws": {}, "updated_at": now, "viewer_seen_at": seen}
        upsert(conn, live_runs, row, "viewer_seen_at")


def find_unwatched(db: Database, now: datetime, after: timedelta) -> list[str]:
    """Single texts still to be decided that nobody has watched for longer than ``after``, by `shared_now`."""
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
        record_error(conn, case_id, "unwatched", "nobody watched this text any more", now)
        conn.execute(delete(live_runs).where(live_runs.c.case_id == case_id))
