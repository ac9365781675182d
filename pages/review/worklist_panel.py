"""What a batch called unsafe and put on its worklist: looked at one by one, acknowledged together."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from pages.ui import context
from pages.ui.auth import check_session, poll_session
from pages.ui.format import time_column
from pages.ui.widgets import case_link, list_key
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.review.reach import Reach
from screening.words import count_of
from storage.batches.batches import BatchSummary
from storage.database import Database
from storage.review.worklist import acknowledge, worklist

LOOK_EVERY_S = 5.0


def worklist_panel(db: Database, person: Actor, one: BatchSummary) -> None:
    """The list with its button; nothing for a batch without one, or for whoever may not see outcomes."""
    if one.reach is not Reach.LIST or not is_allowed(person, Action.ACKNOWLEDGE):
        return
    st.header("For sign-off: labeled unsafe")
    if said := st.session_state.pop("worklist_said", None):
        st.success(said)
    rows = worklist(db, person, one.id)[0]
    st.fragment(poll_session(_waiting), run_every=LOOK_EVERY_S)(db, person, one.id, rows)
    if rows:
        st.fragment(_choose)(db, person, rows)


def _waiting(db: Database, person: Actor, batch_id: str, shown: Sequence[Any]) -> None:
    """How many wait by now. The rows shown stay under their ticks until somebody asks for what came since."""
    found, waiting = worklist(db, person, batch_id)
    if bool(waiting) != bool(shown):
        st.rerun(scope="app")
    if not shown:
        st.caption("Nothing to sign off here.")
        return
    st.caption(
        f"{count_of(waiting, 'text')} to sign off. Sign-off is not a review and is not used in accuracy estimates."
    )
    if found != shown and st.button("Show the list as it is now", icon=":material/refresh:"):
        st.rerun(scope="app")


def _choose(db: Database, person: Actor, rows: Sequence[Any]) -> None:
    """The list and its button: a part of the page by itself, so that what is ticked and pressed is what was shown."""
    check_session(active=True)
    picked = _table(rows)
    if len(picked) == 1:
        case_link(picked[0].case_id)
    if st.button(f"Sign off {len(picked):,}", disabled=not picked, type="primary", key="acknowledge"):
        count = acknowledge(db, person.at(context.now()), [row.case_id for row in picked])
        st.session_state["worklist_said"] = f"{count:,} signed off."
        st.rerun()


def _table(rows: Sequence[Any]) -> list[Any]:
    """The cases as a table; those that were ticked."""
    shown = [{"ID": row.external_id, "Row": row.row, "Agent": row.node, "Labeled": row.completed_at} for row in rows]
    picked = st.dataframe(
        shown,
        hide_index=True,
        on_select="rerun",
        selection_mode="multi-row",
        key=list_key("worklist", [row.case_id for row in rows]),
        column_config={"Labeled": time_column("Labeled")},
    )
    return [rows[at] for at in picked["selection"]["rows"]]
