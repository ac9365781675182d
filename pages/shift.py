"""What a shift was like: arrived, read, overdue, time to the first look, handed over; for a period, to print."""

from datetime import UTC, datetime, time, timedelta

import streamlit as st

from pages.components import resources
from pages.review.shift_view import follow_up_words, table_html
from screening.review.policy import Action, require
from storage.review.shift import shift

LENGTHS = {"8 hours": 8, "12 hours": 12, "24 hours": 24, "7 days": 168, "Chosen times": None}

db, person = resources.database(), resources.actor()
require(person, Action.VIEW_COUNTS)


def period(now: datetime) -> tuple[datetime, datetime]:
    """The period asked for; ``now`` is to the minute, so that a reload shows the same one."""
    with st.container(key="period", horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox("The last", list(LENGTHS), key="shift_length", bind="query-params", width=240)
        hours = LENGTHS[chosen]
        if hours is not None:
            return now - timedelta(hours=hours), now
        day = st.date_input("From (UTC)", now.date() - timedelta(days=1), key="shift_from_day")
        at = st.time_input("at", time(7), key="shift_from_time")
        length = st.number_input("Hours", 1, 24 * 31, 12, key="shift_hours")
    begin = datetime.combine(day, at, UTC)
    return begin, begin + timedelta(hours=length)


st.title("Shift")
now = resources.now()
minute = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
begin, end = period(minute)
if begin >= now:
    st.info("This period has not begun.")
    st.stop()
found = shift(db, person, begin, min(end, now))  # what comes due later is not overdue
rest = f"; the rest, until {end:%Y-%m-%d %H:%M} UTC, is still to come" if end > minute else ""
st.text(f"{begin:%Y-%m-%d %H:%M} to {min(end, minute):%Y-%m-%d %H:%M} UTC{rest}")
st.html(table_html(found))
st.text(follow_up_words(found))
st.caption(
    "First look: of the cases that arrived in the period, those that somebody had claimed and opened by its end. "
    "Overdue: looked at after their target, or not at all when it passed. Within target: of the cases that were looked "
    "at or whose target has passed. Readings and hand-overs are those made in the period, whenever the case arrived. "
    "Open at the end: all that nobody had closed by then, whenever it arrived; late: those whose target had passed. "
    "Numbers are by tier, never by person. To print, use the browser's own command (Ctrl+P)."
)
