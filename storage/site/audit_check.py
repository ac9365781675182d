"""Whether the audit log is whole: its chain, the rows that its events made, and its end against anchors.

Without an anchor from outside nothing is proven: whoever can write the database may have cut off the end.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from screening.words import count_of
from storage.audit_key import AuditKey, site_key
from storage.audit_log import GENESIS, ROWS, Anchor, ForeignAnchor, chain_hash
from storage.audit_rows import Vouched
from storage.database import Database
from storage.schema import audit_events


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


@dataclass(slots=True)
class _Walk:
    """The chain so far: what the next event must follow, and what its events say of rows."""

    key: AuditKey
    expected: int = 1
    previous: str = GENESIS
    unknown: int = 0
    """Events under a key that is not here."""
    vouched: Vouched = field(default_factory=Vouched)

    def problem(self, row: Any, anchors: Mapping[int, set[Anchor]]) -> str | None:
        if row.seq != self.expected:
            return f"event {self.expected} is missing"
        if row.previous_hash != self.previous:
            return "does not follow the event before it"
        fields = {name: getattr(row, name) for name in ("seq", "at", "actor", "action", "subject", "details")}
        if row.key_id == self.key.id and row.hash != chain_hash(self.previous, self.key, **fields):
            return "was changed"
        others = [one for one in anchors.get(row.seq, ()) if one.last_hash != row.hash]
        return f"{_words_of(others)} names another hash for this event" if others else None

    def step(self, row: Any) -> None:
        known = row.key_id == self.key.id
        self.expected, self.previous, self.unknown = self.expected + 1, row.hash, self.unknown + (not known)
        if f'"{ROWS}":' in row.details:
            self.vouched.take(row.seq, json.loads(row.details)[ROWS], known=known)


def _words_of(anchors: Sequence[Anchor]) -> str:
    foreign = all(isinstance(one, ForeignAnchor) for one in anchors)
    return "an anchor under a key that is not here" if foreign else "the anchor"


def verify(db: Database, anchors: Sequence[Anchor] = ()) -> Verification:
    """Recompute the chain from its first event, and the rows that its events made; the chain must still contain every
    anchor, and those without a signature by the key that is here prove nothing.
    """
    with db.read() as conn:
        return verify_in(conn, anchors)


def verify_in(conn: Connection, anchors: Sequence[Anchor] = ()) -> Verification:
    """As `verify`, inside the caller's transaction."""
    kept: dict[int, set[Anchor]] = {}
    for one in anchors:
        kept.setdefault(one.count, set()).add(one)
    walk = _Walk(key=site_key())
    try:
        return _broken_chain(conn, walk, kept) or _ends(conn, walk, anchors)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):  # no number, moment or JSON any more
        return _failed_verification(
            walk, "cannot be read, or rows of it or of an event before it cannot", walk.expected
        )


def _broken_chain(conn: Connection, walk: _Walk, anchors: Mapping[int, set[Anchor]]) -> Verification | None:
    """Through the chain to its end; None where all of it fits."""
    whole = select(audit_events).order_by(audit_events.c.seq).execution_options(yield_per=1_000)
    with conn.execute(whole) as rows:
        for row in rows:
            if (problem := walk.problem(row, anchors)) is not None:
                return _failed_verification(walk, problem, row.seq)
            walk.step(row)
    return None


def _ends(conn: Connection, walk: _Walk, anchors: Sequence[Anchor]) -> Verification:
    """What can be checked only after reading the whole chain."""
    events = walk.expected - 1
    if later := [one for one in anchors if one.count > events]:
        cut = f"the log ends before {_words_of(later)}: events were cut off"
        return _failed_verification(walk, cut, walk.expected)
    if (broken := walk.vouched.broken(conn, walk.key, walk.expected)) is not None:
        return _failed_verification(walk, broken[1], broken[0])
    ours = [one.count for one in anchors if not isinstance(one, ForeignAnchor)]
    foreign = len(anchors) - len(ours)
    doubt = _doubt(walk, events, max(ours, default=0), foreign)
    return Verification(events=events, last_hash=walk.previous, doubt=doubt, anchored=max(ours, default=0))


def _doubt(walk: _Walk, events: int, anchored: int, foreign: int) -> str | None:
    if walk.unknown:
        return f"{walk.unknown:,} events were written under a key that is not here"
    if foreign:
        return f"{count_of(foreign, 'anchor is', 'anchors are')} signed under a key that is not here, or made up"
    return None if anchored or not events else "no signed anchor was compared: the end may have been cut off"


def _failed_verification(walk: _Walk, problem: str, seq: int) -> Verification:
    return Verification(events=walk.expected - 1, last_hash=walk.previous, problem=problem, seq=seq)
