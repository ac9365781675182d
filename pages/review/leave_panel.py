"""The ways to leave a case unread to somebody else, and to ask for a second reader; each shown with its key."""

from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.components.options import told_apart
from pages.components.words import sentence
from pages.review import inbox_desk
from pages.review.inbox_desk import Desk, Here, clear, keep
from pages.review.shortcuts import key_of
from screening.review.policy import Forbidden
from storage.review import inbox
from storage.review.inbox import LeaseLost, NotAvailable, NoteNeeded
from storage.site.accounts import colleagues

To = tuple[str, str]
"""An account's id, and the name under which it was chosen."""
LOST = "The lease on this case was over already. What you filled in is kept as a draft."


def say(words: str) -> None:
    """One line that the next run shows."""
    st.session_state["inbox_said"] = words


def leave(here: Here, desk: Desk, alert: DeltaGenerator) -> None:
    """The buttons, and what a press on one of them does."""
    pressed = _buttons(desk)
    note, to, folded = _with_note(here, desk)
    pressed = pressed or folded
    if pressed == "second":
        _ask(here, desk, note)
    elif pressed:
        _left(desk, *_acts(here, desk, note, to)[pressed], alert)


def _buttons(desk: Desk) -> str:
    asked = "✓ Second reader asked" if desk.asked else "Second opinion"
    buttons = {
        "skip": ("Skip", "S", "Mine alone, for a while."),
        "not_me": ("Not me", "X", "Never back to you. No reason, no count."),
        "second": (asked, "A", "Another reader decides with you. Save your own reading as usual."),
    }
    with st.container(horizontal=True, gap="xsmall"):
        pressed = [
            name
            for name, (words, key, why) in buttons.items()
            if st.button(
                words,
                key=f"{name}_{desk.case_id}",
                shortcut=key_of(key),
                help=why,
                disabled=name == "second" and desk.asked,
            )
        ]
    return "".join(pressed[:1])


def _ask(here: Here, desk: Desk, note: str) -> None:
    token = desk.claim.token if desk.claim else ""
    try:
        inbox.ask_second_opinion(here.db, here.person, desk.case_id, token, here.now, note)
    except LeaseLost:
        keep(inbox_desk.without_claim(desk))
        say(LOST)
    else:
        keep(inbox_desk.with_second_reader(desk))
    st.rerun()


def _acts(here: Here, desk: Desk, note: str, to: To | None) -> dict[str, tuple[Callable[[], object], str]]:
    """What each button does, and what is said afterwards."""
    given = (here.person, desk.case_id, desk.claim.token if desk.claim else "")
    acts: dict[str, tuple[Callable[[], object], str]] = {
        "skip": (lambda: inbox.skip(here.db, *given, here.now, note), "Skipped. It does not come back to you soon."),
        "not_me": (lambda: inbox.not_me(here.db, *given, here.now), "Given back. It does not come to you again."),
        "hold": (lambda: inbox.hold(here.db, *given, note, here.now), "Set aside for you; your note is kept."),
        "release": (lambda: inbox.release(here.db, *given, here.now, note), "Given back."),
    }
    if to is not None:
        account_id, name = to
        words = f"Handed over to {name}."
        acts["hand_over"] = (lambda: inbox.hand_over(here.db, *given, account_id, note, here.now), words)
    return acts


def _with_note(here: Here, desk: Desk) -> tuple[str, To | None, str]:
    """The folded part: a note for the next reader, and what goes with it."""
    needed = f"needs_note_{desk.case_id}" in st.session_state
    with st.expander("Set aside, hand over, give back", key=f"away_{desk.case_id}_{needed}", expanded=needed):
        note = st.text_input("Note for the next reader", key=f"away_note_{desk.case_id}", max_chars=2_000)
        to = _colleague(here, desk)
        with st.container(horizontal=True, gap="xsmall"):
            names = {"hold": "Set aside", "hand_over": "Hand over", "release": "Give back"}
            off = {"hand_over": to is None}
            pressed = [
                name
                for name, words in names.items()
                if st.button(words, key=f"{name}_{desk.case_id}", disabled=off.get(name, False))
            ]
    return note, to, "".join(pressed[:1])


def _colleague(here: Here, desk: Desk) -> To | None:
    """Whom to hand it to, under a name that is told apart and holds no markup, which the words of a pill may be."""
    others = colleagues(here.db, here.person)
    if not others:
        return None
    names = told_apart({person.id: _plain(person.name) for person in others})
    chosen = st.pills("Hand over to", others, key=f"to_{desk.case_id}", format_func=lambda one: names[one.id])
    return (chosen.id, names[chosen.id]) if chosen else None


def _plain(name: str) -> str:
    return "".join(letter for letter in name if letter.isalnum() or letter in " .-").strip() or "No name"


def _left(desk: Desk, act: Callable[[], object], words: str, alert: DeltaGenerator) -> None:
    """Leave the case by ``act``; say what came of it."""
    try:
        act()
    except NotAvailable as refused:
        alert.error(sentence(refused), icon=":material/edit_note:")
        return
    except NoteNeeded as needed:
        st.session_state[f"needs_note_{desk.case_id}"] = sentence(needed)
        st.rerun()
    except (LeaseLost, Forbidden):
        words = LOST
    clear()
    say(words)
    st.rerun()
