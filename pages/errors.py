"""Where the AI and the labels differ: a confusion matrix whose cells open their cases, and its metrics."""

from collections.abc import Mapping
from functools import partial
from itertools import product

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from pages.research.case_list import case_list, filters
from pages.ui import context, downloads, html, widgets
from screening.evaluation.metrics import Metrics, Proportion
from screening.evaluation.tables import rate_text
from screening.labels import Label, Outcome
from screening.review.policy import Action, is_allowed, require
from screening.text.display import visible
from screening.words import count_of
from storage.batches.batches import BatchSummary
from storage.batches.counts import PENDING, batch_now
from storage.research.cells import Cell, Confusions, Counts, Labels, confusions, groups

REFERENCES = (Label.SAFE.value, Label.UNSAFE.value)
OUTCOMES: Mapping[str, str] = {
    Outcome.SAFE.value: "Labeled safe",
    Outcome.UNSAFE.value: "Labeled unsafe",
    Outcome.HUMAN_REVIEW.value: "Escalated",
    PENDING: "Pending",
}
CELLS: Mapping[tuple[str, str], tuple[str, str, str]] = {  # what each is; its rgb on light, on dark
    ("safe", "safe"): ("true negative", "29,122,70", "87,189,134"),
    ("unsafe", "unsafe"): ("true positive", "29,122,70", "87,189,134"),
    ("safe", "unsafe"): ("false positive", "180,83,9", "232,154,76"),
    ("unsafe", "safe"): ("false negative", "180,35,24", "240,121,111"),
}
LABELS: Mapping[Labels, str] = {"original": "Original label", "adjudicated": "Final label"}

db, person = context.database(), context.actor()
require(person, Action.VIEW_RESULTS)


def matrix(counts: Counts, labels: Labels, *, dark: bool) -> Styler:
    """The matrix as a styled table: every decided cell says in words what it is, and its tint its share of the row."""
    words, tints = pd.DataFrame(index=pd.Index(REFERENCES, name=f"{LABELS[labels]} ↓")), {}
    for outcome, title in OUTCOMES.items():
        said, tinted = [], []
        for reference in REFERENCES:
            count, (what, *colours) = counts.get((reference, outcome), 0), CELLS.get((reference, outcome), ("", "", ""))
            of_row = sum(others for (row, _), others in counts.items() if row == reference)
            strength = 0.12 + (0.28 if dark else 0.33) * count / max(1, of_row)
            said.append(f"{count:,}  {what}" if what and count else f"{count:,}")
            tinted.append(f"background-color: rgba({colours[dark]},{strength:.2f})" if what and count else "")
        words[title], tints[title] = said, tinted
    styles = pd.DataFrame(tints, index=words.index)
    return words.style.apply(lambda _: styles, axis=None)


def chosen_cell(counts: Counts, labels: Labels, key: str) -> tuple[str, str] | None:
    """The cell selected in the table; it is kept in the address."""
    reference, _, outcome = st.query_params.get("cell", "").partition(".")
    known = reference in REFERENCES and outcome in OUTCOMES
    default = [(REFERENCES.index(reference), OUTCOMES[outcome])] if known else []
    selected = st.dataframe(
        matrix(counts, labels, dark=st.context.theme.type == "dark"),
        on_select="rerun",
        selection_mode="single-cell",
        selection_default={"selection": {"cells": default}},
        row_height=56,
        key=f"matrix_{key}",
        alt=f"Confusion matrix: {LABELS[labels].lower()} by outcome; a cell opens its cases",
    )
    found = None
    for row, column in selected["selection"]["cells"]:
        found = REFERENCES[row], next(name for name, words in OUTCOMES.items() if words == column)
    widgets.in_address("cell", ".".join(found) if found else None)
    return found


def metrics(counts: Counts) -> Metrics:
    """The paper's metrics of these counts; pending cases are in none of them."""
    cells = product(map(Label, REFERENCES), Outcome)
    return Metrics(confusion={cell: counts.get((cell[0].value, cell[1].value), 0) for cell in cells})


