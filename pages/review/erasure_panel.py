"""Erasing what people wrote, and how long each kind of data is kept."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from pages.site.site_settings import settings_form
from pages.ui import context
from pages.ui.format import local_time
from pages.ui.labels import sentence
from screening.review.actors import Actor
from screening.text.display import visible
from screening.words import count_of
from storage.database import Database
from storage.review import erasure
from storage.review.erasure import By, Erasure, NotErased, Selection

BY_WORDS = {
    By.CASE: "One case, by its id here",
    By.EXTERNAL_ID: "All cases with this id of the files",
    By.GROUP: "All cases of this group",
}


def erasure_panel(db: Database, person: Actor) -> None:
    """Requests that wait, the form, and the times."""
    st.caption(
        "Text, reply, IDs, highlights, notes and drafts are permanently deleted and the case is removed from the "
        "queue. Its hash, its labels and numbers and the audit log stay; exports say [erased]. Files exported before, "
        "and backups, still hold it."
    )
    if said := st.session_state.pop("erasure_said", None):
        st.success(said)
    for request in erasure.open_requests(db, person):
        _request(db, person, request)
    _form(db, person)
    _retention(db, person)


def _request(db: Database, person: Actor, request: Any) -> None:
    with st.container(border=True, key=f"erasure_{request.id}"):
        st.text(f"{BY_WORDS[By(request.kind)]}: {visible(request.value)}")
        st.text(f"Asked for on {local_time(request.requested_at)}: {visible(request.reason)}")
        with st.container(horizontal=True):
            mine = request.requested_by == person.id
            if st.button("Delete permanently", key=f"confirm_{request.id}", disabled=mine, type="primary"):
                _try(lambda: erasure.confirm(db, person.at(context.now()), request.id))
            if st.button("Withdraw", key=f"withdraw_{request.id}"):
                _try(lambda: erasure.withdraw(db, person.at(context.now()), request.id))
        if mine:
            st.caption("Somebody else has to confirm what you asked for.")


def _form(db: Database, person: Actor) -> None:
    st.subheader("Erase")
    with st.form("erase", border=False):
        left, right = st.columns(2)
        by = left.selectbox("Which", list(By), format_func=BY_WORDS.__getitem__, key="erase_by") or By.CASE
        value = right.text_input("Id or group", key="erase_value")
        reason = st.text_input("Reason", key="erase_reason", max_chars=1_000, help="Who asked for it, and when.")
        times = st.session_state.get("erased_times", 0)  # said anew each time
        sure = st.checkbox("I have checked the number of cases. This cannot be undone.", key=f"erase_sure_{times}")
        with st.container(horizontal=True):
            looked = st.form_submit_button("Show how many")
            pressed = st.form_submit_button("Erase", type="primary")
    if not value.strip() and (looked or pressed):
        st.error("Say which.")
        return
    which = Selection(by=by, value=value.strip())
    if looked:
        st.info(found_words(erasure.look(db, person, which)))
    if pressed and not sure:
        st.error("Look at the number of cases first, and say that you did.")
    elif pressed:
        _try(lambda: erasure.erase(db, person.at(context.now()), which, reason))


def _try(act: Callable[[], Erasure | None]) -> None:
    try:
        done = act()
    except NotErased as refused:
        st.error(sentence(refused))
        return
    st.session_state["erasure_said"] = "The request is withdrawn." if done is None else done_words(done)
    st.session_state["erased_times"] = st.session_state.get("erased_times", 0) + 1
    st.rerun()


def found_words(found: Erasure) -> str:
    """What would be erased, in words."""
    if not found.cases and not found.rejected:
        return "Nothing of this name is here, or all of it is erased already."
    return f"{_things(found)} would be erased. {backup_words(found)}"


def done_words(done: Erasure) -> str:
    """What was erased, in words."""
    if done.waits_for:
        return f"{_things(done)} will be erased once somebody else has confirmed it."
    return f"{_things(done)} erased. {backup_words(done)}"


def _things(found: Erasure) -> str:
    rejected = f" and {count_of(found.rejected, 'rejected row')}" if found.rejected else ""
    return count_of(found.cases, "case") + rejected


def backup_words(found: Erasure) -> str:
    """Which backups may still hold it."""
    if not found.backups:
        return "No backup was taken by this program since it came in."
    days = ", ".join(f"{local_time(moment)}" for moment in found.backups[-10:])
    return f"Backups that may still hold it, {len(found.backups):,} in all: {days}."


def _retention(db: Database, person: Actor) -> None:
    st.subheader("How long data is kept")
    settings_form(db, person, "keep", "Save times")
    if st.button("Preview expired data"):
        gone = erasure.would_go(db, person.at(context.now()))
        told = ", ".join(f"{count:,} {name}" for name, count in gone.items() if count)
        st.info(f"Expired now: {told}." if told else "Nothing has expired, or no time is set.")
