"""Everything the agents did not decide: the next case, read blind, labelled, then compared with the evidence."""

from collections.abc import Collection

import streamlit as st

from pages.components import resources
from pages.review.case_text import case_body, case_head, nothing
from pages.review.evidence_view import evidence_html
from pages.review.follow_up_panel import follow_up_panel
from pages.review.inbox_desk import Desk, Here, current, open_at_once
from pages.review.inbox_queue import (
    break_prompt,
    chosen_tiers,
    claim_or_say,
    exposure,
    exposure_html,
    live_queue,
    next_button,
)
from pages.review.inbox_style import STYLE
from pages.review.inbox_words import empty_words
from pages.review.reading_panel import reading
from pages.review.reveal_panel import revealed
from pages.review.shortcuts import key_of, keys_help, switch
from screening.review.policy import Action, allowed
from screening.review.tiers import Tier
from storage.review.drafts import load_draft
from storage.review.queue import counts

WIDTHS = (0.25, 0.42, 0.33)

here = Here(db=resources.database(), person=resources.actor(), site=resources.site(), now=resources.now())
MAY_READ = allowed(here.person, Action.CLAIM_NEXT)


def left_column(desk: Desk | None, tiers: Collection[Tier] | None) -> None:
    """What waits, the main button, and what each may set for themselves."""
    live_queue(here, desk, tiers)
    if not MAY_READ:
        return
    next_button(here, desk, tiers)
    if (said := st.session_state.pop("inbox_said", None)) is not None:
        st.info(said, icon=":material/info:")
    exposed = exposure(here)
    break_prompt(here, desk, exposed)
    with st.container(key="left_foot", gap="xxsmall"):
        st.html(exposure_html(exposed))
        with st.container(horizontal=True, gap="small"):
            switch()
            cover_switch()


def cover_switch() -> None:
    """Texts covered until they are opened, for whoever wants that."""
    covered = st.query_params.get("cover") == "1"
    if st.button(
        "Texts: covered" if covered else "Texts: shown", key="cover", type="tertiary", icon=":material/shield:"
    ):
        if covered:
            st.query_params.pop("cover", None)
        else:
            st.query_params["cover"] = "1"
        st.rerun()


def middle_column(desk: Desk) -> None:
    """The case, and what the engine said of it once that may be seen."""
    case_head(here, desk)
    case_body(here, desk)
    if desk.evidence is not None:
        st.html(evidence_html(desk.evidence))
    elif desk.claim is not None and desk.claim.tier is Tier.P0 and not desk.lost(here.now):
        at_once(desk, desk.case_id)
    if desk.mine is None and desk.claim is not None and desk.claim.tier <= Tier.P1:
        st.text(f"If somebody may be in danger: {here.site.help_text}")  # a site's own words: as text


def at_once(desk: Desk, case_id: str) -> None:
    """A P0 case may be opened with its evidence; the reading then is not blind."""
    words = "Only for P0. Your reading is then stored as not blind."
    if st.button(
        "Show the evidence at once", key=f"at_once_{case_id}", shortcut=key_of("E"), type="tertiary", help=words
    ):
        open_at_once(here, desk)
        st.rerun()


def right_column(desk: Desk, tiers: Collection[Tier] | None) -> None:
    """The decision, then the reveal."""
    with st.container(border=True, key="decision"):
        if desk.mine is None:
            reading(here, desk, tiers)
        else:
            revealed(here, desk, tiers)


def linked(case_id: str) -> None:
    """A case from a link that is not in this person's hands: they may take it where they may take any."""
    kept = load_draft(here.db, here.person, case_id) if allowed(here.person, Action.RATE, here.person.id) else None
    words = "" if kept is None else " What you had filled in is kept and comes back with it."
    nothing("Not in your hands", f"Nothing of this case is shown before you hold it.{words}")
    if st.button("Take this case", key=f"take_{case_id}", type="primary", shortcut=key_of("T")):
        claim_or_say(here, case_id)


follow_up_panel(here.db, here.person, here.now)
with st.container(key="inbox"):
    st.html(STYLE)
    left, middle, right = st.columns(WIDTHS, gap="medium")
    with left:
        tiers = chosen_tiers()
        desk = current(here) if MAY_READ else None
        left_column(desk, tiers)
    if not MAY_READ:
        with middle:
            nothing("You see what waits", "Reading the cases and deciding on them is for clinicians.")
    elif desk is None:
        with middle:
            found = counts(here.db, here.person, here.now, tiers)
            nothing("No case on your desk", empty_words(found) if not found.free else "Take the next case (N).")
        with right:
            keys_help()
    elif desk.only_named:
        with middle:
            linked(desk.case_id)
    else:
        with middle:
            middle_column(desk)
        with right:
            right_column(desk, tiers)
