"""The append-only record of who did what, chained by hashes so that no change goes unnoticed.

Each event's hash covers its own fields and the hash before it: an edit, a deletion or a reordering breaks the
chain. Cutting off the end leaves a chain that is whole, so an `Anchor` (count and last hash) is kept outside.
Details are identifiers and numbers, never the text of a message.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, func, insert, select, text

from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.database import Database
from storage.schema import accounts, audit_events

Detail = str | int | float | bool | None | list[str]
GENESIS = "0" * 64
LONGEST_DETAIL = 120
_LOCK = 5_326_021_148
"""PostgreSQL's advisory lock of this log: an arbitrary number of its own."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the log."""

    seq: int
    at: datetime
    actor: str
    action: str
    subject: str | None
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """How long the chain was and how it ended: kept where whoever can write the database cannot."""

    count: int
    last_hash: str

    def as_json(self) -> str:
        """One line, the content of an anchor file."""
        return _canonical({"count": self.count, "last_hash": self.last_hash})

    @classmethod
    def from_json(cls, line: str) -> "Anchor":
        """What `as_json` wrote; ValueError for anything else."""
        try:
            body = json.loads(line)
            return cls(count=int(body["count"]), last_hash=str(body["last_hash"]))
        except (KeyError, TypeError, ValueError) as wrong:
            raise ValueError("not an anchor") from wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a check of the whole chain found. ``problem`` is None when nothing is wrong; otherwise the first
    event that does not fit is ``seq``.
    """

    events: int
    last_hash: str
    problem: str | None = None
    seq: int | None = None

    @property
    def ok(self) -> bool:
        """No change was found."""
        return self.problem is None


def serialise(conn: Connection) -> None:
    """Let one transaction at a time go on from here to its commit; SQLite's writers do so from the start."""
    if conn.dialect.name == "postgresql":
        conn.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def append(
    conn: Connection,
    actor: Actor,
    action: str,
    subject: str | None,
    details: Mapping[str, Detail],
    now: datetime,
) -> int:
    """Add one event inside the caller's transaction and return its number.

    Call it last in the transaction: on PostgreSQL the log's lock is held from here to the commit. SQLite's
    writers are already one at a time (BEGIN IMMEDIATE). ValueError for a detail long enough to be a message.
    """
    body = _canonical(_checked(details))
    serialise(conn)
    last = conn.execute(
        select(audit_events.c.seq, audit_events.c.hash).order_by(audit_events.c.seq.desc()).limit(1)
    ).first()
    seq, previous = (1, GENESIS) if last is None else (last.seq + 1, last.hash)
    row: dict[str, Any] = {
        "seq": seq,
        "at": now,
        "actor": actor.id,
        "action": action,
        "subject": subject,
        "details": body,
    }
    conn.execute(insert(audit_events).values(**row, previous_hash=previous, hash=_hash(previous, **row)))
    return int(seq)


def record_refusal(db: Database, actor: Actor, refused: Action, now: datetime) -> None:
    """Write down that this person asked for what the policy does not grant them."""
    with db.write() as conn:
        append(conn, actor, "refused", None, {"asked": refused.value}, now)


def anchor(db: Database) -> Anchor:
    """The chain's present length and end. Empty log: 0 and the hash everything starts from."""
    with db.read() as conn:
        return anchor_in(conn)


def anchor_in(conn: Connection) -> Anchor:
    """The same, of the moment that a transaction sees."""
    last = conn.execute(
        select(audit_events.c.seq, audit_events.c.hash).order_by(audit_events.c.seq.desc()).limit(1)
    ).first()
    return Anchor(count=0, last_hash=GENESIS) if last is None else Anchor(count=last.seq, last_hash=last.hash)


def verify(db: Database, anchor: Anchor | None = None) -> Verification:
    """Recompute the chain from its first event; with an anchor, also that the chain still contains it."""
    expected, previous, anchored = 1, GENESIS, anchor is None or anchor == Anchor(count=0, last_hash=GENESIS)
    whole = select(audit_events).order_by(audit_events.c.seq).execution_options(yield_per=1_000)
    with db.read() as conn, conn.execute(whole) as rows:
        for row in rows:
            problem = _problem(row, expected, previous)
            if anchor is not None and row.seq == anchor.count:
                anchored = row.hash == anchor.last_hash
                problem = problem or (None if anchored else "the anchor names another hash for this event")
            if problem is not None:
                return Verification(events=expected - 1, last_hash=previous, problem=problem, seq=row.seq)
            expected, previous = expected + 1, row.hash
    problem = None if anchored else "the log ends before the anchor: events were cut off"
    seq = None if anchored else expected
    return Verification(events=expected - 1, last_hash=previous, problem=problem, seq=seq)


def _problem(row: Any, expected: int, previous: str) -> str | None:
    if row.seq != expected:
        return f"event {expected} is missing"
    if row.previous_hash != previous:
        return "does not follow the event before it"
    fields = {name: getattr(row, name) for name in ("seq", "at", "actor", "action", "subject", "details")}
    return None if row.hash == _hash(previous, **fields) else "was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which events: those of one subject, of one person, of one action; None asks for nothing."""

    subject: str | None = None
    who: str | None = None
    action: str | None = None


def events(
    db: Database,
    actor: Actor,
    *,
    subject: str | None = None,
    which: Which | None = None,
    limit: int = 100,
    offset: int = 0,
) -> tuple[Event, ...]:
    """The newest events first, of one subject, of ``which`` or of all."""
    require(actor, Action.VIEW_AUDIT)
    query = _chosen(select(audit_events), which or Which(subject=subject))
    with db.read() as conn:
        rows = conn.execute(query.order_by(audit_events.c.seq.desc()).limit(limit).offset(offset)).all()
    return tuple(_event(row) for row in rows)


def count_events(db: Database, actor: Actor, which: Which) -> int:
    """How many there are."""
    require(actor, Action.VIEW_AUDIT)
    with db.read() as conn:
        return int(conn.execute(_chosen(select(func.count()).select_from(audit_events), which)).scalar_one())


def kinds(db: Database, actor: Actor) -> tuple[str, ...]:
    """The actions that occur in the log, in order."""
    require(actor, Action.VIEW_AUDIT)
    with db.read() as conn:
        return tuple(conn.execute(select(audit_events.c.action).distinct().order_by(audit_events.c.action)).scalars())


def names(db: Database, actor: Actor) -> Mapping[str, str]:
    """What the people of the log are called, by account."""
    require(actor, Action.VIEW_AUDIT)
    with db.read() as conn:
        return {row.id: row.display_name for row in conn.execute(select(accounts.c.id, accounts.c.display_name))}


def _chosen(query: Select[Any], which: Which) -> Select[Any]:
    wanted = {"subject": which.subject, "actor": which.who, "action": which.action}
    return query.where(*(audit_events.c[name] == value for name, value in wanted.items() if value is not None))


def _event(row: Any) -> Event:
    fields = {name: getattr(row, name) for name in ("seq", "at", "actor", "action", "subject")}
    return Event(**fields, details=json.loads(row.details))


def _checked(details: Mapping[str, Detail]) -> dict[str, Detail]:
    for name, value in details.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, str) and len(part) > LONGEST_DETAIL:
                raise ValueError(f"audit detail {name} is too long: the log takes identifiers, not text")
    return dict(details)


def _hash(previous: str, *, at: datetime, **fields: Any) -> str:
    moment = (at - _EPOCH) // timedelta(microseconds=1)
    return hashlib.sha256(_canonical({**fields, "at": moment, "previous": previous}).encode()).hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
