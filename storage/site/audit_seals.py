"""Outcomes, readings and adjudications under the audit log: every so often it is told what was added to them.

A seal is an event with a span of time, the number of rows of that span, and a keyed digest of what they say. A row
that is changed, removed or slipped in afterwards no longer fits its seal. Words that people wrote are left out, so
that an erased note breaks none.
"""

import hmac
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Column, Connection, Table, select

from screening.review.actors import SYSTEM
from storage.audit_key import AuditKey, site_key
from storage.audit_log import append, canonical
from storage.database import Database
from storage.schema import adjudications, audit_events, ratings, screenings

SEALED = "sealed"
SETTLED_AFTER = timedelta(minutes=2)
"""Younger rows wait for the next seal: a transaction begun before them may still add one, and a reading may be taken
back."""
_CODED = ("subject", "ideation", "intent", "plan", "means", "behaviour", "timeframe", "reason_codes", "disposition")
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A table under seal: its moment, and what is sealed of a row."""

    table: Table
    moment: Column[Any]
    columns: tuple[str, ...]


_KINDS = {
    kind.table.name: kind
    for kind in (
        _Kind(
            table=screenings,
            moment=screenings.c.completed_at,
            columns=("case_id", "batch_id", "configuration", "outcome", "node", "reason", "calls", "completed_at"),
        ),
        _Kind(
            table=ratings,
            moment=ratings.c.at,
            columns=(
                "id", "case_id", "reviewer", "version", "blind", "reading", "label", "certainty", "fields", "at",
            ),
        ),
        _Kind(
            table=adjudications,
            moment=adjudications.c.at,
            columns=("case_id", "version", "label", "method", "by", "rating_ids", "at"),
        ),
    )
}  # fmt: skip


def seal(db: Database, now: datetime) -> int:
    """Seal what was added since the last seals; the number of new seals. Nothing is written where nothing came."""
    until = now - SETTLED_AFTER
    with db.read() as conn:
        new = [name for name, kind in _KINDS.items() if _any(conn, kind, _last_seal(conn, name), until)]
    if not new:
        return 0
    with db.write() as conn:
        for name in new:
            begin = _last_seal(conn, name)
            rows, digest = _digest(conn, _KINDS[name], begin, until, site_key())
            span = {"from": _micros(begin), "until": _micros(until)}
            append(conn, SYSTEM.at(now), SEALED, name, {**span, "rows": rows, "digest": digest})
    return len(new)


def broken_seal(conn: Connection, key: AuditKey) -> tuple[int, str] | None:
    """The first seal, by the number of its event, that what it covers no longer fits, and how; None where all fit."""
    reached = dict.fromkeys(_KINDS, 0)
    sealed = audit_events.c.action == SEALED, audit_events.c.key_id == key.id
    for row in conn.execute(select(audit_events).where(*sealed).order_by(audit_events.c.seq)).all():
        kind, said = _KINDS.get(row.subject), json.loads(row.details)
        if kind is None:
            continue
        if said["from"] != reached[row.subject]:
            return row.seq, f"seals of {row.subject} leave a gap"
        reached[row.subject] = said["until"]
        rows, digest = _digest(conn, kind, _moment(said["from"]), _moment(said["until"]), key)
        if (rows, digest) != (said["rows"], said["digest"]):
            how = "were changed" if rows == said["rows"] else f"are {rows:,} instead of {said['rows']:,}"
            return row.seq, f"rows of {row.subject} {how} after they were sealed"
    return None


def _last_seal(conn: Connection, name: str) -> datetime:
    last = (
        select(audit_events.c.details)
        .where(audit_events.c.action == SEALED, audit_events.c.subject == name)
        .order_by(audit_events.c.seq.desc())
        .limit(1)
    )
    details = conn.execute(last).scalar()
    return _EPOCH if details is None else _moment(json.loads(details)["until"])


def _any(conn: Connection, kind: _Kind, begin: datetime, until: datetime) -> bool:
    within = kind.moment >= begin, kind.moment < until
    return conn.execute(select(kind.moment).where(*within).limit(1)).first() is not None


def _digest(conn: Connection, kind: _Kind, begin: datetime, until: datetime, key: AuditKey) -> tuple[int, str]:
    made, rows = hmac.new(key.secret, digestmod="sha256"), 0
    columns = [kind.table.c[name] for name in kind.columns]
    order = (kind.moment, *kind.table.primary_key.columns)
    query = select(*columns).where(kind.moment >= begin, kind.moment < until).order_by(*order)
    with conn.execute(query.execution_options(yield_per=1_000)) as found:
        for row in found:
            line = canonical([_plain(name, value) for name, value in zip(kind.columns, row, strict=True)])
            made.update(line.encode() + b"\n")
            rows += 1
    return rows, made.hexdigest()


def _plain(name: str, value: Any) -> Any:
    if name == "fields":
        return {coded: value.get(coded) for coded in _CODED}
    return _micros(value) if isinstance(value, datetime) else value


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
