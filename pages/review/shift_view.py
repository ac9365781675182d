"""The shift page's tables, and the first page's figure of how soon somebody looked."""

from datetime import datetime, timedelta

import streamlit as st

from pages.ui import context
from pages.ui.format import duration, rate
from screening.evaluation.metrics import Proportion
from screening.review.actors import Acting, Actor
from screening.review.triage import Priority
from storage.review.reports import Left, PriorityShift, Shift, shift_of

LATELY = timedelta(days=30)


def shift_rows(found: Shift) -> list[dict[str, str]]:
    """One line a priority; every share with the number of cases it is of."""
    return [_row(one, found.left[one.priority]) for one in found.priorities]


def _row(one: PriorityShift, left: Left) -> dict[str, str]:
    within = within_target(one)
    return {
        "Priority": one.priority.name,
        "Arrived": f"{one.arrived:,}",
        "Opened": f"{one.looked_at:,}",
        "Overdue": f"{one.overdue:,}",
        "Median wait": "–" if one.median is None else duration(one.median),
        "90th percentile wait": "–" if one.p90 is None else duration(one.p90),
        "Within target": "–" if within is None else rate(within),
        "Reviews": f"{one.read:,}",
        "Transferred": f"{one.handed_over:,}",
        "Open at end": f"{left.open:,}",
        "Overdue of these": f"{left.late:,}",
    }


def within_target(found: PriorityShift) -> Proportion | None:
    """The share of cases looked at in time; None of none."""
    if found.within_target is None:
        return None
    return Proportion(round(found.within_target * found.told_from), found.told_from)


def first_look_figure(by: Acting) -> tuple[str, str, str]:
    """How soon somebody looked at what is most urgent, over the last days, as of this minute."""
    return first_look_words(_lately(by.actor, by.now.replace(second=0, microsecond=0)))


def first_look_words(found: PriorityShift) -> tuple[str, str, str]:
    """What is told, its value, and what the value rests on."""
    name = f"Median time until opened, P0, {LATELY.days} days"
    if (within := within_target(found)) is None:
        return name, "not yet", "no P0 case was opened or overdue"
    value = duration(found.median) if found.looked_at and found.median is not None else "none opened"
    return name, value, f"median of {found.looked_at:,} · on time: {rate(within)}"


@st.cache_data(max_entries=2, show_spinner=False)
def _lately(_person: Actor, minute: datetime) -> PriorityShift:
    return shift_of(context.database(), _person, Priority.P0, minute - LATELY, minute)


def follow_up_words(found: Shift) -> str:
    """What became of follow-ups in the period."""
    return (
        f"Follow-ups: {found.follow_ups_opened:,} opened, {found.follow_ups_closed:,} closed, "
        f"{found.follow_ups_overdue:,} overdue at the end of the period."
    )
