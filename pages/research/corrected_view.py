"""What conditions are worth by the labels that reviews give, and the sample whose reviews make that known."""

import secrets
from collections.abc import Mapping

import pandas as pd
import streamlit as st

from jobs.evaluating import Ask
from jobs.label_noise import Corrected, draw_for_review, measure_corrected
from pages.research.case_list import SAID, sent_words, show_sent
from pages.ui import context
from pages.ui.compute import compute
from pages.ui.widgets import how_to_read
from screening.evaluation.corrected import Estimate, Rate
from screening.evaluation.tables import NOTHING_DECIDED
from screening.review.policy import Action, is_allowed
from storage.database import Database
from storage.review.worklist import MOST, request_second_looks

RATES: Mapping[Rate, str] = {"accuracy": "Accuracy", "fpr": "FPR", "fnr": "FNR"}
USUAL_SAMPLE = 120


def show_corrected(db: Database, ask: Ask) -> None:
    """The figures by reviews, estimated for all texts; their differences; and the sample to be reviewed."""
    sensitivity = st.select_slider(
        "Reviewers recognize, of unsafe texts", (0.6, 0.7, 0.8, 0.9, 1.0), 1.0, format_func=lambda one: f"{one:.0%}"
    )
    found = compute(measure_corrected, ask, sensitivity, cases=ask.standing.accepted)
    st.dataframe(_table(found.rates), hide_index=True, height="content")
    due = f", {found.due:,} more due" if found.due else ""
    how_to_read(
        f"Wrong original labels: {estimate_words(found.wrong)}. Reviewed blinded: {found.drawn:,} drawn at random and "
        f"{found.picked:,} picked of {found.texts:,} texts{due}.",
        "- Estimates for all texts, weighted by how each was chosen: one that was picked (escalated, high in the list "
        "of possible errors, sent by hand) stands for itself, one that was drawn at random for all like it. "
        "Original and final labels are never mixed as if all had been reviewed.\n"
        "- 95% intervals, on one day; those of one column hold for all conditions together. *Not yet*: too few were "
        "drawn at random.\n"
        "- The slider says how far a reviewer's word is taken: below 100% some texts reviewed as safe are unsafe.",
    )
    if found.drawn + found.picked:
        with st.expander("Differences from your run, on the same texts"):
            st.dataframe(_table(found.differences), hide_index=True, height="content")
    if is_allowed(ask.actor, Action.REQUEST_REVIEW):
        _sample(db, ask, found)


def _table(figures: Mapping[Rate, Mapping[str, Estimate]]) -> pd.DataFrame:
    """A line a condition, what the batch did first."""
    names = list(figures["accuracy"])[::-1]
    return pd.DataFrame(
        [{"Condition": name} | {words: estimate_words(figures[rate][name]) for rate, words in RATES.items()}
         for name in names]
    )  # fmt: skip


def _sample(db: Database, ask: Ask, found: Corrected) -> None:
    """Send a stratified random sample to the queue."""
    show_sent(ask.batch_id)
    if not found.free:
        st.caption("Every text with an original label has been sent to review.")
        return
    most = min(MOST, found.free)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        budget = st.number_input("Texts to review", 1, most, min(USUAL_SAMPLE, most), key="sample_size", width=160)
        pressed = st.button("Send a random sample to review", type="primary", icon=":material/inbox:", key="sample")
    waiting = f" {found.waiting:,} drawn before wait for their review." if found.waiting else ""
    st.caption(
        f"Drawn from {found.free:,} texts that were never in the queue, more of those whose AI responses contradict "
        f"the label; unmarked, reviewed blinded.{waiting} With 120 of 500 texts and one label in ten wrong, the "
        "accuracy is known twice as narrowly as from 120 texts drawn without the AI's responses (`make simulate`). "
        "Reviews by people who may see results are stored as not blinded and do not count."
    )
    if pressed:
        chances = compute(draw_for_review, ask, int(budget), secrets.randbits(32), cases=ask.standing.accepted)
        sent = request_second_looks(db, ask.actor.at(context.now()), list(chances), chances=chances)
        st.session_state[SAID] = sent_words(sent).replace(", controls included", "")
        st.rerun()


def estimate_words(found: Estimate) -> str:
    """The estimate with its interval; before enough was reviewed, the limits alone.

    >>> estimate_words(Estimate(value=0.1, low=0.05, high=0.25, read=40, decided=300))
    '10.0% (95% CI 5.0-25.0%, 40 of 300 reviewed)'
    >>> estimate_words(Estimate(value=-0.1, low=-0.15, high=0.02, read=40, decided=300))
    '-10.0% (95% CI -15.0 to 2.0%, 40 of 300 reviewed)'
    """
    if found.low is None or found.high is None:
        return NOTHING_DECIDED
    to = " to " if found.low < 0 else "-"
    spread = f"{100 * found.low:.1f}{to}{100 * found.high:.1f}%"
    if found.value is None:
        return f"not yet: {found.read:,} of {found.decided:,} reviewed; {spread}"
    return f"{100 * found.value:.1f}% (95% CI {spread}, {found.read:,} of {found.decided:,} reviewed)"
