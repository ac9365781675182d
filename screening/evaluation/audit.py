"""Audit sampling: which decided cases a clinician also reads, and the tally that estimates are made from.

Without it only what the engine flagged gets read, and the misses stay invisible. And the guarantee, what it is bound
to, and how many unsafe texts reviewers recognize: a bound on what they call unsafe is none on what is unsafe. Where
they recognize a share s, and call few safe texts unsafe, the truth is at most the bound divided by s.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from enum import StrEnum
from hashlib import sha256
from hmac import digest
from typing import Any, Literal

import scipy

from screening.labels import Label, Outcome
from screening.stopping.evidence import Look, betting_sequence


def audit_coin(seed: str, case_id: str) -> float:
    """A number in [0, 1), uniform over case ids, always the same for one seed and case. Who knows the seed, a secret of
    the site, can tell in advance which cases are audited.

    >>> audit_coin("a seed", "case 1") == audit_coin("a seed", "case 1") != audit_coin("a seed", "case 2")
    True
    """
    head = digest(seed.encode(), case_id.encode(), sha256)[:8]
    return (int.from_bytes(head, "big") >> 11) / 2**53  # 53 bits: every value is a float, none rounds to 1


State = Literal["read", "inconclusive", "read_again", "lost", "waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCase:
    """A settled case as verification sees it. A review given after the reveal, or to a case that was neither sampled
    nor escalated, has no place here: who picks such cases picks the answer.

    ``blind_first`` was given before the engine's label was shown, ``settled`` by more than one reviewer. ``disputed``:
    a further reviewer is still due. ``unreadable``: no blind review can come any more. ``tossed_at`` is the sampling
    probability where ``probability`` is larger, because what the AI labels unsafe is reviewed anyway.
    """

    stratum: str
    outcome: Outcome
    probability: float
    coin: float
    blind_first: str | None = None
    settled: str | None = None
    disputed: bool = False
    unreadable: bool = False
    tossed_at: float | None = None

    def __post_init__(self) -> None:
        if not (0 < self.probability <= 1 and 0 <= self.coin < 1):
            raise ValueError("an audit probability lies in (0, 1] and its coin in [0, 1)")

    @property
    def selected(self) -> bool:
        """Whether a review was due."""
        return self.outcome is Outcome.HUMAN_REVIEW or self.coin < self.probability

    @property
    def coin_probability(self) -> float:
        """The chance to be reviewed of a case labeled safe."""
        return self.probability if self.tossed_at is None else self.tossed_at

    @property
    def label(self) -> str | None:
        return None if self.disputed else self.settled or self.blind_first

    @property
    def state(self) -> State | None:
        """What became of the review that was due, None where none was: it gave safe or unsafe; it found too little
        information; it waits for a further one, as most that say unsafe do, so that bounds must count it; it cannot be
        given any more; or it is due.
        """
        if not self.selected:
            return None
        if self.disputed:
            return "read_again"
        if self.label is None:
            return "lost" if self.unreadable else "waiting"
        return "read" if self.label in (Label.SAFE, Label.UNSAFE) else "inconclusive"

    @property
    def unsafe(self) -> bool:
        return self.state == "read" and self.label == Label.UNSAFE

    def with_first_review_only(self) -> "AuditCase":
        return replace(self, settled=None, disputed=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """The tally of one stratum and outcome: of ``cases``, ``selected`` were due, and ``unsafe`` of those ``read``; the
    others are as `AuditCase.state` has them. ValueError unless unsafe ≤ read ≤ selected ≤ cases.
    """

    name: str
    outcome: Outcome
    probability: float
    cases: int
    selected: int
    read: int
    unsafe: int
    inconclusive: int = 0
    read_again: int = 0
    lost: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.unsafe <= self.read <= self.selected - self.waiting <= self.selected <= self.cases:
            raise ValueError("a tally needs unsafe ≤ read ≤ selected ≤ cases")

    @property
    def unsettled(self) -> int:
        """Texts whose reviews gave no label, or none yet: what they are may depend on why."""
        return self.inconclusive + self.read_again + self.lost

    @property
    def waiting(self) -> int:
        return self.selected - self.read - self.unsettled

    def if_unsettled_were(self, label: Label) -> "Stratum":
        """Had every text whose reviews gave no label been this one."""
        unsafe = self.unsafe + (self.unsettled if label is Label.UNSAFE else 0)
        return replace(self, read=self.read + self.unsettled, unsafe=unsafe, inconclusive=0, read_again=0, lost=0)


def tally_by_stratum(counted: Iterable[tuple[AuditCase, int]]) -> tuple[Stratum, ...]:
    """By stratum, outcome and π, sorted, of cases that stand for so many alike; one sent to a human has π = 1."""
    tallies: dict[tuple[str, Outcome, float], Counter[str]] = {}
    for case, count in counted:
        probability = 1.0 if case.outcome is Outcome.HUMAN_REVIEW else case.probability
        tally = tallies.setdefault((case.stratum, case.outcome, probability), Counter())
        tally.update({case.state or "": count})
        tally.update(cases=count, selected=count * case.selected, unsafe=count * case.unsafe)
    fields = ("cases", "selected", "read", "unsafe", "inconclusive", "read_again", "lost")
    return tuple(
        Stratum(name=name, outcome=outcome, probability=probability, **{each: tally[each] for each in fields})
        for (name, outcome, probability), tally in sorted(tallies.items(), key=lambda each: each[0])
    )


def recognized_share(both: Sequence[bool]) -> Look | None:
    """The share of unsafe texts that a reviewer recognizes, and a lower limit of it at every look (probability .975):
    from blinded double reviews of texts chosen at random, in their order, of each in which one or both said unsafe,
    whether both did. None without any.

    Two reviewers who recognize the share s of unsafe texts, each for himself, and call no safe text unsafe, agree on
    s/(2-s) of the texts that either calls unsafe: s = 2a/(1+a), the positive agreement (Chapman 1951; Cicchetti and
    Feinstein 1990). A safe text called unsafe makes it smaller, so that a bound divided by it stays one. What all
    reviewers overlook alike makes it larger: that no double review shows.

    >>> recognized_share([True] * 8 + [False] * 4).estimate  # 2 · (2/3) / (5/3)
    0.8
    """
    if not both:
        return None
    (found,) = betting_sequence([float(each) for each in both], looks=[len(both)], delta=0.05)
    share, at_least = (2 * agreed / (1 + agreed) for agreed in (found.estimate, found.low))
    return Look(observations=len(both), estimate=share, low=at_least, high=1.0)


def corrected_bound(bound: float, recognized: float) -> float:
    """The bound of a share of unsafe texts where reviewers recognize this share of them: 1 at most.

    >>> round(corrected_bound(0.04, 0.8), 3), corrected_bound(0.9, 0.5)
    (0.05, 1.0)
    """
    return 1.0 if recognized <= bound else bound / recognized


class Standing(StrEnum):
    GUARANTEED = "guaranteed"
    NOT_YET = "not yet"
    FAILED = "failed"  # it can no longer be had from these cases


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """What the audit sets out to show. ``since`` is when it was last changed, ``changes`` how often: a plan chosen when
    misses had been seen shows nothing, so what was settled before is no evidence. ``floor`` is the audit probability
    π that it counts from; None: that of the first case under it. ``report_on`` is the one day of a bound for one look.
    """

    at_most: float = 0.05
    confidence: float = 0.95
    allowed_misses: int = 0
    floor: float | None = None
    report_on: date | None = None
    since: datetime | None = None
    changes: int = 0

    @property
    def reviews_required(self) -> int:
        return reviews_required(self.at_most, self.allowed_misses, self.confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """At most so many of unsafe texts are labeled safe, at a confidence, after a plan fixed beforehand.

    One may look after every review: once the misses exceed the plan they never come back. While reviews of the sample
    are due nothing is guaranteed: what was flagged is read sooner, so misses would be the last to show. Raising the
    plan after each miss, on the same cases, breaks the guarantee: 59, then 93, then 124, … has given a false one with
    probability 0.17 by 361 reviews. Each of ``inconclusive_safe`` and ``lost_safe`` (labeled safe; too little
    information, or no blinded review any more) may have been a miss; what was flagged is none.
    """

    plan: AuditPlan
    read: int
    missed: int
    waiting: int = 0
    inconclusive_safe: int = 0
    lost_safe: int = 0

    @property
    def standing(self) -> Standing:
        allowed = self.plan.allowed_misses
        if self.missed > allowed:
            return Standing.FAILED
        at_worst = self.missed + self.inconclusive_safe + self.lost_safe
        enough = self.read >= self.plan.reviews_required and not self.waiting and at_worst <= allowed
        return Standing.GUARANTEED if enough else Standing.NOT_YET


def reviews_required(at_most: float, misses: int = 0, confidence: float = 0.95) -> int:
    """Fewest reviews n after which ``misses`` misses show a rate of at most ``at_most``.

    The smallest n with P[Binomial(n, at_most) ≤ misses] ≤ 1 - confidence: the exact binomial p-value of
    learn-then-test (Angelopoulos et al. 2021, arXiv:2110.01052). Of truly unsafe texts for the miss rate, of those
    labeled safe for the missed per 1,000. ValueError outside 0 < at_most, confidence < 1.

    >>> [reviews_required(0.05, misses) for misses in (0, 1, 2)], reviews_required(0.01)
    ([59, 93, 124], 299)
    """
    if not (0 < at_most < 1 and 0 < confidence < 1 and misses >= 0):
        raise ValueError("the rate and the confidence must lie strictly between 0 and 1, misses not below 0")
    return int(scipy.stats.nbinom.ppf(confidence, misses + 1, at_most)) + misses + 1


def in_sample(case: AuditCase, floor: float) -> bool:
    """Whether the case had the plan's chance to be read, and was drawn by it."""
    return case.coin < floor <= case.coin_probability


