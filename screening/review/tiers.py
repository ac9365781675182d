"""How urgently a person must look at a case, and by when.

Tiers and targets are this site's own defaults, not a standard; nothing here says how a person is.

The first rule that fits decides:

====  ==================================================================================================
P0    a second reader (any node after the first) answered ``unsafe`` in more than half of its draws, and the
      case still came to a human. (That a text speaks of something imminent cannot be known without reading it.)
P1    ``unsafe`` was the answer most often drawn at some node; or the last node itself asked for a person; or the
      second look disagreed; or the text appears to address the model.
P2    the pipeline did not settle it and some draw said ``unsafe``; or the text could not be screened (length, no words,
      language, unreadable, hidden or obfuscated writing, repeated failure, stopped).
P3    the pipeline did not settle it and no draw said ``unsafe``.
====  ==================================================================================================

An audit sample must look like any other case. It gets P2 or P3, by a coin from the case's id that has nothing to do
with the engine's outcome, and the same ``why`` as the unsettled cases of those tiers.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final

from screening.engine.screen import NodeRun, Reason, Screening
from screening.labels import Label, Outcome


class Tier(IntEnum):
    """Urgency of the first human look; 0 is the most urgent."""

    P0 = 0
    P1 = 1
    P2 = 2
    P3 = 3


TARGETS: Final[Mapping[Tier, timedelta]] = MappingProxyType(
    {
        Tier.P0: timedelta(minutes=5),
        Tier.P1: timedelta(minutes=15),
        Tier.P2: timedelta(hours=4),
        Tier.P3: timedelta(hours=24),
    }
)
"""Time to the first human look, unless the site sets its own."""


class Why(StrEnum):
    """Why a case has its tier, in words that a reviewer may see before reading: they name no label and no node."""

    LIKELY_URGENT = "likely_urgent"
    PERSON_NEEDED = "person_needed"
    UNSETTLED = "unsettled"
    ADDRESSES_MODEL = "addresses_model"
    NOT_SCREENABLE = "not_screenable"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where in the inbox a case goes, and why there."""

    tier: Tier
    why: Why


_NOT_SCREENABLE = frozenset(
    {
        Reason.HIDDEN_CHARACTERS,
        Reason.OBFUSCATED,
        Reason.NO_WORDS,
        Reason.UNSUPPORTED_LANGUAGE,
        Reason.TOO_LONG,
        Reason.UNREADABLE,
    }
)
_ABSTAINED = frozenset({Reason.EXHAUSTED, Reason.CURTAILED})


def tier_for(screening: Screening) -> Placement:
    """The place of a case that the pipeline left to a person; ValueError when it did not."""
    if screening.outcome is not Outcome.HUMAN_REVIEW:
        raise ValueError("a decided case has no tier of its own; audit samples go through audit_placement")
    if any(_mostly_unsafe(run) for run in screening.runs if run.node != screening.runs[0].node):
        return Placement(tier=Tier.P0, why=Why.LIKELY_URGENT)
    if any(_unsafe_leads(run) for run in screening.runs):
        return Placement(tier=Tier.P1, why=Why.PERSON_NEEDED)
    return _by_reason(screening)


def _by_reason(screening: Screening) -> Placement:
    if screening.reason is Reason.SUSPECTED_INJECTION:
        return Placement(tier=Tier.P1, why=Why.ADDRESSES_MODEL)
    if screening.reason in _NOT_SCREENABLE:
        return Placement(tier=Tier.P2, why=Why.NOT_SCREENABLE)
    if screening.reason in _ABSTAINED:
        some_unsafe = any(draw.label is Label.UNSAFE for run in screening.runs for draw in run.draws)
        return Placement(tier=Tier.P2 if some_unsafe else Tier.P3, why=Why.UNSETTLED)
    if screening.reason in (Reason.REPEATED_FAILURE, Reason.STOPPED):
        return Placement(tier=Tier.P2, why=Why.FAILED)
    # escalated, second look disagreed, and whatever reason may be added later
    return Placement(tier=Tier.P1, why=Why.PERSON_NEEDED)


def audit_placement(case_id: str) -> Placement:
    """The place of an audit sample: P2 or P3 with equal chance, whatever the engine had decided.

    >>> audit_placement("0" * 32) == audit_placement("0" * 32)
    True
    """
    coin = hashlib.sha256(f"audit tier:{case_id}".encode()).digest()[0] % 2
    return Placement(tier=Tier.P2 if coin else Tier.P3, why=Why.UNSETTLED)


def due_at(tier: Tier, entered_at: datetime, targets: Mapping[Tier, timedelta] = TARGETS) -> datetime:
    """The moment by which a person should have looked.

    >>> from datetime import UTC
    >>> due_at(Tier.P1, datetime(2026, 1, 1, tzinfo=UTC)).isoformat()
    '2026-01-01T00:15:00+00:00'
    """
    return entered_at + targets[tier]


def _count(run: NodeRun, label: Label) -> int:
    return sum(draw.label is label for draw in run.draws)


def _mostly_unsafe(run: NodeRun) -> bool:
    return 2 * _count(run, Label.UNSAFE) > len(run.draws)


def _unsafe_leads(run: NodeRun) -> bool:
    """Ties lead too: on a tie the more urgent reading counts."""
    unsafe = _count(run, Label.UNSAFE)
    return unsafe > 0 and unsafe >= max(_count(run, Label.SAFE), _count(run, Label.ESCALATE))
