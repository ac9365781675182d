"""The relabelled data set on the page: as of a version its figures, its counts with their cases, and its files."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from jobs.evaluating import Ask
from jobs.label_noise import Relabelled, measure_relabelled
from pages.components.computed import compute
from pages.components.relabelled_export import relabelled_files
from pages.components.streamed import show_files
from pages.research.case_reader import open_case_id, reader
from pages.research.cell_list import case_list
from pages.research.provenance import provenance
from screening.research.results_table import rate_text
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from storage.database import Database
from storage.research.listed import Cell


def show_relabelled(db: Database, ask: Ask, intake: Mapping[str, Any]) -> None:
    """The figures against a version of the labels, its counts with their cases, and its files."""
    versions = ask.state.adjudications
    st.text(f"The file's labels come from: {provenance(intake)}.")  # words from outside: as text
    if not versions:
        st.info("No text of this batch has been adjudicated yet: version 0 is the file as it came.")
    version = st.slider("As of version", 0, versions, versions) if versions else 0
    before, after = compute(measure_relabelled, ask, version, cases=ask.state.accepted)
    rows = [
        {
            "Measured against": each.name,
            "n": each.metrics.n,
            "Accuracy": rate_text(each.metrics.accuracy),
            "FPR": rate_text(each.metrics.fpr),
            "FNR": rate_text(each.metrics.fnr),
            "Escalated": rate_text(each.metrics.escalation_rate),
        }
        for each in (before, after)
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True)
    st.caption(
        "The outcomes are this batch's own, as the Errors page counts them. A version is the state after so many "
        "adjudications, in their order."
    )
    _counts(db, ask.actor, ask.batch_id, after)
    if is_allowed(ask.actor, Action.EXPORT):
        _download(ask.batch_id, version if version < versions else None)


def _counts(db: Database, person: Actor, batch_id: str, found: Relabelled) -> None:
    """The counts of this version; each opens its cases."""
    kinds = {
        f"Adjudicated {found.adjudicated:,}": found.adjudicated_cases,
        f"Label changed {found.changed:,}": found.changed_cases,
        f"Label withdrawn {found.withdrawn:,}": found.withdrawn_cases,
    }
    chosen = st.pills("Cases of this version", list(kinds), key="relabelled_kind")
    if chosen is None or not kinds[chosen]:
        return
    page = case_list(db, person, Cell(batch_id=batch_id, ids=kinds[chosen]), all_outcomes=True)
    if (case_id := open_case_id(page.ids)) is not None:
        reader(db, person, page.ids, case_id)


def _download(batch_id: str, as_of: int | None) -> None:
    with_text = st.toggle("With texts", value=False)
    show_files(relabelled_files(batch_id, with_text=with_text, as_of=as_of))
    st.caption(
        "The files are of the version chosen above. Each row: the label as it came, every reading under a pseudonym, "
        "the accepted label and the final one, and the model, prompts, pipeline and rule it was screened with."
    )
