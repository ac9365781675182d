"""Where the audit's readings go: more to texts called safe that something speaks against, from the next batch on."""

import pandas as pd
import streamlit as st

from pages.components import resources
from pages.research.claims import Verified, plain_percent
from screening.engine.doubt import Doubt
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.statistics.verification import Allocation, Seen, neyman
from storage.batches.allocations import allocate, current_allocation
from storage.database import Database

WORDS = {
    Doubt.NONE: "nothing spoke against safe",
    Doubt.OTHER_DRAW: "some draw said escalate or was unusable",
    Doubt.FINDING: "something was found in the text",
    Doubt.LATER_AGENT: "a later agent decided",
    Doubt.UNSAFE_DRAW: "some draw said unsafe",
    Doubt.CLOSE: "the deciding draws were close",
}


def allocation_panel(db: Database, person: Actor, found: Verified) -> None:
    """The strata with what their readings found, the allocation in force, and for administrators a new one."""
    if said := st.session_state.pop("allocation_said", None):
        st.success(said, icon=":material/check:")
    now, seen = current_allocation(db), found.sample.seen
    floor = found.guarantee.floor or 1.0
    st.write(
        "Every text called safe is read with at least the plan's π. Where something spoke against safe, more readings "
        "find more of what is missed: the same number of readings then tells more (Neyman's allocation)."
    )
    st.caption(
        "Batches are bound to the allocation in force when they begin, so it never follows from their own coins or "
        "readings. Audited texts stay unmarked. The guarantee counts only coins below the plan's π; estimates weigh "
        "each text by the probability recorded for it."
    )
    if not seen:
        st.info("No text called safe has been settled with this configuration since evidence is recorded.")
        return
    share = st.number_input(
        "Share of texts called safe to read, on average, %",
        100 * floor, 100.0, min(100.0, 200 * floor), 0.5, "%g", key="allocation_mean",
    )  # fmt: skip
    proposed = neyman(seen, floor, min(1.0, max(floor, share / 100)))
    _show(seen, now.allocation if now else Allocation(), proposed, floor)
    if is_allowed(person, Action.CHANGE_SETTINGS):
        _buttons(db, person, proposed, held=now is not None and bool(now.allocation.probabilities))


def _show(seen: tuple[Seen, ...], now: Allocation, proposed: Allocation, floor: float) -> None:
    rows = [
        {
            "What spoke against safe": WORDS[Doubt(each.name)],
            "Texts": each.cases,
            "Read as safe or unsafe": each.read,
            "Unsafe": each.unsafe,
            "π in force": plain_percent(now.probability(each.name, floor)),
            "π proposed": plain_percent(proposed.probability(each.name, floor)),
        }
        for each in seen
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True)


def _buttons(db: Database, person: Actor, proposed: Allocation, *, held: bool) -> None:
    with st.container(horizontal=True):
        use = st.button("Use for batches from now on", type="primary", key="allocation_use")
        end = st.button("Read all with the plan's π again", key="allocation_end", disabled=not held)
    if use or end:
        version = allocate(db, person.at(resources.now()), proposed if use else Allocation())
        st.session_state["allocation_said"] = f"Allocation {version} holds for batches that begin from now on."
        st.rerun()
