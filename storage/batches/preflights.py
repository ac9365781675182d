"""What came of trying a configuration on the probes, and an administrator's written word to use it all the same."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from screening.models.canaries import Probed
from screening.review.actors import Acting
from screening.review.policy import Action, require
from storage.audit_log import append, serialise
from storage.database import Database, record
from storage.schema import preflights

LEAST_REASON = 20
"""Characters of a reason: it is read by whoever asks later why this model was allowed."""


class NothingToOverride(ValueError):
    """The latest try of this configuration passed, is overridden already, or there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The latest try of a configuration; ``overridden_by`` and ``reason`` where an administrator allowed it."""

    id: int
    passed: bool
    message: str
    ends: dict[str, tuple[str, str]]
    at: datetime
    overridden_by: str | None
    reason: str | None
    other_names: tuple[str, ...] = ()

    @property
    def allows(self) -> bool:
        """Whether a batch may be screened with this configuration."""
        return self.passed or self.overridden_by is not None


def latest(db: Database, configuration: str) -> Preflight | None:
    """The latest try of what `Configuration.preflight_key` names; None where there was none."""
    with db.read() as conn:
        return _latest(conn, configuration)


def keep(db: Database, configuration: str, found: Probed, now: datetime) -> None:
    """Store the result of a try."""
    with db.write() as conn:
        conn.execute(
            insert(preflights),
            {
                "configuration": configuration,
                "passed": int(found.passed),
                "message": found.message,
                "ends": {name: list(end) for name, end in found.ends.items()},
                "other_names": list(found.other_names),
                "at": now,
            },
        )


def override(db: Database, by: Acting, configuration: str, reason: str) -> None:
    """Allow a configuration whose latest try failed, in writing. Raises Forbidden, NothingToOverride, and
    ValueError for a short reason.
    """
    require(by.actor, Action.CHANGE_SETTINGS)
    reason = reason.strip()
    if len(reason) < LEAST_REASON:
        raise ValueError(f"say in at least {LEAST_REASON} characters why this model may be asked all the same")
    with db.write() as conn:
        serialise(conn)
        found = _latest(conn, configuration)
        if found is None or found.allows:
            raise NothingToOverride("there is no failed try of this configuration to override")
        allowed = {"overridden_by": by.id, "reason": reason, "overridden_at": by.now}
        conn.execute(update(preflights).where(preflights.c.id == found.id).values(allowed))
        append(conn, by, "preflight_overridden", configuration, {"preflight": found.id})


def _latest(conn: Connection, configuration: str) -> Preflight | None:
    row: Any = conn.execute(
        select(preflights).where(preflights.c.configuration == configuration).order_by(preflights.c.id.desc()).limit(1)
    ).first()
    if row is None:
        return None
    return record(
        Preflight,
        row,
        passed=bool(row.passed),
        ends={name: (end[0], end[1]) for name, end in row.ends.items()},
        other_names=tuple(row.other_names or ()),
    )
