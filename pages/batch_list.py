"""Upload a file, check its rows and costs, follow the run, download the results."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from jobs import intake
from pages.batches import new_batch, progress
from pages.research.case_list import hide_switch
from pages.ui import context, downloads, shell, widgets
from pages.ui.auth import check_session, poll_session
from pages.ui.words import literal, time_column
from screening.review.policy import Action, is_allowed, require
from screening.review.triage import Priority, Reach
from screening.words import count_of
from storage.batches import batches, overnight
from storage.batches.batch_state import ACTIVE, ENDED, BatchState, Caps, UnknownBatch
from storage.batches.batches import BatchSummary
from storage.review.follow_ups import acknowledge, worklist
from storage.review.queue import counts

POLL_S = 1.0
PAGE = 20
MOST_PAGES = 500
PLAY = ":material/play_arrow:"
PRIORITY_BADGES = {
    Priority.P0: ":red-badge[P0 Immediate {}]",
    Priority.P1: ":orange-badge[P1 Urgent {}]",
    Priority.P2: ":blue-badge[P2 Same day {}]",
    Priority.P3: ":gray-badge[P3 Routine {}]",
}

db, person = context.database(), context.actor()
require(person, Action.VIEW_BATCHES)


def current() -> BatchSummary | None:
    try:
        return batches.find_batch(db, person, st.query_params["batch"], now=context.now())
    except UnknownBatch:
        return None


def back(label: str) -> None:
    if st.button(label, icon=":material/arrow_back:"):
        st.query_params.clear()
        st.rerun()


def live(batch_id: str, *shown: object) -> None:
    """Draw the progress again; the whole page runs again when what it offers has changed."""
    found = batches.progress(db, batch_id, context.now())
    if progress.offers(batch_id, found) != shown:
        st.rerun(scope="app")
    linked = is_allowed(person, Action.VIEW_RESULTS)
    progress.show_progress(batch_id, found, held=progress.find_hold(db, context.now()), linked=linked)
    if overnight.is_overnight(db, batch_id):
        st.caption(progress.overnight_words(overnight.overnight_progress(db, batch_id), found.state))


def controls(one: BatchSummary) -> None:
    """The buttons that this state allows. Every press is recorded."""
    if not is_allowed(person, Action.CONTROL_BATCH, one.created_by):
        return
    found, state, by = one.progress, one.progress.state, context.actor_now()
    with st.container(horizontal=True):
        if state in ACTIVE | {BatchState.NEEDS_RETRY} and st.button("Pause", icon=":material/pause:"):
            batches.pause(db, by, one.id)
            st.rerun()
        if state is BatchState.PAUSED and not found.at_cap and st.button("Resume", type="primary", icon=PLAY):
            batches.resume(db, by, one.id)
            st.rerun()
        if found.failed and state not in ENDED and st.button("Retry failed texts", icon=":material/replay:"):
            batches.retry_failed(db, by, one.id)
            st.rerun()
        if found.at_cap and st.button("Continue without a limit", icon=PLAY):
            batches.change_caps(db, by, one.id, Caps())
            st.rerun()
        if state not in ENDED:
            with st.popover("Cancel", icon=":material/cancel:"):
                st.write("Unscreened texts will stay unscreened. This cannot be undone.")
                if st.button("Cancel this upload"):
                    batches.cancel(db, by, one.id)
                    intake.discard_files_of(context.settings().data_directory, one.id)
                    st.rerun()


def show(one: BatchSummary) -> None:
    back("All uploads")
    st.title(literal(one.name))
    st.caption(progress.reach_fact(one.reach))
    if one.research_order:
        st.caption("No living authors: reviewed in random order, with no priority.")
    state = one.progress.state
    each, now_and_then = (None, None) if state in ENDED else (POLL_S, progress.WAYS_S)
    may_see_queue, linked = is_allowed(person, Action.VIEW_COUNTS), is_allowed(person, Action.VIEW_RESULTS)
    left, right = st.columns([3, 2], gap="medium") if may_see_queue else (st.container(), None)
    if right is not None:
        with right, st.container(border=True, height="stretch", key="door_review"):
            st.fragment(poll_session(review_card), run_every=progress.WAYS_S)(one)
    with left, st.container(border=True, height="stretch"):
        shown = progress.offers(one.id, one.progress)
        st.fragment(poll_session(live), run_every=each)(one.id, *shown)
        progress.missing_rows(person, one, progress.find_stopped(one.id, state))
        controls(one)
        if one.intake.get("labels") and linked:
            words = "Compare with the original labels"
            of_batch = {"batch": one.id}
            st.page_link(shell.FOLDER / "errors.py", label=words, icon=":material/rule:", query_params=of_batch)
    st.fragment(poll_session(progress.ways_panel), run_every=now_and_then)(db, person, one)
    worklist_panel(one)
    if linked:
        hide_switch(db, person)
    downloads.batch_files(person, one)


def review_card(one: BatchSummary) -> None:
    """How many cases of this upload are in review, and the way to exactly these; updates by itself."""
    found = counts(db, person.at(context.now()), None, one.id)
    number = sum(found.inside_by_priority.values())
    st.header(f"{count_of(number, 'case')} to review" if number else "No cases to review")
    if not number:
        return
    badges = (PRIORITY_BADGES[priority].format(f"{n:,}") for priority, n in found.inside_by_priority.items() if n)
    st.markdown(" ".join(badges))
    kept = number - found.free
    words = f"{found.free:,} unassigned" + (f", {kept:,} assigned to somebody or reviewed by you" if kept else "")
    st.caption(f"{words}. Quality checks may be among them; the queue does not show which.")
    with st.container(key="main_door"):
        st.page_link(
            shell.FOLDER / "inbox.py",
            label="Start reviewing",
            icon=":material/inbox:",
            query_params={"batch": one.id, "start": "1"},
        )


def worklist_panel(one: BatchSummary) -> None:
    """What the AI labeled unsafe and put on this upload's list for sign-off."""
    if one.reach is not Reach.LIST or not is_allowed(person, Action.ACKNOWLEDGE):
        return
    st.header("For sign-off: labeled unsafe")
    widgets.show_said("worklist")
    rows = worklist(db, person, one.id)[0]
    st.fragment(poll_session(count_worklist), run_every=progress.WAYS_S)(one.id, rows)
    if rows:
        st.fragment(sign_off)(rows)


