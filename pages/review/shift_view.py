"""The shift page's tables, and the first page's figure of how soon somebody looked."""

from datetime import datetime, timedelta

import streamlit as st

from pages.ui import context
from pages.ui.format import duration, rate
from screening.evaluation.metrics import Proportion
from screening.review.actors import Acting, Actor
from screening.review.triage import Tier
from storage.review.reports import Left, Shift, TierShift, shift_of

COLUMNS = ("Priority", "Arrived", "First reviewed", "Overdue", "Median wait", "90th percentile wait", "Within target",
           "Reviews", "Transferred", "Open at end", "Overdue of these")  # fmt: skip
LATELY = timedelta(days=30)


def table_html(found: Shift) -> str:
    """One line a tier; every share with the number of cases it is of."""
    head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    rows = "".join(
        f'<tr><th scope="row">{one.tier.name}</th>{_cells(one, found.left[one.tier])}</tr>' for one in found.tiers
    )
    table = f'<table class="sl-shift"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="sl-wide" tabindex="0" role="region" aria-label="The shift by tier">{table}</div>'


def _cells(one: TierShift, left: Left) -> str:
    within = within_target(one)
    share = "–" if within is None else rate(within)
    arrived = (one.arrived, one.looked_at, one.overdue)
    done = (one.read, one.handed_over, left.open, left.late)
    waits = (*("–" if wait is None else duration(wait) for wait in (one.median, one.p90)), share)
    cells = [*(f"{count:,}" for count in arrived), *waits, *(f"{count:,}" for count in done)]
    return "".join(f"<td>{cell}</td>" for cell in cells)


def within_target(found: TierShift) -> Proportion | None:
    """The share of cases looked at in time; None of none."""
    if found.within_target is None:
        return None
    return Proportion(round(found.within_target * found.told_from), found.told_from)


def first_look_figure(by: Acting) -> tuple[str, str, str]:
    """How soon somebody looked at what is most urgent, over the last days, as of this minute."""
    return first_look_words(_lately(by.actor, by.now.replace(second=0, microsecond=0)))


def first_look_words(found: TierShift) -> tuple[str, str, str]:
    """What is told, its value, and what the value rests on."""
    name = f"Median time to first review, P0, {LATELY.days} days"
    if (within := within_target(found)) is None:
        return name, "not yet", "no P0 case was reviewed or overdue"
    value = duration(found.median) if found.looked_at and found.median is not None else "none reviewed"
    return name, value, f"median of {found.looked_at:,} · on time: {rate(within)}"


@st.cache_data(max_entries=2, show_spinner=False)
def _lately(_person: Actor, minute: datetime) -> TierShift:
    return shift_of(context.database(), _person, Tier.P0, minute - LATELY, minute)


def follow_up_words(found: Shift) -> str:
    """What became of follow-ups in the period."""
    return (
        f"Follow-ups: {found.follow_ups_opened:,} opened, {found.follow_ups_closed:,} closed, "
        f"{found.follow_ups_overdue:,} overdue at the end of the period."
    )
