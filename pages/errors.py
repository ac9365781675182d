"""Where the AI and the labels differ: a confusion matrix whose cells open their cases."""

import streamlit as st

from pages.research import confusion_matrix as matrix
from pages.research.case_filters import filters
from pages.research.case_list import case_list
from pages.research.choices import choose_batch, provenance
from pages.ui import context
from pages.ui.compute import compute
from pages.ui.downloads import relabelled_files, show_export
from pages.ui.widgets import unique_labels
from screening.review.policy import Action, is_allowed, require
from screening.text.display import visible
from screening.words import count_of
from storage.batches.batches import BatchSummary
from storage.research.cells import groups
from storage.research.confusion import Labels, confusions
from storage.research.listed import Cell
from storage.research.standing import batch_now

db, person = context.database(), context.actor()
require(person, Action.VIEW_RESULTS)


def chosen_cell(counts: matrix.Counts, key: str) -> tuple[str, str] | None:
    """The cell selected in the table; it is kept in the address."""
    references, outcomes = list(matrix.REFERENCES), list(matrix.OUTCOMES)
    reference, _, outcome = st.query_params.get("cell", "").partition(".")
    known = reference in references and outcome in outcomes
    default = [(references.index(reference), matrix.OUTCOMES[outcome])] if known else []
    selected = st.dataframe(
        matrix.matrix(counts, dark=st.context.theme.type == "dark"),
        on_select="rerun",
        selection_mode="single-cell",
        selection_default={"selection": {"cells": default}},
        row_height=56,
        key=f"matrix_{key}",
        alt="Confusion matrix: original labels by outcome; a cell opens its cases",
    )
    cells = selected["selection"]["cells"]
    found = None
    if cells:
        row, column = cells[0]
        found = references[row], next(name for name in outcomes if matrix.OUTCOMES[name] == column)
    if found is None:
        st.query_params.pop("cell", None)
    else:
        st.query_params["cell"] = ".".join(found)
    return found


def export(batch: BatchSummary) -> None:
    """Both files, for those who may take data out."""
    if not is_allowed(person, Action.EXPORT):
        return
    show_export(
        lambda with_text: relabelled_files(batch.id, with_text=with_text),
        "relabelled",
        "The corrected data set: original label and where it is from, every review under a pseudonym, the final label, "
        "and what the AI said.",
    )


def _nothing_words(adjudicated: int) -> str:
    if not adjudicated:
        return "No text of this upload has an original label, so there is nothing to compare with."
    labelled = count_of(adjudicated, "text has a final label", "texts have a final label")
    return f"The file has no original label. {labelled} from reviewers: choose Final labels."


def overview(batch: BatchSummary, labels: Labels, group: str | None) -> tuple[str, str] | None:
    """Matrix, what is not in it, and the metrics; the chosen cell."""
    standing = batch_now(db, person, batch.id)
    both = compute(confusions, person, batch.id, group, standing=standing, cases=batch.progress.accepted)
    counts = both.original if labels == "original" else both.adjudicated
    if not sum(counts.values()):
        st.info(_nothing_words(sum(both.adjudicated.values())))
        return None
    cell = chosen_cell(counts, f"{batch.id}_{labels}_{group}")
    if cell is None:
        right.info("Select a cell to list its cases.", icon=":material/grid_on:")
    kinds: tuple[tuple[str, Labels, matrix.Counts], ...] = (
        ("Original labels", "original", both.original), ("Final labels", "adjudicated", both.adjudicated)
    )  # fmt: skip
    columns = [
        matrix.Column(title=name, counts=found, addresses=matrix.addresses(batch.id, which, group))
        for name, which, found in kinds
    ]
    st.html(matrix.metrics_html(columns))
    if group is None and (left := matrix.left_out_words(batch.progress.accepted, both)):
        st.caption(left)
    st.text(f"Original labels: {provenance(batch.intake)}. Final labels: the reviewers' where there are any.")
    st.caption("Metrics compare with these labels.")
    if group is not None:
        st.caption(
            "Each interval holds for its group alone: the worst of several groups, chosen here, looks worse than it is."
        )
    return cell


st.title("Misclassified")
batch = choose_batch(db, person, "errors")
if batch is None:
    st.info("No file uploaded yet. Upload a labeled file under Screen > File uploads.", icon=":material/upload_file:")
    st.stop()
left, right = st.columns([5, 6], gap="large")
with left:
    with st.container(horizontal=True):
        words: dict[Labels, str] = {"original": "Original labels", "adjudicated": "Final labels"}
        labels = st.selectbox("Measured against", list(words), format_func=lambda key: words[key], key="labels")
        names = unique_labels({name: visible(name) for name in groups(db, person, batch.id)})
        group = (
            st.selectbox(
                "Group", list(names), index=None, placeholder="All", format_func=names.__getitem__, key="group"
            )
            if names
            else None
        )
    cell = overview(batch, labels, group)
    export(batch)
with right:
    if cell is not None:
        st.header(matrix.cell_title(*cell))
        wanted = Cell(batch_id=batch.id, reference=cell[0], outcome=cell[1], labels=labels, group=group)
        case_list(db, person, filters(db, person, wanted))
