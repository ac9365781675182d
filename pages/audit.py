"""Who saw, claimed, reviewed, exported and changed what; and whether the record of it is whole."""

import re

import pandas as pd
import streamlit as st

from jobs.notify import kept_anchors
from pages.ui import auth, context, widgets
from pages.ui.words import time_column
from screening.review.policy import LOCAL_USER, SYSTEM, Action, require
from screening.text.display import visible
from screening.words import count_of
from storage.audit_log import Anchor, anchor, count_events, events, kinds, names, verify

PAGE = 50

db, person = context.database(), context.actor()
require(person, Action.VIEW_AUDIT)


def check() -> None:
    """The button, the checkpoint to take away or to paste, and what was found."""
    line = st.text_input(
        "External checkpoint",
        placeholder="Paste a line of a checkpoint file; the site's own file is always compared",
        key="anchor",
    )
    try:
        brought = [Anchor.from_json(line)] if line.strip() else []
    except ValueError:
        st.error("This is not a checkpoint.", icon=":material/error:")
        st.stop()
    with st.container(horizontal=True):
        pressed = st.button("Verify log", type="primary", icon=":material/verified_user:")
        st.download_button(
            "Download checkpoint",
            data=auth.check_before(Action.VIEW_AUDIT, lambda: anchor(db).as_json().encode()),
            file_name="audit-checkpoint.json",
            mime="application/json",
            on_click="ignore",
            icon=":material/anchor:",
            help="Keep it where nobody who can write the database can change it: it shows when events were cut off.",
        )
    if not pressed:
        return
    try:
        kept = [*brought, *kept_anchors(context.settings())]
    except (ValueError, OSError):
        st.error("The site's checkpoint file cannot be read, or has a line that is not a checkpoint.")
        return
    with st.spinner("Checking every event…"):
        found = verify(db, kept)
    unbroken = f"The chain of {count_of(found.events, 'event')} is unbroken"
    if not found.ok:
        st.error(f"Changed: event {found.seq}: {found.problem}.", icon=":material/gpp_bad:")
    elif found.doubt is not None:
        st.warning(f"Not proven. {unbroken}, but {found.doubt}.", icon=":material/gpp_maybe:")
    else:
        st.success(
            f"Unchanged. {unbroken}, the texts, outcomes, reviews and accounts they made are unchanged, and "
            f"checkpoints prove it up to event {found.anchored:,}.",
            icon=":material/verified:",
        )


def in_words(code: str) -> str:
    """An action's code, or the name or code in a detail, as words; what is no code stays as it is."""
    return code.replace("_", " ") if re.fullmatch("[a-z0-9]+(_[a-z0-9]+)+", code) else code


def _value(value: str | float | list[str] | None) -> str:
    """A detail; an account's id as its name."""
    if value is None or isinstance(value, bool):
        return {True: "yes", False: "no", None: "none"}[value]
    each = value if isinstance(value, list) else [str(value)]
    return ", ".join(people.get(one) or in_words(one) for one in each)


st.title("Audit log")
st.caption("Who did what, and when. IDs and numbers only, never a text.")
check()
st.header("Events")
people = {key: visible(name) for key, name in names(db, person).items()}
people = widgets.unique_labels(people | {LOCAL_USER.id: LOCAL_USER.name, SYSTEM.id: SYSTEM.name})
with st.container(horizontal=True):
    who = st.selectbox("Person", list(people), index=None, placeholder="Anyone", format_func=people.__getitem__)
    action = st.selectbox("Action", kinds(db, person), index=None, placeholder="Any", format_func=in_words)
    subject = st.text_input("Case, upload or account", placeholder="Identifier, or a name as listed", max_chars=64)
named = next((key for key, name in people.items() if name.casefold() == subject.strip().casefold()), subject.strip())
which = {"subject": named or None, "who": who, "action": action}
count = count_events(db, person, **which)
if not count:
    st.info("No matching events.")
    st.stop()
pages = -(-count // PAGE)
number = min(st.session_state.get("audit_page", 1), pages)
listed = events(db, person, **which, limit=PAGE, offset=PAGE * (number - 1))
rows = [
    {
        "Event": event.seq,
        "When": event.at,
        "Who": people.get(event.actor, event.actor),
        "Action": in_words(event.action),
        "Case, upload or account": people.get(event.subject or "", event.subject or ""),
        "Details": "; ".join(f"{in_words(name)}: {_value(value)}" for name, value in event.details.items()),
    }
    for event in listed
]
st.dataframe(
    pd.DataFrame(rows),
    hide_index=True,
    height="content",
    column_config={"When": time_column("When", seconds=True)},
    alt="Events, newest first",
)
st.caption(f"{count_of(count, 'event')}, newest first.")
if pages > 1:
    st.pagination(pages, key="audit_page")
