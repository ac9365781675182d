"""Texts that programs hand in: each once under its key, and what a program is told of them, which is nothing of what
people still have to review blinded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Select, exists, func, insert, or_, select, update

from screening.datasets.rows import NewCase
from screening.labels import Outcome
from screening.models.retries import pause_after
from storage.audit_log import append
from storage.batches.batch_state import TAKES_ROWS, UnknownBatch, is_cancelled
from storage.batches.intake import add_case
from storage.database import Database, record
from storage.schema import adjudications, batches, cases, pending_cases, program_texts, programs, screenings
from storage.schema.site import hash_of_key
from storage.site.accounts import Program, require_in_force
from storage.visibility import accepted_label, is_in_review, was_erased

LOOK_AGAIN = timedelta(seconds=20)
LONGEST_WAIT = timedelta(hours=6)
_text = program_texts.c


class KeyUsed(Exception):
    """This key came with another text before: nothing was stored."""


class UnknownText(LookupError):
    """This program handed in no such text."""


class State(StrEnum):
    """How far a text is. Whoever is told IN_REVIEW is told nothing of what the agents made of it."""

    PENDING = "pending"
    FAILED = "failed"  # waits until somebody has it tried again
    IN_REVIEW = "in_review"
    SETTLED = "settled"
    ABANDONED = "abandoned"  # its batch was cancelled, or it was erased, before anybody settled it


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A settled or abandoned case that a program is to be told of, and where. ``version`` counts the labels that people
    accepted for it, and ``look_at`` is when it is due again unless it was told by then.
    """

    case_id: str
    state: State
    webhook: str
    secret: str
    tries: int
    version: int
    look_at: datetime

    @property
    def message_id(self) -> str:
        """The same over all tries, and another one for another state or label."""
        if self.state is State.ABANDONED:
            return f"{self.case_id}.{self.state}"
        return f"{self.case_id}.{self.version}" if self.version else self.case_id


def hand_in(
    db: Database, program: Program, key: str, content_sha256: str, batch_id: str, case: NewCase, now: datetime
) -> tuple[str, bool]:
    """The case's id, and whether it is new: the same key with the same content is the same case. The token is in force
    when it commits, or nothing is stored. Raises UnknownToken, KeyUsed, UnknownBatch, IntakeClosed.
    """
    with db.write() as conn:
        require_in_force(conn, program)
        its = _text.program_id == program.id, _text.key.in_((key, hash_of_key(key)))
        if (known := conn.execute(select(program_texts).where(*its)).first()) is not None:
            if known.content_sha256 != content_sha256:
                raise KeyUsed(key)
            return str(known.case_id), False
        case_id = add_case(conn, batch_id, case, now)
        row = {"case_id": case_id, "program_id": program.id, "key": key, "content_sha256": content_sha256}
        tell_at = now if program.webhook else None
        conn.execute(insert(program_texts).values(**row, tell_at=tell_at))
    return case_id, True


def hand_out(db: Database, program: Program, case_id: str, now: datetime, *, outcome: bool) -> Mapping[str, Any]:
    """One of its texts; with ``outcome`` its label too, which is in the audit log. Raises UnknownText, UnknownToken."""
    with db.write() as conn:
        require_in_force(conn, program)
        row = conn.execute(_texts(program).where(cases.c.id == case_id)).first()
        if row is None:
            raise UnknownText(case_id)
        found = _program_text(row, outcome=outcome)
        if outcome and found["state"] is State.SETTLED:
            append(conn, program.actor.at(now), "outcome_fetched", case_id, {})
    return found


def list_texts(db: Database, program: Program, after: str = "", limit: int = 100) -> Sequence[Mapping[str, Any]]:
    """Its texts in the order in which they came, those after one of them, without labels."""
    query = _texts(program).where(_text.case_id > after).order_by(_text.case_id).limit(limit)
    return [_program_text(row, outcome=False) for row in db.rows(query)]


def _texts(program: Program) -> Select[Any]:
    return (
        select(cases.c.id, cases.c.external_id, cases.c.created_at, *_STATE)
        .select_from(program_texts)
        .join(cases, cases.c.id == _text.case_id)
        .outerjoin(screenings, screenings.c.case_id == cases.c.id)
        .where(_text.program_id == program.id)
    )


