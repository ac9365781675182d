"""Trying a version on a past batch: begin, follow, read the paired figures, open the cases where the two part."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from pages.components import resources
from pages.components.case_link import case_link
from pages.components.words import OUTCOME_WORDS
from pages.research.batch_choice import choose_batch
from pages.research.comparison_table import agreement, lines, parted, slowest_tenth
from screening.engine.pipeline import PipelineConfig
from screening.labels import Outcome
from screening.review.actors import Actor
from screening.review.policy import Action, allowed
from screening.text.display import visible
from storage.batches.configurations import save_configuration
from storage.database import Database
from storage.research.comparisons import (
    Comparison,
    Paired,
    begin_comparison,
    end_comparison,
    list_comparisons,
    paired_outcomes,
)

MOST_SHOWN = 200


def comparison_panel(db: Database, person: Actor, pipelines: Mapping[str, PipelineConfig]) -> None:
    """Everything about comparisons, for those who may see results."""
    if not allowed(person, Action.VIEW_RESULTS):
        st.caption("Comparisons are shown to seniors and researchers.")
        return
    st.text(
        "A second pipeline screens settled texts of a batch again. It decides nothing and opens nothing in the inbox."
    )
    if allowed(person, Action.CREATE_BATCH):
        _begin(db, person, pipelines)
    found = {one.id: one for one in list_comparisons(db, person)}
    if not found:
        st.caption("Nothing was compared yet.")
        return
    chosen = st.selectbox("Comparison", list(found), format_func=lambda key: title_of(found[key]), key="compared")
    _show(db, person, found[chosen])


def title_of(one: Comparison) -> str:
    """One comparison in a line: what was tried, on what, how far it is."""
    state = "" if not one.running else ", under way"
    state = f", ended: {one.ended_why}" if one.ended_why else state
    return f"{one.name} on {visible(one.batch_name)}: {one.done:,} of {one.of:,} texts{state}"


def figures_of(db: Database, person: Actor, comparison_id: str) -> dict[str, Any]:
    """The paired figures as they are kept with an activation."""
    shown = [line.shown for line in lines(paired_outcomes(db, person, comparison_id).pairs)]
    return {"comparison": comparison_id, "figures": shown}


def _begin(db: Database, person: Actor, pipelines: Mapping[str, PipelineConfig]) -> None:
    batch = choose_batch(db, person, "compare")
    if batch is None:
        st.caption("There is no batch yet whose texts could be screened again.")
        return
    left, right = st.columns(2)
    name = left.selectbox("Pipeline to try", list(pipelines), key="compare_pipeline")
    most = right.number_input("Texts at most", 1, 100_000, 200, key="compare_most")
    calls = sum(node.rule.rule().budget for node in pipelines[name].nodes)
    st.caption(f"At the worst {int(most) * calls:,} calls; they are paid like any others.")
    if st.button("Compare", icon=":material/compare_arrows:", key="compare_begin"):
        version = save_configuration(db, resources.configuration(pipelines[name]), resources.now())
        begin_comparison(db, person, batch.id, version, name, int(most), resources.now())
        st.rerun()


def _show(db: Database, person: Actor, one: Comparison) -> None:
    found = paired_outcomes(db, person, one.id)
    st.text(f"{one.done:,} of {one.of:,} texts were screened with {one.name}.")
    if one.running:
        st.caption("The worker goes on with it; reload to see more.")
        if allowed(person, Action.CREATE_BATCH) and st.button("Stop comparing", key="compare_stop"):
            end_comparison(db, person, one.id, "stopped", resources.now())
            st.rerun()
    if found.withheld:
        st.caption(f"{found.withheld:,} texts are left out until they are read: they may yet be read blind.")
    _figures(found)
    _cases(found)


def _figures(found: Paired) -> None:
    if not found.pairs:
        st.caption("Not yet: 0 texts.")
        return
    st.dataframe([line.shown for line in lines(found.pairs)], hide_index=True, alt="Paired differences")
    slow = slowest_tenth(found.pairs)
    if slow is not None:
        st.text(f"Nine of ten texts were settled within {slow[0]:.2g} s in force and {slow[1]:.2g} s tried.")
    st.caption(
        "Paired by text; each interval at 95 % for itself, so one of several is exploratory. Reference: the "
        "accepted label, else the file's."
    )
    words = {outcome.value: OUTCOME_WORDS[outcome] for outcome in Outcome}
    rows = [
        {"In force ↓ tried →": words[first]} | {words[name]: count for name, count in row.items()}
        for first, row in agreement(found.pairs).items()
    ]
    st.dataframe(rows, hide_index=True, alt="Outcomes in force and tried")


def _cases(found: Paired) -> None:
    cases = parted(found.pairs)
    st.subheader(f"Texts with another outcome: {len(cases):,}")
    if not cases:
        return
    rows = [
        {
            "Text": visible(one.external_id),
            "Reference": one.reference or "none",
            "In force": one.first.outcome.replace("_", " "),
            "Tried": one.second.outcome.replace("_", " "),
        }
        for one in cases[:MOST_SHOWN]
    ]
    chosen = st.dataframe(
        rows,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key="compare_cases",
        alt="Texts that part",
    )
    if len(cases) > MOST_SHOWN:
        st.caption(f"The first {MOST_SHOWN} of {len(cases):,}.")
    selected = chosen["selection"]["rows"]
    if selected:
        case_link(cases[selected[0]].case_id)
