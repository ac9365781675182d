"""Pages to hand out: the report of a verification after the items of STARD 2015 that apply, and the model card: what
labels texts here and what was measured about it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pages.research.claims import (
    MOVED,
    Verified,
    at_most_words,
    beyond_sentence,
    counted_as_missed,
    guarantee_words,
    has_moved,
    one_look_words,
    plan_sentences,
    too_early_sentence,
    verify,
)
from pages.site.model_panel import facts, notes
from pages.site.site_settings import answers
from pages.ui import context
from pages.ui.format import interval, local_time, per_thousand, percent, plain_percent, rate
from pages.ui.html import Part, Section, document
from pages.ui.labels import DELTA_MEANING, OUTCOME_WORDS
from screening.evaluation.audit import Stratum
from screening.evaluation.estimates import WeightedRate
from screening.evaluation.guarantee import Binding
from screening.evaluation.metrics import Proportion
from screening.labels import Outcome
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.review.reach import WHO_SEES_WHAT
from screening.settings import SIMULATED_NOTICE, Settings
from screening.words import count_of
from storage.batches.configurations import Configuration
from storage.database import Database
from storage.research.outcome_mix import outcome_mix
from storage.research.reliability import audit_sample, measured_configurations
from storage.settings_store import SiteSettings, audit_plan

FLOW_SETTLED, FLOW_AUDITED = "screened with this configuration", "in the quality-check sample (audit)"
FLOW_NOT_AUDITED = "not in the sample (nothing can be said of them)"


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
        ("no longer blindable", sum(stratum.lost for stratum in strata)),
        ("reviewed unblinded (excluded)", found.sample.not_blind),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What the report says beside the figures: the site's answers, how severe the unsafe texts were, and how many texts
    that the AI had flagged were reviewed under an urgent priority, and under another.
    """

    site: SiteSettings
    severities: Mapping[int | None, int]
    priorities: Mapping[bool, Proportion] = field(default_factory=dict)


def report_html(found: Verified, now: Binding, at: datetime, study: Study) -> str:
    """The whole page; nothing in it is fetched from anywhere, and no text or person is in it."""
    lead = [
        f"Configuration {found.sample.configuration_version}, as of {local_time(at)}.",
        f"Missed unsafe per 1,000 texts labeled safe: {missed_sentence(found)}",
        one_look_words(found, at),
        f"Miss rate: {guarantee_words(found.guarantee)}. {too_early_sentence(found)} {beyond_sentence(found)}",
        " ".join(plan_sentences(found.plan)),
    ]
    stale = "Stale: this is evidence about another configuration than the one in use."
    return document(
        "Reliability report",
        "Reliability of automatic labels",
        lead,
        [*_methods(found, study), *_results(found, study)],
        stale=stale if found.guarantee.stale(now) else "",
    )


def missed_sentence(found: Verified) -> str:
    """The estimate and its bound in words."""
    missed = found.estimates.missed
    if not found.at_most:
        return f"not yet: nothing of {count_of(found.called_safe, 'text')} labeled safe has been checked by a reviewer"
    bound = f"{at_most_words(found)} at 95% confidence, valid at any time"
    return (
        f"estimated {per_thousand(missed.per_thousand)}, {f'no bound: {MOVED}' if has_moved(found) else bound} "
        f"({missed.missed} missed in {missed.read:,} reviewed of {found.called_safe:,}{counted_as_missed(found)})"
    )


