"""The right of the inbox after the reading is saved: the receipt, what the engine said, agree or revise, go on."""

from collections.abc import Collection
from html import escape

import streamlit as st

from pages.components.navigation import FOLDER
from pages.components.words import sentence
from pages.review import inbox_desk
from pages.review.evidence_view import engine_label, outcome_words
from pages.review.inbox_desk import Desk, Here, ahead, clear, put_back_ahead, take_next
from pages.review.inbox_words import CERTAINTY_WORDS, LABEL_WORDS, NEXT_WORDS, TIER_WORDS
from pages.review.leave_panel import say
from pages.review.rating_form import choices, draft_of, form_of, missing, more_fields, point_out
from pages.review.shortcuts import key_of
from screening.review.tiers import Tier
from storage.review.adjudication import ReasonNeeded
from storage.review.evidence import Evidence
from storage.review.ratings import Rating


def revealed(here: Here, desk: Desk, tiers: Collection[Tier] | None) -> None:
    """Receipt, comparison, and the way on."""
    if desk.mine is None or desk.evidence is None:
        return
    st.html(f'<h2 class="sl-h2">Saved</h2>{receipt_html(desk.mine, desk)}{compared_html(desk.mine, desk.evidence)}')
    _go_on(here, desk, tiers)
    if st.session_state.get(f"revising_{desk.case_id}"):
        _revision(here, desk, desk.mine)
    elif st.button("Change my reading", key=f"revise_{desk.case_id}", shortcut=key_of("V"), icon=":material/edit:"):
        st.session_state[f"revising_{desk.case_id}"] = True
        st.rerun()
    st.page_link(FOLDER / "case.py", label="The whole trail of this case", query_params={"case": desk.case_id})


def receipt_html(mine: Rating, desk: Desk) -> str:
    """What was stored, and what becomes of the case."""
    following = desk.receipt.next if desk.receipt else None
    becomes = NEXT_WORDS[following] if following else ""
    version = f" (version {mine.version})" if mine.version > 1 else ""
    blind = "" if mine.blind else " Stored as not blind."
    return (
        f'<p class="sl-say" role="status">✓ <b>{escape(reading_words(mine))}</b>{version}. '
        f"{escape(becomes + blind)}</p>"
        f'<p class="sl-small">Receipt {escape(mine.id[-12:])} · {mine.at:%H:%M:%S} UTC</p>'
    )


def reading_words(mine: Rating) -> str:
    """Label and certainty."""
    return f"{LABEL_WORDS[mine.form.label]}, {CERTAINTY_WORDS[mine.form.certainty].lower()}"


def compared_html(mine: Rating, evidence: Evidence) -> str:
    """What the engine did with the same text, and whether it is the same."""
    label = engine_label(evidence)
    if label is None:
        verdict = "The engine gave no label: people decide."
    elif label.value == mine.form.label.value:
        verdict = "≡ Your reading and the engine's label are the same."
    else:
        verdict = f"≠ You say {LABEL_WORDS[mine.form.label].lower()}, the engine says {label}."
    return (
        f'<p class="sl-say"><b>The engine:</b> {escape(outcome_words(evidence))}</p>'
        f'<p class="sl-say">{escape(verdict)}</p>'
    )


def _go_on(here: Here, desk: Desk, tiers: Collection[Tier] | None) -> None:
    waiting = ahead(here, desk)
    loaded = "No further case is loaded." if waiting is None else f"Loaded for you: {TIER_WORDS[waiting.tier]}."
    if st.button(
        "Keep it, next case",
        key=f"next_{desk.case_id}",
        type="secondary" if st.session_state.get(f"revising_{desk.case_id}") else "primary",
        shortcut=key_of("N"),
        icon=":material/arrow_forward:",
        width="stretch",
    ):
        if not take_next(here, desk, tiers):
            say("Saved. No further case is free for you at the moment.")
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Finish", key=f"finish_{desk.case_id}", shortcut=key_of("F"), help="Give back what is loaded."):
            put_back_ahead(here, desk)
            clear()
            say("Saved. Nothing is held by you.")
            st.rerun()
        st.html(f'<p class="sl-small">{escape(loaded)}</p>')


def _revision(here: Here, desk: Desk, mine: Rating) -> None:
    name = f"{desk.case_id}_v{mine.version + 1}"
    draft = draft_of(here, name, start=mine.form)
    if choices(draft, name):
        st.rerun()
    more_fields(draft, name)
    point_out(draft)
    reason = st.text_input("Why you change it", key=f"reason_{name}", max_chars=2_000)
    if not st.button(
        "Save the change", key=f"save_{name}", type="primary", shortcut=key_of("Ctrl+Enter"), icon=":material/check:"
    ):
        return
    form = form_of(draft)
    if form is None:
        st.error(missing(draft), icon=":material/edit:")
        return
    try:
        inbox_desk.revise(here, desk, form, reason)
    except ReasonNeeded as needed:
        st.error(sentence(needed), icon=":material/edit_note:")
        return
    st.session_state[f"revising_{desk.case_id}"] = False
    st.rerun()