def guarantee_of(cases: Iterable[AuditCase], plan: AuditPlan, floor: float) -> Guarantee:
    """The guarantee's standing, over unsafe texts that all had the same chance to be read.

    Everything flagged may be read, but only a few of those labeled safe; to count them all would hide misses. So a
    case counts when its coin lies below the plan's ``floor``, whatever the engine said: a lower audit probability of
    later cases takes nothing back that was counted. Cases audited below the floor count nowhere, since not all of their
    coins below it were read.
    """
    sample = [case for case in cases if in_sample(case, floor)]
    safe = [case for case in sample if case.outcome is Outcome.SAFE]
    of_all, of_safe = (Counter(case.state for case in some) for some in (sample, safe))
    return Guarantee(
        plan=plan,
        read=sum(case.unsafe for case in sample),
        missed=sum(case.unsafe for case in safe),
        waiting=of_all["waiting"] + of_all["read_again"],
        inconclusive_safe=of_safe["inconclusive"],
        lost_safe=of_safe["lost"],
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
        success = float(scipy.special.bdtr(misses, reviews, assumed_rate))
        if success >= chance:
            return misses, reviews, success
    return None


def binding_of(configuration: Mapping[str, Any], form_version: int) -> dict[str, str]:
    """What was measured, of a configuration's body: evidence about one model, prompt, rule and version of the review
    form says nothing of another.
    """
    said = configuration_words(configuration)
    return {
        "Model": said["model"],
        "Prompts": said["prompts"],
        "Rule": f"{said['rule']}; pipeline {said['pipeline'].rpartition(' ')[2]}".removeprefix("; "),
        "Label definition": f"review form {form_version}",
    }


def configuration_words(configuration: Mapping[str, Any]) -> dict[str, str]:
    """What a configuration's body says, the pipeline with a hash of all of it, routes included, and each different rule
    once.

    >>> configuration_words({"sampler": {"sampler": "simulated", "seed": 0, "lexicon": "9a1d"}})["model"]
    'sampler simulated, seed 0'
    """
    sampler, pipeline = configuration.get("sampler", {}), configuration.get("pipeline", {})
    settings = {name: value for name, value in sampler.items() if name not in ("prompts", "lexicon")}
    rules = [plain_words(node.get("rule", {})) for node in pipeline.get("nodes", ())]
    digest = sha256(json.dumps(pipeline, sort_keys=True).encode()).hexdigest()[:12]
    return {
        "model": plain_words(settings) or "none",
        "prompts": str(sampler.get("prompts") or sampler.get("lexicon") or "none"),
        "pipeline": f"{pipeline.get('name', 'none')} {digest}",
        "rule": "; ".join(dict.fromkeys(rules)),
    }


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
