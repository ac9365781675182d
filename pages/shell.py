"""The script behind every page: page settings, navigation, the sign-in gate, the notice, then the page itself."""

from contextlib import nullcontext
from pathlib import Path

import streamlit as st

from pages.batches.progress import intake_runs
from pages.ui import context, shell
from pages.ui.auth import Unidentified, current_actor, gate, poll_session, without_role
from pages.ui.words import literal, sentence
from screening.review.policy import Action, Forbidden, is_allowed
from screening.review.triage import WHO_SEES_WHAT

WITH_BANNER = {"": 5.0, "screen": 5.0, "batches": 5.0}
"""Pages that say when nothing is screened, and every how many seconds they check; the inbox says it in its own poll."""
IN_ONE_SNAPSHOT = ("inbox",)
"""Pages whose reads share one snapshot of the database: they read much and often, and run for a short time."""
ICON = Path(__file__).parent / "ui" / "icon.png"
STYLE = Path(__file__).parent / "ui" / "style.css"


def banner(path: str) -> None:
    """The banner that says what keeps texts from being screened, as long as it does."""

    def tick() -> None:
        if lines := shell.stalled_lines(context.database(), context.now()):
            st.error("\n\n".join(map(literal, lines)))

    st.fragment(poll_session(tick), run_every=WITH_BANNER[path])()


st.set_page_config(page_title="Second Look", page_icon=str(ICON), layout="wide")
st.html(STYLE)
notice = st.container(key="notice")
faults, body, end = (st.container() for _ in range(3))  # before anything that may fail or stop the script
with shell.run_again_while_away(notice, faults):
    try:
        person, unknown = current_actor(), None
    except Unidentified as problem:
        person, unknown = None, problem
    pages = shell.pages_for(person)
    page = st.navigation(pages, position="top" if person else "hidden")  # first, always: see app.py
    with context.database().one_snapshot() if page.url_path in IN_ONE_SNAPSHOT else nullcontext():
        site = context.site()
        shell.say_notice(notice, site, simulated=context.settings().simulated)
        with end:  # before the page, which may stop the script
            st.caption(literal(f"{site.intended_use} {WHO_SEES_WHAT}"))
            if page.url_path != "inbox" or person is None or not is_allowed(person, Action.CLAIM_NEXT):
                # a reviewer's desk has words of its own for a lost connection
                named = ("batch", "upload") if page.url_path == "batches" else ()
                place = [page.url_path, *(st.query_params.get(name, "") for name in named)]
                shell.mount("line", {"place": " ".join(place)}, "line")
            if person is not None:
                shell.controls(context.database(), person, site)
        with body:
            if unknown is not None:
                st.error(sentence(unknown), icon=":material/error:")
                st.stop()
            if person is None:
                gate()
                st.stop()
            if not person.roles:
                without_role(person)
                st.stop()
            if page.url_path in WITH_BANNER:
                banner(page.url_path)
            intake_runs()  # goes on with the files that an earlier process left unfinished
            try:
                page.run()
            except Forbidden as refused:
                context.remember_refusal(refused)
                words = refused.action.value.replace("_", " ")  # not the exception's: a name in them could be markup
                st.error(f"Your role does not let you {words}.", icon=":material/block:")
