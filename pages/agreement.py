"""How far readers agree, with intervals, the reason where a figure is not there yet, and who changed their mind."""

import streamlit as st

from jobs.agreement import measure_agreement
from pages.components import resources
from pages.components.computed import READING, compute
from pages.components.streamed import show_files
from pages.research import agreement_view as view
from pages.research.batch_choice import batch_titles
from pages.research.readings_export import readings_files
from screening.review.policy import Action, is_allowed, require
from screening.statistics.metrics import Proportion
from storage.batches.batches import list_batches
from storage.research.standing import count_readings, revisions_now

db, person = resources.database(), resources.actor()
require(person, Action.VIEW_AGREEMENT)
key = resources.settings().pseudonym_secret


def chosen_batch() -> str | None:
    """A batch's id, None for all of them."""
    titles = batch_titles(list_batches(db, person, 200))
    return st.selectbox("Batch", list(titles), index=None, placeholder="All", format_func=titles.__getitem__)


st.title("Agreement")
st.caption(
    "Blind first readings of closed cases only: what a reader said before seeing the engine's view, and before seeing "
    "another reader's. Readers stand under pseudonyms, and nobody is ranked."
)
batch_id = chosen_batch()
found = compute(
    measure_agreement, person, key, batch_id, standing=revisions_now(db), cases=READING * count_readings(db)
)
if found.disputed:
    st.warning(
        f"{found.disputed:,} more, read twice at random, on which readers disagree wait for adjudication. They are not "
        "in these figures yet, which are too high until they are.",
        icon=":material/hourglass:",
    )
if not found.cases:
    st.info("No closed case has a blind reading yet. Read and adjudicate cases in the inbox first.")
    st.stop()
with st.container(horizontal=True):
    st.metric("Cases read blind", f"{found.cases:,}")
    st.metric("Read twice at random", f"{found.at_random:,}")
    st.metric("Readers", f"{found.readers:,}")
st.header("Coefficients")
st.html(view.coefficients_html(found.coefficients))
st.caption(
    "Intervals: 95 % at one look, from leaving out whole cases (jackknife, Fisher's scale, widened to what two more "
    "cases would give). A figure that is not there yet is no zero: the readings do not determine it, and the reason "
    "stands beside it."
)
st.caption(view.chosen_words(found.otherwise))
st.header("By tier shown")
st.dataframe(
    [
        {
            "Tier": "not kept" if one.tier is None else one.tier.name,
            "Blind readings": one.total,
            "Unsafe": one.labels.get("unsafe", 0),
            "Safe": one.labels.get("safe", 0),
            "Insufficient information": one.labels.get("insufficient_information", 0),
            "Share unsafe, 95 % Wilson interval": view.proportion_words(
                Proportion(one.labels.get("unsafe", 0), one.total)
            ),
        }
        for one in found.tiers
    ],
    hide_index=True,
    alt="Blind first readings by the tier that was shown",
)
st.caption("A tier may tell a reader what to expect. A share of the audit samples is shown as P1 to weaken that.")
st.header("Changes of mind")
st.html(view.switching_html(found.switching))
st.caption("Where one reader closed a case alone, the adjudicated label is that reader's own last one.")
if is_allowed(person, Action.EXPORT):
    st.header("Ratings matrix")
    st.caption("Every blind first reading; `at_random` marks the cases that the coefficients are of.")
    show_files(readings_files(batch_id))
