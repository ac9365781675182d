"""How urgently a clinician must review a case, and by when.

Priorities and targets are this site's own defaults, not a standard; nothing here says how a person is.

What the text states outright sets a floor (`floor`), whatever brings the case here: P0 for an intent, a plan, means, an
attempt or a wish with a time or with means, P1 for one without. Above it the first rule that fits decides:

====  ==================================================================================================
P0    a second reviewer (any node after the first) answered ``unsafe`` in more than half of its draws, and the case was
      escalated.
P1    ``unsafe`` was the answer most often drawn at some node; or the last node itself escalated; or the
      second look disagreed; or the text appears to address the model.
P2    the pipeline did not settle it and some draw said ``unsafe``; or the text could not be screened (length, no words,
      language, unreadable, hidden or obfuscated writing, repeated failure, stopped).
P3    the pipeline did not settle it and no draw said ``unsafe``.
====  ==================================================================================================

A case that the AI labeled ``unsafe`` is reviewed where its batch says so, and is placed by the same rules: P1, or P0.
An audit sample must look like any other case. A random number from the case's id that has nothing to do with the AI's
outcome gives it P1 in a share that the site sets, so that P1 does not mean *labeled unsafe*, else P2 or P3, and the
same ``why`` as the other cases of that priority. It only ever raises a case above the floor.

A set that is declared to have no living authors is reviewed in research order: every case of it is P3, due at random
within the last half of that target, whatever its text says, so that a priority tells nothing of the AI.

A case that could not be screened yet and waits for that is P0 where the text states a risk, since neither a clinician
nor a model has read it, else P2.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final

from screening.labels import Label, Outcome
from screening.pipeline.engine import NodeRun, Reason, Screening
from screening.text.flags import Flag


class Priority(IntEnum):
    """Urgency of the first human look; 0 is the most urgent."""

    P0 = 0
    P1 = 1
    P2 = 2
    P3 = 3


TARGETS: Final[Mapping[Priority, timedelta]] = MappingProxyType(
    {
        Priority.P0: timedelta(minutes=5),
        Priority.P1: timedelta(minutes=15),
        Priority.P2: timedelta(hours=4),
        Priority.P3: timedelta(hours=24),
    }
)
"""Time to the first human look, unless the site sets its own."""


WHO_SEES_WHAT = (
    "Texts the AI cannot decide are escalated to the review queue. Texts the AI labels unsafe are reviewed too, unless "
    "somebody chose otherwise for an upload."
)


class Reach(StrEnum):
    """Whether a text that the AI labels unsafe reaches a person, and how: a batch's choice, never its file's. What is
    escalated always does.
    """

    READ = "read"
    """It enters the review queue like any other urgent case and is reviewed blinded: all of them are."""
    LIST = "list"
    """It is put on a list for sign-off by somebody who sees how it was labeled."""
    COUNT = "count"
    """It is counted; a person sees it only as a quality check, which is drawn at random."""


class Why(StrEnum):
    """What a reviewer may see before reading: it names no label and no node."""

    LIKELY_URGENT = "likely_urgent"
    PERSON_NEEDED = "person_needed"
    UNSETTLED = "unsettled"
    ADDRESSES_MODEL = "addresses_model"
    NOT_SCREENABLE = "not_screenable"
    FAILED = "failed"
    NOT_SCREENED = "not_screened"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where in the inbox a case goes, and why there."""

    priority: Priority
    why: Why


_BY_REASON: Mapping[Reason, Placement] = {
    Reason.SUSPECTED_INJECTION: Placement(Priority.P1, Why.ADDRESSES_MODEL),
    Reason.UNSUPPORTED_LANGUAGE: Placement(Priority.P1, Why.NOT_SCREENABLE),  # neither a clinician nor a model read it
    Reason.HIDDEN_CHARACTERS: Placement(Priority.P2, Why.NOT_SCREENABLE),
    Reason.OBFUSCATED: Placement(Priority.P2, Why.NOT_SCREENABLE),
    Reason.NO_WORDS: Placement(Priority.P2, Why.NOT_SCREENABLE),
    Reason.TOO_LONG: Placement(Priority.P2, Why.NOT_SCREENABLE),
    Reason.UNREADABLE: Placement(Priority.P2, Why.NOT_SCREENABLE),
    Reason.ROW_REJECTED: Placement(Priority.P2, Why.NOT_SCREENABLE),
    Reason.REPEATED_FAILURE: Placement(Priority.P2, Why.FAILED),
    Reason.STOPPED: Placement(Priority.P2, Why.FAILED),
}
_ABSTAINED = frozenset({Reason.EXHAUSTED, Reason.FUTILITY, Reason.TOO_CLOSE})


