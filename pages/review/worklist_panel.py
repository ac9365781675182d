"""What a batch called unsafe and put on its worklist: looked at one by one, acknowledged together."""

from collections.abc import Sequence

import streamlit as st

from pages.components import resources
from pages.components.case_link import case_link
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.review.reach import Reach
from storage.batches.batches import BatchSummary
from storage.database import Database
from storage.review.worklist import Listed, acknowledge, worklist


def worklist_panel(db: Database, person: Actor, one: BatchSummary) -> None:
    """The list with its button; nothing for a batch without one, or for whoever may not see outcomes."""
    if one.reach is not Reach.LIST or not is_allowed(person, Action.ACKNOWLEDGE):
        return
    found = worklist(db, person, one.id)
    st.subheader("Worklist: called unsafe")
    if said := st.session_state.pop("worklist_said", None):
        st.success(said)
    if not found.waiting:
        st.caption("Nothing waits to be acknowledged here.")
        return
    st.caption(f"{found.waiting:,} wait to be acknowledged. Acknowledging is not reading, and enters no estimate.")
    picked = _table(found.cases)
    if len(picked) == 1:
        case_link(picked[0].case_id)
    if st.button(f"Acknowledge {len(picked):,}", disabled=not picked, type="primary", key="acknowledge"):
        count = acknowledge(db, person.at(resources.now()), [row.case_id for row in picked])
        st.session_state["worklist_said"] = f"{count:,} acknowledged."
        st.rerun()


def _table(rows: Sequence[Listed]) -> list[Listed]:
    """The cases as a table; the ones that were ticked."""
    shown = [{"Id": row.external_id, "Row": row.row, "Agent": row.node, "At": row.completed_at} for row in rows]
    picked = st.dataframe(
        shown,
        hide_index=True,
        on_select="rerun",
        selection_mode="multi-row",
        key=f"worklist_{rows[0].case_id}_{len(rows)}",
        column_config={"At": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm")},
    )
    return [rows[at] for at in picked["selection"]["rows"]]