def _program_text(row: Any, *, outcome: bool) -> Mapping[str, Any]:
    """How far a text is, as `api.schemas.Found` says it. ``label`` is given once it is settled: what people accepted,
    else what the agents ended with; None where people closed it without a label. ``decided_by`` are people or agents.
    """
    state = _state(row)
    label = decided_by = None
    if outcome and state is State.SETTLED:
        decided_by = "agents" if row.accepted is None and row.outcome != Outcome.HUMAN_REVIEW.value else "people"
        label = row.outcome if decided_by == "agents" else row.accepted
    known = {"id": row.id, "external_id": row.external_id, "submitted_at": row.created_at}
    return known | {"state": state, "label": label, "decided_by": decided_by}


_STATE = (
    screenings.c.outcome,
    is_in_review(cases.c.id).label("waiting"),
    accepted_label(cases.c.id).label("accepted"),
    exists().where(pending_cases.c.case_id == cases.c.id, pending_cases.c.ready_at.is_(None)).label("failed"),
    or_(was_erased(cases.c.id), is_cancelled(cases.c.batch_id)).label("abandoned"),
)
"""What a text's state follows from."""


def _state(row: Any) -> State:
    if row.waiting:
        return State.IN_REVIEW
    if row.outcome is not None or row.accepted is not None:
        return State.SETTLED
    if row.abandoned:
        return State.ABANDONED
    return State.FAILED if row.failed else State.PENDING


def open_batches(db: Database, program: Program, begun_before: datetime) -> tuple[str, ...]:
    """Its batches of texts of before that moment that still take some in."""
    held = exists().where(_text.case_id == cases.c.id, cases.c.batch_id == batches.c.id)
    its = batches.c.created_by == program.actor.id, batches.c.created_at < begun_before
    return tuple(db.values(select(batches.c.id).where(*its, held, TAKES_ROWS)))


def batch_of(db: Database, program: Program, batch_id: str) -> Any:
    """Of a batch that this program began: what becomes of its unsafe texts (``reach``), and its ``intake``. Raises
    UnknownBatch for any other.
    """
    query = select(batches.c.reach, batches.c.intake).where(batches.c.id == batch_id)
    if not (found := db.rows(query.where(batches.c.created_by == program.actor.id))):
        raise UnknownBatch(batch_id)
    return found[0]


def take_due(db: Database, now: datetime, most: int = 100) -> tuple[Told, ...]:
    """Settled and abandoned cases whose programs are to be told now. The others are looked at again a little later."""
    look_at = now + LOOK_AGAIN
    labels = select(func.max(adjudications.c.version)).where(adjudications.c.case_id == _text.case_id)
    query = (
        select(_text.case_id, _text.tries, programs.c.webhook, programs.c.webhook_secret.label("secret"), *_STATE)
        .add_columns(func.coalesce(labels.scalar_subquery(), 0).label("version"))
        .select_from(program_texts)
        .join(programs, programs.c.id == _text.program_id)
        .join(cases, cases.c.id == _text.case_id)
        .outerjoin(screenings, screenings.c.case_id == _text.case_id)
        .where(_text.tell_at <= now, programs.c.webhook.is_not(None), programs.c.revoked_at.is_(None))
        .order_by(_text.tell_at)
        .limit(most)
        .with_for_update(of=program_texts, skip_locked=True)
    )
    with db.write() as conn:
        due = conn.execute(query).all()
        again = [row.case_id for row in due]
        conn.execute(update(program_texts).where(_text.case_id.in_(again)).values(tell_at=look_at))
    news = (record(Told, row, state=_state(row), look_at=look_at) for row in due)
    return tuple(each for each in news if each.state in (State.SETTLED, State.ABANDONED))


def tell_again(conn: Connection, case_id: str, now: datetime) -> None:
    """Have the program told of the label that people accept now, in their transaction, even if it was told before."""
    listens = exists().where(programs.c.id == _text.program_id, programs.c.webhook.is_not(None))
    its = update(program_texts).where(_text.case_id == case_id, listens)
    conn.execute(its.values(tell_at=now, tries=0))


def record_told(db: Database, told_of: Told, now: datetime, *, told: bool) -> None:
    """The program was told of this case, or could not be: then it is tried again after twice as long as the last time,
    six hours at most. Nothing is noted where there is something new to tell by now.
    """
    wait = timedelta(seconds=pause_after(told_of.tries, LOOK_AGAIN.total_seconds(), LONGEST_WAIT.total_seconds()))
    due = update(program_texts).where(_text.case_id == told_of.case_id, _text.tell_at == told_of.look_at)
    with db.write() as conn:
        conn.execute(due.values(tell_at=None) if told else due.values(tell_at=now + wait, tries=told_of.tries + 1))
