"""What may be claimed from an audit, computed for the page and its report; everything bound to one configuration."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from screening.labels import Label, Outcome
from screening.review.rating_form import FORM_VERSION
from screening.statistics.verification import (
    AuditEstimates,
    Binding,
    Drift,
    Guarantee,
    Look,
    Revision,
    Stratum,
    SwitchRate,
    betting_sequence,
    drift,
    estimate,
    guarantee_of,
    readings_required,
    strata_of,
    switch_rate,
    weighted_sequence,
)
from storage.research.reading_table import Switch
from storage.research.reliability import AuditSample, OutcomeMix, Reading
from storage.site.settings_store import AuditPlan

MOST_LOOKS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class TooEarly:
    """Readings of cases settled before the plan was last changed: of unsafe texts so many, so many of them missed."""

    read: int
    missed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """All that the audit of one configuration says; the guarantee rests on cases settled under the present plan."""

    sample: AuditSample
    plan: AuditPlan
    too_early: TooEarly
    strata: tuple[Stratum, ...]
    estimates: AuditEstimates
    looks: tuple[Look, ...]
    guarantee: Guarantee
    drift: Drift
    switches: SwitchRate


def verified(sample: AuditSample, mix: OutcomeMix, switched: Sequence[Switch], plan: AuditPlan) -> Verified:
    """Everything from one sample; the readings' order is that in which they were given."""
    strata = strata_of(sample.cases)
    under_plan = [each.case for each in sample.readings if plan.since is None or each.settled_at > plan.since]
    return Verified(
        sample=sample,
        plan=plan,
        too_early=_too_early(sample, plan),
        strata=strata,
        estimates=estimate(strata),
        looks=missed_sequence(sample.readings),
        guarantee=guarantee_of(
            under_plan,
            at_most=plan.at_most,
            confidence=plan.confidence,
            allowed_misses=plan.allowed_misses,
            binding=binding_of(sample.configuration),
        ),
        drift=drift(mix.before, mix.after),
        switches=switch_rate([_revision(each) for each in switched]),
    )


def _too_early(sample: AuditSample, plan: AuditPlan) -> TooEarly:
    early = [each.case for each in sample.readings if plan.since is not None and each.settled_at <= plan.since]
    unsafe = [case for case in early if case.blind_first is Label.UNSAFE]
    return TooEarly(read=len(unsafe), missed=sum(case.outcome is Outcome.SAFE for case in unsafe))


def binding_of(configuration: Mapping[str, Any]) -> Binding:
    """What was measured: model, prompts, rule and label definition, from a configuration's body."""
    sampler = configuration.get("sampler", {})
    pipeline = configuration.get("pipeline", {})
    return Binding(
        model=", ".join(f"{name} {value}" for name, value in sorted(sampler.items()) if name not in _PROMPTS) or "none",
        prompt_hash=str(sampler.get("prompts") or sampler.get("lexicon") or "none"),
        rule=_rule_words(pipeline),
        label_definition=f"rating form {FORM_VERSION}",
    )


_PROMPTS = ("prompts", "lexicon")


def _rule_words(pipeline: Mapping[str, Any]) -> str:
    """Each different rule once, and a hash of the whole pipeline, routes included."""
    rules = [node.get("rule", {}) for node in pipeline.get("nodes", ())]
    words = dict.fromkeys(", ".join(f"{name} {value}" for name, value in sorted(rule.items())) for rule in rules)
    digest = sha256(json.dumps(pipeline, sort_keys=True).encode()).hexdigest()[:12]
    return "; ".join([*words, f"pipeline {digest}"])


def missed_sequence(readings: Sequence[Reading]) -> tuple[Look, ...]:
    """The betting confidence sequence of the share of unsafe among texts called safe, by reading.

    With one audit probability, readings count in the order they were given. With several, all cases called safe count
    in the order they were settled, weighted, up to the first whose reading is still due.
    """
    safe = [reading for reading in readings if reading.case.outcome is Outcome.SAFE]
    if len({reading.case.probability for reading in safe}) <= 1:
        read = sorted((each for each in safe if each.case.read), key=lambda each: each.read_at or each.settled_at)
        values = [float(each.case.blind_first is Label.UNSAFE) for each in read]
        return betting_sequence(values, looks=_looks(len(values)))
    return _weighted(safe)


