"""Cases to review: the next one, reviewed blinded, then compared with what the AI made of it.

List and desk are an app in the browser, on the routes of `pages/review/routes.py`: the page only mounts them.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import streamlit as st

from pages.review import desk_view, routes
from pages.review.inbox_words import FOR_WORDS, HOW_WORDS, due_words, list_name, plain_name
from pages.ui import auth, context, html, shell, widgets
from pages.ui.words import local_time, sentence
from screening.review.policy import REVIEWERS, Action, is_allowed
from screening.text.display import visible
from screening.words import count_of
from storage.review import follow_ups
from storage.review.claims import Incomplete
from storage.review.follow_ups import For, How, NotOpen
from storage.site.accounts import colleagues

db, person, site = context.database(), context.actor(), context.site()
by = person.at(context.now())
MAY_READ = is_allowed(person, Action.CLAIM_NEXT)
UNFOLDED = "follow_ups_unfolded"
"""Session key of whether the reviewer has unfolded the follow-ups; a new heading begins the expander's own anew."""


def follow_up_panel() -> bool:
    """What reviews asked for and nobody has closed; whether it holds fields to type in."""
    if not is_allowed(person, Action.FOLLOW_UP, person.id):
        return False
    if st.query_params.pop("follow_ups", None):  # who follows Home's link comes for them
        st.session_state[UNFOLDED] = True
    widgets.show_said("follow_up", st.toast)
    found = follow_ups.count_open(db, by)
    shown = follow_ups.open_ones(db, by) if found.open > found.others else []
    if not shown and not found.others:
        return False
    late = any(one.due_at <= by.now for one in shown) or bool(found.left_overdue)
    panel = st.expander(
        f"{count_of(found.open, 'follow-up')} open{overdue_words(found.open_overdue)}",
        expanded=late or bool(st.session_state.get(UNFOLDED)),
        icon=":material/assignment_late:",
        key="follow_ups",
        on_change=lambda: st.session_state.update({UNFOLDED: st.session_state["follow_ups"]}),
    )
    if not panel.open:
        return False
    with panel:
        if hidden := found.others - found.left:
            late_words = overdue_words(found.others_overdue - found.left_overdue)
            st.caption(f"{hidden} more with colleagues{late_words}. Which cases these are is not shown to you.")
        if found.left:
            offer_left(found)
        if len(shown) < found.open - found.others:
            st.caption(f"Shown are the {len(shown)} that are due first.")
        people = {other.id: visible(other.name) for other in colleagues(db, person)} if shown else {}
        for one in shown:
            show_follow_up(one, people)
    return bool(shown)


def overdue_words(number: int) -> str:
    return f", {number} overdue" if number else ""


def offer_left(found: Any) -> None:
    """Those that whoever had them does not see any more, for whoever reads this to take over."""
    st.text(
        f"{count_of(found.left, 'follow-up')} with nobody{overdue_words(found.left_overdue)}: whoever had it is no "
        "reviewer any more. Which case it is you see once you take over; a review of yours is then not blinded."
    )
    if st.button("Take over", key="follow_ups_take_over"):
        count = follow_ups.take_over(db, context.actor_now())
        widgets.say_after_rerun("follow_up", f"{count_of(count, 'follow-up')} taken over.")


def show_follow_up(one: Any, people: Mapping[str, str]) -> None:
    with st.container(border=True, key=f"follow_up_{one.id}"):
        plain = plain_name(one.external_id, one.case_id)
        words = FOR_WORDS[one.disposition], plain.replace("_", "\\_"), due_words(one.due_at, by.now)
        st.page_link(shell.FOLDER / "case.py", label=" · ".join(words), query_params={"case": one.case_id})
        if (name := list_name(one.external_id, one.case_id)) != plain:  # as the desk and the list call it
            st.text(name)
        seen_to_by = "you" if one.who == by.id else visible(one.who_name)
        st.text(f"Assigned to {seen_to_by} · open since {local_time(one.opened_at)}")
        if one.note:
            st.text(visible(f"Noted before: {one.note}"))
        if one.disposition == For.SECOND_REVIEW and not people:
            st.caption(f"{desk_view.second_review_words(())} Or close this with a note that says why.")
        if one.where_to_act:
            st.html(html.where_html(one.where_to_act))
        field = f"follow_up_note_{one.id}"
        note = st.text_input("Note", key=field, max_chars=1_000)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            for how in How:
                if st.button(HOW_WORDS[how], key=f"follow_up_{how.value}_{one.id}"):
                    end_follow_up(
                        partial(follow_ups.close, db, context.actor_now(), one.id, how, note), "Closed.", field
                    )
            if people:
                to = st.selectbox(
                    "Colleague", list(people), index=None, format_func=people.__getitem__, key=f"follow_up_to_{one.id}"
                )
                if st.button("Give to them", key=f"follow_up_give_{one.id}", disabled=to is None) and to is not None:
                    hand = partial(follow_ups.hand_to, db, context.actor_now(), one.id, to, note)
                    end_follow_up(hand, "Handed over.", field)


def end_follow_up(act: Callable[[], object], said: str, field: str) -> None:
    """Close it or hand it on, and say so; the note in its ``field`` need not be kept any more."""
    try:
        act()
    except (Incomplete, NotOpen) as refused:
        st.error(sentence(refused))
        return
    widgets.forget_typed(field)
    widgets.say_after_rerun("follow_up", said)


with st.container(key="follow_ups_place"):  # always there: what stands after it must not be mounted anew
    fields = follow_up_panel()
if not MAY_READ:
    if auth.taken_roles() & REVIEWERS:
        st.info(f"Your reviewer role was removed: a case that was open here has gone back to the queue. {auth.KEPT}")
    st.info("You see the queue. Reviewing cases is for clinicians.")
shell.mount("inbox", {"may": MAY_READ, **routes.offer(db, person), **desk_view.fixed(person, site)}, "inbox")
widgets.keep_typed(person, fields=fields)
