"""The append-only record of who did what, chained by keyed hashes so that no change goes unnoticed.

Each event's hash covers its own fields and the hash before it, under a key that is not in the database: an edit, a
deletion or a reordering breaks the chain, and who can write the database cannot mend it. Cutting off the end leaves a
chain that is whole, so an `Anchor` is kept outside: without one nothing is proven. Details are identifiers and numbers,
never the text of a message.

Each row that decides something has a digest in the event that made it what it is: one that was changed, removed or
slipped in no longer fits the newest event that names it, or is in none. What erasing empties has new digests in the
event of the erasure. Words that people wrote about a text are left out.
"""

import hashlib
import hmac
import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache, lru_cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, String, Table, bindparam, cast, func, literal, select, text

from screening.review.policy import Acting, Action, Actor, require
from screening.settings import Settings
from screening.words import count_of
from storage.database import Database, Source, reading, record
from storage.schema.engine import node_runs, pipeline_activations, pipeline_versions, screenings
from storage.schema.intake import batches, cases, pending_cases
from storage.schema.review import adjudications, inbox_entries, reviews
from storage.schema.site import accounts, audit_events, notification_recipients, programs, settings_versions

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def canonical(value: Any) -> str:
    """The value as JSON, always written the same way."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


class AuditKey:
    """A key made of a secret that is beside the database, never in it. Its short id gives nothing of it away."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self.id = hashlib.sha256(b"audit key\\0" + self._secret).hexdigest()[:16]

    def mac(self, content: str) -> str:
        return hmac.new(self._secret, content.encode(), hashlib.sha256).hexdigest()


def site_key() -> AuditKey:
    """The key of this site; made on first use where none is set."""
    return _read_key(*(os.environ.get(f"SECOND_LOOK_{name}") for name in ("AUDIT_KEY", "DATA_DIRECTORY")), Path.cwd())


@lru_cache(maxsize=8)
def _read_key(_set: str | None, _directory: str | None, _here: Path) -> AuditKey:
    """Read once for each place that it may come from: events are written far more often than it changes."""
    return AuditKey(Settings().audit_secret)


AT_ONCE = 500
"""Subjects that one question asks for: an IN has a limit."""
_CODED = ("subject", "ideation", "intent", "plan", "means", "behaviour", "timeframe", "reason_codes", "disposition")
"""Of a review's fields: what is chosen, not written."""

DIGESTED: Mapping[Table, Sequence[str]] = {
    cases: (
        *("batch_id", "row", "external_id", "text", "text_original_json", "text_sha256", "model_text"),
        *("reply", "reply_original_json", "reply_sha256", "model_reply", "flags", "reference", "reference_value"),
        *("group_name", "turns", "where_to_act", "audit_probability", "erased_at", "erasure_request"),
    ),
    screenings: (
        *("batch_id", "configuration", "outcome", "node", "reason", "calls", "audit_probability"),
        *("audited", "completed_at"),
    ),
    node_runs: ("position", "node", "variant", "draws", "label", "ended", "calls", "distribution", "ended_at"),
    inbox_entries: ("priority", "review_round", "entered_at", "due_at", "closed_at"),
    reviews: ("id", "reviewer", "version", "blind", "review_round", "label", "certainty", "fields", "at"),
    adjudications: ("version", "label", "method", "by", "review_ids", "at"),
    batches: ("kind", "configuration", "seed", "audit_rate", "reach", "research_order", "created_by"),
    accounts: ("subject", "roles", "active"),
    programs: ("token_sha256", "scopes", "per_minute", "webhook", "created_by", "revoked_at"),
    notification_recipients: ("kind", "target", "step", "events", "quiet_from", "quiet_to", "active"),
    settings_versions: ("body", "by", "at"),
    pipeline_versions: ("version", "body"),
    pipeline_activations: ("by", "at"),
}
"""The tables that decide something, each with the columns that stand in the digest."""


def subject_of(table: Table) -> ColumnElement[str]:
    """What a row of such a table is about."""
    if table is settings_versions:
        return literal("settings/") + cast(table.c.version, String)
    if table in (pipeline_versions, pipeline_activations):
        return table.c.name + "/" + cast(table.c.number, String)
    return table.c.case_id if "case_id" in table.c else table.c.id


