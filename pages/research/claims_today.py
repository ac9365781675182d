"""What the data show so far, for the first page: figures with interval and n, or why there is none yet."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import streamlit as st

from jobs.computing import NotComputed
from jobs.reviews import main_figure
from pages.research.claims import MOVED, Verified, at_most_words, has_moved, verify_now
from pages.ui import context
from pages.ui.compute import REVIEW, compute_meanwhile
from pages.ui.format import NOT_YET, duration, rate
from screening.evaluation.agreement import Coefficient
from screening.review.actors import Acting, Actor
from screening.review.triage import Priority
from screening.words import count_of
from storage.research.reliability import measured_configurations
from storage.research.standing import configuration_now, count_reviews, reviews_now
from storage.review.reports import PriorityShift, shift_of
from storage.settings_store import audit_plan

UNDER_WAY = "being computed"
LATELY = timedelta(days=30)
MISSED, AGREE = "Missed cases per 1,000 labeled safe", "Inter-rater agreement (Krippendorff's α)"
T = TypeVar("T")
Figure = tuple[str, str, str]
"""What is told, its value, and what the value rests on."""


def is_awaited(told: Sequence[Figure]) -> bool:
    """Whether one of the figures is being computed."""
    return any(value == UNDER_WAY for _, value, _ in told)


def missed_words(found: Verified | None) -> Figure:
    """Missed unsafe texts, as the audit of the present configuration bounds them."""
    if found is None:
        return MISSED, NOT_YET, "nothing has been screened with the current settings"
    if not found.at_most:
        return MISSED, NOT_YET, f"0 of {found.called_safe:,} texts labeled safe have been checked by a clinician"
    why = MOVED if has_moved(found) else "valid at any time"
    lost = " or lost" if found.estimates.missed.lost else ""
    return MISSED, at_most_words(found), f"{why} · {found.at_most[-1].observations:,} reviewed{lost}"


def agreement_words(found: tuple[Coefficient, int]) -> Figure:
    """How far blind reviewers agree on cases that a coin chose to be read twice, and what is not in it yet."""
    alpha, disputed = found
    if alpha.value is None:
        return AGREE, NOT_YET, alpha.reason or ""
    interval = (
        "" if alpha.low is None or alpha.high is None else f"{alpha.low:.2f} to {alpha.high:.2f}, single analysis · "
    )
    waits = count_of(disputed, "more that is disputed is decided", "more that are disputed are decided")
    more = f" · too high until {waits}" if disputed else ""
    return AGREE, f"{alpha.value:.2f}", f"{interval}{alpha.cases:,} reviewed twice at random{more}"


def missed_figure(person: Actor) -> Figure:
    """The bound on missed texts, of the present configuration."""
    db = context.database()
    measured = {one.version for one in measured_configurations(db, person)}
    if not measured or (version := context.configuration(context.usual_pipeline()).version) not in measured:
        return missed_words(None)
    asked = (person, version, audit_plan(db), context.now().date())
    standing, cases = configuration_now(db, version), REVIEW * count_reviews(db)
    return _figure_from(
        MISSED, missed_words, lambda: compute_meanwhile(verify_now, *asked, standing=standing, cases=cases)
    )


def agreement_figure(person: Actor) -> Figure:
    """The agreement of blind reviewers of closed cases that were read twice at random."""
    db, key = context.database(), context.settings().pseudonym_secret
    cases = REVIEW * count_reviews(db)
    return _figure_from(
        AGREE,
        agreement_words,
        lambda: compute_meanwhile(main_figure, person, key, standing=reviews_now(db), cases=cases),
    )


def first_look_figure(by: Acting) -> Figure:
    """How soon somebody looked at what is most urgent, over the last days, as of this minute."""
    return first_look_words(_lately(by.actor, by.now.replace(second=0, microsecond=0)))


def first_look_words(found: PriorityShift) -> Figure:
    """What is told, its value, and what the value rests on."""
    name = f"Median time until opened, P0, {LATELY.days} days"
    if not found.within_target.denominator:
        return name, NOT_YET, "no P0 case was opened or overdue"
    value = duration(found.median) if found.median is not None else "none opened"
    return name, value, f"median of {found.looked_at:,} · on time: {rate(found.within_target)}"


@st.cache_data(max_entries=2, show_spinner=False)
def _lately(_person: Actor, minute: datetime) -> PriorityShift:
    return shift_of(context.database(), _person, Priority.P0, minute - LATELY, minute)


def _figure_from(name: str, words: Callable[[T], Figure], find: Callable[[], T | None]) -> Figure:
    """The figure, or that it is on its way, or why there is none."""
    try:
        found = find()
    except NotComputed as error:
        return name, "not computed", str(error)
    return (name, UNDER_WAY, "from all reviews; it comes by itself") if found is None else words(found)
