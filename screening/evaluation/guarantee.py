"""A miss-rate guarantee by learn-then-test, what it is bound to (model, prompts, pipeline and rule, each with its
version), and how many reviews it takes.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

from screening.evaluation.audit import AuditCase
from screening.labels import Label, Outcome
from screening.stopping import special


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What was measured. Evidence about one model, prompt, rule and label definition says nothing of another."""

    model: str
    prompt_hash: str
    rule: str
    label_definition: str


class Standing(StrEnum):
    """Whether the guarantee holds, needs more reviews, or can no longer be had from these cases."""

    GUARANTEED = "guaranteed"
    NOT_YET = "not yet"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """ "At most ``at_most`` of unsafe texts are labeled safe", at a confidence, after a plan fixed beforehand.

    The plan is ``allowed_misses``, chosen before the first review. Then one may look after every review: once the
    misses exceed the plan they never come back. While reviews of the sample are due nothing is guaranteed: what was
    flagged is read sooner, so misses would be the last to show. Raising the plan after each miss, on the same cases,
    breaks the guarantee: 59, then 93, then 124, … has given a false one with probability 0.17 by 361 reviews.
    ``inconclusive_safe`` texts labeled safe were found to hold too little information: each may have been unsafe, so
    nothing is guaranteed unless all of them may be misses. So may ``lost_safe``, texts labeled safe that can no longer
    be read blind; a lost one that was flagged is no miss and counts nowhere. ``floor`` is the plan's π.
    """

    read: int
    missed: int
    at_most: float
    confidence: float
    allowed_misses: int
    binding: Binding | None = None
    waiting: int = 0
    inconclusive_safe: int = 0
    lost_safe: int = 0
    floor: float | None = None

    @property
    def reviews_required(self) -> int:
        """Reviews of truly unsafe texts that the plan needs."""
        return reviews_required(self.at_most, self.allowed_misses, self.confidence)

    @property
    def standing(self) -> Standing:
        """Where the plan stands now."""
        if self.missed > self.allowed_misses:
            return Standing.FAILED
        at_worst = self.missed + self.inconclusive_safe + self.lost_safe
        enough = self.read >= self.reviews_required and not self.waiting and at_worst <= self.allowed_misses
        return Standing.GUARANTEED if enough else Standing.NOT_YET

    def stale(self, now: Binding) -> bool:
        """Whether what is running is not what was measured (or it was never recorded what was)."""
        return self.binding != now


def reviews_required(at_most: float, misses: int = 0, confidence: float = 0.95) -> int:
    """Fewest reviews n after which ``misses`` misses show a rate of at most ``at_most``.

    The smallest n with P[Binomial(n, at_most) ≤ misses] ≤ 1 - confidence: the exact binomial p-value of
    learn-then-test (Angelopoulos et al. 2021, arXiv:2110.01052); so many reviews bring one miss more with the
    confidence, were the rate ``at_most``. For missed per 1,000 auto-safe the reviews are
    of auto-safe texts; for the miss rate, of truly unsafe ones. ValueError outside 0 < at_most, confidence < 1.

    >>> [reviews_required(0.05, misses) for misses in (0, 1, 2)], reviews_required(0.01)
    ([59, 93, 124], 299)
    """
    if not (0 < at_most < 1 and 0 < confidence < 1 and misses >= 0):
        raise ValueError("the rate and the confidence must lie strictly between 0 and 1, misses not below 0")
    from scipy.stats import nbinom

    return int(nbinom.ppf(confidence, misses + 1, at_most)) + misses + 1


def in_sample(case: AuditCase, floor: float) -> bool:
    """Whether the case had the plan's chance to be read, as every other had, and was drawn by it."""
    return case.coin < floor <= case.coin_probability


