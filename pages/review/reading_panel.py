"""The right of the inbox before the reading is saved: the decision, and the way back to a lost case."""

from collections.abc import Collection
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.components.sign_in import KEEP
from pages.review import inbox_desk
from pages.review.inbox_desk import Desk, Here, clear, keep
from pages.review.leave_panel import leave, say
from pages.review.rating_form import (
    Draft,
    choices,
    draft_of,
    form_of,
    keep_draft,
    keep_typed,
    missing,
    more_fields,
    point_out,
)
from pages.review.shortcuts import key_of
from screening.review.tiers import Tier
from storage.review.inbox import LeaseLost


def reading(here: Here, desk: Desk, tiers: Collection[Tier] | None) -> None:
    """The form of a case that is held and unread."""
    draft = draft_of(here, desk.case_id)
    alert = st.empty()
    if needed := st.session_state.get(f"needs_note_{desk.case_id}"):
        alert.error(f"{needed} Write it below.", icon=":material/edit_note:")
    st.html('<h2 class="sl-h2">Your reading</h2>')
    if choices(draft, desk.case_id):
        keep_draft(here, desk.case_id, draft)
        st.rerun()
    more_fields(draft, desk.case_id)
    keep_draft(here, desk.case_id, draft)
    st.session_state[KEEP] = partial(keep_typed, here, desk.case_id, draft)
    point_out(draft)
    if desk.lost(here.now):
        _take_up_again(here, desk)
        return
    _save(here, desk, draft, tiers, alert)
    leave(here, desk, alert)


def _save(here: Here, desk: Desk, draft: Draft, tiers: Collection[Tier] | None, alert: DeltaGenerator) -> None:
    pressed = st.button(
        "Save my reading",
        key=f"save_{desk.case_id}",
        type="primary",
        shortcut=key_of("Ctrl+Enter"),
        icon=":material/check:",
        width="stretch",
        disabled=desk.text is None,
    )
    if not pressed:
        return
    form = form_of(draft)
    if form is None:
        alert.error(missing(draft), icon=":material/edit:")
        return
    try:
        inbox_desk.save(here, desk, form, tiers)
    except LeaseLost:
        keep(inbox_desk.without_claim(desk))
        say("The lease on this case was over before you saved. What you filled in is kept as a draft.")
    st.rerun()


def _take_up_again(here: Here, desk: Desk) -> None:
    st.warning(
        "Your lease on this case ran out, so it is free for others. What you filled in is kept as a draft.",
        icon=":material/hourglass_disabled:",
    )
    with st.container(horizontal=True):
        if st.button("Take it up again", key=f"again_{desk.case_id}", shortcut=key_of("T"), type="primary"):
            if (refused := inbox_desk.take_up_again(here, desk)) is not None:
                clear()
                say(refused)
            st.rerun()
        if st.button("Leave it", key=f"leave_{desk.case_id}", shortcut=key_of("S")):
            clear()
            st.rerun()