def floor(flags: Collection[str]) -> Priority:
    """The least urgent priority of a case whose text or reply holds these flags, by whatever way it comes.

    >>> [floor(flags).name for flags in (["stated_risk", "stated_imminent"], ["stated_risk"], ["no_words"])]
    ['P0', 'P1', 'P3']
    """
    if Flag.STATED_IMMINENT in flags:
        return Priority.P0
    return Priority.P1 if Flag.STATED_RISK in flags else Priority.P3


def _at_least(least: Priority, place: Placement) -> Placement:
    return place if place.priority <= least else Placement(least, ordinary_why(least))


def priority_for(screening: Screening, flags: Collection[str]) -> Placement:
    """The place of a case that was escalated or labeled unsafe. ValueError for one that was labeled safe."""
    if screening.outcome is Outcome.SAFE:
        raise ValueError("a case labeled safe has no priority of its own; audit samples go through audit_placement")
    return _at_least(floor(flags), _by_answers(screening))


def _by_answers(screening: Screening) -> Placement:
    if any(run.share(Label.UNSAFE) > 0.5 for run in screening.runs if run.node != screening.runs[0].node):
        return Placement(Priority.P0, Why.LIKELY_URGENT)
    if any(_unsafe_leads(run) for run in screening.runs):
        return Placement(Priority.P1, Why.PERSON_NEEDED)
    if screening.reason in _ABSTAINED:
        some_unsafe = any(run.share(Label.UNSAFE) > 0 for run in screening.runs)
        return Placement(Priority.P2 if some_unsafe else Priority.P3, Why.UNSETTLED)
    # else escalated, second look disagreed, and whatever reason may be added later
    return _BY_REASON.get(screening.reason, Placement(Priority.P1, Why.PERSON_NEEDED))


def audit_placement(case_id: str, urgent_share: float, flags: Collection[str]) -> Placement:
    """The place of an audit sample, whatever the engine had decided: P1 for ``urgent_share`` of them, the others P2 or
    P3 with equal chance, and none below the floor of its text.

    >>> [audit_placement("0" * 32, 1.0, flags).priority.name for flags in ([], ["stated_imminent"])]
    ['P1', 'P0']
    """
    digest = hashlib.sha256(f"audit priority:{case_id}".encode()).digest()
    if int.from_bytes(digest[1:7], "big") / 2**48 < urgent_share:
        drawn = Priority.P1
    else:
        drawn = Priority.P2 if digest[0] % 2 else Priority.P3
    return _at_least(floor(flags), Placement(drawn, ordinary_why(drawn)))


def second_review_coin(case_id: str) -> float:
    """A number in [0, 1) that belongs to the case: the same however often a submit is repeated."""
    return _coin("second review", case_id)


def research_coin(case_id: str) -> float:
    """The place of a case among all of a set that is reviewed in random order: a number in [0, 1)."""
    return _coin("research order", case_id)


def _coin(purpose: str, case_id: str) -> float:
    return int.from_bytes(hashlib.sha256(f"{purpose}:{case_id}".encode()).digest()[:6], "big") / 2**48


def unscreened_placement(flags: Collection[str]) -> Placement:
    """The place of a case that is not screened yet.

    >>> [unscreened_placement(flags).priority.name for flags in (["stated_imminent"], ["stated_risk"], [])]
    ['P0', 'P1', 'P2']
    """
    return Placement(min(floor(flags), Priority.P2), Why.NOT_SCREENED)


def ordinary_why(priority: Priority) -> Why:
    """Where nothing more may be said."""
    return {Priority.P0: Why.LIKELY_URGENT, Priority.P1: Why.PERSON_NEEDED}.get(priority, Why.UNSETTLED)


def due_at(priority: Priority, entered_at: datetime, targets: Mapping[Priority, timedelta] = TARGETS) -> datetime:
    """The moment by which a clinician should have looked."""
    return entered_at + targets[priority]


def _unsafe_leads(run: NodeRun) -> bool:
    """Ties lead too: on a tie the more urgent reading counts."""
    unsafe = run.share(Label.UNSAFE)
    return unsafe > 0 and unsafe >= max(run.share(Label.SAFE), run.share(Label.ESCALATE))