def guarantee_of(
    cases: Iterable[AuditCase],
    *,
    floor: float,
    at_most: float = 0.05,
    confidence: float = 0.95,
    allowed_misses: int = 0,
    binding: Binding | None = None,
) -> Guarantee:
    """The guarantee's standing from the audit, over unsafe texts that all had the same chance to be read.

    Everything flagged may be read, but only a few of those labeled safe; to count them all would hide misses. So a
    case counts when its coin lies below the plan's ``floor``, whatever the engine said. The floor is fixed with the
    plan: a lower audit probability of later cases takes nothing back that was counted. Cases audited below the floor
    count nowhere, since not all of their coins below it were read.
    """
    sample = [case for case in cases if in_sample(case, floor)]
    unsafe = [case for case in sample if case.read and case.label is Label.UNSAFE]
    return Guarantee(
        read=len(unsafe),
        missed=sum(case.outcome is Outcome.SAFE for case in unsafe),
        at_most=at_most,
        confidence=confidence,
        allowed_misses=allowed_misses,
        binding=binding,
        waiting=sum(case.waiting or case.read_again for case in sample),
        inconclusive_safe=sum(case.unclear and case.outcome is Outcome.SAFE for case in sample),
        lost_safe=sum(case.lost and case.outcome is Outcome.SAFE for case in sample),
        floor=floor,
    )


def plan_reviews(
    at_most: float, assumed_rate: float, *, confidence: float = 0.95, chance: float = 0.8, most_misses: int = 1000
) -> tuple[int, int, float] | None:
    """The shortest plan that can say "at most ``at_most``" with the wished chance, if the rate is as assumed: misses
    that it allows, reviews that it takes, and its chance to succeed.

    None when no plan of up to ``most_misses`` misses has that chance, as always when the assumed rate is not
    below what is to be shown.

    >>> plan_reviews(0.05, 0.0)
    (0, 59, 1.0)
    """
    for misses in range(most_misses + 1) if assumed_rate < at_most else ():
        reviews = reviews_required(at_most, misses, confidence)
        success = float(special.bdtr(misses, reviews, assumed_rate))
        if success >= chance:
            return misses, reviews, success
    return None


_PROMPTS = ("prompts", "lexicon")


def binding_of(configuration: Mapping[str, Any], form_version: int) -> Binding:
    """What was measured: model, prompts and rule from a configuration's body, labels by this version of the form."""
    return Binding(
        model=model_words(configuration),
        prompt_hash=prompt_version(configuration),
        rule=f"{rule_words(configuration)}; pipeline {_digest(configuration)}".removeprefix("; "),
        label_definition=f"review form {form_version}",
    )


def model_words(configuration: Mapping[str, Any]) -> str:
    """The model and its settings.

    >>> model_words({"sampler": {"sampler": "simulated", "seed": 0, "lexicon": "9a1d"}})
    'sampler simulated, seed 0'
    """
    sampler = configuration.get("sampler", {})
    return plain_words({name: value for name, value in sampler.items() if name not in _PROMPTS}) or "none"


def prompt_version(configuration: Mapping[str, Any]) -> str:
    """The hash of the prompts, or of the simulated agents' lexicon."""
    sampler = configuration.get("sampler", {})
    return str(sampler.get("prompts") or sampler.get("lexicon") or "none")


def pipeline_version(configuration: Mapping[str, Any]) -> str:
    """The pipeline's name, and a hash of all of it, routes included."""
    return f"{configuration.get('pipeline', {}).get('name', 'none')} {_digest(configuration)}"


def rule_words(configuration: Mapping[str, Any]) -> str:
    """Each different rule once, with all its numbers."""
    rules = [node.get("rule", {}) for node in configuration.get("pipeline", {}).get("nodes", ())]
    return "; ".join(dict.fromkeys(plain_words(rule) for rule in rules))


def plain_words(value: object) -> str:
    """A value of a configuration as a person reads it: no brackets, no quotation marks.

    >>> plain_words({"errors": {"safe|unsafe": 0.001}, "budget": 100, "stop_for_futility": True, "role": None})
    'budget 100, errors (safe|unsafe 0.001), role none, stop for futility yes'
    """
    if isinstance(value, Mapping):
        parts = (
            (name, f"({plain_words(one)})" if isinstance(one, Mapping) else plain_words(one))
            for name, one in sorted(value.items())
        )
        return ", ".join(f"{str(name).replace('_', ' ')} {words}" for name, words in parts)
    if isinstance(value, list | tuple):
        return " and ".join(map(plain_words, value)) or "none"
    return {True: "yes", False: "no", None: "none"}[value] if value is None or isinstance(value, bool) else str(value)


def _digest(configuration: Mapping[str, Any]) -> str:
    body = json.dumps(configuration.get("pipeline", {}), sort_keys=True)
    return sha256(body.encode()).hexdigest()[:12]
