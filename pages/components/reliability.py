"""What may be claimed from an audit, computed for the page and its report; everything bound to one configuration."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from screening.labels import Label, Outcome
from screening.verification import (
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
    strata_of,
    switch_rate,
    weighted_sequence,
)
from storage.rating_form import FORM_VERSION
from storage.reading_table import Switch
from storage.reliability import AuditSample, OutcomeMix, Reading

AT_MOST, CONFIDENCE, ALLOWED_MISSES = 0.05, 0.95, 0
"""The plan, fixed before the first reading of any sample: ≤ 5 % missed at 95 %, no miss allowed."""

MOST_LOOKS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """All that the audit of one configuration says."""

    sample: AuditSample
    strata: tuple[Stratum, ...]
    estimates: AuditEstimates
    looks: tuple[Look, ...]
    guarantee: Guarantee
    drift: Drift
    switches: SwitchRate


def verified(sample: AuditSample, mix: OutcomeMix, switched: Sequence[Switch]) -> Verified:
    """Everything from one sample; the readings' order is that in which they were given."""
    strata = strata_of(sample.cases)
    return Verified(
        sample=sample,
        strata=strata,
        estimates=estimate(strata),
        looks=missed_sequence(sample.readings),
        guarantee=guarantee_of(
            sample.cases,
            at_most=AT_MOST,
            confidence=CONFIDENCE,
            allowed_misses=ALLOWED_MISSES,
            binding=binding_of(sample.configuration),
        ),
        drift=drift(mix.before, mix.after),
        switches=switch_rate([_revision(each) for each in switched]),
    )


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
