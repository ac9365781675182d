"""The right of the inbox before the reading is saved: the decision, and the ways to leave the case to somebody else."""

from collections.abc import Callable, Collection
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.components import inbox_desk
from pages.components.inbox_desk import Desk, Here, clear, keep
from pages.components.rating_form import (
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
from pages.components.shortcuts import key_of
from pages.components.sign_in import KEEP
from storage import inbox
from storage.accounts import colleagues
from storage.actors import Actor
from storage.inbox import LeaseLost, NotAvailable, NoteNeeded
from storage.policy import Forbidden
from storage.tiers import Tier


def say(words: str) -> None:
    """One line that the next run shows."""
    st.session_state["inbox_said"] = words


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
    _leave(here, desk, alert)


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


def _leave(here: Here, desk: Desk, alert: DeltaGenerator) -> None:
    token = desk.claim.token if desk.claim else ""
    with st.container(horizontal=True, gap="xsmall"):
        skip = st.button("Skip", key=f"skip_{desk.case_id}", shortcut=key_of("S"), help="Mine alone, for a while.")
        not_me = st.button(
            "Not me", key=f"not_me_{desk.case_id}", shortcut=key_of("X"), help="Never back to you. No reason, no count."
        )
        again = st.button(
            "✓ Second reader asked" if desk.asked else "Second opinion",
            key=f"second_{desk.case_id}",
            shortcut=key_of("A"),
            disabled=desk.asked,
            help="Another reader decides with you. Save your own reading as usual.",
        )
    note, to, pressed = _with_note(here, desk)
    if again:
        inbox.ask_second_opinion(here.db, here.person, desk.case_id, token, here.now, note)
        keep(inbox_desk.with_second_reader(desk))
        st.rerun()
    given: tuple[Actor, str, str] = (here.person, desk.case_id, token)
    acts: dict[str, tuple[Callable[[], object], str]] = {
        "skip": (lambda: inbox.skip(here.db, *given, here.now, note), "Skipped. It does not come back to you soon."),
        "not_me": (lambda: inbox.not_me(here.db, *given, here.now), "Given back. It does not come to you again."),
        "hold": (lambda: inbox.hold(here.db, *given, note, here.now), "Set aside for you; your note is kept."),
        "release": (lambda: inbox.release(here.db, *given, here.now, note), "Given back."),
    }
    if to is not None:
        words = f"Handed over to {_name(to)}."
        acts["hand_over"] = (lambda: inbox.hand_over(here.db, *given, to.id, note, here.now), words)
    chosen = "skip" if skip else "not_me" if not_me else pressed
    if chosen in acts:
        _left(desk, *acts[chosen], alert)


def _with_note(here: Here, desk: Desk) -> tuple[str, Actor | None, str]:
    """The folded part: a note for the next reader, and what goes with it."""
    needed = f"needs_note_{desk.case_id}" in st.session_state
    with st.expander("Set aside, hand over, give back", key=f"away_{desk.case_id}_{needed}", expanded=needed):
        note = st.text_input("Note for the next reader", key=f"away_note_{desk.case_id}", max_chars=2_000)
        others = colleagues(here.db, here.person)
        to = st.pills("Hand over to", others, key=f"to_{desk.case_id}", format_func=_name) if others else None
        with st.container(horizontal=True, gap="xsmall"):
            names = {"hold": "Set aside", "hand_over": "Hand over", "release": "Give back"}
            off = {"hand_over": to is None}
            pressed = [
                name
                for name, words in names.items()
                if st.button(words, key=f"{name}_{desk.case_id}", disabled=off.get(name, False))
            ]
    return note, to, "".join(pressed[:1])


def _name(person: Actor) -> str:
    return "".join(letter for letter in person.name if letter.isalnum() or letter in " .-")


def _left(desk: Desk, act: Callable[[], object], words: str, alert: DeltaGenerator) -> None:
    """Leave the case by ``act``; say what came of it."""
    try:
        act()
    except NotAvailable as refused:
        alert.error(f"{str(refused)[0].upper()}{str(refused)[1:]}.", icon=":material/edit_note:")
        return
    except NoteNeeded as needed:
        st.session_state[f"needs_note_{desk.case_id}"] = f"{str(needed)[0].upper()}{str(needed)[1:]}."
        st.rerun()
    except (LeaseLost, Forbidden):
        words = "The lease on this case was over already."
    clear()
    say(words)
    st.rerun()
