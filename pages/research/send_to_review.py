"""From a list of cases to their review: one, those chosen, or all, with as many controls mixed in."""

import secrets
from collections.abc import Sequence

import streamlit as st

from pages.components import resources
from pages.components.navigation import FOLDER
from pages.components.words import sentence
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.words import count_of
from storage.database import Database
from storage.research.cells import control_cases
from storage.research.listed import Cell
from storage.review.claims import NotAvailable, claim
from storage.review.second_looks import MOST, SecondLooks, request_second_looks

SAID = "sent_to_review"
BLINDED = (
    "Cases enter the queue unmarked, mixed with controls from the cells beside, so reviewers stay blinded. A review of "
    "your own is stored as not blinded, since you have seen the result."
)


def send_panel(db: Database, person: Actor, cell: Cell, listed: Sequence[str], chosen: Sequence[str] = ()) -> None:
    """The buttons below a list; with cases chosen they are of these, else of all that are listed."""
    if not is_allowed(person, Action.REQUEST_REVIEW) or not listed:
        return
    if said := st.session_state.pop(SAID, None):
        st.success(said)
        st.page_link(FOLDER / "inbox.py", label="Open in queue", icon=":material/inbox:",
                     query_params={"batch": cell.batch_id})  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="center"):
        mixed = st.toggle("Add an equal number of control cases", value=True, key="send_controls")
        picked = list(chosen or listed)[: MOST // 2 if mixed else MOST]
        if st.button(f"Send {len(picked):,} to review", type="primary", icon=":material/inbox:", key="send_cases"):
            st.session_state[SAID] = sent_words(_send(db, person, cell, picked, mixed=mixed))
            st.rerun()
        if len(picked) == 1:
            _review_now(db, person, cell, picked[0], mixed=mixed)
    st.caption(BLINDED)


def _send(db: Database, person: Actor, cell: Cell, picked: Sequence[str], *, mixed: bool) -> SecondLooks:
    number = len(picked) if mixed else 0
    controls = control_cases(db, person, cell, picked, number, secrets.token_hex(8)) if number else ()
    return request_second_looks(db, person.at(resources.now()), (*picked, *controls), shown=picked)


def _review_now(db: Database, person: Actor, cell: Cell, case_id: str, *, mixed: bool) -> None:
    """The same for one case, and it is opened at once, for whoever may open a named one."""
    may = is_allowed(person, Action.CLAIM_NEXT) and is_allowed(person, Action.CLAIM_NAMED, person.id)
    if not may or not st.button("Review it now", icon=":material/rate_review:", key="review_now"):
        return
    _send(db, person, cell, [case_id], mixed=mixed)
    try:
        claim(db, person.at(resources.now()), case_id, resources.site().lease)
    except NotAvailable as refused:
        st.warning(sentence(refused))
        return
    st.switch_page(FOLDER / "inbox.py", query_params={"case": case_id})


def sent_words(sent: SecondLooks) -> str:
    """What became of it; controls are among the numbers.

    >>> sent_words(SecondLooks(opened=17, there_before=3, undecided=1))
    '17 cases sent to review, controls included; 3 were already there. Not sent: 1 not screened to the end.'
    """
    left = {"not screened to the end": sent.undecided, "deleted": sent.erased}
    rest = "; ".join(f"{number:,} {why}" for why, number in left.items() if number)
    before = f"; {sent.there_before:,} {'was' if sent.there_before == 1 else 'were'} already there"
    words = f"{count_of(sent.opened, 'case')} sent to review, controls included"
    return f"{words}{before if sent.there_before else ''}.{f' Not sent: {rest}.' if rest else ''}"
