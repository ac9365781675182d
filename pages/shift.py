"""What a shift was like: arrived, opened, overdue, time until opened, transferred; for a period, to print."""

from datetime import UTC, datetime, time, timedelta

import streamlit as st

from pages.research.figures import bars
from pages.ui import context, widgets
from pages.ui.words import duration, local_time, rate, viewer_zone
from screening.review.policy import Action, require
from storage.review.reports import Shift, shift

LENGTHS = {"8 hours": 8, "12 hours": 12, "24 hours": 24, "7 days": 168, "Chosen times": None}

db, person = context.database(), context.actor()
require(person, Action.VIEW_COUNTS)


def period(now: datetime) -> tuple[datetime, datetime]:
    """The period asked for; ``now`` is to the minute, so that a reload shows the same one."""
    with st.container(key="period", horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox("Period: the last", list(LENGTHS), key="shift_length", bind="query-params", width=240)
        hours = LENGTHS[chosen]
        if hours is not None:
            return now - timedelta(hours=hours), now
        day = st.date_input("From", now.astimezone(viewer_zone()).date() - timedelta(days=1), key="shift_from_day")
        at = st.time_input("at", time(7), key="shift_from_time")
        length = st.number_input("Hours", 1, 24 * 31, 12, key="shift_hours")
    begin = datetime.combine(day, at, viewer_zone()).astimezone(UTC)
    return begin, begin + timedelta(hours=length)


def shift_rows(found: Shift) -> list[dict[str, str]]:
    """One line a priority; every share with the number of cases it is of."""
    return [
        {
            "Priority": one.priority.name,
            "Arrived": f"{one.arrived:,}",
            "Opened": f"{one.looked_at:,}",
            "Overdue": f"{one.overdue:,}",
            "Median wait": "–" if one.median is None else duration(one.median),
            "90th percentile wait": "–" if one.p90 is None else duration(one.p90),
            "Within target": rate(one.within_target) if one.within_target.denominator else "–",
            "Reviews": f"{one.read:,}",
            "Transferred": f"{one.handed_over:,}",
            "Open at end": f"{found.left[one.priority][0]:,}",
            "Overdue of these": f"{found.left[one.priority][1]:,}",
        }
        for one in found.priorities
    ]


st.title("Shift report")
now = context.now()
minute = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
begin, end = period(minute)
if begin >= now:
    st.info("This period has not begun.")
    st.stop()
found = shift(db, person, begin, min(end, now))  # what comes due later is not overdue
rest = f"; the rest, until {local_time(end)}, is still to come" if end > minute else ""
st.text(f"{begin:%Y-%m-%d %H:%M} to {local_time(min(end, minute))}{rest}")
st.table(shift_rows(found), hide_index=True)
st.text(
    f"Follow-ups: {found.follow_ups_opened:,} opened, {found.follow_ups_closed:,} closed, "
    f"{found.follow_ups_overdue:,} overdue at the end of the period."
)
groups = {
    "Arrived": [one.arrived for one in found.priorities],
    "Opened": [one.looked_at for one in found.priorities],
    "Overdue": [one.overdue for one in found.priorities],
    "Open at end": [found.left[one.priority][0] for one in found.priorities],
}
figure = bars([one.priority.name for one in found.priorities], groups, "Cases by priority", "cases")
st.plotly_chart(figure, key="shift_chart", alt="Cases arrived, opened, overdue and open, by priority")
widgets.how_to_read("By priority, never by person.", "shift")
