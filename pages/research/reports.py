"""What is claimed beside the page of reliability: on the first page; in the report of a verification, after the items
of STARD 2015 that apply; and on the model card, with what labels texts here.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import streamlit as st

from jobs.computing import NotComputed
from jobs.reviews import main_figure
from pages.research import claims
from pages.research.claims import MOVED, Verified, at_most_words, guarantee_words, has_moved, plan_sentences
from pages.site.model_panel import facts, notes
from pages.site.site_settings import answers
from pages.ui import context
from pages.ui.context import REVIEW, compute_meanwhile
from pages.ui.html import macros
from pages.ui.words import (
    DELTA_MEANING,
    NOT_YET,
    OUTCOME_WORDS,
    duration,
    interval,
    local_time,
    per_thousand,
    percent,
    plain_percent,
    rate,
)
from screening.evaluation.agreement import Coefficient
from screening.evaluation.audit import Stratum
from screening.evaluation.estimates import WeightedRate
from screening.evaluation.metrics import Proportion
from screening.labels import Outcome
from screening.review.policy import Acting, Action, Actor, is_allowed
from screening.review.triage import WHO_SEES_WHAT, Priority
from screening.settings import SIMULATED_NOTICE, Settings
from screening.words import count_of
from storage.batches.configurations import Configuration
from storage.batches.counts import configuration_now, count_reviews, reviews_now
from storage.database import Database
from storage.research.reliability import audit_sample, measured_configurations, outcome_mix
from storage.review.reports import PriorityShift, shift_of
from storage.settings_store import SiteSettings, audit_plan

CARD = "Model card: Second Look"
FLOW_SETTLED, FLOW_AUDITED = "screened with this configuration", "eligible for the quality-check sample"
FLOW_NOT_AUDITED = "not eligible (nothing can be said of them)"


def flow(found: Verified) -> tuple[tuple[str, int], ...]:
    """How many cases came to each stage, as STARD asks for."""
    strata, ended = found.strata, Counter[Outcome]()
    for stratum in found.strata:
        ended[stratum.outcome] += stratum.cases
    audited = sum(stratum.cases for stratum in strata)
    return (
        (FLOW_SETTLED, audited + found.sample.without_audit),
        (FLOW_NOT_AUDITED, found.sample.without_audit),
        (FLOW_AUDITED, audited),
        ("labeled safe by the AI", ended[Outcome.SAFE]),
        ("labeled unsafe by the AI", ended[Outcome.UNSAFE]),
        ("escalated", ended[Outcome.HUMAN_REVIEW]),
        ("selected for review (at random, or escalated)", sum(stratum.selected for stratum in strata)),
        ("reviewed blinded: safe or unsafe", sum(stratum.read for stratum in strata)),
        ("reviewed blinded: insufficient information", sum(stratum.inconclusive for stratum in strata)),
        ("reviewed blinded, second review due", sum(stratum.read_again for stratum in strata)),
        ("review pending", sum(stratum.waiting for stratum in strata)),
        ("already seen, no longer blinded", sum(stratum.lost for stratum in strata)),
        ("of these, reviewed unblinded (excluded)", found.sample.not_blind),
    )


def report_html(
    found: Verified,
    now: Mapping[str, str],
    at: datetime,
    site: SiteSettings,
    severities: Mapping[int | None, int],
    priorities: Mapping[bool, Proportion],
) -> str:
    """The whole page; nothing in it is fetched from anywhere, and no text or person is in it.

    Beside the figures it says the site's answers, how severe the unsafe texts were, and how many texts that the AI had
    flagged were reviewed under an urgent priority (True), and under another.
    """
    lead = [
        f"Configuration {found.sample.configuration_version}, as of {local_time(at)}.",
        f"Missed unsafe per 1,000 texts labeled safe: {missed_sentence(found)}",
        claims.one_look_words(found, at),
        f"Miss rate: {guarantee_words(found.guarantee)}. {found.left_out}",
        " ".join(plan_sentences(found.plan)),
    ]
    another = "Stale: this is evidence about another configuration than the one in use."
    stale = another if found.binding != now else ""
    urgent = "reviewed as P0 or P1, of them escalated or labeled unsafe by the AI"
    shown = [(urgent if each else "the same as P2 or P3", rate(share)) for each, share in priorities.items()]
    levels = sorted((-1 if level is None else level, f"{count:,}") for level, count in severities.items())
    unstated = "ideation not stated or not coded"
    told = {
        "priorities": shown if any(share.denominator for share in priorities.values()) else [],
        "severities": [(unstated if at < 0 else f"ideation level {at} of 5", count) for at, count in levels],
        "second_review_rate": percent(site.second_review_rate),
        "at_most": plain_percent(found.plan.at_most),
        "confidence": plain_percent(found.plan.confidence),
    }
    estimates, alone = found.estimates, found.single_reviewer
    rates = [
        ("Sensitivity (an escalation counts as caught)", _rate(estimates.sensitivity)),
        ("Specificity", _rate(estimates.specificity)),
        ("Sensitivity with the first reviewer's word alone", _rate(alone.sensitivity)),
        ("Specificity with the first reviewer's word alone", _rate(alone.specificity)),
    ]
    stages = [(name, f"{count:,}") for name, count in flow(found)]
    tallies = [tally(each) for each in found.strata]
    return str(macros("reliability").reliability(found, told, lead, stale, rates, stages, tallies, answers(site)))


def missed_sentence(found: Verified) -> str:
    missed = found.estimates.missed
    if not found.at_most:
        return f"not yet: nothing of {count_of(missed.cases, 'text')} labeled safe has been checked by a reviewer"
    said = at_most_words(found)
    bound = "no bound yet" if said == NOT_YET else f"{said} at 95% confidence, valid at any time"
    return (
        f"estimated {per_thousand(missed.per_thousand)}, {f'no bound: {MOVED}' if has_moved(found) else bound} "
        f"({missed.missed} missed in {missed.read:,} reviewed of {missed.cases:,}"
        f"{claims.counted_as_missed(found)})"
    )


def tally(each: Stratum) -> dict[str, object]:
    return {
        "Outcome": OUTCOME_WORDS[each.outcome],
        "Stratum (π of its audit)": each.name,
        "Sampling probability": f"{each.probability:g}",
        "Texts": each.cases,
        "Selected": each.selected,
        "Reviewed": each.read,
        "Unsafe": each.unsafe,
        "Insufficient information": each.inconclusive,
        "Second review": each.read_again,
        "Pending": each.waiting,
        "Not assessable": each.lost,
    }


def _rate(rate: WeightedRate) -> str:
    if rate.value is None:
        return f"not yet: {rate.reason}"
    naive = f"{percent(rate.naive.value)} among those reviewed ({rate.naive.numerator}/{rate.naive.denominator})"
    return f"{percent(rate.value)}, {interval(rate.low, rate.high)}; naive figure, not to be used: {naive}"


def card_sections(
    db: Database, person: Actor, settings: Settings, configuration: Configuration
) -> list[tuple[str, list[str]]]:
    """Title and sentences of each section, what was measured for who may see it."""
    site, version = context.site(), configuration.version
    measured = ["Nothing has been measured with this configuration yet, so nothing can be claimed."]
    if is_allowed(person, Action.VIEW_RESULTS):
        settled = {one.version: one.settled for one in measured_configurations(db, person)}
        if settled.get(version):
            found = claims.verify(audit_sample(db, person, version), outcome_mix(db, person, version), audit_plan(db))
            texts = count_of(settled[version], "text")
            measured = [f"{texts} screened with this configuration.", *measured_lines(found)]
    use = [
        site.intended_use,
        WHO_SEES_WHAT,
        "It labels texts, not people, and gives no score of a person's risk.",
        site.help_text,
    ]
    return [
        ("Intended use", ([SIMULATED_NOTICE] if settings.simulated else []) + use),
        ("Configuration", [f"{name}: {value}" for name, value in facts(configuration, settings)] + [*notes(settings)]),
        ("What the error level means", [DELTA_MEANING]),
        ("Measured", measured),
        (
            "Limits",
            [
                "Figures hold for this configuration, these texts and these reviewers; another model, prompt or site "
                "needs its own.",
                "A text that addresses the model, hides characters or is in an unchecked language goes to a clinician.",
                "What no agent settles, fails or is refused goes to a clinician; nothing is safe by default.",
            ],
        ),
    ]


def measured_lines(found: Verified) -> list[str]:
    return [
        f"Missed unsafe per 1,000 texts labeled safe: {missed_sentence(found)}.",
        f"{guarantee_words(found.guarantee)}. {found.left_out}".strip(),
        " ".join(plan_sentences(found.plan)),
    ]


def card_markdown(sections: Sequence[tuple[str, Sequence[str]]], at: datetime) -> str:
    """The card as Markdown; what could be markup in a value is escaped."""
    parts = [f"# {CARD}\n\nAs of {local_time(at)}.\n"]
    for title, lines in sections:
        plain = ("".join(f"\\{letter}" if letter in "\\`*_[]<>!#|" else letter for letter in line) for line in lines)
        parts.append(f"## {title}\n\n" + "".join(f"- {line}\n" for line in plain))
    return "\n".join(parts)


def card_html(sections: Sequence[tuple[str, Sequence[str]]], at: datetime) -> str:
    return str(macros("report").card(CARD, [f"As of {local_time(at)}."], sections))


UNDER_WAY = "being computed"
LATELY = timedelta(days=30)
MISSED, AGREE = "Missed cases per 1,000 labeled safe", "Inter-rater agreement (Krippendorff's α)"
T = TypeVar("T")
Figure = tuple[str, str, str]


def is_awaited(told: Sequence[Figure]) -> bool:
    return any(value == UNDER_WAY for _, value, _ in told)


def missed_figure_words(found: Verified | None) -> Figure:
    """Missed unsafe texts, as the audit of the present configuration bounds them."""
    if found is None:
        return MISSED, NOT_YET, "nothing has been screened with the current settings"
    missed = found.estimates.missed
    if not found.at_most:
        return MISSED, NOT_YET, f"0 of {missed.cases:,} texts labeled safe reviewed blinded and at random"
    said = at_most_words(found)
    why = MOVED if has_moved(found) else "too few for a bound" if said == NOT_YET else "valid at any time"
    lost = " or lost" if missed.lost else ""
    return MISSED, said, f"{why} · {found.at_most[-1].observations:,} reviewed{lost}"


def agreement_words(found: tuple[Coefficient, int]) -> Figure:
    """How far blind reviewers agree on cases sampled for a second review, and what is not in it yet."""
    alpha, disputed = found
    if alpha.value is None:
        return AGREE, NOT_YET, alpha.reason or ""
    said = f"{alpha.cases:,} with a second review at random"
    if alpha.low is not None and alpha.high is not None:
        said = f"{alpha.low:.2f} to {alpha.high:.2f}, single analysis · {said}"
    if disputed:
        waits = count_of(disputed, "more that is disputed is decided", "more that are disputed are decided")
        said += f" · too high until {waits}"
    return AGREE, f"{alpha.value:.2f}", said


def missed_figure(person: Actor) -> Figure:
    db = context.database()
    measured = {one.version for one in measured_configurations(db, person)}
    if not measured or (version := context.configuration(context.usual_pipeline()).version) not in measured:
        return missed_figure_words(None)
    asked = (person, version, audit_plan(db), context.now().date())
    standing, cases = configuration_now(db, version), REVIEW * count_reviews(db)
    find = partial(compute_meanwhile, claims.verify_now, *asked, standing=standing, cases=cases)
    return _figure_from(MISSED, missed_figure_words, find)


def agreement_figure(person: Actor) -> Figure:
    db, key = context.database(), context.settings().pseudonym_secret
    standing, cases = reviews_now(db), REVIEW * count_reviews(db)
    find = partial(compute_meanwhile, main_figure, person, key, standing=standing, cases=cases)
    return _figure_from(AGREE, agreement_words, find)


def first_look_figure(by: Acting) -> Figure:
    """How soon somebody looked at what is most urgent, over the last days, as of this minute."""
    return first_look_words(_lately(by.actor, by.now.replace(second=0, microsecond=0)))


def first_look_words(found: PriorityShift) -> Figure:
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
