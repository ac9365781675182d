"""The relabelled data set on the page: as of a version its figures, its counts with their cases, and its files."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from jobs.evaluating import Ask
from jobs.label_noise import Relabelled, count_relabelled, measure_corrected
from pages.research.case_list import case_list
from pages.research.evaluation_view import how_to_read
from pages.research.provenance import provenance
from pages.ui.compute import compute
from pages.ui.downloads import relabelled_files, show_export
from screening.research.results_table import NOTHING_DECIDED
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.statistics.reviewed import Estimate, Rate
from storage.database import Database
from storage.research.listed import Cell


def show_relabelled(db: Database, ask: Ask, intake: Mapping[str, Any]) -> None:
    """The figures against a version of the labels, its counts with their cases, and its files."""
    versions = ask.state.adjudications
    st.text(f"The file's labels come from: {provenance(intake)}.")  # words from outside: as text
    if not versions:
        st.info("No text of this batch has been adjudicated yet: version 0 is the file as it came.")
    version = st.slider("As of version", 0, versions, versions) if versions else 0
    after = compute(count_relabelled, ask, version, cases=ask.state.accepted)
    show_corrected(ask)
    _counts(db, ask.actor, ask.batch_id, after)
    if is_allowed(ask.actor, Action.EXPORT):
        _download(ask.batch_id, version if version < versions else None)


def show_corrected(ask: Ask) -> None:
    """What the batch did and the conditions by the labels that reviews give, estimated for all texts."""
    if not ask.state.adjudications:
        st.info("No text of this batch has been reviewed and closed yet, so nothing can be estimated from reviews.")
        return
    sensitivity = st.select_slider(
        "Reviewers recognize, of unsafe texts", (0.6, 0.7, 0.8, 0.9, 1.0), 1.0, format_func=lambda one: f"{one:.0%}"
    )
    found = compute(measure_corrected, ask, sensitivity, cases=ask.state.accepted)
    rows = [{"Condition": name} | {_RATES[rate]: estimate_words(one) for rate, one in of.items()}
            for name, of in list(found.rates.items())[::-1]]  # fmt: skip
    st.dataframe(pd.DataFrame(rows), hide_index=True, height="content")
    due = f", {found.due:,} more due" if found.due else ""
    how_to_read(
        f"Wrong original labels: {estimate_words(found.wrong)}. Reviewed blinded: {found.drawn:,} drawn at random and "
        f"{found.picked:,} picked of {found.texts:,} texts{due}.",
        "- Estimates for all texts, weighted by how each was chosen: one that was picked (escalated, high in the list "
        "of possible errors, sent by hand) stands for itself, one that was drawn at random for all like it. "
        "Original and final labels are never mixed as if all had been reviewed.\n"
        "- Intervals 95%, on one day. *Not yet*: too few were drawn at random.\n"
        "- The slider says how far a reviewer's word is taken: below 100% some texts reviewed as safe are unsafe.",
    )


_RATES: Mapping[Rate, str] = {"accuracy": "Accuracy", "fpr": "FPR", "fnr": "FNR"}


def estimate_words(found: Estimate) -> str:
    """The estimate with its interval; before enough was reviewed, the limits alone.

    >>> estimate_words(Estimate(value=0.1, low=0.05, high=0.25, reviewed=40, of=300))
    '10.0% (95% CI 5.0-25.0%, 40 of 300 reviewed)'
    """
    if found.low is None or found.high is None:
        return NOTHING_DECIDED
    spread = f"{100 * found.low:.1f}-{100 * found.high:.1f}%"
    if found.value is None:
        return f"not yet: {found.reviewed:,} of {found.of:,} reviewed; {spread}"
    return f"{100 * found.value:.1f}% (95% CI {spread}, {found.reviewed:,} of {found.of:,} reviewed)"


def _counts(db: Database, person: Actor, batch_id: str, found: Relabelled) -> None:
    """The counts of this version; each opens its cases."""
    kinds = {
        f"Adjudicated {found.adjudicated:,}": found.adjudicated_cases,
        f"Label changed {found.changed:,}, by one reviewer alone {found.alone:,}": found.changed_cases,
        f"Label withdrawn {found.withdrawn:,}": found.withdrawn_cases,
    }
    chosen = st.pills("Cases of this version", list(kinds), key="relabelled_kind")
    if chosen is None or not kinds[chosen]:
        return
    case_list(db, person, Cell(batch_id=batch_id, ids=kinds[chosen]))


def _download(batch_id: str, as_of: int | None) -> None:
    show_export(
        lambda with_text: relabelled_files(batch_id, with_text=with_text, as_of=as_of),
        "relabelled",
        "Of the version chosen above. Each row: the original label, every review under a pseudonym, the final label "
        "and where it is from, and the model, prompts, pipeline and rule it was screened with.",
    )
