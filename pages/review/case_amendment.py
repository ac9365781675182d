"""A senior's decision on a case: the label that counts, with its reason; an amendment where it is closed."""

from collections.abc import Sequence
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.review.inbox_desk import Here
from pages.review.inbox_words import LABEL_WORDS
from pages.ui.labels import sentence
from pages.ui.widgets import forget_typed
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.review.rating_form import RatingLabel
from storage.review import adjudication
from storage.review.adjudication import Adjudication, Method, ReasonNeeded, StaleVersion
from storage.review.claims import NotAvailable
from storage.review.ratings import Rating

ALONE, DISCUSSED = "alone", "in a discussion"
DECIDED_MEANWHILE = "Somebody else has decided on this case meanwhile: look at it, then press again."
_SEEN = "decide_seen"
"""Session key of the case decided on, and which versions of its label were seen."""


def ways_to_decide(person: Actor, readers: Sequence[str], *, closed: bool) -> list[str]:
    """A reader whom another one contradicts does not decide between the two alone."""
    party = not closed and adjudication.is_party(person, list(dict.fromkeys(readers)))
    return [DISCUSSED] if party else [ALONE, DISCUSSED]


def adjudication_form(
    here: Here, case_id: str, given: Sequence[Rating], made: Sequence[Adjudication], *, closed: bool
) -> None:
    """Label, reason and the button, for seniors only; nothing where nobody has read the case, or where it was closed
    without a label because it was erased.
    """
    if not given or (closed and not made) or not is_allowed(here.person, Action.ADJUDICATE):
        return
    with st.container(border=True, key="adjudication"):
        title = "Change the final label" if closed else "Decide"
        st.html(f'<h2 class="sl-h2">{title}</h2>')
        alert = st.empty()
        first, seen = _versions_seen(case_id, len(made))
        version = f"{case_id}_{first}"
        label = st.pills("Final label", list(LABEL_WORDS), key=f"decide_{version}", format_func=LABEL_WORDS.__getitem__)
        why = f"decide_why_{version}"
        st.text_input("Why", key=why, max_chars=2_000)
        ways = ways_to_decide(here.person, [rating.reviewer for rating in given], closed=closed)
        discussed = st.pills("How", ways, key=f"decide_how_{version}_{closed}", default=ways[0])
        if not st.button("Save", key=f"record_{version}", type="primary", icon=":material/gavel:"):
            return
        if seen != len(made):
            st.session_state[_SEEN] = case_id, first, len(made)
            alert.error(DECIDED_MEANWHILE, icon=":material/edit_note:")
        else:
            _record(here, case_id, label, why, made, alert, discussed=discussed == DISCUSSED, closed=closed)


def _versions_seen(case_id: str, versions: int) -> tuple[int, int]:
    """How many versions there were when this person began to fill in the form, by which its fields are called, and how
    many they have seen since: what is filled in stays when somebody else decides.
    """
    kept, first, seen = st.session_state.get(_SEEN, ("", 0, 0))
    begun = any(st.session_state.get(f"{name}_{case_id}_{first}") for name in ("decide", "decide_why"))
    if kept != case_id or not begun:
        first = seen = versions
    st.session_state[_SEEN] = case_id, first, seen
    return first, seen


def _record(
    here: Here,
    case_id: str,
    label: RatingLabel | None,
    why: str,
    made: Sequence[Adjudication],
    alert: DeltaGenerator,
    *,
    discussed: bool,
    closed: bool,
) -> None:
    if label is None:
        alert.error("Select a label.", icon=":material/edit:")
        return
    reason: str = st.session_state[why]
    try:
        if closed:
            adjudication.amend(here.db, here.by, case_id, label, reason, made[-1].version)
        else:
            method: Literal[Method.DISCUSSION, Method.SENIOR] = Method.DISCUSSION if discussed else Method.SENIOR
            adjudication.adjudicate(here.db, here.by, case_id, label, reason, method)
    except (ReasonNeeded, StaleVersion, NotAvailable) as refused:
        alert.error(sentence(refused), icon=":material/edit_note:")
        return
    forget_typed(why)
    del st.session_state[_SEEN]
    st.rerun()
