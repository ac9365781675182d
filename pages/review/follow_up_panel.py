"""What reviews asked for and nobody has closed yet: at the top of the inbox until it is done or handed on."""

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st

from pages.review.inbox_words import due_words, list_name, plain_name
from pages.ui import context
from pages.ui.format import local_time
from pages.ui.labels import DISPOSITION_WORDS, sentence
from pages.ui.shell import FOLDER
from pages.ui.texts import where_html
from pages.ui.widgets import forget_typed
from screening.review.actors import Acting
from screening.review.policy import Action, is_allowed
from screening.review.review_form import Disposition
from screening.text.display import visible
from screening.words import count_of
from storage.database import Database
from storage.review import follow_ups
from storage.review.follow_ups import FollowUp, For, How, NoteMissing, NotOpen, Open
from storage.site.accounts import colleagues

FOR_WORDS: Mapping[For, str] = {
    For.CONTACT_NOW: DISPOSITION_WORDS[Disposition.CONTACT_NOW],
    For.CARE_TEAM: DISPOSITION_WORDS[Disposition.CARE_TEAM],
    For.PROTECTIVE_SERVICES: DISPOSITION_WORDS[Disposition.PROTECTIVE_SERVICES],
    For.SECOND_REVIEW: "Second review needed: reviewed by one person so far",
}
HOW_WORDS = {How.DONE: "Completed", How.HANDED_ON: "Referred externally"}


_UNFOLDED = "follow_ups_unfolded"
"""Session key of whether the reviewer has unfolded them; beside the expander's own, which a new heading begins anew."""


def follow_up_panel(db: Database, by: Acting) -> bool:
    """Nothing where nothing is open; opened by itself while something is overdue. While it is folded nothing is drawn
    in it. Returned is whether it holds fields to type in.
    """
    if not is_allowed(by.actor, Action.FOLLOW_UP, by.id):
        return False
    if said := st.session_state.pop("follow_up_said", None):
        st.toast(said)
    found = follow_ups.open_ones(db, by)
    if not found.shown and not found.others:
        return False
    late = any(one.due_at <= by.now for one in found.shown) or bool(found.left_overdue)
    panel = st.expander(
        heading(found),
        expanded=late or bool(st.session_state.get(_UNFOLDED)),
        icon=":material/assignment_late:",
        key="follow_ups",
        on_change=_remember_fold,
    )
    if not panel.open:
        return False
    with panel:
        if found.others > found.left:
            st.caption(others_words(found))
        if found.left:
            _offer_left(db, by, found)
        if len(found.shown) < found.count - found.others:
            st.caption(f"Shown are the {len(found.shown)} that are due first.")
        people = {other.id: visible(other.name) for other in colleagues(db, by.actor)} if found.shown else {}
        for one in found.shown:
            _one(db, by, one, people)
    return bool(found.shown)


def _remember_fold() -> None:
    st.session_state[_UNFOLDED] = st.session_state["follow_ups"]


def heading(found: Open) -> str:
    """How many there are, and how many of them are overdue."""
    return f"{count_of(found.count, 'follow-up')} open" + (f", {found.overdue} overdue" if found.overdue else "")


def others_words(found: Open) -> str:
    """How many follow-ups are not shown, in words."""
    overdue = found.others_overdue - found.left_overdue
    late = f", {overdue} overdue" if overdue else ""
    return f"{found.others - found.left} more with colleagues{late}. Which cases these are is not shown to you."


def _offer_left(db: Database, by: Acting, found: Open) -> None:
    """Those that whoever had them does not see any more, for whoever reads this to take over."""
    st.text(left_words(found))
    if st.button("Take over", key="follow_ups_take_over"):
        count = follow_ups.take_over(db, by.actor.at(context.now()))
        st.session_state["follow_up_said"] = f"{count_of(count, 'follow-up')} taken over."
        st.rerun()


def left_words(found: Open) -> str:
    """How many follow-ups nobody sees to, in words."""
    late = f", {found.left_overdue} overdue" if found.left_overdue else ""
    return (
        f"{count_of(found.left, 'follow-up')} with nobody{late}: whoever had it reads no cases any more. "
        "Which case it is you see once you take over; a review of yours is then not blinded."
    )


def _one(db: Database, by: Acting, one: FollowUp, people: Mapping[str, str]) -> None:
    with st.container(border=True, key=f"follow_up_{one.id}"):
        plain = plain_name(one.external_id, one.case_id)
        words = FOR_WORDS[one.disposition], plain.replace("_", "\\_"), due_words(one.due_at, by.now)
        st.page_link(FOLDER / "case.py", label=" · ".join(words), query_params={"case": one.case_id})
        if (name := list_name(one.external_id, one.case_id)) != plain:  # as the desk and the list call it
            st.text(name)
        seen_to_by = "you" if one.who == by.id else visible(one.who_name)
        st.text(f"Assigned to {seen_to_by} · open since {local_time(one.opened_at)}")
        if one.note:
            st.text(visible(f"Noted before: {one.note}"))
        if one.where_to_act:
            st.html(where_html(one.where_to_act))
        key = f"follow_up_note_{one.id}"
        note = st.text_input("Note", key=key, max_chars=1_000)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            for how in How:
                if st.button(HOW_WORDS[how], key=f"follow_up_{how.value}_{one.id}"):
                    _act(partial(follow_ups.close, db, by.actor.at(context.now()), one.id, how, note), "Closed.", key)
            if people:
                to = st.selectbox(
                    "Colleague", list(people), index=None, format_func=people.__getitem__, key=f"follow_up_to_{one.id}"
                )
                if st.button("Give to them", key=f"follow_up_give_{one.id}", disabled=to is None) and to is not None:
                    _act(
                        lambda: follow_ups.hand_to(db, by.actor.at(context.now()), one.id, to, note),
                        "Handed over.",
                        key,
                    )


def _act(act: Callable[[], object], said: str, field: str) -> None:
    try:
        act()
    except (NoteMissing, NotOpen) as refused:
        st.error(sentence(refused))
        return
    forget_typed(field)
    st.session_state["follow_up_said"] = said
    st.rerun()
