"""Cases to review: the next one, reviewed blinded, then compared with what the AI made of it."""

import streamlit as st

from pages.review.case_trail import my_readings_html
from pages.review.desk_panel import desk_panel, do_what_is_asked
from pages.review.follow_up_panel import follow_up_panel
from pages.review.inbox_desk import Desk, Here, current
from pages.review.inbox_live import View
from pages.review.inbox_queue import batch_filter, break_prompt, chosen_view, exposure_html, exposure_today, live_queue
from pages.review.shortcuts import switch
from pages.ui import context
from pages.ui.auth import KEPT, taken_roles
from pages.ui.widgets import keep_typed
from screening.review.policy import Action, is_allowed
from storage.review.inbox import READERS
from storage.review.ratings import my_readings

WIDTHS = (0.25, 0.75)


def here_now() -> Here:
    """Who is at the page, and when: asked anew by whatever runs without the rest of it."""
    return Here(
        db=context.database(),
        person=context.actor(),
        site=context.site(),
        now=context.now(),
        batch=chosen_view().batch,
    )


MAY_READ = is_allowed(context.actor(), Action.CLAIM_NEXT)


def left_column(desk: Desk | None, view: View) -> str:
    """What waits, and what each may set for themselves; returns what is said where no case is open."""
    batch_filter(here, view)
    idle_words = live_queue(here, desk, view)
    if not MAY_READ:
        return idle_words
    exposed = exposure_today(here)
    break_prompt(here, desk, exposed)
    with st.container(key="left_foot", gap="xxsmall"):
        st.html(exposure_html(exposed))
        folded = st.expander("My reviews", key="my_readings", on_change="rerun")
        if folded.open:  # asked for and drawn only then
            folded.html(my_readings_html(my_readings(here.db, here.person, limit=20)))
        with st.container(horizontal=True, gap="small"):
            switch()
            cover_switch()
    return idle_words


def cover_switch() -> None:
    """The switch for people who want texts covered until they open them."""
    covered = st.query_params.get("cover") == "1"
    if st.button(
        "Text preview: hidden" if covered else "Text preview: on",
        key="cover",
        type="tertiary",
        icon=":material/shield:",
    ):
        if covered:
            st.query_params.pop("cover", None)
        else:
            st.query_params["cover"] = "1"
        st.rerun()


if MAY_READ:
    do_what_is_asked(here_now, chosen_view().tiers)
here = here_now()
with st.container(key="follow_ups_place"):  # always there: what stands after it must not be mounted anew
    fields = follow_up_panel(here.db, here.by)
with st.container(key="inbox"):
    left, right = st.columns(WIDTHS, gap="medium")
    with left:
        view = chosen_view()
        desk = current(here) if MAY_READ else None
        idle_words = left_column(desk, view)
with right:  # not inside the block above: a fragment copies every place that it is nested in
    if MAY_READ:
        desk_panel(here_now, view.tiers, idle_words)
    else:
        if taken_roles() & READERS:
            st.info(f"Your reviewer role was removed: a case that was open here has gone back to the queue. {KEPT}")
        st.html('<div class="sl-none" role="status"><b>You see the queue</b>Reviewing cases is for clinicians.</div>')
keep_typed(here.person, fields=fields)
