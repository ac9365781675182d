"""The left of the inbox: how many wait, the next one, a filter, and the list for those who may browse."""

from collections.abc import Collection, Sequence
from datetime import datetime
from html import escape

import streamlit as st

from pages.components.navigation import FOLDER
from pages.components.words import sentence
from pages.review.case_text import tier_html
from pages.review.inbox_desk import Desk, Here, clear, put_back_ahead, take, take_next
from pages.review.inbox_words import (
    TIER_COLOURS,
    TIER_MARKS,
    TIER_WORDS,
    counts_words,
    due_words,
    plain_name,
    span_words,
    why_words,
)
from pages.review.shortcuts import key_of
from screening.review.policy import Action, Forbidden, allowed
from screening.review.tiers import Tier
from screening.text.display import visible
from storage.review import care
from storage.review.adjudication import disagreements
from storage.review.inbox import NotAvailable
from storage.review.queue import Counts, State, Waiting, handed_to_me, queue

ROWS = 8
"""Rows of the list that fit without scrolling."""


def tier_filter() -> Collection[Tier] | None:
    """The tiers chosen; None is all of them. In the address, so that a reload keeps it."""
    picked = st.pills(
        "Tiers",
        [tier.name for tier in Tier],
        selection_mode="multi",
        key="tiers",
        bind="query-params",
        label_visibility="collapsed",
        help="Only cases of these tiers; none chosen is all.",
    )
    return [Tier[name] for name in picked] or None


def title_html(counts: Counts) -> str:
    """The page's name, and the counts in one sentence."""
    words = escape(counts_words(counts))
    return f'<div class="sl-title"><h1>Inbox</h1><p class="sl-small" role="status">{words}</p></div>'


def next_button(here: Here, desk: Desk | None, tiers: Collection[Tier] | None) -> None:
    """The main button, while no unread case is on the desk."""
    busy = desk is not None and not desk.only_named
    if st.button(
        "Next case",
        key="next_case",
        type="primary" if not busy else "secondary",
        shortcut=None if busy else key_of("N"),
        icon=":material/inbox:",
        width="stretch",
        disabled=busy,
    ):
        if not take_next(here, None, tiers):
            st.session_state["inbox_said"] = "No case is free for you at the moment."
        st.rerun()


def exposure(here: Here) -> care.Exposure:
    """How many texts this person has opened today."""
    return care.exposure(here.db, here.person, here.now.replace(hour=0, minute=0, second=0, microsecond=0))


def exposure_html(exposure: care.Exposure) -> str:
    """The count, which is for themselves alone."""
    plural = "text" if exposure.texts == 1 else "texts"
    return (
        f'<p class="sl-small">You opened {exposure.texts} {plural} today, {exposure.since_break} since your last '
        "break. Only you see this.</p>"
    )


def break_html(wording: str, texts: int) -> str:
    """The site's own wording, as text and never as markup.

    >>> break_html("{texts} <b>texts</b>.", 25)
    '<p class="sl-say sl-lines">25 &lt;b&gt;texts&lt;/b&gt;.</p>'
    """
    return f'<p class="sl-say sl-lines">{escape(visible(wording.replace("{texts}", str(texts))))}</p>'


def break_prompt(here: Here, desk: Desk | None, exposure: care.Exposure) -> None:
    """A pause is offered, never forced, and never in the midst of a case; nothing is lost by it."""
    put_off = int(st.session_state.get("break_put_off", 0))
    if not exposure.break_due or (desk is not None and desk.mine is None) or exposure.since_break < put_off:
        return
    with st.container(border=True, key="break"):
        st.html(break_html(here.site.break_wording, exposure.since_break))
        with st.container(horizontal=True):
            if st.button("Take a break", key="take_break", shortcut=key_of("B"), type="primary"):
                put_back_ahead(here, desk)
                care.take_break(here.db, here.person, here.now)
                clear()
                st.session_state["inbox_said"] = "Nothing is held by you. Come back when you are ready."
                st.rerun()
            if st.button("Go on", key="put_off_break"):
                st.session_state["break_put_off"] = exposure.since_break + here.site.break_after_texts // 2 + 1
                st.rerun()


