"""Outcomes, readings and adjudications under the audit log: every so often it is told what was added to them.

A seal is an event with the number of rows that it takes and a keyed digest of what they say; each of these rows names
it. A row that is changed or removed afterwards no longer fits its seal. One slipped in under an old date is older than
the log was when the seal before was made. No clock decides under which seal a row is, so that one that ran ahead and
was set right breaks none: that it was set back, the log itself shows. Seals of earlier versions took the rows of a
span of time. Words that people wrote are left out, so that an erased note breaks no seal.
"""

import hmac
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, Table, or_, select, tuple_, update

from screening.review.actors import SYSTEM
from storage.audit_key import AuditKey, site_key
from storage.audit_log import anchor_in, append, canonical, serialise
from storage.database import Database
from storage.schema import adjudications, audit_events, ratings, screenings

SEALED = "sealed"
SETTLED_AFTER = timedelta(minutes=2)
"""Younger rows wait for the next seal: a reading may be taken back, and a transaction begun before them may add one."""
AT_ONCE = 2_000
"""Rows under one seal: nobody's press waits longer than it takes to read these."""
BY_SPAN = 0
"""What a row names that a seal of an earlier version took."""
_CODED = ("subject", "ideation", "intent", "plan", "means", "behaviour", "timeframe", "reason_codes", "disposition")
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_event = audit_events.c
Where = tuple[ColumnElement[bool], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A table under seal: its moment, and what is sealed of a row."""

    table: Table
    moment: Column[Any]
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """The subject of its seals."""
        return self.table.name

    @property
    def seal(self) -> Column[Any]:
        """The event that a row is sealed by; NULL: none yet."""
        return self.table.c.sealed


_KINDS = {
    kind.name: kind
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
    """Seal what was added since the last seals; the number of new seals. Nothing is written where nothing came, unless
    a clock was set back since the last seal: one without rows then says so.
    """
    with db.read() as conn:
        due = [kind for kind in _KINDS.values() if _is_due(conn, kind, now)]
    return sum(_seal_all(db, kind, now) for kind in due)


def _is_due(conn: Connection, kind: _Kind, now: datetime) -> bool:
    last = conn.execute(_seals(kind).order_by(_event.seq.desc()).limit(1)).first()
    ahead = last is not None and last.at > now + SETTLED_AFTER
    return ahead or _any(conn, kind, _rows_to_seal(kind, now))


def _seal_all(db: Database, kind: _Kind, now: datetime) -> int:
    made, rows = 0, AT_ONCE
    while rows == AT_ONCE:
        with db.write() as conn:
            rows = _seal_some(conn, kind, now)
        made += 1
    return made


def _seal_some(conn: Connection, kind: _Kind, now: datetime) -> int:
    serialise(conn)
    seq, key = anchor_in(conn).count + 1, kind.table.primary_key.columns
    some = select(*key).where(*_rows_to_seal(kind, now)).order_by(kind.moment).limit(AT_ONCE)
    conn.execute(update(kind.table).where(tuple_(*key).in_(some)).values(sealed=seq))
    rows, digest = _digest(conn, kind, (kind.seal == seq,), site_key())
    append(conn, SYSTEM.at(now), SEALED, kind.name, {"rows": rows, "digest": digest, "more": rows == AT_ONCE})
    return rows


def _rows_to_seal(kind: _Kind, now: datetime) -> Where:
    """Rows that wait for a seal; one from the future was written by a clock that ran ahead."""
    return kind.seal.is_(None), or_(kind.moment < now - SETTLED_AFTER, kind.moment > now + SETTLED_AFTER)


def _seals(kind: _Kind) -> Select[Any]:
    return select(audit_events).where(_event.action == SEALED, _event.subject == kind.name)


def broken_seal(conn: Connection, key: AuditKey) -> tuple[int, str] | None:
    """The first seal, by the number of its event, that its rows no longer fit, and how; None where all fit."""
    walks = [_Walk(conn=conn, kind=kind, key=key) for kind in _KINDS.values()]
    return min((found for walk in walks if (found := walk.problem()) is not None), default=None)


@dataclass(slots=True, kw_only=True)
class _Walk:
    """Through the seals of one table, in the order in which they were made."""

    conn: Connection
    kind: _Kind
    key: AuditKey
    last: Any = None
    """The seal before that left none waiting."""
    reached: int = 0
    """Where the last seal over a span of time ended."""

    def problem(self) -> tuple[int, str] | None:
        """The first seal that does not fit, or the last one where rows are left over, and how."""
        for row in self.conn.execute(_seals(self.kind).order_by(_event.seq)).all():
            said = json.loads(row.details)
            if (wrong := self._wrong(row, said)) is not None:
                return row.seq, wrong
            self.last = self.last if said.get("more") else row
        if self.last is not None and (wrong := self._left_over()) is not None:
            return self.last.seq, wrong
        return None

    def _wrong(self, row: Any, said: dict[str, Any]) -> str | None:
        name = self.kind.name
        which: Where = (self.kind.seal == row.seq,)
        if "until" in said:
            if said["from"] != self.reached:
                return f"seals of {name} leave a gap"
            self.reached = said["until"]
            which = self._in_span(said)
        elif self._is_late(which, row.seq):
            return _LATE.format(name)
        rows, digest = _digest(self.conn, self.kind, which, self.key)
        if (rows, digest) == (said["rows"], said["digest"]):
            return None
        how = "were changed" if rows == said["rows"] else f"are {rows:,} instead of {said['rows']:,}"
        return f"rows of {name} {how} after they were sealed"

    def _in_span(self, said: dict[str, Any]) -> Where:
        begin, end = _moment(said["from"]), _moment(said["until"])
        return self.kind.seal == BY_SPAN, self.kind.moment >= begin, self.kind.moment < end

    def _left_over(self) -> str | None:
        """Rows that name a seal that there is none, or that are not sealed yet and too old for that."""
        made = select(_event.seq).where(_event.action == SEALED, _event.subject == self.kind.name)
        no_seal = self.kind.seal > BY_SPAN, self.kind.seal.not_in(made)
        no_span = self.kind.seal == BY_SPAN, self.kind.moment >= _moment(self.reached)
        if _any(self.conn, self.kind, no_seal) or _any(self.conn, self.kind, no_span):
            return f"rows of {self.kind.name} name a seal that was never made"
        return _LATE.format(self.kind.name) if self._is_late((self.kind.seal.is_(None),), None) else None

    def _is_late(self, which: Where, until: int | None) -> bool:
        """Whether one of these rows is older than the log was at the seal before; where the log shows that a clock was
        set back since, that tells nothing.
        """
        if self.last is None:
            return False
        floor = self.last.at - SETTLED_AFTER
        since = _event.seq > self.last.seq, *(() if until is None else (_event.seq <= until,))
        set_back = _event.at < floor, *since
        if self.conn.execute(select(_event.seq).where(*set_back).limit(1)).first() is not None:
            return False
        return _any(self.conn, self.kind, (*which, self.kind.moment < floor))


_LATE = "rows of {} are older than the seal before them: slipped in, or written by a clock that was behind"


def _any(conn: Connection, kind: _Kind, which: Where) -> bool:
    return conn.execute(select(kind.moment).where(*which).limit(1)).first() is not None


def _digest(conn: Connection, kind: _Kind, which: Where, key: AuditKey) -> tuple[int, str]:
    made, rows = hmac.new(key.secret, digestmod="sha256"), 0
    columns = [kind.table.c[name] for name in kind.columns]
    order = (kind.moment, *kind.table.primary_key.columns)
    query = select(*columns).where(*which).order_by(*order)
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
