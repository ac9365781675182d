"""The report of a verification as one printable HTML page, after the items of STARD 2015 that apply."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from html import escape

from pages.research.claims import (
    MOVED,
    Verified,
    at_most_words,
    beyond_sentence,
    counted_as_missed,
    has_moved,
    one_look_words,
    plan_sentences,
    too_early_sentence,
)
from pages.site.site_settings import answers
from pages.ui.format import interval, local_time, per_thousand, percent, plain_percent, rate
from screening.evaluation.audit import Stratum
from screening.evaluation.estimates import WeightedRate
from screening.evaluation.guarantee import Binding
from screening.evaluation.metrics import Proportion
from screening.labels import Outcome
from screening.words import count_of
from storage.settings_store import SiteSettings

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#10191f;max-width:46rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;border-bottom:1px solid #c8d1d8;margin-top:1.6rem}
table{border-collapse:collapse;width:100%}td,th{border:1px solid #c8d1d8;padding:.3rem .6rem;text-align:left}
.stale{border:2px solid #a11a12;padding:.6rem 1rem;font-weight:600}
@media print{body{margin:0;max-width:none}h2{break-after:avoid}table{break-inside:avoid}}
"""


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
    parts = [
        _head(found, now, at),
        *_methods(found),
        *_priorities(study.priorities),
        *_sizes(found, study.site),
        *_results(found),
        *_spectrum(found, study.severities),
        *_limits(),
        *_of_the_site(study.site),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Reliability report</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def _head(found: Verified, now: Binding, at: datetime) -> str:
    version = escape(found.sample.configuration_version)
    stale = (
        '<p class="stale">Stale: this is evidence about another configuration than the one in use.</p>'
        if found.guarantee.stale(now)
        else ""
    )
    return (
        f"<h1>Reliability of automatic labels</h1><p>Configuration {version}, as of {local_time(at)}.</p>{stale}"
        f"<p><b>Missed unsafe per 1,000 texts labeled safe: {escape(missed_sentence(found))}</b></p>"
        f"<p>{escape(one_look_words(found, at))}</p>"
        f"<p>Miss rate: {escape(found.guarantee.statement)}. {escape(too_early_sentence(found))} "
        f"{escape(beyond_sentence(found))}</p>"
        f"<p>{escape(' '.join(plan_sentences(found.plan)))}</p>"
    )


def missed_sentence(found: Verified) -> str:
    """The estimate and its bound in words."""
    missed = found.estimates.missed
    if not found.at_most:
        return f"not yet: nothing of {count_of(found.called_safe, 'text')} labeled safe has been checked by a reviewer"
    bound = f"{at_most_words(found)} at 95% confidence at every look together"
    return (
        f"estimated {per_thousand(missed.per_thousand)}, {f'no bound: {MOVED}' if has_moved(found) else bound} "
        f"({missed.missed} missed in {missed.read:,} reviewed of {found.called_safe:,}{counted_as_missed(found)})"
    )


def _methods(found: Verified) -> Iterable[str]:
    binding = found.guarantee.binding
    yield "<h2>Index test (STARD 10a, 12a)</h2>"
    if binding is None:
        yield "<p>not recorded</p>"
    else:
        yield _table((("Model", binding.model), ("Prompts", binding.prompt_hash), ("Rule at each agent", binding.rule)))
    yield "<h2>Reference standard (STARD 10b, 11, 13b)</h2>"
    definition = escape(binding.label_definition) if binding else "not recorded"
    yield (
        f"<p>A clinician's first review of the text, given before anything of the engine was shown ({definition}), or "
        "what several reviewers settled, where a text was read more than once. Reviews after the reveal do not count."
        "</p>"
    )
    yield "<h2>What counts as positive, and who knew what (STARD 12b, 13a)</h2>"
    yield (
        "<p>Positive is the label unsafe, as the rating form defines it: no cut-off of a score, and none was chosen on "
        "these data. The agents were shown the text and the reply to it, if there is one: no review, no reference "
        "label and nothing else about whoever wrote it.</p>"
    )
    yield "<h2>Participants and sampling (STARD 5 to 9)</h2>"
    yield (
        "<p>Every text that the engine decided drew a recorded coin when it came in. When it was settled the coin was "
        "held against the probability recorded for its batch; those selected entered the same inbox as all others, "
        "unmarked. Every escalated text was due to be reviewed.</p>"
    )


def _priorities(shown: Mapping[bool, Proportion]) -> Iterable[str]:
    """What the priority told reviewers of the AI before they reviewed."""
    yield (
        "<p>A reviewer sees a text's priority before the review, and a priority can tell of the AI: texts that the AI "
        "escalates or labels unsafe, and some quality checks, come as urgent.</p>"
    )
    words = {True: "reviewed as P0 or P1, of them escalated or labeled unsafe by the AI", False: "the same as P2 or P3"}
    if any(each.denominator for each in shown.values()):
        yield _table((words[urgent], rate(each)) for urgent, each in shown.items())


def _sizes(found: Verified, site: SiteSettings) -> Iterable[str]:
    guarantee = found.guarantee
    yield "<h2>Indeterminate results (STARD 15)</h2>"
    yield (
        "<p>A text that no agent decided goes to a clinician and counts as caught, never as safe. A review that found "
        "too little information counts as missing, and so does a text until its second review, where one is due; "
        "every bound holds at both extremes.</p>"
    )
    yield "<h2>Variability (STARD 17)</h2>"
    yield (
        "<p>Fixed beforehand: one estimate for each audit probability, weighted together, and the figures by the first "
        f"reviewer's word alone beside those of settled labels ({percent(site.second_reading_rate)} of other reviews "
        "are reviewed twice at random). Nothing else was looked at by subgroup here.</p>"
    )
    yield "<h2>Sample size (STARD 18)</h2>"
    yield (
        f"<p>For a miss rate of at most {plain_percent(guarantee.at_most)} at {plain_percent(guarantee.confidence)} "
        f"confidence with {guarantee.allowed_misses} misses allowed: {guarantee.readings_required:,} blinded reviews "
        f"of truly unsafe texts (exact binomial), fixed with the plan. So far {guarantee.read:,}, with "
        f"{guarantee.missed:,} missed.</p>"
    )


def _spectrum(found: Verified, severities: Mapping[int | None, int]) -> Iterable[str]:
    yield "<h2>How grave the unsafe texts were that were audited (STARD 21a)</h2>"
    if severities:
        levels = sorted(severities, key=lambda level: -1 if level is None else level)
        yield _table((_level(level), f"{severities[level]:,}") for level in levels)
    else:
        yield "<p>No checked text has been reviewed as unsafe yet.</p>"
    yield "<h2>Texts without risk (STARD 21b)</h2>"
    yield "<p>Not told apart: the form asks for no other condition of whoever wrote a text.</p>"
    yield "<h2>From the outcome to its review (STARD 22)</h2>"
    yield f"<p>{escape(_interval_words(found))}</p>"


def _level(level: int | None) -> str:
    return "ideation not stated" if level is None else f"ideation level {level} of 5"


def _interval_words(found: Verified) -> str:
    if not found.hours:
        return "No audited text has been reviewed blinded yet."
    middle, least, most, readings = found.hours
    return (
        f"Hours from the outcome to the blinded review: median {middle:,.1f}, from {least:,.1f} to "
        f"{most:,.1f}, over {readings:,.0f} reviews. Both are of one unchanging text; nothing was done in between."
    )


def _of_the_site(site: SiteSettings) -> Iterable[str]:
    yield "<h2>Stated by the site (STARD 8, 20, 25, 28 to 30)</h2>"
    yield _table(answers(site))


def _results(found: Verified) -> Iterable[str]:
    yield "<h2>Flow (STARD 19)</h2>"
    yield _table((name, f"{count:,}") for name, count in flow(found))
    yield "<h2>Tally by outcome (STARD 23)</h2>"
    yield _rows(
        ("Outcome", "Stratum (π of its audit)", "Probability of a review", *_COUNTED),
        (_tally(each) for each in found.strata),
    )
    yield "<h2>Estimates (STARD 24)</h2>"
    yield _table(
        (
            ("Sensitivity (an escalation counts as caught)", _rate(found.estimates.sensitivity)),
            ("Specificity", _rate(found.estimates.specificity)),
            ("Sensitivity with the first reviewer's word alone", _rate(found.single_reader.sensitivity)),
            ("Specificity with the first reviewer's word alone", _rate(found.single_reader.specificity)),
        )
    )
    yield (
        "<p>Weighted by the inverse of the audit probability (Begg and Greenes 1983). Intervals: exact with one audit "
        "probability on each side, else MOVER on exact parts; each holds at one look, on a day fixed beforehand.</p>"
    )


_COUNTED = (
    "Texts",
    "Selected",
    "Reviewed",
    "Unsafe",
    "Insufficient information",
    "Second review",
    "Pending",
    "Not assessable",
)


def _tally(each: Stratum) -> tuple[object, ...]:
    counts = (
        each.cases,
        each.selected,
        each.read,
        each.unsafe,
        each.inconclusive,
        each.read_again,
        each.waiting,
        each.lost,
    )
    return (each.outcome.value.replace("_", " "), each.name, f"{each.probability:g}", *counts)


def _limits() -> Iterable[str]:
    yield "<h2>Missing data and limits (STARD 16, 26)</h2>"
    yield (
        "<p>First reviews still due are taken to be missing at random within their stratum. Not so inconclusive "
        "reviews, texts whose blinded review is lost (the AI's view was seen before it, in a list or as evidence, or "
        "the text was erased), nor texts that were reviewed and wait for a further review, as most do that are "
        "reviewed as unsafe: every bound holds at both extremes, had they all been safe or all unsafe. The figures "
        "speak of texts "
        "like those that came in, under this configuration alone: a change of model, prompts, rule or label definition "
        "makes them stale. The stopping rule's error rate is about the model's own most "
        "frequent answer and is no part of them.</p>"
    )


def _rate(rate: WeightedRate) -> str:
    if rate.value is None:
        return f"not yet: {rate.reason}"
    naive = f"{percent(rate.naive.value)} among what was read ({rate.naive.numerator}/{rate.naive.denominator})"
    return f"{percent(rate.value)}, {interval(rate.low, rate.high)}; naive figure, not to be used: {naive}"


def _table(pairs: Iterable[tuple[str, object]]) -> str:
    cells = "".join(f"<tr><th>{escape(str(name))}</th><td>{escape(str(value))}</td></tr>" for name, value in pairs)
    return f"<table>{cells}</table>"


def _rows(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"