def queue_rows(here: Here, desk: Desk | None, tiers: Collection[Tier] | None, found: Counts) -> None:
    """The cases due first, for supervisors: a press claims one. Never any of a text."""
    if allowed(here.person, Action.ADJUDICATE):
        _disagreements(here)
    if not allowed(here.person, Action.BROWSE_QUEUE):
        st.html(tiers_html(found))
        _handed(here, desk)
        return
    rows = queue(here.db, here.person, here.now, tiers, limit=ROWS)
    may_claim = allowed(here.person, Action.CLAIM_NAMED) and (desk is None or not desk.busy)
    with st.container(key="queue"):
        for row in rows:
            _row(here, row, may_claim=may_claim, on_desk=desk is not None and desk.case_id == row.case_id)


def tiers_html(counts: Counts) -> str:
    """For whoever does not browse: how many are free at each urgency."""
    lines = "".join(
        f'<p class="sl-small">{tier_html(tier)} {number} free</p>'
        for tier, number in sorted(counts.free_by_tier.items())
        if number
    )
    return f'<div class="sl-tiers">{lines}</div>'


def row_words(row: Waiting, now: datetime) -> str:
    """One row: mark and tier, the case, its age; below, why and the time left. In trusted words only."""
    name = plain_name(row.external_id, row.case_id).replace("_", "\\_")
    state = "" if row.state is State.FREE else f" · {_short(row.state)}"
    badge = f":{TIER_COLOURS[row.tier]}-badge[{TIER_MARKS[row.tier]} {TIER_WORDS[row.tier]}]"
    first = f"{badge} **{name}** · {span_words(now - row.entered_at)} old"
    return f"{first}  \n{why_words(row.why)} · {due_words(row.due_at, now)}{state}"


def _short(state: State) -> str:
    return {State.MINE: "yours", State.HELD: "held", State.READ: "read", State.SENIOR: "senior"}.get(state, state.value)


def _row(here: Here, row: Waiting, *, may_claim: bool, on_desk: bool) -> None:
    takeable = may_claim and row.state in (State.FREE, State.MINE, State.SKIPPED, State.RESERVED)
    pressed = st.button(
        row_words(row, here.now),
        key=f"row_{row.case_id}",
        type="secondary" if on_desk else "tertiary",
        width="stretch",
        wrap=True,
        disabled=not takeable and not on_desk,
    )
    if pressed and takeable:
        claim_or_say(here, row.case_id)


def claim_or_say(here: Here, case_id: str) -> None:
    """Claim a chosen case, or say why it cannot be."""
    try:
        take(here, case_id)
    except NotAvailable as refused:
        st.session_state["inbox_said"] = sentence(refused)
    except Forbidden:
        st.session_state["inbox_said"] = "This case is not yours to take."
    st.rerun()


def _disagreements(here: Here) -> None:
    """Cases on which two readers disagree: a senior decides on the case's page, or reads blind first."""
    disputed = disagreements(here.db, here.person, limit=5)
    if not disputed:
        return
    words = f"{len(disputed)}{'+' if len(disputed) == 5 else ''} to decide: readers disagree"
    with st.expander(words, key="disputed", icon=":material/gavel:"):
        if not all(each.read_by_me for each in disputed):
            st.caption("The page of a case shows both readings. To read one blind yourself, take it from the list.")
        for each in disputed:
            name = plain_name(each.external_id, each.case_id).replace("_", "\\_")
            mine = " · read by you" if each.read_by_me else ""
            label = f"{TIER_WORDS[each.tier]} · {name} · {due_words(each.due_at, here.now)}{mine}"
            st.page_link(FOLDER / "case.py", label=label, query_params={"case": each.case_id})


def _handed(here: Here, desk: Desk | None) -> None:
    """What was set aside by or handed to a reviewer who does not browse."""
    waiting: Sequence[str] = handed_to_me(here.db, here.person, here.now)
    for case_id in waiting[:ROWS]:
        busy = desk is not None and desk.busy
        label = f"Set aside for you: case {case_id[-6:]}"
        if st.button(label, key=f"row_{case_id}", width="stretch", disabled=busy):
            claim_or_say(here, case_id)
