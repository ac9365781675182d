"""The results of a batch: all cases in a table, searched, filtered and sorted, each opened below it."""

import streamlit as st

from pages.research.case_list import case_list, filters
from pages.ui import context, downloads, shell, widgets
from screening.review.policy import Action, is_allowed, require
from storage.research.cells import Cell

db, person = context.database(), context.actor()
require(person, Action.VIEW_BATCHES)

st.title("Results")
batch = widgets.choose_batch(db, person, "results")
if batch is None:
    st.info("No file uploaded yet.", icon=":material/upload_file:")
    st.stop()
st.html(widgets.result_links_html(batch.id, batch.progress, linked=is_allowed(person, Action.VIEW_RESULTS)))
case_list(db, person, filters(db, person, Cell(batch_id=batch.id)))
with st.container(horizontal=True, vertical_alignment="center"):
    downloads.batch_files(person, batch)
    st.page_link(shell.FOLDER / "batch_list.py", label="Upload progress", query_params={"batch": batch.id})
