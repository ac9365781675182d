"""Upload a file, check its rows and costs, follow the run, download the results."""

from collections.abc import Sequence
from functools import partial
from html import escape

import streamlit as st

from jobs import uploads
from pages.batches.batch_downloads import downloads
from pages.batches.batch_progress import (
    ENDED,
    find_hold,
    find_stopped,
    list_row,
    missing_rows,
    offers,
    progress_html,
    reach_fact,
)
from pages.batches.new_batch import check_file, upload_file
from pages.batches.overnight_panel import overnight_state
from pages.batches.ways_panel import ways_panel
from pages.components import resources
from pages.components.sign_in import poll_session
from pages.review.worklist_panel import worklist_panel
from screening.review.policy import Action, is_allowed, require
from screening.text.display import visible
from storage.batches import batches
from storage.batches.batch_state import ACTIVE, BatchState, Caps, UnknownBatch
from storage.batches.batches import BatchSummary

POLL_S = 1.0
WAYS_S = 5.0
PAGE = 20
MOST_PAGES = 500
PLAY = ":material/play_arrow:"

db, person = resources.database(), resources.actor()
require(person, Action.VIEW_BATCHES)
by_label = is_allowed(person, Action.VIEW_RESULTS)


def current() -> BatchSummary | None:
    """The batch named in the address."""
    try:
        return batches.find_batch(db, person, st.query_params["batch"], now=resources.now())
    except UnknownBatch:
        return None


def back(label: str) -> None:
    """The way back to the list."""
    if st.button(label, icon=":material/arrow_back:"):
        st.query_params.clear()
        st.rerun()


def live(batch_id: str, *shown: object) -> None:
    """Draw the progress again; the whole page runs again when what it offers has changed."""
    found = batches.progress(db, batch_id, resources.now(), actor=person)
    if offers(batch_id, found) != shown:
        st.rerun(scope="app")
    st.html(progress_html(found, by_label=by_label, held=find_hold(db, resources.now())))
    overnight_state(batch_id, found.state)


def controls(one: BatchSummary) -> None:
    """The buttons that this state allows. Every press is recorded."""
    if not is_allowed(person, Action.CONTROL_BATCH, one.created_by):
        return
    found, state, by = one.progress, one.progress.state, resources.actor_now()
    with st.container(horizontal=True):
        if state in ACTIVE | {BatchState.NEEDS_RETRY} and st.button("Pause", icon=":material/pause:"):
            batches.pause(db, by, one.id)
            st.rerun()
        if state is BatchState.PAUSED and not found.at_cap and st.button("Resume", type="primary", icon=PLAY):
            batches.resume(db, by, one.id)
            st.rerun()
        if found.failed and state not in ENDED and st.button("Retry what failed", icon=":material/replay:"):
            batches.retry_failed(db, by, one.id)
            st.rerun()
        if found.at_cap and st.button("Go on without a cap", icon=PLAY):
            batches.change_caps(db, by, one.id, Caps())
            st.rerun()
        if state not in ENDED:
            with st.popover("Cancel", icon=":material/cancel:"):
                st.write("What is pending stays pending and is shown as that. This cannot be undone.")
                if st.button("Cancel this batch for good"):
                    batches.cancel(db, by, one.id)
                    uploads.discard_files_of(resources.settings().data_directory, one.id)
                    st.rerun()


def show(one: BatchSummary) -> None:
    """One batch."""
    back("All batches")
    st.html(f'<h1 style="font-size:1.75rem;margin:0;padding:0">{escape(visible(one.name))}</h1>')
    st.caption(reach_fact(one.reach))
    with st.container(border=True):
        state = one.progress.state
        shown = offers(one.id, one.progress)
        st.fragment(poll_session(live), run_every=None if state in ENDED else POLL_S)(one.id, *shown)
        missing_rows(person, one, find_stopped(one.id, state))
        controls(one)
    if by_label:
        st.fragment(poll_session(ways_panel), run_every=None if state in ENDED else WAYS_S)(db, person, one)
    worklist_panel(db, person, one)
    downloads(db, person, one)


def everything() -> None:
    """The uploader and the list of all batches."""
    st.title("Batches")
    if is_allowed(person, Action.CREATE_BATCH):
        upload_file()
    st.subheader("All batches")
    page = st.session_state.get("batches_page", 1)
    found = batches.list_batches(db, person, limit=PAGE + 1, offset=PAGE * (page - 1), now=resources.now())
    if not found:
        st.write("No batch yet. Upload a file to begin; `data/sample.csv` is a small one to try.")
        return
    held = find_hold(db, resources.now())
    key = f"batches_{st.session_state.setdefault('batches_shown', 0)}"
    st.dataframe(
        [list_row(one, by_label=by_label, held=held) for one in found[:PAGE]],
        hide_index=True,
        on_select=partial(choose_batch, key, [one.id for one in found[:PAGE]]),
        selection_mode="single-row",
        key=key,
        column_config={"Started (UTC)": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm")},
    )
    if len(found) > PAGE or page > 1:
        st.pagination(min(MOST_PAGES, page + (len(found) > PAGE)), key="batches_page")


def choose_batch(key: str, shown: Sequence[str]) -> None:
    """Open the batch whose row was pressed, as the list stood then: others may have begun since."""
    if rows := st.session_state[key]["selection"]["rows"]:
        st.session_state["batches_shown"] += 1
        st.query_params["batch"] = shown[rows[0]]


folder = resources.settings().data_directory / uploads.BY_PEOPLE
if "batch" in st.query_params:
    if (one := current()) is None:
        st.error("There is no such batch.", icon=":material/search_off:")
        back("All batches")
    else:
        show(one)
elif (upload := uploads.find(folder, st.query_params.get("upload", ""), person.id)) is not None:
    require(person, Action.CREATE_BATCH)
    check_file(upload)
else:
    everything()
