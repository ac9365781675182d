"""What may be claimed from an audit, computed for the page and its report; everything bound to one configuration."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from statistics import median

from pages.ui.words import NOT_YET, local_time, per_thousand, percent, plain_percent
from screening.evaluation import audit
from screening.evaluation.estimates import AuditEstimates, Drift, Rise, bound_after, drift, estimate, rises, upper_bound
from screening.labels import Label, Outcome
from screening.review.policy import Actor
from screening.review.review_form import FORM_VERSION
from screening.review.triage import Reach
from screening.stopping.evidence import Look, betting_sequence, upper_limits
from screening.words import count_of
from storage.database import Database
from storage.research.reliability import AuditSample, OutcomeMix, Review, audit_sample, by_month, outcome_mix
from storage.research.review_table import random_double_reviews

MOST_LOOKS = 60
RECENT = timedelta(days=90)
RECOGNIZED = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Shares of unsafe texts that reviewers may recognize, for which bounds are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """All that the audit of one configuration says; the guarantee rests on cases settled under the present plan.

    ``binding`` is what was measured, ``left_out`` says in words what the guarantee does not count. ``hours`` from an
    outcome to its blind review: median, least, most and of how many; empty without a review. ``first_reviews`` of texts
    labeled safe in all and in the last 90 days, and in ``ranges`` what the bounds of these two become where reviewers
    recognize only a share of unsafe texts: the share in words, the bound over the whole period, valid at any time, and
    that of the last 90 days, valid on any one day, each as a share of texts labeled safe and None where there is
    nothing.
    """

    sample: AuditSample
    plan: audit.AuditPlan
    strata: tuple[audit.Stratum, ...]
    estimates: AuditEstimates
    single_reviewer: AuditEstimates
    looks: tuple[Look, ...]
    at_most: tuple[Look, ...]
    below_floor: int
    guarantee: audit.Guarantee
    binding: Mapping[str, str]
    left_out: str
    drift: Drift
    rises: Mapping[str, tuple[Rise, ...]]
    hours: tuple[float, ...]
    first_reviews: tuple[int, int]
    ranges: tuple[tuple[str, float | None, float | None], ...]


def verify_now(db: Database, actor: Actor, version: str, plan: audit.AuditPlan, today: date) -> Verified:
    """`verify` of what is there now, without its reviews one by one: it is kept for a while."""
    double = random_double_reviews(db, actor)
    found = verify(audit_sample(db, actor, version), outcome_mix(db, actor, version), plan, today, double)
    return replace(found, sample=replace(found.sample, reviews=(), others=()))


def verify(
    sample: AuditSample, mix: OutcomeMix, plan: audit.AuditPlan, today: date | None = None, double: Sequence[bool] = ()
) -> Verified:
    """Everything from one sample; the reviews' order is that in which they were given. ``double`` says of random
    double reviews with an unsafe label whether both reviewers gave it; ``today`` is the day of the last review's text
    where it is not given.
    """
    today = today or max((each.settled_at.date() for each in sample.reviews), default=date.min)
    strata = audit.tally_by_stratum(sample.case_counts)
    alone = audit.tally_by_stratum((case.with_first_review_only(), count) for case, count in sample.case_counts)
    under_plan = [each for each in sample.reviews if plan.since is None or each.settled_at > plan.since]
    floor = plan.floor or (under_plan[0].case.coin_probability if under_plan else 1.0)
    first_reviews, ranges = range_of(sample.reviews, floor, today, audit.recognized_share(double))
    hours = sorted((e.read_at - e.settled_at).total_seconds() / 3600 for e in sample.reviews if e.read_at is not None)
    return Verified(
        sample=sample,
        plan=plan,
        strata=strata,
        estimates=_allowed_estimates(strata, sample),
        single_reviewer=_allowed_estimates(alone, sample),
        looks=missed_sequence(sample.reviews, floor),
        at_most=missed_sequence(sample.reviews, floor, from_above=True),
        below_floor=sum(each.case.coin_probability < floor for each in sample.reviews),
        guarantee=audit.guarantee_of((each.case for each in under_plan), plan, floor),
        binding=audit.binding_of(sample.configuration, FORM_VERSION),
        left_out=_left_out_words(sample.reviews, plan, floor),
        drift=drift(mix.reference, mix.looks),
        rises={"Escalated": rises(mix.escalated), "Missed": rises(missed_by_month(sample.reviews, floor))},
        hours=(median(hours), hours[0], hours[-1], len(hours)) if hours else (),
        first_reviews=first_reviews,
        ranges=ranges,
    )


def range_of(
    reviews: Sequence[Review], floor: float, today: date, measured: Look | None
) -> tuple[tuple[int, int], tuple[tuple[str, float | None, float | None], ...]]:
    """`Verified.first_reviews` and `Verified.ranges`, from first blinded reviews alone.

    A measured share, from double reviews, has a limit of its own: it and the bound that it divides share the 5%.
    """
    first = [replace(each, case=each.case.with_first_review_only()) for each in reviews]
    recent = [each for each in first if each.settled_at >= datetime.combine(today, time(), UTC) - RECENT]
    levels = [(f"{share:.0%}, assumed", share, 0.05) for share in RECOGNIZED]
    if measured is not None:
        pairs = count_of(measured.observations, "double review")
        limit = f"at least {percent(measured.low)} ({pairs} with an unsafe label)"
        levels.insert(0, (f"as measured: {percent(measured.estimate)}, {limit}", measured.low, 0.025))
    every, lately = _checked(first, floor), _checked(recent, floor)
    bounds = {level: _first_bounds(every, lately, level) for level in {level for _, _, level in levels}}
    rows = list[tuple[str, float | None, float | None]]()
    for words, share, level in levels:
        one, other = (None if bound is None else audit.corrected_bound(bound, share) for bound in bounds[level])
        rows.append((words, one, other))
    return (len(every), len(lately)), tuple(rows)


def missed_by_month(reviews: Sequence[Review], floor: float) -> tuple[tuple[int, int], ...]:
    """By month in which they were settled: texts labeled safe that were reviewed for the plan, and the unsafe ones."""
    read, missed = Counter[int](), Counter[int]()
    for each in reviews:
        if each.case.outcome is Outcome.SAFE and audit.in_sample(each.case, floor) and each.case.state == "read":
            read[each.settled_at.toordinal()] += 1
            missed[each.settled_at.toordinal()] += each.case.unsafe
    return by_month({day: (number, missed[day]) for day, number in read.items()})


def _first_bounds(
    every: Sequence[audit.AuditCase], lately: Sequence[audit.AuditCase], level: float
) -> tuple[float | None, float | None]:
    """The bound of the share unsafe, which is all that was not found safe: at any time, and on one day."""
    found = [float(case.label != Label.SAFE) for case in every]
    hits = sum(case.label != Label.SAFE for case in lately)
    whole = upper_limits(found, looks=[len(found)], delta=level)[0].high if found else None
    return whole, upper_bound(hits, len(lately), 1 - level) if lately else None


def _checked(reviews: Sequence[Review], floor: float) -> list[audit.AuditCase]:
    """The texts labeled safe whose review for the plan was due and is done or lost, in the order of their reviews."""
    sample = [each for each in reviews if each.case.outcome is Outcome.SAFE and audit.in_sample(each.case, floor)]
    done = sorted((e for e in sample if e.case.state != "waiting"), key=lambda each: each.read_at or each.settled_at)
    return [each.case for each in done]


def _left_out_words(reviews: Sequence[Review], plan: audit.AuditPlan, floor: float) -> str:
    """Unsafe texts settled before the plan, and texts reviewed beyond it; empty without any."""
    early = [each.case for each in reviews if plan.since is not None and each.settled_at <= plan.since]
    unsafe = [case for case in early if case.label == Label.UNSAFE]
    later = [each.case for each in reviews if plan.since is None or each.settled_at > plan.since]
    beyond = [case for case in later if case.outcome is Outcome.SAFE and case.coin >= floor]
    words = list[str]()
    if unsafe:
        many = count_of(len(unsafe), "review of an unsafe text", "reviews of unsafe texts")
        missed = sum(case.outcome is Outcome.SAFE for case in unsafe)
        words.append(f"Left out, screened before the change: {many}, {missed:,} missed.")
    missed, states = sum(case.unsafe for case in beyond), Counter(case.state for case in beyond)
    unclear, again = states["inconclusive"], states["read_again"]
    if seen := states["read"] + unclear + again:
        texts = count_of(seen, "text labeled safe was", "texts labeled safe were")
        others = f", {unclear:,} inconclusive" if unclear else ""
        others += f", {again:,} awaiting a second review" if again else ""
        words.append(
            f"Beside it, not counted: {texts} reviewed beyond the plan's π, in uploads sampled more; {missed:,} of "
            f"them were unsafe{others}."
        )
    return " ".join(words)


FEW_READ = "some of these uploads only list or count what is labeled unsafe, so that too few of it are reviewed"


def _allowed_estimates(strata: tuple[audit.Stratum, ...], sample: AuditSample) -> AuditEstimates:
    """What may be said of them: nothing of specificity where not all that was labeled unsafe is read."""
    found = estimate(strata)
    unknown = replace(found.specificity, value=None, low=None, high=None, reason=FEW_READ)
    return found if sample.reaches <= {Reach.READ} else replace(found, specificity=unknown)


def missed_sequence(reviews: Sequence[Review], floor: float, *, from_above: bool = False) -> tuple[Look, ...]:
    """The betting confidence sequence of the share of unsafe among texts labeled safe, in the order they were read.

    Like the guarantee it counts the cases whose coin lies below the plan's π, so that no later π takes a miss back.
    Inconclusive reviews, those that wait for a further one and lost ones count as unsafe for the upper limit and as
    safe for the lower one. ``from_above`` gives the upper limits alone, with all of the 5% on them.
    """
    known = _checked(reviews, floor)
    steps = range(1, MOST_LOOKS + 1) if known else ()
    looks = sorted({max(1, round(len(known) * step / MOST_LOOKS)) for step in steps})
    found = [float(case.label == Label.UNSAFE) for case in known]
    worst = [float(case.label != Label.SAFE) for case in known]
    if from_above:
        return upper_limits(worst, looks=looks)
    low, high = betting_sequence(found, looks=looks), betting_sequence(worst, looks=looks)
    return tuple(replace(under, high=over.high) for under, over in zip(low, high, strict=True))


def at_most(value: float) -> str:
    """A bound per 1,000, of which no rounding makes 0.

    >>> at_most(12.34), at_most(0.04)
    ('at most 12.3', 'at most 0.1')
    """
    return f"at most {max(0.1, value):,.1f}"


MOVED = "the share of missed texts has changed, or this is one of the 5% of cases where the bound fails"


def has_moved(found: Verified) -> bool:
    """Whether the bound that holds at every look is refuted by its own reviews: an estimate lies above it."""
    if not found.at_most:
        return False
    last, estimated = found.at_most[-1], found.estimates.missed.per_thousand
    return last.contradictory or (estimated is not None and estimated > 1000 * last.high)


LARGEST_TOLD = 0.999
"""A larger bound says nothing: any number missed would keep it."""


def at_most_words(found: Verified) -> str:
    """The bound that holds at every look, per 1,000 texts labeled safe; none where its own reviews refute it."""
    if not found.at_most:
        return NOT_YET
    if has_moved(found):
        return "no bound"
    high = found.at_most[-1].high
    return NOT_YET if high > LARGEST_TOLD else at_most(1000 * high)


def missed_words(found: Verified) -> str:
    """What the bound rests on, and what looking at any time costs."""
    missed = found.estimates.missed
    if not found.at_most:
        texts = count_of(missed.cases, "text")
        return f"Not yet: none of {texts} labeled safe has been reviewed for the plan."
    where = "audited below the plan's π"
    texts = count_of(found.below_floor, f"text was {where} and counts", f"texts were {where} and count")
    below = f" {texts} for the estimate alone." if found.below_floor else ""
    words = ("text reviewed or lost", "texts reviewed or lost") if missed.lost else ("review", "reviews")
    after = f"after {count_of(found.at_most[-1].observations, *words)} at the plan's π"
    estimated = (
        f"estimate {per_thousand(missed.per_thousand)}, {missed.missed} missed in {missed.read:,} reviewed of "
        f"{missed.cases:,} labeled safe{counted_as_missed(found)}.{below}"
    )
    if has_moved(found):
        return f"No bound can be told {after}: {MOVED}; {estimated}"
    if at_most_words(found) == NOT_YET:
        return f"Too few for a bound {after}; {estimated}"
    return (
        f"95% bound valid at any time (betting), {after}; {estimated} Valid at any time, it is 1.2 to 1.4 times as "
        "high as the bound of a single analysis on a day fixed beforehand."
    )


def counted_as_missed(found: Verified) -> str:
    """What the bound takes for missed without knowing; empty where that is nothing."""
    missed = found.estimates.missed
    kinds = (
        (missed.inconclusive, f"{missed.inconclusive:,} inconclusive"),
        (missed.lost, f"{missed.lost:,} already seen, no longer blinded"),
        (missed.read_again, f"{missed.read_again:,} awaiting a second review"),
    )
    all_of_them = " and ".join(words for count, words in kinds if count)
    return f"; in the bound {all_of_them} count as missed" if all_of_them else ""


def one_look_words(found: Verified, at: datetime) -> str:
    """The bound of the single planned analysis, on its day (UTC) alone: later it would be many analyses."""
    day, since, missed = found.plan.report_on, found.plan.since, found.estimates.missed
    if day is None:
        return "No day was set beforehand for a single planned analysis, so there is no such bound."
    if since is not None and day <= since.date():
        return f"No single planned analysis: its day, {day:%Y-%m-%d}, had come when the plan was last changed."
    if at.date() < day:
        return f"The single planned analysis is due on {day:%Y-%m-%d}."
    if at.date() > day:
        return f"The single planned analysis was on {day:%Y-%m-%d}: see the report of that day."
    if missed.at_most_per_thousand is None:
        return f"Single planned analysis of {day:%Y-%m-%d}: no bound yet, as not all strata have been reviewed."
    bound = f"{at_most(missed.at_most_per_thousand)} per 1,000 ({'exact' if missed.exact else 'MOVER'}, 95%)"
    return f"Single planned analysis of {day:%Y-%m-%d}: {bound}."


def review_words(found: Verified, more: int) -> str:
    """By how much further reviews lower the bound; not to what: told every day it would be many analyses."""
    now, then = bound_after(found.strata, 0), bound_after(found.strata, more)
    month = bound_after(found.strata, 30 * more)
    if now is None or then is None or month is None:
        return "Nothing of a stratum has been reviewed yet, so what further reviews buy cannot be said."
    soon, late = 1 - then / now, 1 - month / now
    if late < LEAST_FALL:
        return f"{count_of(more, 'review')} a day more would leave the bound where it is, over the present strata."
    falls = f"falls by about {soon:.0%}" if soon >= LEAST_FALL else "hardly falls"
    return (
        f"{count_of(more, 'review')} more: the bound {falls}, over the present strata; after thirty such days by "
        f"about {late:.0%}. This assumes that they find what those before them found."
    )


LEAST_FALL = 0.005
"""A share of the bound that is told as falling."""


def plan_sentences(plan: audit.AuditPlan) -> tuple[str, str]:
    """The plan with the reviews it needs, and since when it stands."""
    allowed = "no miss" if plan.allowed_misses == 0 else f"at most {plan.allowed_misses} missed"
    floor = "" if plan.floor is None else f"π {plain_percent(plan.floor)}; "
    times = "once" if plan.changes == 1 else f"{plan.changes} times"
    since = (
        "The plan has not been changed since it was set."
        if plan.since is None
        else f"Last changed on {local_time(plan.since)} ({times} in all): a plan that is changed "
        "after misses were seen is no guarantee, so only cases screened after the change count for it."
    )
    rate, sure = plain_percent(plan.at_most), plain_percent(plan.confidence)
    return (
        f"Plan: {floor}at most {rate} of unsafe texts labeled safe, at {sure} confidence; it needs "
        f"{plan.reviews_required:,} blinded reviews of truly unsafe texts with {allowed}. A text counts with the same "
        "chance whatever the AI said, so a reviewed unsafe text may not be among them.",
        since,
    )


def guarantee_words(found: audit.Guarantee) -> str:
    """How far the guarantee is; what it is bound to, and whether that is outdated, is for the page to add."""
    plan = found.plan
    if found.standing is audit.Standing.GUARANTEED:
        return (
            f"at most {plan.at_most:.1%} of unsafe texts are labeled safe, at {100 * plan.confidence:g}% confidence "
            f"({found.missed} missed in {found.read})"
        )
    if found.standing is audit.Standing.FAILED:
        return (
            f"cannot be guaranteed with these cases: {found.missed} missed, the plan allowed "
            f"{plan.allowed_misses}; a new plan needs new cases"
        )
    due = f", {count_of(found.waiting, 'review')} of the sample still due" if found.waiting else ""
    unclear = count_of(found.inconclusive_safe, "labeled safe is", "labeled safe are")
    also = due + (f", {unclear} inconclusive and may be misses" if found.inconclusive_safe else "")
    also += f", {found.lost_safe:,} labeled safe can no longer be reviewed blinded" if found.lost_safe else ""
    return f"cannot be guaranteed yet: the plan counts {found.read} of {plan.reviews_required} unsafe texts{also}"