@cache
def _digested(table: Table, *, some: bool) -> Select[Any]:
    """The columns of all its rows, or of those of ``subjects``. Written once: screening asks with every outcome."""
    subject, columns = subject_of(table), (table.c[name].label(f"c_{name}") for name in DIGESTED[table])
    query = select(subject.label("of"), *columns).order_by(subject, *table.primary_key.columns)
    return query.where(subject.in_(bindparam("subjects", expanding=True))) if some else query


def _digests(conn: Connection, table: Table, subjects: Collection[str], key: AuditKey) -> dict[str, str]:
    """By subject, in the caller's transaction; an empty digest where there is no row."""
    found = dict.fromkeys(subjects, "")
    asked = list(found)
    for start in range(0, len(asked), AT_ONCE):
        rows = conn.execute(_digested(table, some=True), {"subjects": asked[start : start + AT_ONCE]})
        found.update(_digests_of(table, rows, key))
    return found


def _digests_of(table: Table, rows: Any, key: AuditKey) -> Iterator[tuple[str, str]]:
    """Each subject of rows that come in order, with their digest."""
    for subject, its in groupby(rows, key=lambda row: str(row.of)):
        yield subject, _digest(table, subject, (row[1:] for row in its), key)


def _digest(table: Table, subject: str, rows: Iterable[Iterable[Any]], key: AuditKey) -> str:
    content = canonical([table.name, subject, *([_plain(value) for value in row] for row in rows)])
    return key.mac(content)[:32]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return _micros(value)
    if isinstance(value, dict) and "form_version" in value:
        return {name: value.get(name) for name in _CODED}
    return value


Detail = str | int | float | bool | None | list[str]
GENESIS = "0" * 64
LONGEST_DETAIL = 120
ROWS = "rows"
"""Under this name an event's details have the digests of rows."""
_LOCK = 5_326_021_148
"""PostgreSQL's advisory lock of this log: an arbitrary number of its own."""
_LAST = select(audit_events.c.seq, audit_events.c.hash).order_by(audit_events.c.seq.desc()).limit(1)
_INSERT = audit_events.insert()


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
    """How long the chain was and how it ended: kept where whoever can write the database cannot. One that another key
    signed (not ``ours``: an earlier one of the site, or made up) may show that the log was changed, and proves nothing.
    """

    count: int
    last_hash: str
    ours: bool = True

    def as_json(self) -> str:
        """One line of an anchor file, signed with the log's key."""
        body = {"count": self.count, "last_hash": self.last_hash}
        return canonical(body | {"mac": site_key().mac(canonical(body))})

    @classmethod
    def from_json(cls, line: str) -> "Anchor":
        """What `as_json` wrote. ValueError for anything else."""
        try:
            body = json.loads(line)
            made = cls(count=int(body["count"]), last_hash=str(body["last_hash"]))
        except (KeyError, TypeError, ValueError) as wrong:
            raise ValueError("not an anchor") from wrong
        return replace(made, ours=body.get("mac") == json.loads(made.as_json())["mac"])


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
    rows: Mapping[Table, Collection[str]] | None = None,
    inserted: Mapping[Table, Sequence[Mapping[str, Any]]] | None = None,
) -> int:
    """Add one event inside the caller's transaction and return its number. It has digests of the rows that the
    transaction made or changed: those of the subject in ``tables``, or ``rows`` of several subjects; without reading
    them, where all that a table has of the subject was ``inserted`` just now. ValueError for a detail long enough to be
    a message.

    Call it last in the transaction: on PostgreSQL the log's lock is held from here to the commit.
    """
    key = site_key()
    named = {table: (subject,) for table in tables if subject} | dict(rows or {})
    vouched = {table.name: _digests(conn, table, subjects, key) for table, subjects in named.items()}
    for table, its in (inserted or {}).items():  # as reading them back would give them
        values = ([row[name] for name in DIGESTED[table]] for row in its)
        vouched[table.name] = {str(subject): _digest(table, str(subject), values, key)}
    body = canonical(_check(details) | ({ROWS: vouched} if vouched else {}))
    serialise(conn)
    last = anchor(conn)
    row: dict[str, Any] = {"seq": last.count + 1, "at": by.now, "actor": by.id, "action": action}
    row |= {"subject": subject, "details": body}
    bound = {"previous_hash": last.last_hash, "hash": chain_hash(last.last_hash, key, **row), "key_id": key.id}
    conn.execute(_INSERT, {**row, **bound})
    return last.count + 1


