"""What happens to texts labeled unsafe: chosen before an upload starts, with what follows in numbers; said after."""

from collections.abc import Mapping, Sequence

import streamlit as st

from pages.batches.estimates import ASSUMED
from pages.batches.file_check import Check
from screening.review.reach import Reach
from screening.words import count_of
from storage.batches.batches import BatchSummary

CHOICES = {
    Reach.READ: "Review every one",
    Reach.LIST: "List for sign-off",
    Reach.COUNT: "Do not review (count only)",
}


def choose_reach(token: str, words: Mapping[Reach, str]) -> Reach:
    """The choice for this upload; only a person chooses that unsafe texts are not reviewed. Beside each stands what
    follows.
    """
    chosen: Reach = st.radio(
        "What happens to texts the AI labels unsafe?",
        [*Reach],
        captions=[words[reach] for reach in Reach],
        format_func=CHOICES.__getitem__,
        key=f"reach_{token}",
        help="Escalated texts and random quality checks are reviewed in any case. Listing or counting alone supports "
        "no claim about how many texts are labeled unsafe wrongly.",
    )
    return chosen


def consequences(found: Check, audit_rate: float, batches: Sequence[BatchSummary], version: str) -> dict[Reach, str]:
    """What follows from each choice, in numbers."""
    escalated, unsafe, basis = _shares(batches, version)
    asked = found.accepted - found.without_call

    def reviews(share: float) -> str:
        count = round(found.without_call + asked * (share + audit_rate * (1 - share)))
        return f"About {count_of(count, 'case')} to review"

    known = f"{found.unsafe:,} labeled unsafe in your file, " if found.referenced else ""
    unseen = f"{known}about {round(unsafe * asked):,} expected from the AI"
    return {
        Reach.READ: f"{reviews(escalated + unsafe)} ({basis}).",
        Reach.LIST: f":red[**No one reviews them**: {unseen}.] {reviews(escalated)}.",
        Reach.COUNT: f":red[**No one sees them**: {unseen}.] {reviews(escalated)}.",
    }


def _shares(batches: Sequence[BatchSummary], version: str) -> tuple[float, float, str]:
    """Shares of texts escalated and labeled unsafe: those seen under these settings, else assumed."""
    same = [one.progress for one in batches if one.configuration_version == version]
    decided = sum(one.safe + one.unsafe + one.human_review for one in same)
    if not decided:
        _, unsafe, escalated = ASSUMED
        return escalated, unsafe, f"assumes {escalated:.0%} escalated, {unsafe:.0%} unsafe; no past data"
    escalated, unsafe = sum(one.human_review for one in same) / decided, sum(one.unsafe for one in same) / decided
    return escalated, unsafe, f"from {count_of(decided, 'text')} screened with these settings"


def reach_fact(reach: Reach) -> str:
    """What holds for an upload that has begun; in red where unsafe texts are not reviewed.

    >>> reach_fact(Reach.READ)
    'Texts the AI labels unsafe or cannot decide are reviewed.'
    """
    if reach is Reach.READ:
        return "Texts the AI labels unsafe or cannot decide are reviewed."
    listed = " They are listed for sign-off." if reach is Reach.LIST else ""
    return (
        f":red[**Texts labeled unsafe are not reviewed in this upload**], except a random quality-check sample."
        f"{listed} Escalated texts are reviewed."
    )
