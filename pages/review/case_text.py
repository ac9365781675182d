"""The case in the middle of the inbox: who and why, how long it is yours, its text and the reply to it."""

from datetime import datetime
from html import escape

import streamlit as st

from pages.components.resources import now as moment
from pages.components.sign_in import polled
from pages.components.untrusted_text import show_text
from pages.review.evidence_view import engine_label
from pages.review.inbox_desk import UNOPENED, Desk, Here, keep, uncover
from pages.review.inbox_words import TIER_MARKS, TIER_WORDS, clock_words, due_words, plain_name, why_words
from pages.review.shortcuts import key_of
from screening.review.tiers import Tier
from storage.review.evidence import CaseText
from storage.review.inbox import Claim
from storage.review.notes import Note, notes

TEXT_PX, REPLY_PX = 260, 110
LOW_S = 120
TICK_S = 2.0
NOTE_WORDS = {
    "hold": "set it aside",
    "hand_over": "handed it over",
    "release": "gave it back",
    "skip": "skipped it",
    "second_opinion": "asked for a second opinion",
}


def tier_html(tier: Tier) -> str:
    """The tier in words with its mark; colour only repeats it."""
    return f'<span class="sl-tier sl-t{int(tier)}">{TIER_MARKS[tier]} {escape(TIER_WORDS[tier])}</span>'


def head_html(name: str, claim: Claim | None, now: datetime, *, settled: bool = False) -> str:
    """Name, tier, why, and the time left to the target; ``settled`` as `why_words` takes it."""
    if claim is None:
        return f'<div class="sl-head"><h2>{escape(name)}</h2></div>'
    why = f"{why_words(claim.why, settled=settled)} · {due_words(claim.due_at, now)}"
    return (
        f'<div class="sl-head"><h2>{escape(name)}</h2>{tier_html(claim.tier)}<span class="t">{escape(why)}</span></div>'
    )


def lease_html(claim: Claim | None, now: datetime, *, read: bool) -> str:
    """How long the case is this person's."""
    if read:
        return '<div class="sl-lease">✓ read by you</div>'
    if claim is None or claim.expires_at <= now:
        return '<div class="sl-lease low">! lease ran out</div>'
    left = claim.expires_at - now
    low = " low" if left.total_seconds() <= LOW_S else ""
    return f'<div class="sl-lease{low}" role="timer">Held by you · {clock_words(left)} left</div>'


def case_head(here: Here, desk: Desk) -> None:
    """Header and countdown; the page is run again at the moment the lease is over."""
    name = plain_name(desk.text.external_id, desk.case_id) if desk.text else f"case {desk.case_id[-6:]}"
    left, right = st.columns([1, 0.42], vertical_alignment="center")
    settled = desk.evidence is not None and engine_label(desk.evidence) is not None
    left.html(head_html(name, desk.claim, here.now, settled=settled))
    with right:
        if desk.claim is not None and desk.mine is None and not desk.lost(here.now):
            st.fragment(polled(_countdown), run_every=TICK_S)(desk.claim)
        else:
            st.html(lease_html(desk.claim, here.now, read=desk.mine is not None))


def _countdown(claim: Claim) -> None:
    now = moment()
    st.html(lease_html(claim, now, read=False))
    if claim.expires_at <= now:
        st.rerun(scope="app")


def case_body(here: Here, desk: Desk) -> None:
    """The text and what belongs to it; covered where this person wants that, away once the lease is lost."""
    if desk.lost(here.now):
        st.html(
            '<div class="sl-none" role="status"><b>Your lease on this case is over</b>'
            "The text is put away. What you filled in is kept.</div>"
        )
        return
    if desk.text is None:
        _covered(here, desk)
        return
    _texts(desk.text)
    if desk.claim is not None or desk.mine is not None:
        token = desk.claim.token if desk.claim else None
        _notes(here, notes(here.db, here.person, desk.case_id, here.now, token))


def _texts(text: CaseText) -> None:
    if text.reply is None:
        show_text(text.text, label="Text of this case", max_height_px=TEXT_PX + REPLY_PX)
        return
    show_text(text.text, label="Text of this case", max_height_px=TEXT_PX)
    show_text(text.reply, label="The reply to it", max_height_px=REPLY_PX)


def _covered(here: Here, desk: Desk) -> None:
    st.html('<div class="sl-none"><b>The text is covered</b>It is loaded and counted when you open it.</div>')
    if st.button(
        "Open the text", key=f"open_{desk.case_id}", shortcut=key_of("O"), type="primary", icon=":material/visibility:"
    ):
        keep(uncover(here, desk))
        st.rerun()


def _notes(here: Here, left: tuple[Note, ...]) -> None:
    told = [each for each in left if each.note != UNOPENED]
    if told:
        lines = "".join(_note(each, (here.person.name, here.person.id)) for each in told[-3:])
        st.html(f'<div role="note" aria-label="Notes of other readers">{lines}</div>')


def _note(note: Note, me: tuple[str, str]) -> str:
    author = "you" if note.author in me else note.author
    did = NOTE_WORDS.get(note.kind, note.kind)
    return f'<p class="sl-small">{escape(author)} {escape(did)}: {escape(note.note)}</p>'


def nothing(title: str, words: str) -> None:
    """An empty place that says why it is empty."""
    st.html(f'<div class="sl-none" role="status"><b>{escape(title)}</b>{escape(words)}</div>')