def count_worklist(batch_id: str, shown: Sequence[Any]) -> None:
    """How many wait by now. The rows shown stay under their ticks until somebody asks for what came since."""
    found, waiting = worklist(db, person, batch_id)
    if bool(waiting) != bool(shown):
        st.rerun(scope="app")
    if not shown:
        st.caption("Nothing to sign off here.")
        return
    st.caption(
        f"{count_of(waiting, 'text')} to sign off. Sign-off is not a review and is not used in accuracy estimates."
    )
    if found != shown and st.button("Show the list as it is now", icon=":material/refresh:"):
        st.rerun(scope="app")


def sign_off(rows: Sequence[Any]) -> None:
    """The list and its button: a part of the page by itself, so that what is ticked and pressed is what was shown."""
    check_session(active=True)
    shown = [{"ID": row.external_id, "Row": row.row, "Agent": row.node, "Labeled": row.completed_at} for row in rows]
    ids, columns = [row.case_id for row in rows], {"Labeled": time_column("Labeled")}
    picked = widgets.choose_cases(shown, ids, "worklist", "multi-row", column_config=columns)
    if st.button(f"Sign off {len(picked):,}", disabled=not picked, type="primary", key="acknowledge"):
        widgets.say_after_rerun("worklist", f"{acknowledge(db, context.actor_now(), picked):,} signed off.")


def everything() -> None:
    st.title("File uploads")
    if is_allowed(person, Action.CREATE_BATCH):
        new_batch.upload_file()
        new_batch.sample_button()
    st.header("All uploads")
    page = st.session_state.get("batches_page", 1)
    found = batches.list_batches(db, person, limit=PAGE + 1, offset=PAGE * (page - 1), now=context.now())
    if not found:
        st.write("No file uploaded yet. Choose one above, or try the sample.")
        return
    held = progress.find_hold(db, context.now())
    key = f"batches_{st.session_state.setdefault('batches_shown', 0)}"
    st.dataframe(
        [progress.list_row(one, held=held) for one in found[:PAGE]],
        hide_index=True,
        on_select=partial(choose_batch, key, [one.id for one in found[:PAGE]]),
        selection_mode=["single-row", "single-cell"],
        key=key,
        column_config={"Started": time_column("Started")},
    )
    if len(found) > PAGE or page > 1:
        st.pagination(min(MOST_PAGES, page + (len(found) > PAGE)), key="batches_page")


def choose_batch(key: str, shown: Sequence[str]) -> None:
    """Open the batch whose row was pressed, as the list stood then: others may have begun since."""
    if rows := widgets.pressed_rows(key):
        st.session_state["batches_shown"] += 1
        st.query_params["batch"] = shown[rows[0]]


folder = new_batch.upload_folder()
if "batch" in st.query_params:
    if (one := current()) is None:
        st.error("There is no such upload.", icon=":material/search_off:")
        back("All uploads")
    else:
        show(one)
elif (upload := intake.find(folder, st.query_params.get("upload", ""), person.id)) is not None:
    require(person, Action.CREATE_BATCH)
    new_batch.check_file(upload)
else:
    everything()