def _weighted(safe: Sequence[Reading]) -> tuple[Look, ...]:
    until = next((place for place, each in enumerate(safe) if each.case.waiting), len(safe))
    known = [each.case for each in safe[:until] if not each.case.inconclusive]
    values = [float(case.read and case.blind_first is Label.UNSAFE) for case in known]
    weights = [1 / case.probability if case.read else 0.0 for case in known]
    largest = max((1 / each.case.probability for each in safe), default=1.0)
    return weighted_sequence(values, weights, largest_weight=largest, looks=_looks(len(values)))


def _looks(n: int) -> list[int]:
    """At most so many numbers of readings, rising to all of them."""
    return sorted({max(1, round(n * step / MOST_LOOKS)) for step in range(1, MOST_LOOKS + 1)}) if n else []


def _revision(each: Switch) -> Revision:
    """Against the data set's label: the adjudication may be this reader's own."""
    return Revision(blind_first=each.first, final=each.last, reference=each.reference)


def per_thousand(value: float | None) -> str:
    """ "12.3", or that it is undefined.

    >>> per_thousand(12.34), per_thousand(None)
    ('12.3', 'undefined')
    """
    return "undefined" if value is None else f"{value:,.1f}"


def percent(value: float | None) -> str:
    """ "85.0 %", or that it is undefined."""
    return "undefined" if value is None else f"{value:.1%}"


def plain_percent(value: float) -> str:
    """A share of a plan in percent, to the thousandths that a plan may have.

    >>> plain_percent(0.05), plain_percent(0.999), plain_percent(0.125)
    ('5 %', '99.9 %', '12.5 %')
    """
    return f"{100 * value:g} %"


def plan_sentences(plan: AuditPlan) -> tuple[str, str]:
    """The plan with the readings it needs, and since when it stands."""
    needed = readings_required(plan.at_most, plan.allowed_misses, plan.confidence)
    allowed = "no miss" if plan.allowed_misses == 0 else f"at most {plan.allowed_misses} missed"
    since = (
        "It was never changed."
        if plan.since is None
        else f"Last changed on {plan.since:%Y-%m-%d %H:%M} UTC ({_times(plan.changes)} in all): a plan that is changed "
        "after misses were seen is no guarantee, so only cases settled after the change count for it."
    )
    rate, sure = plain_percent(plan.at_most), plain_percent(plan.confidence)
    return (
        f"Plan: at most {rate} of unsafe texts called safe, at {sure} confidence; it needs {needed:,} blind readings "
        f"of truly unsafe texts with {allowed}.",
        since,
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def too_early_sentence(found: Verified) -> str:
    """What the guarantee leaves out because it was settled under another plan; empty where that is nothing."""
    early = found.too_early
    if not early.read:
        return ""
    return f"Left out, settled before the change: {early.read:,} readings of unsafe texts, {early.missed:,} missed."


def interval(low: float | None, high: float | None) -> str:
    """The limits, or that there are none."""
    return "no interval" if low is None or high is None else f"95 % interval {low:.1%} to {high:.1%}"


def flow(found: Verified) -> tuple[tuple[str, int], ...]:
    """How many cases came to each stage, as STARD asks for."""
    cases, strata = found.sample.cases, found.strata
    return (
        ("settled with this configuration", len(cases) + found.sample.without_audit),
        ("not under audit (nothing can be said of them)", found.sample.without_audit),
        ("under audit", len(cases)),
        ("called safe", sum(case.outcome is Outcome.SAFE for case in cases)),
        ("called unsafe", sum(case.outcome is Outcome.UNSAFE for case in cases)),
        ("left to a person", sum(case.outcome is Outcome.HUMAN_REVIEW for case in cases)),
        ("reading due (by the coin, or left to a person)", sum(stratum.selected for stratum in strata)),
        ("read blind, safe or unsafe", sum(stratum.read for stratum in strata)),
        ("read blind, insufficient information", sum(stratum.inconclusive for stratum in strata)),
        ("reading still due", sum(stratum.waiting for stratum in strata)),
        ("of them read, but not blind (left out)", found.sample.not_blind),
    )