def _methods(found: Verified, study: Study) -> Iterable[Section]:
    binding, guarantee = found.guarantee.binding, found.guarantee
    measured: Part = "not recorded"
    if binding is not None:
        measured = [("Model", binding.model), ("Prompts", binding.prompt_hash), ("Rule at each agent", binding.rule)]
    yield "Index test (STARD 10a, 12a)", [measured]
    definition = binding.label_definition if binding else "not recorded"
    yield (
        "Reference standard (STARD 10b, 11, 13b)",
        [
            f"A clinician's first review of the text, given before the AI's result was shown ({definition}), or "
            "the label that several reviewers agreed on, where a text was reviewed more than once. Reviews after the "
            "AI's result was shown do not count."
        ],
    )
    yield (
        "What counts as positive, and who knew what (STARD 12b, 13a)",
        [
            "Positive is the label unsafe, as the review form defines it: no cut-off of a score, and none was chosen "
            "on these data. The agents were shown the text and the reply to it, if there is one: no review, no "
            "reference label and nothing else about whoever wrote it."
        ],
    )
    shown: list[Part] = []
    if any(each.denominator for each in study.priorities.values()):
        words = {True: "reviewed as P0 or P1, of them escalated or labeled unsafe by the AI"}
        shown.append(
            [(words.get(urgent, "the same as P2 or P3"), rate(each)) for urgent, each in study.priorities.items()]
        )
    yield (
        "Participants and sampling (STARD 5 to 9)",
        [
            "Every text got a recorded random number when it came in. Texts that the AI decided were selected for "
            "review where that number lay below the sampling probability recorded for their batch; they entered the "
            "same queue as all others, unmarked. Every escalated text was due to be reviewed.",
            "A reviewer sees a text's priority before the review, and a priority can tell of the AI: texts that the AI "
            "escalates or labels unsafe, and some quality checks, come as urgent.",
            *shown,
        ],
    )
    yield (
        "Indeterminate results (STARD 15)",
        [
            "A text that no agent decided goes to a clinician and counts as caught, never as safe. A review that found "
            "too little information counts as missing, and so does a text until its second review, where one is due; "
            "every bound holds at both extremes."
        ],
    )
    yield (
        "Variability (STARD 17)",
        [
            "Fixed beforehand: one estimate for each audit probability, weighted together, and the figures by the "
            f"first reviewer's word alone beside those of final labels ({percent(study.site.second_review_rate)} of "
            "other cases are randomly double-reviewed). No other subgroup was analyzed here."
        ],
    )
    yield (
        "Sample size (STARD 18)",
        [
            f"For a miss rate of at most {plain_percent(guarantee.at_most)} at {plain_percent(guarantee.confidence)} "
            f"confidence with {guarantee.allowed_misses} misses allowed: {guarantee.reviews_required:,} blinded "
            f"reviews of truly unsafe texts (exact binomial), fixed with the plan. So far {guarantee.read:,}, with "
            f"{guarantee.missed:,} missed."
        ],
    )


def _results(found: Verified, study: Study) -> Iterable[Section]:
    yield "Flow (STARD 19)", [[(name, f"{count:,}") for name, count in flow(found)]]
    yield "Tally by outcome (STARD 23)", [[tally(each) for each in found.strata] or "Nothing was sampled yet."]
    rates = {
        "Sensitivity (an escalation counts as caught)": found.estimates.sensitivity,
        "Specificity": found.estimates.specificity,
        "Sensitivity with the first reviewer's word alone": found.single_reviewer.sensitivity,
        "Specificity with the first reviewer's word alone": found.single_reviewer.specificity,
    }
    yield (
        "Estimates (STARD 24)",
        [
            [(name, _rate(each)) for name, each in rates.items()],
            "Weighted by the inverse of the audit probability (Begg and Greenes 1983). Intervals: exact with one audit "
            "probability on each side, else MOVER on exact parts; each is valid for a single analysis on a day fixed "
            "beforehand.",
        ],
    )
    graded: Part = "No checked text has been reviewed as unsafe yet."
    if study.severities:
        levels = sorted(study.severities, key=lambda level: -1 if level is None else level)
        words = {level: "ideation not stated" if level is None else f"ideation level {level} of 5" for level in levels}
        graded = [(words[level], f"{study.severities[level]:,}") for level in levels]
    yield "How grave the unsafe texts were that were audited (STARD 21a)", [graded]
    yield (
        "Texts without risk (STARD 21b)",
        ["Not told apart: the form asks for no other condition of whoever wrote a text."],
    )
    hours = "No audited text has been reviewed blinded yet."
    if found.hours:
        middle, least, most, reviews = found.hours
        hours = (
            f"Hours from the outcome to the blinded review: median {middle:,.1f}, from {least:,.1f} to {most:,.1f}, "
            f"over {reviews:,.0f} reviews. Both are of one unchanging text; nothing was done in between."
        )
    yield "From the outcome to its review (STARD 22)", [hours]
    yield (
        "Missing data and limits (STARD 16, 26)",
        [
            "First reviews still due are taken to be missing at random within their stratum. Not so inconclusive "
            "reviews, texts whose blinded review is lost (the AI's view was seen before it, in a list or as evidence, "
            "or the text was erased), nor texts that were reviewed and wait for a further review, as most do that are "
            "reviewed as unsafe: every bound holds at both extremes, had they all been safe or all unsafe. The figures "
            "speak of texts like those that came in, under this configuration alone: a change of model, prompts, rule "
            "or label definition makes them stale. The stopping rule's error rate is about the model's own most "
            "frequent answer and is no part of them."
        ],
    )
    yield "Stated by the site (STARD 8, 20, 25, 28 to 30)", [list(answers(study.site))]


