"""What happens to texts called unsafe: chosen before a batch starts, with the readings it will take; said after."""

from collections.abc import Sequence

import streamlit as st

from pages.batches.estimates import ASSUMED
from pages.batches.file_check import Check
from screening.review.reach import Reach
from screening.words import count_of
from storage.batches.batches import BatchSummary

CHOICES = {
    Reach.READ: "A clinician reads each of them",
    Reach.LIST: "On a worklist, to be acknowledged",
    Reach.COUNT: "Count them only",
}
NO_CLAIM = "Listing or counting alone supports no claim about how many texts are called unsafe wrongly."


def choose_reach(token: str, found: Check, batches: Sequence[BatchSummary], version: str) -> Reach:
    """The choice for this upload; only a person chooses that unsafe texts are not reviewed, and is told of how many."""
    chosen: Reach = st.radio(
        "What happens to texts the AI labels unsafe?",
        list(Reach),
        format_func=CHOICES.__getitem__,
        key=f"reach_{token}",
        help="Escalated texts and random quality checks are reviewed in any case. " + NO_CLAIM,
    )
    if chosen is not Reach.READ:
        st.error(unseen_words(found, chosen, _shares(batches, version)[1]), icon=":material/visibility_off:")
    return chosen


def unseen_words(found: Check, reach: Reach, share: float) -> str:
    """How many texts go unreviewed: those the file itself labels unsafe, and those the AI is expected to."""
    expected = round(share * (found.accepted - found.without_call))
    nobody = "No one sees" if reach is Reach.COUNT else "No one reviews"
    known = f"{count_of(found.unsafe, 'text')} labeled unsafe in your file" if found.referenced else ""
    guess = f"about {count_of(expected, 'text')} the AI is expected to label unsafe"
    return f"{nobody} {' and '.join(part for part in (known, guess) if part)}, except random quality checks."


def readings_words(found: Check, reach: Reach, audit_rate: float, batches: Sequence[BatchSummary], version: str) -> str:
    """How many readings this file's texts will ask of clinicians, and what that rests on."""
    left, unsafe, basis = _shares(batches, version)
    sure = left + (unsafe if reach is Reach.READ else 0.0)
    asked = found.accepted - found.without_call
    count = round(found.without_call + asked * (sure + audit_rate * (1 - sure)))
    return f"Clinicians will have about {count_of(count, 'reading')} to do: {basis}."


def _shares(batches: Sequence[BatchSummary], version: str) -> tuple[float, float, str]:
    """Shares of texts left to a person and called unsafe: those seen under these settings, else assumed."""
    same = [one.progress for one in batches if one.configuration_version == version]
    decided = sum(one.safe + one.unsafe + one.human_review for one in same)
    if not decided:
        _, unsafe, left = ASSUMED
        assumed = f"if {left:.0%} are left to a person and {unsafe:.0%} called unsafe"
        return left, unsafe, f"{assumed}; no batch under these settings tells yet"
    left, unsafe = sum(one.human_review for one in same) / decided, sum(one.unsafe for one in same) / decided
    basis = f"by what became of {count_of(decided, 'text')} under these settings"
    if waits := sum(one.left_out for one in same):
        basis += f"; {waits:,} of them {'waits' if waits == 1 else 'wait'} to be read blind and so "
        basis += f"{'counts' if waits == 1 else 'count'} as left to a person"
    return left, unsafe, basis


def reach_fact(reach: Reach) -> str:
    """What holds for a batch that has begun, as a sentence.

    >>> reach_fact(Reach.COUNT)
    'Texts called unsafe are only counted, and read where the audit draws them. What is left to a person is read.'
    """
    said = {
        Reach.READ: "Texts called unsafe enter the inbox and are read by a clinician",
        Reach.LIST: "Texts called unsafe are put on a worklist to be acknowledged, and read where the audit draws them",
        Reach.COUNT: "Texts called unsafe are only counted, and read where the audit draws them",
    }
    return f"{said[reach]}. What is left to a person is read."
