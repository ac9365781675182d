"""How far reviewers agree, with intervals, the reason where a figure is not there yet, and who changed their mind."""

import streamlit as st

from jobs.reviews import measure_agreement
from pages.research.figures import forest
from pages.ui import context, downloads, widgets
from pages.ui.words import WORDS, rate
from screening.evaluation.agreement import Coefficient
from screening.evaluation.metrics import Proportion
from screening.review.policy import Action, is_allowed, require
from screening.words import count_of
from storage.batches.batches import list_batches
from storage.batches.counts import count_reviews, revisions_now

MEANINGS = WORDS["coefficient"]

db, person = context.database(), context.actor()
require(person, Action.VIEW_AGREEMENT)
key = context.settings().pseudonym_secret


def interval(found: Coefficient) -> str:
    """The limits; else "not yet", and why where the value is there."""
    if found.low is not None and found.high is not None:
        return f"{found.low:.3f} to {found.high:.3f}"
    return "not yet" if found.value is None else f"not yet: {found.reason}"


st.title("Inter-rater agreement")
widgets.how_to_read(
    "Blinded first reviews of cases with a final label. Reviewers are under pseudonyms, and nobody is ranked.",
    "agreement",
)
titles = widgets.batch_titles(list_batches(db, person, 200))
batch_id = st.selectbox("Upload", list(titles), index=None, placeholder="All", format_func=titles.__getitem__)
found = context.compute(
    measure_agreement, person, key, batch_id, standing=revisions_now(db), cases=context.REVIEW * count_reviews(db)
)
if found.disputed:
    st.warning(
        f"{found.disputed:,} more randomly double-reviewed cases, on which reviewers disagree, wait for adjudication. "
        "They are not in these figures yet, which are too high until they are.",
        icon=":material/hourglass:",
    )
if not found.cases:
    st.info("No case with a final label has a blinded review yet. Review cases in the queue first.")
    st.stop()
with st.container(horizontal=True):
    st.metric("Blinded reviews of cases", f"{found.cases:,}")
    st.metric("Randomly double-reviewed", f"{found.at_random:,}")
    st.metric("Double-reviewed for another reason", f"{found.otherwise:,}")
    st.metric("Reviewers", f"{found.reviewers:,}")

st.header("Coefficients")
st.table(
    [
        {
            "Coefficient": each.name,
            "Value": f"not yet: {each.reason}" if each.value is None else f"{each.value:.3f}",
            "95% CI": interval(each),
            "Randomly double-reviewed": f"{each.cases:,}",
            "What it is": MEANINGS.get(each.name, ""),
        }
        for each in found.coefficients
    ],
    hide_index=True,
)
if found.pairs:
    st.header("By pair of reviewers")
    pairs = {f"{first} · {second}": (same, rate(same)) for first, second, same in found.pairs}
    figure = forest(pairs, "Same label, by pair of reviewers", "share of texts reviewed by both")
    st.plotly_chart(figure, key="agreement_pairs", alt="Share of texts with the same label, by pair of reviewers")
    texts = sum(same.denominator for _, _, same in found.pairs)
    st.caption(
        f"{count_of(len(found.pairs), 'pair')}, {count_of(texts, 'double review')} of randomly chosen texts, 95% "
        "Wilson intervals. In order of the pseudonyms: nobody is ranked."
    )

st.header("By priority shown")
st.table(
    [
        {
            "Priority": "not kept" if priority is None else priority.name,
            "Blinded reviews": sum(labels.values()),
            "Unsafe": labels.get("unsafe", 0),
            "Safe": labels.get("safe", 0),
            "Insufficient information": labels.get("insufficient_information", 0),
            "Share unsafe, 95% CI": rate(Proportion(labels.get("unsafe", 0), sum(labels.values()))),
        }
        for priority, labels in found.priorities.items()
    ],
    hide_index=True,
    alt="Blinded first reviews by the priority that was shown",
)
st.caption("Priority can bias reviewers, so some quality-check cases are deliberately shown as P1.")

st.header("Label changes after seeing the AI (automation bias)")
changes = {"Changed their label": found.switching["reference"].switched}
for against, words in (("adjudicated", "final label"), ("reference", "original label")):
    changes[f"Incorrect → correct (vs {words})"] = found.switching[against].to_right
    changes[f"Correct → incorrect (vs {words})"] = found.switching[against].to_wrong
st.table(
    [{"After seeing the AI's result": name, "Share, 95% CI": rate(share)} for name, share in changes.items()],
    hide_index=True,
)
st.caption("Where one reviewer decided alone, the final label is that reviewer's own last one.")
if is_allowed(person, Action.EXPORT):
    with st.popover("Export", icon=":material/download:"):
        downloads.show_files(downloads.review_files(batch_id))
        st.caption("Every blinded first review; `at_random` marks the cases that the coefficients are of.")