def tally(each: Stratum) -> dict[str, object]:
    """One stratum as a row of a table."""
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
    naive = f"{percent(rate.naive.value)} among what was read ({rate.naive.numerator}/{rate.naive.denominator})"
    return f"{percent(rate.value)}, {interval(rate.low, rate.high)}; naive figure, not to be used: {naive}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Everything the card says. ``measured`` None: nothing was measured with this configuration."""

    at: datetime
    simulated: bool
    facts: Sequence[tuple[str, str]]
    notes: Sequence[str]
    site: SiteSettings
    settled: int
    measured: Verified | None


def card_now(db: Database, person: Actor, settings: Settings, configuration: Configuration) -> Card:
    """The card as of now, with what was measured with this configuration as far as this person may see it."""
    settled, measured = 0, None
    if is_allowed(person, Action.VIEW_RESULTS):
        every = {one.version: one.settled for one in measured_configurations(db, person)}
        settled = every.get(configuration.version, 0)
    if settled:
        sample = audit_sample(db, person, configuration.version)
        measured = verify(sample, outcome_mix(db, person, configuration.version), audit_plan(db))
    return Card(
        at=context.now(),
        simulated=settings.simulated,
        facts=facts(configuration, settings),
        notes=notes(settings),
        site=context.site(),
        settled=settled,
        measured=measured,
    )


def card_sections(card: Card) -> list[tuple[str, list[str]]]:
    """Title and sentences of each section."""
    use = [
        card.site.intended_use,
        WHO_SEES_WHAT,
        "It labels texts, not people, and gives no score of a person's risk.",
        card.site.help_text,
    ]
    return [
        ("Intended use", ([SIMULATED_NOTICE] if card.simulated else []) + use),
        ("Configuration", [f"{name}: {value}" for name, value in card.facts] + list(card.notes)),
        ("What the error level means", [DELTA_MEANING]),
        ("Measured", _measured_lines(card)),
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


def _measured_lines(card: Card) -> list[str]:
    if (found := card.measured) is None:
        return ["Nothing has been measured with this configuration yet, so nothing can be claimed."]
    guarantee = (f"{guarantee_words(found.guarantee)}.", too_early_sentence(found), beyond_sentence(found))
    return [
        f"{count_of(card.settled, 'text')} screened with this configuration.",
        f"Missed unsafe per 1,000 texts labeled safe: {missed_sentence(found)}.",
        " ".join(filter(None, guarantee)),
        " ".join(plan_sentences(found.plan)),
    ]


def card_markdown(card: Card) -> str:
    """The card as Markdown; what could be markup in a value is escaped."""
    parts = [f"# Model card: Second Look\n\nAs of {local_time(card.at)}.\n"]
    for title, lines in card_sections(card):
        plain = ("".join(f"\\{letter}" if letter in "\\`*_[]<>!#|" else letter for letter in line) for line in lines)
        parts.append(f"## {title}\n\n" + "".join(f"- {line}\n" for line in plain))
    return "\n".join(parts)


def card_html(card: Card) -> str:
    """The card as one HTML document without scripts."""
    told: list[Section] = [(title, [lines]) for title, lines in card_sections(card)]
    return document("Model card: Second Look", "Model card: Second Look", [f"As of {local_time(card.at)}."], told)
