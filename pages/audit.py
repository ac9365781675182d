"""Who saw, claimed, rated, exported and changed what; and whether the record of it is whole."""

import json
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from pages.components import resources
from pages.components.options import told_apart
from pages.components.sign_in import rechecked
from screening.review.actors import LOCAL_USER, SYSTEM
from screening.review.policy import Action, require
from screening.text.display import visible
from storage.site.audit_log import (
    Anchor,
    Event,
    Verification,
    Which,
    anchor,
    count_events,
    events,
    kinds,
    names,
    verify,
)

PAGE = 50

db, person = resources.database(), resources.actor()
require(person, Action.VIEW_AUDIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One press of the button: what was found, and whether an anchor was compared."""

    found: Verification
    anchored: bool


def kept_anchor() -> Anchor | None:
    """The anchor somebody brings along; None without one, or after saying that it is none."""
    line = st.text_input(
        "Anchor kept outside",
        placeholder="Paste the line of an anchor file, to find events cut off since",
        key="anchor",
    )
    if not line.strip():
        return None
    try:
        return Anchor.from_json(line)
    except ValueError:
        st.error("This is not an anchor.", icon=":material/error:")
        st.stop()


def check() -> None:
    """The button, the anchor to take away, and what was found."""
    kept = kept_anchor()
    with st.container(horizontal=True):
        pressed = st.button("Verify the whole log", type="primary", icon=":material/verified_user:")
        st.download_button(
            "Download an anchor",
            data=rechecked(Action.VIEW_AUDIT, lambda: anchor(db).as_json().encode()),
            file_name="audit-anchor.json",
            mime="application/json",
            on_click="ignore",
            icon=":material/anchor:",
            help="Keep it where whoever can write the database cannot: it finds events cut off at the end.",
        )
    if pressed:
        with st.spinner("Recomputing every hash…"):
            said(Checked(found=verify(db, kept), anchored=kept is not None))


def said(checked: Checked) -> None:
    """The result in a sentence."""
    found = checked.found
    if not found.ok:
        st.error(f"The log was changed: event {found.seq}: {found.problem}.", icon=":material/gpp_bad:")
        return
    compared = (
        "The anchor is part of it: nothing was cut off since."
        if checked.anchored
        else "Whether its end was cut off shows only against an anchor."
    )
    st.success(f"All {found.events:,} events follow from one another. {compared}", icon=":material/verified:")


def chosen(people: dict[str, str]) -> Which:
    """What the list is narrowed to."""
    with st.container(horizontal=True):
        who = st.selectbox("Person", list(people), index=None, placeholder="Anybody", format_func=people.__getitem__)
        action = st.selectbox("Action", kinds(db, person), index=None, placeholder="Any", format_func=in_words)
        subject = st.text_input("Case, batch or account", placeholder="Identifier", max_chars=64)
    return Which(subject=subject.strip() or None, who=who, action=action)


def in_words(action: str) -> str:
    """An action's code as words."""
    return action.replace("_", " ")


def row(event: Event, people: dict[str, str]) -> dict[str, object]:
    """One event as the table shows it."""
    return {
        "Event": event.seq,
        "When (UTC)": f"{event.at:%Y-%m-%d %H:%M:%S}",
        "Who": people.get(event.actor, event.actor),
        "Did": in_words(event.action),
        "To": event.subject or "",
        "Details": "" if not event.details else json.dumps(dict(event.details)),
    }


st.title("Audit log")
st.caption("Identifiers and numbers only, never a text. Each event's hash covers the one before it.")
check()
st.header("Events")
people = {key: visible(name) for key, name in names(db, person).items()}
people = told_apart(people | {LOCAL_USER.id: LOCAL_USER.name, SYSTEM.id: SYSTEM.name})
which = chosen(people)
count = count_events(db, person, which)
if not count:
    st.info("No event fits.")
    st.stop()
pages = -(-count // PAGE)
number = min(st.session_state.get("audit_page", 1), pages)
listed = events(db, person, which=which, limit=PAGE, offset=PAGE * (number - 1))
st.dataframe(
    pd.DataFrame([row(event, people) for event in listed]),
    hide_index=True,
    height="content",
    alt="Events, newest first",
)
st.caption(f"{count:,} event{'' if count == 1 else 's'}, newest first.")
if pages > 1:
    st.pagination(pages, key="audit_page")
