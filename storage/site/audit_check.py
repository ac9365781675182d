"""Whether the audit log is whole: its chain, its seals over outcomes and readings, and its end against anchors.

Without an anchor from outside nothing is proven: whoever can write the database may have cut off the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from screening.words import count_of
from storage.audit_key import AuditKey, site_key
from storage.audit_log import GENESIS, Anchor, ForeignAnchor, UnsignedAnchor, chain_hash
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

    def problem(self, row: Any, anchors: Mapping[int, set[Anchor]]) -> str | None:
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
        others = [one for one in anchors.get(row.seq, ()) if one.last_hash != row.hash]
        return f"{_words_of(others)} names another hash for this event" if others else None

    def step(self, row: Any) -> None:
        self.expected, self.previous, self.keyed = self.expected + 1, row.hash, self.keyed or row.key_id is not None


def _words_of(anchors: Sequence[Anchor]) -> str:
    foreign = all(isinstance(one, ForeignAnchor) for one in anchors)
    return "an anchor under a key that is not here" if foreign else "the anchor"


def _hash_of(row: Any, previous: str, key: AuditKey) -> str:
    """What an event's hash must be after ``previous``, under the key where it is under one."""
    fields = {name: getattr(row, name) for name in ("seq", "at", "actor", "action", "subject", "details")}
    return chain_hash(previous, key if row.key_id else None, **fields)


def verify(db: Database, anchors: Sequence[Anchor] = ()) -> Verification:
    """Recompute the chain from its first event and the seals; the chain must still contain every anchor, and those
    without a signature by the key that is here prove nothing.
    """
    kept: dict[int, set[Anchor]] = {}
    for one in anchors:
        kept.setdefault(one.count, set()).add(one)
    walk = _Walk()
    try:
        with db.read() as conn:
            return _broken_chain(conn, walk, kept) or _ends(conn, walk, anchors)
    except (TypeError, ValueError, OverflowError):  # what was a number, a moment or JSON is none any more
        return _failed_verification(walk, "cannot be read, or what was sealed before it cannot", walk.expected)


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
    if events == 0 and any(conn.execute(select(func.count()).select_from(table)).scalar_one() for table in BESIDE):
        return _failed_verification(walk, "the log is empty beside tables that are not: it was emptied", 1)
    if not walk.unknown and (broken := broken_seal(conn, site_key())) is not None:
        return _failed_verification(walk, broken[1], broken[0])
    ours = [one.count for one in anchors if not isinstance(one, ForeignAnchor | UnsignedAnchor)]
    foreign = sum(isinstance(one, ForeignAnchor) for one in anchors)
    doubt = _doubt(walk, events, max(ours, default=0), foreign)
    return Verification(events=events, last_hash=walk.previous, doubt=doubt, anchored=max(ours, default=0))


def _doubt(walk: _Walk, events: int, anchored: int, foreign: int) -> str | None:
    if walk.unknown:
        return f"{walk.unknown:,} events were written under a key that is not here"
    if events and not walk.keyed:
        return "the log is from before there was a key, and no event has followed since"
    if foreign:
        return f"{count_of(foreign, 'anchor is', 'anchors are')} signed under a key that is not here, or made up"
    return None if anchored or not events else "no signed anchor was compared: the end may have been cut off"


def _failed_verification(walk: _Walk, problem: str, seq: int) -> Verification:
    return Verification(events=walk.expected - 1, last_hash=walk.previous, problem=problem, seq=seq)