def record_refusal(db: Database, by: Acting, refused: StrEnum, subject: str | None = None) -> None:
    """Write down that somebody asked for what is not granted to them; ``subject`` is the case, where it was of one."""
    with db.write() as conn:
        append(conn, by, "refused", subject, {"asked": refused.value})


def anchor(db: Source) -> Anchor:
    """The chain's present length and end. Empty log: 0 and the hash everything starts from."""
    with reading(db) as conn:
        last = conn.execute(_LAST).first()
    return Anchor(count=0, last_hash=GENESIS) if last is None else Anchor(count=last.seq, last_hash=last.hash)


def events(db: Database, actor: Actor, *, limit: int = 100, offset: int = 0, **which: str | None) -> tuple[Event, ...]:
    """The newest events first; of a ``subject``, of ``who`` did it, of one ``action``, where that is not None."""
    require(actor, Action.VIEW_AUDIT)
    query = _narrow(select(audit_events), which)
    rows = db.rows(query.order_by(audit_events.c.seq.desc()).limit(limit).offset(offset))
    told = ({name: value for name, value in json.loads(row.details).items() if name != ROWS} for row in rows)
    return tuple(record(Event, row, details=details) for row, details in zip(rows, told, strict=True))


def count_events(db: Database, actor: Actor, **which: str | None) -> int:
    require(actor, Action.VIEW_AUDIT)
    return int(db.value(_narrow(select(func.count()).select_from(audit_events), which)))


def kinds(db: Database, actor: Actor) -> tuple[str, ...]:
    require(actor, Action.VIEW_AUDIT)
    return tuple(db.values(select(audit_events.c.action).distinct().order_by(audit_events.c.action)))


def names(db: Database, actor: Actor) -> Mapping[str, str]:
    """Display names of the people in the log, by account."""
    require(actor, Action.VIEW_AUDIT)
    return {row.id: row.display_name for row in db.rows(select(accounts.c.id, accounts.c.display_name))}


def _narrow(query: Select[Any], which: Mapping[str, str | None]) -> Select[Any]:
    columns = {"subject": audit_events.c.subject, "who": audit_events.c.actor, "action": audit_events.c.action}
    return query.where(*(columns[name] == value for name, value in which.items() if value is not None))


def _check(details: Mapping[str, Detail]) -> dict[str, Detail]:
    for name, value in details.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, str) and len(part) > LONGEST_DETAIL:
                raise ValueError(f"audit detail {name} is too long: the log takes identifiers, not text")
    return dict(details)


