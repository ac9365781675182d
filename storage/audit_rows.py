"""Digests of the rows that decide something: each stands in the audit event that made the row what it is.

A row that was changed, removed or slipped in no longer fits the newest event that names it, or is in none. What
erasing empties has new digests in the event of the erasure. Words that people wrote about a text are left out.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, String, Table, bindparam, cast, exists, literal, select

from storage.audit_key import AuditKey, canonical, micros
from storage.schema import (
    accounts,
    adjudications,
    batches,
    cases,
    inbox_entries,
    node_runs,
    notification_recipients,
    pending_cases,
    pipeline_activations,
    pipeline_versions,
    programs,
    reviews,
    screenings,
    settings_versions,
)

Rows = Mapping[Table, Collection[str]]
"""The subjects whose rows of a table an event is about."""
Inserted = Sequence[Mapping[str, Any]]
"""All rows that a table has of a subject, as they were given to the database."""
AT_ONCE = 500
_CODED = ("subject", "ideation", "intent", "plan", "means", "behaviour", "timeframe", "reason_codes", "disposition")
"""Of a review's fields: what is chosen, not written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A table that decides something: what its rows are about, and what of them stands in the digest."""

    subject: ColumnElement[str]
    columns: tuple[str, ...]


def _numbered(table: Table) -> ColumnElement[str]:
    return table.c.name + "/" + cast(table.c.number, String)


KINDS: Mapping[Table, Kind] = {
    cases: Kind(
        subject=cases.c.id,
        columns=(
            *("batch_id", "row", "external_id", "text", "text_original_json", "text_sha256", "model_text"),
            *("reply", "reply_original_json", "reply_sha256", "model_reply", "flags", "reference", "reference_value"),
            *("group_name", "turns", "where_to_act", "audit_probability", "erased_at", "erasure_request"),
        ),
    ),
    screenings: Kind(
        subject=screenings.c.case_id,
        columns=(
            *("batch_id", "configuration", "outcome", "node", "reason", "calls", "audit_probability"),
            *("audited", "completed_at"),
        ),
    ),
    node_runs: Kind(
        subject=node_runs.c.case_id,
        columns=("position", "node", "variant", "draws", "label", "ended", "calls", "distribution", "ended_at"),
    ),
    inbox_entries: Kind(
        subject=inbox_entries.c.case_id, columns=("priority", "review_round", "entered_at", "due_at", "closed_at")
    ),
    reviews: Kind(
        subject=reviews.c.case_id,
        columns=("id", "reviewer", "version", "blind", "review_round", "label", "certainty", "fields", "at"),
    ),
    adjudications: Kind(
        subject=adjudications.c.case_id, columns=("version", "label", "method", "by", "review_ids", "at")
    ),
    batches: Kind(
        subject=batches.c.id,
        columns=("kind", "configuration", "seed", "audit_rate", "reach", "research_order", "created_by"),
    ),
    accounts: Kind(subject=accounts.c.id, columns=("subject", "roles", "active")),
    programs: Kind(
        subject=programs.c.id, columns=("token_sha256", "scopes", "per_minute", "webhook", "created_by", "revoked_at")
    ),
    notification_recipients: Kind(
        subject=notification_recipients.c.id,
        columns=("kind", "target", "step", "events", "quiet_from", "quiet_to", "active"),
    ),
    settings_versions: Kind(
        subject=literal("settings/") + cast(settings_versions.c.version, String), columns=("body", "by", "at")
    ),
    pipeline_versions: Kind(subject=_numbered(pipeline_versions), columns=("version", "body")),
    pipeline_activations: Kind(subject=_numbered(pipeline_activations), columns=("by", "at")),
}


def _query(table: Table) -> Select[Any]:
    kind = KINDS[table]
    columns = (kind.subject.label("of"), *(table.c[name].label(f"c_{name}") for name in kind.columns))
    return select(*columns).order_by(kind.subject, *table.primary_key.columns)


_ALL = {table: _query(table) for table in KINDS}
_SOME = {
    table: query.where(KINDS[table].subject.in_(bindparam("subjects", expanding=True))) for table, query in _ALL.items()
}
_ONE = {table: query.where(KINDS[table].subject == bindparam("subject", type_=String)) for table, query in _ALL.items()}
"""Written once, and for one subject in the way that costs least: screening asks with every outcome."""


