"""The cases of an audit by what was read of them, counted and found beside the server (`jobs.computing`)."""

from collections.abc import Callable, Mapping

from jobs.computing import Cache
from screening.labels import Label
from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.database import Database
from storage.research.listed import MOST_LISTED
from storage.research.reliability import AuditedReading, audited_readings
from storage.research.standing import Standing

Kind = tuple[str, str]
"""What the reading found (``read``, ``unsafe``, ``inconclusive``, ``not blind``), and of which cases: an outcome,
or all of them (empty).
"""

_FOUND: Mapping[str, Callable[[AuditedReading], bool]] = {
    "read": lambda each: each.case.read,
    "unsafe": lambda each: each.case.read and each.case.label is Label.UNSAFE,
    "inconclusive": lambda each: each.case.unclear,
}
_kept: Cache[Mapping[Kind, tuple[str, ...]]] = Cache(2)


def audit_counts(db: Database, actor: Actor, version: str, standing: Standing) -> Mapping[Kind, int]:
    """How many cases of each kind the audit of a configuration holds. Raises Forbidden."""
    return {kind: len(ids) for kind, ids in _cases(db, actor, version, standing).items()}


def audit_ids(db: Database, actor: Actor, version: str, standing: Standing, kind: Kind) -> tuple[str, ...]:
    """The first `MOST_LISTED` cases of a kind, in the order in which they were settled. Raises Forbidden."""
    return _cases(db, actor, version, standing).get(kind, ())[:MOST_LISTED]


def _cases(db: Database, actor: Actor, version: str, standing: Standing) -> Mapping[Kind, tuple[str, ...]]:
    require(actor, Action.VIEW_RESULTS)  # also when somebody else's computation is in the cache
    return _kept.of((version, standing), lambda: _by_kind(db, actor, version))


def _by_kind(db: Database, actor: Actor, version: str) -> Mapping[Kind, tuple[str, ...]]:
    found: dict[Kind, list[str]] = {}
    for each in audited_readings(db, actor, version):
        for words in (words for words, holds in _FOUND.items() if holds(each)):
            for cases in ("", each.case.outcome.value):
                found.setdefault((words, cases), []).append(each.case_id)
    not_blind = [each.case_id for each in audited_readings(db, actor, version, blind=False)]
    return {kind: tuple(ids) for kind, ids in found.items()} | {("not blind", ""): tuple(not_blind)}
