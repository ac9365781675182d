"""What a whole pipeline does at given label mixes, exactly: beside the bound that holds for every text."""

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from screening.engine.pipeline import PipelineConfig
from screening.engine.whole_way import LARGEST_EXACT, Mix, whole_way
from screening.labels import Outcome

MIXES: Mapping[str, Mix] = {
    "clearly safe": (0.9, 0.05, 0.05),
    "clearly unsafe": (0.05, 0.9, 0.05),
    "doubtful": (0.6, 0.2, 0.2),
    "safe and unsafe close": (0.5, 0.45, 0.05),
}
"""Shares of safe, unsafe and escalate among an agent's answers."""


def whole_way_panel(pipeline: PipelineConfig, key: str) -> None:
    """An expander with the exact values at four mixes and at one of the reader's own, for all agents alike."""
    with st.expander("What the whole way does at given mixes of answers, exactly"):
        left, right = st.columns(2)
        safe = left.number_input("Safe, % of an agent's answers", 0, 100, 75, key=f"{key}_mix_safe")
        unsafe = right.number_input("Unsafe, %", 0, 100 - safe, min(15, 100 - safe), key=f"{key}_mix_unsafe_{safe}")
        own = (safe / 100, unsafe / 100, (100 - safe - unsafe) / 100)
        rows = [_row(pipeline, name, mix) for name, mix in {**MIXES, "as entered": own}.items()]
        if None in rows:
            most = ", ".join(f"{rule.__name__} {calls}" for rule, calls in LARGEST_EXACT.items())
            st.caption(f"An agent may make too many calls for exact values here (at most: {most}).")
            return
        st.dataframe(pd.DataFrame(rows), hide_index=True)
        st.caption(
            "By dynamic programming, for agents that all answer with this mix and independently of each other; how a "
            "model answers is not known beforehand, so the bound for every text stands beside it."
        )


def _row(pipeline: PipelineConfig, name: str, mix: Mix) -> dict[str, str] | None:
    found = whole_way(pipeline, {node.name: mix for node in pipeline.nodes})
    if found is None:
        return None
    return {
        "Answers": f"{name}: {' / '.join(f'{share:.0%}' for share in mix)}",
        "Safe": f"{found.ends[Outcome.SAFE.value]:.3%}",
        "Unsafe": f"{found.ends[Outcome.UNSAFE.value]:.3%}",
        "To a clinician": f"{found.ends[Outcome.HUMAN_REVIEW.value]:.3%}",
        "Some label not the usual": f"{found.wrong:.2g}",
        "Mean calls": f"{found.calls:.1f}",
    }