def chain_hash(previous: str, key: AuditKey, *, at: datetime, **fields: Any) -> str:
    """The keyed hash that binds an event to the one before it."""
    return key.mac(canonical({**fields, "at": _micros(at), "previous": previous, "key": key.id}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a check of the whole log found: the ``problem`` of event ``seq``, None when nothing is wrong; the ``doubt``
    why then nothing is proven all the same; and up to which event the log fits its anchors.
    """

    events: int
    last_hash: str
    problem: str | None = None
    seq: int | None = None
    doubt: str | None = None
    anchored: int = 0

    @property
    def ok(self) -> bool:
        """No change was found; see also `proven`."""
        return self.problem is None

    @property
    def proven(self) -> bool:
        """No change was found, and there can have been none before the newest anchor."""
        return self.problem is None and self.doubt is None


def verify(db: Source, anchors: Sequence[Anchor] = ()) -> Verification:
    """Recompute the chain from its first event, and the rows that its events made; it must contain every anchor."""
    check = _Check(anchors)
    with reading(db) as conn:
        try:
            wrong = check.chain(conn) or check.rows(conn)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):  # no number, moment or JSON any more
            wrong = check.expected, "cannot be read, or rows of it or of an event before it cannot"
    events = check.expected - 1
    if wrong is not None:
        return Verification(events=events, last_hash=check.previous, seq=wrong[0], problem=wrong[1])
    anchored = max((one.count for one in anchors if one.ours), default=0)
    doubt = check.doubt(anchored)
    return Verification(events=events, last_hash=check.previous, doubt=doubt, anchored=anchored)


class _Check:
    """The chain so far: what the next event must follow, and what its events say of rows, by subject, the newest word
    last: kept on disk, as there may be millions. What is wrong is the number of an event with a word on it.
    """

    def __init__(self, anchors: Sequence[Anchor]) -> None:
        self.anchors, self.key = anchors, site_key()
        self.expected, self.previous = 1, GENESIS
        self.unknown = 0  # events under a key that is not here
        self._said = sqlite3.connect("")
        self._said.execute("CREATE TABLE said (kind, subject, digest, seq, PRIMARY KEY (kind, subject)) WITHOUT ROWID")

    def chain(self, conn: Connection) -> tuple[int, str] | None:
        """The first event that does not follow from those before it, or that is missing at the end."""
        at = attrgetter("count")
        anchors = {count: list(its) for count, its in groupby(sorted(self.anchors, key=at), at)}
        whole = select(audit_events).order_by(audit_events.c.seq).execution_options(yield_per=1_000)
        with conn.execute(whole) as rows:
            for row in rows:
                if (problem := self._problem(row, anchors.get(row.seq, ()))) is not None:
                    return row.seq, problem
                self._step(row)
        later = [anchor for anchor in self.anchors if anchor.count >= self.expected]
        return (self.expected, f"the log ends before {_words_of(later)}: events were cut off") if later else None

    def _problem(self, row: Any, anchors: Sequence[Anchor]) -> str | None:
        if row.seq != self.expected:
            return f"event {self.expected} is missing"
        if row.previous_hash != self.previous:
            return "does not follow the event before it"
        fields = {name: getattr(row, name) for name in ("seq", "at", "actor", "action", "subject", "details")}
        if row.key_id == self.key.id and row.hash != chain_hash(self.previous, self.key, **fields):
            return "was changed"
        others = [anchor for anchor in anchors if anchor.last_hash != row.hash]
        return f"{_words_of(others)} names another hash for this event" if others else None

    def _step(self, row: Any) -> None:
        """On to the next event. Digests under a key that is not here cannot be compared."""
        known = row.key_id == self.key.id
        self.expected, self.previous, self.unknown = self.expected + 1, row.hash, self.unknown + (not known)
        if f'"{ROWS}":' in row.details:
            for kind, its in json.loads(row.details)[ROWS].items():
                rows = ((kind, subject, digest if known else None, row.seq) for subject, digest in its.items())
                self._said.executemany("INSERT OR REPLACE INTO said VALUES (?, ?, ?, ?)", rows)

    def rows(self, conn: Connection) -> tuple[int, str] | None:
        """The first row that does not fit what the events say."""
        found = [wrong for table in DIGESTED if (wrong := self._rows_of(conn, table)) is not None]
        if not found and (lost := conn.execute(_NOWHERE).scalar()) is not None:
            return self.expected, f"case {lost} is neither decided nor waiting to be: it was taken out of the queue"
        return min(found, default=None)

    def _rows_of(self, conn: Connection, table: Table) -> tuple[int, str] | None:
        with conn.execute(_digested(table, some=False).execution_options(yield_per=1_000)) as rows:
            for subject, digest in _digests_of(table, rows, self.key):
                its = (table.name, subject)
                said = self._said.execute("SELECT digest, seq FROM said WHERE kind = ? AND subject = ?", its).fetchone()
                if said is None or said[0] == "":
                    seq = self.expected if said is None else said[1]
                    return seq, f"{subject} in {table.name} is in no event: its event is missing"
                if said[0] not in (None, digest):
                    return said[1], f"{subject} in {table.name} was changed after this event"
                self._said.execute("DELETE FROM said WHERE kind = ? AND subject = ?", its)
        gone = "SELECT seq, subject FROM said WHERE kind = ? AND digest != '' ORDER BY seq LIMIT 1"
        left = self._said.execute(gone, (table.name,)).fetchone()
        return None if left is None else (left[0], f"{left[1]} in {table.name} was removed after this event")

    def doubt(self, anchored: int) -> str | None:
        """Why nothing is proven although nothing is wrong."""
        if self.unknown:
            return f"{self.unknown:,} events were written under a key that is not here"
        if foreign := sum(not anchor.ours for anchor in self.anchors):
            return f"{count_of(foreign, 'anchor is', 'anchors are')} signed under a key that is not here, or made up"
        if anchored or self.expected == 1:
            return None
        return "no signed anchor was compared: the end may have been cut off"


def _words_of(anchors: Sequence[Anchor]) -> str:
    return "the anchor" if any(anchor.ours for anchor in anchors) else "an anchor under a key that is not here"


_NOWHERE = (
    select(cases.c.id)
    .where(~select(screenings.c.case_id).where(screenings.c.case_id == cases.c.id).exists())
    .where(~select(pending_cases.c.case_id).where(pending_cases.c.case_id == cases.c.id).exists())
    .limit(1)
)
