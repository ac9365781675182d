"""The results of a batch: all cases in a table, searched, filtered and sorted, each opened below it."""

from collections.abc import Mapping

import streamlit as st

from pages.research.case_filters import filters
from pages.research.case_list import case_list
from pages.research.choices import batch_titles
from pages.ui import context
from pages.ui.downloads import batch_files
from pages.ui.labels import literal
from pages.ui.shell import FOLDER
from pages.ui.widgets import result_links_html
from screening.review.policy import Action, is_allowed, require
from storage.batches.batch_state import UnknownBatch
from storage.batches.batches import BatchSummary, find_batch, list_batches
from storage.research.listed import Cell

MOST_BATCHES = 200

db, person = context.database(), context.actor()
require(person, Action.VIEW_BATCHES)


def named_batch(found: Mapping[str, BatchSummary]) -> BatchSummary | None:
    """The batch of the address, else the newest; None where there is none yet."""
    if named := st.query_params.get("batch"):
        try:
            return found.get(named) or find_batch(db, person, named, now=context.now())
        except UnknownBatch:
            st.error("There is no such batch.", icon=":material/search_off:")
    return next(iter(found.values()), None)


def other_batch(shown: BatchSummary, found: Mapping[str, BatchSummary]) -> None:
    """The select box that leads to another batch's results."""
    titles = batch_titles(found.values())
    ids = list(found)
    picked = st.selectbox("Batch", ids, index=ids.index(shown.id), format_func=titles.__getitem__, key="results_batch")
    if picked != st.query_params.get("batch"):
        st.query_params["batch"] = picked
        st.query_params.pop("case", None)
        if picked != shown.id:
            st.rerun()


found = {one.id: one for one in list_batches(db, person, MOST_BATCHES, now=context.now())}
batch = named_batch(found)
if batch is None:
    st.title("Results")
    st.info("No file uploaded yet.", icon=":material/upload_file:")
    st.stop()
st.title(f"Results: {literal(batch.name)}")
other_batch(batch, found | {batch.id: batch})
st.html(result_links_html(batch.id, batch.progress, linked=is_allowed(person, Action.VIEW_RESULTS)))
case_list(db, person, filters(db, person, Cell(batch_id=batch.id)))
st.page_link(FOLDER / "batch_list.py", label="Upload progress", query_params={"batch": batch.id})
batch_files(person, batch)
