"""How far reviewers agree, with intervals, the reason where a figure is not there yet, and who changed their mind."""

import streamlit as st

from jobs.agreement import measure_agreement
from pages.research import agreement_view as view
from pages.research.choices import batch_titles
from pages.research.evaluation_view import how_to_read
from pages.research.readings_export import readings_files
from pages.ui import context
from pages.ui.compute import READING, compute
from pages.ui.downloads import show_files
from screening.evaluation.metrics import Proportion
from screening.evaluation.tables import rate_text
from screening.review.policy import Action, is_allowed, require
from storage.batches.batches import list_batches
from storage.research.standing import count_readings, revisions_now

db, person = context.database(), context.actor()
require(person, Action.VIEW_AGREEMENT)
key = context.settings().pseudonym_secret


def chosen_batch() -> str | None:
    """A batch's id, None for all of them."""
    titles = batch_titles(list_batches(db, person, 200))
    return st.selectbox("Batch", list(titles), index=None, placeholder="All", format_func=titles.__getitem__)


st.title("Agreement")
how_to_read(
    "Blinded first reviews of closed cases. Reviewers are under pseudonyms, and nobody is ranked.",
    "- A review counts as the reviewer gave it before seeing the AI's result or another review.\n"
    "- Coefficients and pairs are of the first two reviews of randomly chosen cases (Settings, *Share read twice at "
    "random*). Cases reviewed twice for other reasons are left out: disagreement is higher there.\n"
    "- Intervals of coefficients: 95% jackknife, on one day. *Not yet* is not zero: the reason stands beside it.",
)
batch_id = chosen_batch()
found = compute(
    measure_agreement, person, key, batch_id, standing=revisions_now(db), cases=READING * count_readings(db)
)
if found.disputed:
    st.warning(
        f"{found.disputed:,} more randomly double-reviewed cases, on which reviewers disagree, wait for adjudication. "
        "They are not in these figures yet, which are too high until they are.",
        icon=":material/hourglass:",
    )
if not found.cases:
    st.info("No closed case has a blinded review yet. Review cases in the queue first.")
    st.stop()
with st.container(horizontal=True):
    st.metric("Blinded reviews of cases", f"{found.cases:,}")
    st.metric("Randomly double-reviewed", f"{found.at_random:,}")
    st.metric("Double-reviewed for another reason", f"{found.otherwise:,}")
    st.metric("Reviewers", f"{found.readers:,}")
st.header("Coefficients")
st.html(view.coefficients_html(found.coefficients))
if found.pairs:
    st.header("By pair of reviewers")
    view.show_pairs(found.pairs)
st.header("By priority shown")
st.dataframe(
    [
        {
            "Priority": "not kept" if one.tier is None else one.tier.name,
            "Blinded reviews": one.total,
            "Unsafe": one.labels.get("unsafe", 0),
            "Safe": one.labels.get("safe", 0),
            "Insufficient information": one.labels.get("insufficient_information", 0),
            "Share unsafe, 95% CI": rate_text(Proportion(one.labels.get("unsafe", 0), one.total)),
        }
        for one in found.tiers
    ],
    hide_index=True,
    alt="Blinded first reviews by the priority that was shown",
)
st.caption("Priority can bias reviewers, so some quality-check cases are deliberately shown as P1.")
st.header("Label changes after seeing the AI (automation bias)")
st.html(view.switching_html(found.switching))
st.caption("Where one reviewer closed a case alone, the final label is that reviewer's own last one.")
if is_allowed(person, Action.EXPORT):
    with st.popover("Export", icon=":material/download:"):
        show_files(readings_files(batch_id))
        st.caption("Every blinded first review; `at_random` marks the cases that the coefficients are of.")
