"""Cases to review: the next one, reviewed blinded, then compared with what the AI made of it.

List and desk are an app in the browser, on the routes of `pages/review/routes.py`: the page only mounts them.
"""

from datetime import timedelta

import streamlit as st

from pages.review.desk_view import fixed
from pages.review.follow_up_panel import follow_up_panel
from pages.review.inbox_queue import offer, view_of
from pages.review.inbox_words import HOW_CERTAIN, LABEL_WORDS, list_name
from pages.ui import context
from pages.ui.auth import KEPT, taken_roles
from pages.ui.format import last_midnight, local_time
from pages.ui.html import macros
from pages.ui.labels import literal
from pages.ui.widgets import keep_typed, mount
from screening.review.policy import Action, Forbidden, is_allowed
from storage.batches.batch_state import UnknownBatch
from storage.batches.batches import find_batch
from storage.review import reports
from storage.review.inbox import REVIEWERS
from storage.review.reviews import MyReview, my_reviews

WIDTHS = (0.25, 0.75)
db, person, site = context.database(), context.actor(), context.site()
by = person.at(context.now())
MAY_READ = is_allowed(person, Action.CLAIM_NEXT)
KEYS = st.query_params.get("keys") != "off"


def batch_filter() -> None:
    """Said above the list where it is of one upload alone, with the way to all."""
    if (batch := view_of(st.query_params.to_dict()).batch) is None:
        return
    try:
        name = find_batch(db, person, batch).name
    except (UnknownBatch, Forbidden):
        name = "one upload"
    with st.container(border=True, key="of_batch", horizontal=True):
        st.markdown(f"Only cases of **{literal(name)}**")
        if st.button("Show all", key="all_batches"):
            switch("batch", "")


def exposure_words() -> str:
    """How many texts this person has opened since midnight (UTC), and since their last break: each sees their own."""
    today, hours = reports.exposure(db, by, last_midnight(by.now)), reports.STRETCH // timedelta(hours=1)
    since = f"since last break (last {hours} hours): {today.since_break:,}"
    return f"Opened today: {today.texts:,} · {since} (visible only to you)"


def my_reviews_html() -> str:
    """One's own reviews, the newest first, each with what became of it."""
    shown = []
    for each in my_reviews(db, person, limit=20):
        certainty = f"{LABEL_WORDS[each.label].lower()}, {HOW_CERTAIN[each.certainty]}"
        words = " · ".join((local_time(each.at), certainty, what_became_of(each)))
        shown.append((each.case_id, list_name(each.external_id, each.case_id), words))
    return str(macros("trail").mine(shown))


def what_became_of(review: MyReview) -> str:
    """What waits with its case, or how it ended."""
    if review.waits_for is not None:
        return "awaiting a senior" if review.waits_for == "third" else "awaiting second review"
    if review.accepted is None:
        return "deleted"
    return f"final label differs: {LABEL_WORDS[review.accepted].lower()}" if review.otherwise else "final"


def switch(name: str, value: str) -> None:
    """Set this in the address, which outlives a reload; take it out where it is empty."""
    if value:
        st.query_params[name] = value
    else:
        st.query_params.pop(name, None)
    st.rerun()


def own_switches() -> None:
    """What each may set for themselves: single keys, and texts covered until they are opened."""
    covered = st.query_params.get("cover") == "1"
    words = "Shortcuts: on" if KEYS else "Shortcuts: off"
    about = "Turn single keys off or on"
    if st.button(words, key="shortcuts", type="tertiary", icon=":material/keyboard:", help=about):
        switch("keys", "off" if KEYS else "")
    words = "Text preview: hidden" if covered else "Text preview: on"
    if st.button(words, key="cover", type="tertiary", icon=":material/shield:"):
        switch("cover", "" if covered else "1")


with st.container(key="follow_ups_place"):  # always there: what stands after it must not be mounted anew
    fields = follow_up_panel(db, by)
with st.container(key="inbox"):
    left, right = st.columns(WIDTHS, gap="medium")
    with left:
        batch_filter()
        mount("queue", {"keys": KEYS, "may": MAY_READ, **offer(db, person)}, "queue")
        if MAY_READ:
            with st.container(key="left_foot", gap="xxsmall"):
                st.caption(exposure_words())
                folded = st.expander("My reviews", key="my_reviews", on_change="rerun")
                if folded.open:  # asked for and drawn only then
                    folded.html(my_reviews_html())
                with st.container(horizontal=True, gap="small"):
                    own_switches()
    with right:
        if MAY_READ:
            mount("desk", {"keys": KEYS, **fixed(person, site)}, "desk")
        else:
            if taken_roles() & REVIEWERS:
                st.info(f"Your reviewer role was removed: a case that was open here has gone back to the queue. {KEPT}")
            st.info("You see the queue. Reviewing cases is for clinicians.")
keep_typed(person, fields=fields)