def digest_of_inserted(table: Table, subject: str, rows: Inserted, key: AuditKey) -> str:
    """The digest of rows as they were inserted just now: the one that reading them back would give."""
    return _digest(table, subject, ([row[name] for name in KINDS[table].columns] for row in rows), key)


def digests(conn: Connection, rows: Rows, key: AuditKey) -> dict[str, dict[str, str]]:
    """By table and subject, in the caller's transaction; an empty digest where there is no row."""
    found: dict[str, dict[str, str]] = {}
    for table, subjects in rows.items():
        made = dict.fromkeys(subjects, "")
        asked = list(made)
        for start in range(0, len(asked), AT_ONCE):
            some = asked[start : start + AT_ONCE]
            if len(some) == 1:
                rows_of_some = conn.execute(_ONE[table], {"subject": some[0]})
            else:
                rows_of_some = conn.execute(_SOME[table], {"subjects": some})
            made.update(_digests(table, rows_of_some, key))
        found[table.name] = made
    return found


def _digests(table: Table, rows: Any, key: AuditKey) -> Iterator[tuple[str, str]]:
    """Each subject with the digest of its rows, which come in order."""
    for subject, its in groupby(rows, key=lambda row: str(row.of)):
        yield subject, _digest(table, subject, (row[1:] for row in its), key)


def _digest(table: Table, subject: str, rows: Iterable[Iterable[Any]], key: AuditKey) -> str:
    content = canonical([table.name, subject, *([_plain(value) for value in row] for row in rows)])
    return key.mac(content.encode())[:32]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return micros(value)
    if isinstance(value, dict) and "form_version" in value:
        return {name: value.get(name) for name in _CODED}
    return value


class Vouched:
    """What the events say of rows, by subject, the newest word last: kept on disk, as there may be millions."""

    def __init__(self) -> None:
        self._kept = sqlite3.connect("")
        self._kept.execute("CREATE TABLE said (kind, subject, digest, seq, PRIMARY KEY (kind, subject)) WITHOUT ROWID")

    def take(self, seq: int, said: Mapping[str, Mapping[str, str]], *, known: bool) -> None:
        """Remember an event's digests; those under a key that is not here (not ``known``) can't be compared."""
        for kind, its in said.items():
            rows = ((kind, subject, digest if known else None, seq) for subject, digest in its.items())
            self._kept.executemany("INSERT OR REPLACE INTO said VALUES (?, ?, ?, ?)", rows)

    def broken(self, conn: Connection, key: AuditKey, end: int) -> tuple[int, str] | None:
        """The first row that does not fit what the events say, as the number of the event and what is wrong with it;
        ``end`` is the number that stands for a missing event.
        """
        found = [one for table in KINDS if (one := self._broken(conn, table, key, end)) is not None]
        if not found and (lost := conn.execute(_NOWHERE).scalar()) is not None:
            return end, f"case {lost} is neither decided nor waiting to be: it was taken out of the queue"
        return min(found, default=None)

    def _broken(self, conn: Connection, table: Table, key: AuditKey, end: int) -> tuple[int, str] | None:
        with conn.execute(_ALL[table].execution_options(yield_per=1_000)) as rows:
            for subject, digest in _digests(table, rows, key):
                its = (table.name, subject)
                said = self._kept.execute("SELECT digest, seq FROM said WHERE kind = ? AND subject = ?", its).fetchone()
                if said is None or said[0] == "":
                    return end if said is None else said[1], f"{_name(*its)} is in no event: its event is missing"
                if said[0] not in (None, digest):
                    return said[1], f"{_name(*its)} was changed after this event"
                self._kept.execute("DELETE FROM said WHERE kind = ? AND subject = ?", its)
        gone = "SELECT seq, subject FROM said WHERE kind = ? AND digest != '' ORDER BY seq LIMIT 1"
        left = self._kept.execute(gone, (table.name,)).fetchone()
        return None if left is None else (left[0], f"{_name(table.name, left[1])} was removed after this event")


def _name(kind: str, subject: str) -> str:
    return f"{subject} in {kind}"


_NOWHERE = (
    select(cases.c.id)
    .where(
        ~exists().where(screenings.c.case_id == cases.c.id),
        ~exists().where(pending_cases.c.case_id == cases.c.id),
    )
    .limit(1)
)
