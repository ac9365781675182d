"""Whether the audit log is whole: its chain, its seals over outcomes and readings, and its end against anchors.

Without an anchor from outside nothing is proven: whoever can write the database may have cut off the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from storage.audit_key import AuditKey, site_key
from storage.audit_log import GENESIS, Anchor, chain_hash
from storage.database import Database
from storage.schema import audit_events, batches, ratings, settings_versions
from storage.site.audit_seals import broken_seal

BESIDE = (ratings, batches, settings_versions)
"""Tables of which no row is made without an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a check of the whole log found. ``problem`` is None when nothing is wrong; otherwise the first event that
    does not fit is ``seq``. ``doubt`` says why nothing is proven although nothing is wrong; ``anchored`` is up to
    which event the log fits its anchors.
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
    """The chain so far: what the next event must follow."""

    expected: int = 1
    previous: str = GENESIS
    keyed: bool = False
    unknown: int = 0
    """Events under a key that is not here."""

    def problem(self, row: Any, anchors: Mapping[int, set[str]]) -> str | None:
        if row.seq != self.expected:
            return f"event {self.expected} is missing"
        if row.previous_hash != self.previous:
            return "does not follow the event before it"
        if row.key_id is None and self.keyed:
            return "is not under a key, but events before it are"
        key = site_key()
        if row.key_id not in (None, key.id):
            self.unknown += 1
        elif row.hash != _hash_of(row, self.previous, key):
            return "was changed"
        elsewhere = anchors.get(row.seq, {row.hash}) != {row.hash}
        return "the anchor names another hash for this event" if elsewhere else None

    def step(self, row: Any) -> None:
        self.expected, self.previous, self.keyed = self.expected + 1, row.hash, self.keyed or row.key_id is not None


def _hash_of(row: Any, previous: str, key: AuditKey) -> str:
    """What an event's hash must be after ``previous``, under the key where it is under one."""
    fields = {name: getattr(row, name) for name in ("seq", "at", "actor", "action", "subject", "details")}
    return chain_hash(previous, key if row.key_id else None, **fields)


def verify(db: Database, anchors: Sequence[Anchor] = ()) -> Verification:
    """Recompute the chain from its first event and the seals; the chain must still contain every anchor."""
    kept: dict[int, set[str]] = {}
    for one in anchors:
        kept.setdefault(one.count, set()).add(one.last_hash)
    whole = select(audit_events).order_by(audit_events.c.seq).execution_options(yield_per=1_000)
    walk = _Walk()
    with db.read() as conn:
        with conn.execute(whole) as rows:
            for row in rows:
                if (problem := walk.problem(row, kept)) is not None:
                    return _failed_verification(walk, problem, row.seq)
                walk.step(row)
        return _ends(conn, walk, anchors)


def _ends(conn: Connection, walk: _Walk, anchors: Sequence[Anchor]) -> Verification:
    """What can be checked only after reading the whole chain."""
    events = walk.expected - 1
    if any(one.count > events for one in anchors):
        return _failed_verification(walk, "the log ends before the anchor: events were cut off", walk.expected)
    if events == 0 and any(conn.execute(select(func.count()).select_from(table)).scalar_one() for table in BESIDE):
        return _failed_verification(walk, "the log is empty beside tables that are not: it was emptied", 1)
    if not walk.unknown and (broken := broken_seal(conn, site_key())) is not None:
        return _failed_verification(walk, broken[1], broken[0])
    anchored = max((one.count for one in anchors), default=0)
    return Verification(events=events, last_hash=walk.previous, doubt=_doubt(walk, events, anchored), anchored=anchored)


def _doubt(walk: _Walk, events: int, anchored: int) -> str | None:
    if walk.unknown:
        return f"{walk.unknown:,} events were written under a key that is not here"
    if events and not walk.keyed:
        return "the log is from before there was a key, and no event has followed since"
    return None if anchored or not events else "no anchor was compared: the end may have been cut off"


def _failed_verification(walk: _Walk, problem: str, seq: int) -> Verification:
    return Verification(events=walk.expected - 1, last_hash=walk.previous, problem=problem, seq=seq)
