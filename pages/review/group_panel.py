"""Below the desk: other texts of the same author or group, shown when asked for."""

from contextlib import suppress

import streamlit as st
from streamlit.errors import StreamlitAPIException

from pages.components.sign_in import check_session
from pages.components.untrusted_text import show_text
from pages.review.inbox_desk import Desk, Here
from pages.review.inbox_words import list_name
from screening.review.policy import Forbidden
from storage.review.evidence import CaseText
from storage.review.same_group import count_near, reveal_near_texts

OPEN = "group_open"


def group_panel(here: Here, desk: Desk | None) -> None:
    """Nothing where no text is on the desk, or it has no author or group, or there are no others of it."""
    if desk is None or desk.text is None or desk.is_lost(here.now):
        return
    token = desk.claim.token if desk.claim else None
    try:
        number = count_near(here.db, here.by, desk.case_id, token)
    except Forbidden:  # a colleague has taken it meanwhile: the desk says so
        return
    if not number:
        return
    with st.container(key="group_texts", gap="small"):
        if st.session_state.get(OPEN) == desk.case_id:
            near = reveal_near_texts(here.db, here.by, desk.case_id, token)
            st.caption("Other texts of the same author or group in this file, the nearest. No outcomes are shown here.")
            _show("Before it", near.before)
            _show("After it", near.after)
            if st.button("Hide them", key="hide_group", type="tertiary"):
                _switch(None)
        elif st.button(words(number), key="show_group", type="tertiary", icon=":material/menu_book:"):
            _switch(desk.case_id)


def words(number: int) -> str:
    """What the button says.

    >>> words(1), words(6)
    ('One other text of the same author or group', '6 other texts of the same author or group')
    """
    return f"{'One' if number == 1 else number} other text{'' if number == 1 else 's'} of the same author or group"


def _show(where: str, texts: tuple[CaseText, ...]) -> None:
    for each in texts:
        show_text(each.text, label=f"{where}: {list_name(each.external_id, each.case_id)}", max_height_px=160)
        if each.reply is not None:
            show_text(each.reply, label="The reply to it", max_height_px=160)


def _switch(case_id: str | None) -> None:
    check_session(active=True)
    st.session_state[OPEN] = case_id
    with suppress(StreamlitAPIException):
        st.rerun(scope="fragment")
    st.rerun()
