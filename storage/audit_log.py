"""The append-only record of who did what, chained by keyed hashes so that no change goes unnoticed.

Each event's hash covers its own fields and the hash before it, under a key that is not in the database: an edit, a
deletion or a reordering breaks the chain, and who can write the database cannot mend it. Cutting off the end leaves a
chain that is whole, so an `Anchor` (count and last hash) is kept outside. `audit_check` looks at all of it.
Details are identifiers and numbers, never the text of a message.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Select, Table, func, insert, select, text

from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from storage.audit_key import AuditKey, canonical, micros, site_key
from storage.audit_rows import Inserted, Rows, digest_of_inserted, digests
from storage.database import Database
from storage.schema import accounts, audit_events

Detail = str | int | float | bool | None | list[str]
GENESIS = "0" * 64
LONGEST_DETAIL = 120
ROWS = "rows"
"""Under this name an event's details have the digests of rows."""
_LOCK = 5_326_021_148
"""PostgreSQL's advisory lock of this log: an arbitrary number of its own."""
_LAST = select(audit_events.c.seq, audit_events.c.hash).order_by(audit_events.c.seq.desc()).limit(1)
_INSERT = insert(audit_events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of the log."""

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
        """One line of an anchor file, signed with the log's key."""
        body = asdict(self)
        return canonical(body | {"mac": site_key().mac(canonical(body).encode())})

    @classmethod
    def from_json(cls, line: str) -> "Anchor":
        """What `as_json` wrote; a `ForeignAnchor` where it is not signed by the key that is here. ValueError for
        anything else.
        """
        try:
            body = json.loads(line)
            made = Anchor(count=int(body["count"]), last_hash=str(body["last_hash"]))
        except (KeyError, TypeError, ValueError) as wrong:
            raise ValueError("not an anchor") from wrong
        if body.get("mac") == site_key().mac(canonical(asdict(made)).encode()):
            return made
        return ForeignAnchor(count=made.count, last_hash=made.last_hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignAnchor(Anchor):
    """One that the key which is here did not sign: of an earlier key of the site, or made up. It may show that the log
    was changed, and proves nothing.
    """


def serialise(conn: Connection) -> None:
    """Let one transaction at a time go on from here to its commit; SQLite's writers do so from the start."""
    if conn.dialect.name == "postgresql":
        conn.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def append(
    conn: Connection,
    by: Acting,
    action: str,
    subject: str | None,
    details: Mapping[str, Detail],
    *tables: Table,
    rows: Rows | None = None,
    inserted: Mapping[Table, Inserted] | None = None,
) -> int:
    """Add one event inside the caller's transaction and return its number. It has digests, which the check of the log
    compares, of the rows that decide something and that the transaction made or changed: those of the subject in
    ``tables``, or ``rows`` of several subjects; of the subject's rows that it ``inserted`` whole, without reading them.

    Call it last in the transaction: on PostgreSQL the log's lock is held from here to the commit. SQLite's
    writers are already one at a time (BEGIN IMMEDIATE). ValueError for a detail long enough to be a message.
    """
    key = site_key()
    named = {table: (subject,) for table in tables if subject} | dict(rows or {})
    vouched = digests(conn, named, key)
    for table, its in (inserted or {}).items():
        vouched[table.name] = {str(subject): digest_of_inserted(table, str(subject), its, key)}
    body = canonical(_check(details) | ({ROWS: vouched} if vouched else {}))
    serialise(conn)
    last = conn.execute(_LAST).first()
    seq, previous = (1, GENESIS) if last is None else (last.seq + 1, last.hash)
    row: dict[str, Any] = {
        "seq": seq,
        "at": by.now,
        "actor": by.id,
        "action": action,
        "subject": subject,
        "details": body,
    }
    bound = {"previous_hash": previous, "hash": chain_hash(previous, key, **row), "key_id": key.id}
    conn.execute(_INSERT, {**row, **bound})
    return int(seq)


def record_refusal(db: Database, by: Acting, refused: StrEnum, subject: str | None = None) -> None:
    """Write down that this person or program asked for what is not granted to them, an action or a scope; ``subject``
    is the case, where it was of one.
    """
    with db.write() as conn:
        append(conn, by, "refused", subject, {"asked": refused.value})


def anchor(db: Database) -> Anchor:
    """The chain's present length and end. Empty log: 0 and the hash everything starts from."""
    with db.read() as conn:
        return anchor_in(conn)


def anchor_in(conn: Connection) -> Anchor:
    """As `anchor`, inside the caller's transaction."""
    last = conn.execute(_LAST).first()
    return Anchor(count=0, last_hash=GENESIS) if last is None else Anchor(count=last.seq, last_hash=last.hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """A filter on events by subject, person and action; None does not filter."""

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
    query = _narrow(select(audit_events), which or Which(subject=subject))
    rows = db.rows(query.order_by(audit_events.c.seq.desc()).limit(limit).offset(offset))
    return tuple(_event(row) for row in rows)


def count_events(db: Database, actor: Actor, which: Which) -> int:
    """How many events match the filter."""
    require(actor, Action.VIEW_AUDIT)
    return int(db.value(_narrow(select(func.count()).select_from(audit_events), which)))


def kinds(db: Database, actor: Actor) -> tuple[str, ...]:
    """The actions that occur in the log, in order."""
    require(actor, Action.VIEW_AUDIT)
    return tuple(db.values(select(audit_events.c.action).distinct().order_by(audit_events.c.action)))


def names(db: Database, actor: Actor) -> Mapping[str, str]:
    """Display names of the people in the log, by account."""
    require(actor, Action.VIEW_AUDIT)
    return {row.id: row.display_name for row in db.rows(select(accounts.c.id, accounts.c.display_name))}


def _narrow(query: Select[Any], which: Which) -> Select[Any]:
    wanted = {"subject": which.subject, "actor": which.who, "action": which.action}
    return query.where(*(audit_events.c[name] == value for name, value in wanted.items() if value is not None))


def _event(row: Any) -> Event:
    fields = {name: getattr(row, name) for name in ("seq", "at", "actor", "action", "subject")}
    details = {name: value for name, value in json.loads(row.details).items() if name != ROWS}
    return Event(**fields, details=details)


def _check(details: Mapping[str, Detail]) -> dict[str, Detail]:
    for name, value in details.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, str) and len(part) > LONGEST_DETAIL:
                raise ValueError(f"audit detail {name} is too long: the log takes identifiers, not text")
    return dict(details)


def chain_hash(previous: str, key: AuditKey, *, at: datetime, **fields: Any) -> str:
    """The keyed hash that binds an event to the one before it."""
    return key.mac(canonical({**fields, "at": micros(at), "previous": previous, "key": key.id}).encode())
