"""Whether the audit log is whole: its chain, the rows that its events made, and its end against anchors.

Without an anchor from outside nothing is proven: whoever can write the database may have cut off the end.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, exists, select

from screening.words import count_of
from storage.audit_log import DIGESTED, GENESIS, ROWS, Anchor, all_digests, chain_hash, site_key
from storage.database import Database
from storage.schema import audit_events, cases, pending_cases, screenings


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a check of the whole log found. ``problem`` is None when nothing is wrong; otherwise the event that does
    not fit is ``seq``. ``doubt`` says why nothing is proven although nothing is wrong; ``anchored`` is up to which
    event the log fits its anchors.
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


def verify(db: Database, anchors: Sequence[Anchor] = ()) -> Verification:
    """Recompute the chain from its first event, and the rows that its events made; the chain must still contain every
    anchor, and those without a signature by the key that is here prove nothing.
    """
    with db.read() as conn:
        return verify_in(conn, anchors)


def verify_in(conn: Connection, anchors: Sequence[Anchor] = ()) -> Verification:
    """As `verify`, inside the caller's transaction."""
    check = _Check(anchors)
    try:
        wrong = check.chain(conn) or check.end() or check.rows(conn)
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
        """Through the chain to its end."""
        anchors: dict[int, list[Anchor]] = {}
        for anchor in self.anchors:
            anchors.setdefault(anchor.count, []).append(anchor)
        whole = select(audit_events).order_by(audit_events.c.seq).execution_options(yield_per=1_000)
        with conn.execute(whole) as rows:
            for row in rows:
                if (problem := self._problem(row, anchors.get(row.seq, ()))) is not None:
                    return row.seq, problem
                self._step(row)
        return None

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

    def end(self) -> tuple[int, str] | None:
        """Whether the chain goes as far as its anchors."""
        later = [anchor for anchor in self.anchors if anchor.count >= self.expected]
        return (self.expected, f"the log ends before {_words_of(later)}: events were cut off") if later else None

    def rows(self, conn: Connection) -> tuple[int, str] | None:
        """The first row that does not fit what the events say."""
        found = [wrong for table in DIGESTED if (wrong := self._rows_of(conn, table)) is not None]
        if not found and (lost := conn.execute(_NOWHERE).scalar()) is not None:
            return self.expected, f"case {lost} is neither decided nor waiting to be: it was taken out of the queue"
        return min(found, default=None)

    def _rows_of(self, conn: Connection, table: Table) -> tuple[int, str] | None:
        for subject, digest in all_digests(conn, table, self.key):
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
    .where(~exists().where(screenings.c.case_id == cases.c.id), ~exists().where(pending_cases.c.case_id == cases.c.id))
    .limit(1)
)