def show_metrics(batch_id: str, both: Confusions, group: str | None) -> None:
    """The metrics, beside those by final labels once there is one; a count that is one cell leads to its cases."""
    of_group = {} if group is None else {"group": group}
    table: dict[str, dict[str, str]] = {}
    kinds: dict[Labels, Counts] = {"original": both.original}
    if both.reviewed:
        kinds["adjudicated"] = both.adjudicated
    links = []
    for labels, counts in kinds.items():
        found = metrics(counts)
        rates: Mapping[str, Proportion] = {
            "**Accuracy**, of the texts the AI decided": found.accuracy,
            "**False-negative rate**: labeled safe among unsafe texts the AI decided": found.fnr,
            "**False-positive rate**: labeled unsafe among safe texts the AI decided": found.fpr,
            "**Escalated** to a clinician, among all screened texts": found.escalation_rate,
            "**Worst-case FNR**: all escalations counted as errors": found.worst.fnr,
        }
        for name, rate in rates.items():
            said = "not yet: no such case so far" if rate.value is None else rate_text(rate)
            table.setdefault(name, {"Measure": name})[f"{LABELS[labels]}s"] = said
        shared = of_group | ({} if labels == "original" else {"labels": labels})
        by = f" by {LABELS[labels].lower()}s" if len(kinds) > 1 else ""
        for words, outcome, reference, rate, color in (
            ("false negatives", "safe", "unsafe", found.fnr, "unsafe"),
            ("false positives", "unsafe", "safe", found.fpr, "person"),
        ):
            address = widgets.results_address(batch_id, outcome=outcome, reference=reference, **shared)
            links.append(html.Link(words + by, address if rate.numerator else None, f"{rate.numerator:,}", color))
    st.table(list(table.values()), hide_index=True)
    st.html(html.links_html(links))
    st.caption("95% Wilson intervals.")


def overview(batch: BatchSummary, labels: Labels, group: str | None) -> tuple[str, str] | None:
    texts = batch.progress.accepted
    both = context.compute(confusions, person, batch.id, group, standing=batch_now(db, person, batch.id), cases=texts)
    original, final = sum(both.original.values()), sum(both.adjudicated.values())
    counts = both.original if labels == "original" else both.adjudicated
    if not any(counts.values()):
        with_one = count_of(final, "text has a final label", "texts have a final label")
        st.info(
            f"The file has no original label. {with_one} from reviewers: choose Final labels."
            if final
            else "No text of this upload has an original label, so there is nothing to compare with."
        )
        return None
    cell = chosen_cell(counts, labels, f"{batch.id}_{labels}_{group}")
    if cell is None:
        right.info("Select a cell to list its cases.", icon=":material/grid_on:")
    show_metrics(batch.id, both, group)
    if group is None and (original < texts or final < texts):
        st.caption(
            f"Left out, without a label safe or unsafe: {texts - original:,} of {texts:,} by original labels, "
            f"{texts - final:,} by final labels."
        )
    st.text(f"Original labels: {widgets.provenance(batch.intake)}. Final labels: the reviewers' where there are any.")
    st.caption("Metrics compare with these labels.")
    if group is not None:
        st.caption(
            "Each interval holds for its group alone: the worst of several groups, chosen here, looks worse than it is."
        )
    return cell


st.title("Misclassified")
batch = widgets.choose_batch(db, person, "errors")
if batch is None:
    st.info("No file uploaded yet. Upload a labeled file under Screen > File uploads.", icon=":material/upload_file:")
    st.stop()
left, right = st.columns([5, 6], gap="large")
with left:
    with st.container(horizontal=True):
        labels = st.selectbox("Measured against", list(LABELS), format_func=lambda one: f"{LABELS[one]}s", key="labels")
        group = None
        if names := widgets.unique_labels({name: visible(name) for name in groups(db, person, batch.id)}):
            words = names.__getitem__
            group = st.selectbox("Group", list(names), index=None, placeholder="All", format_func=words, key="group")
    cell = overview(batch, labels, group)
    if is_allowed(person, Action.EXPORT):
        downloads.show_export(
            partial(downloads.corrected_label_files, batch.id),
            "corrected",
            "The corrected data set: original label, every review under a pseudonym, the final label and where it is "
            "from, and what the AI said.",
        )
with right:
    if cell is not None:
        reference, outcome = cell
        what = f": {CELLS[cell][0]}" if cell in CELLS else ""
        st.header(f"{LABELS[labels]} {reference}, {OUTCOMES[outcome].lower()}{what}")
        wanted = Cell(batch_id=batch.id, reference=reference, outcome=outcome, labels=labels, group=group)
        case_list(db, person, filters(db, person, wanted))
