"""The parts of the reliability page: what is missed first, then what may be claimed, then what changes."""

from html import escape

import pandas as pd
import streamlit as st

from pages.research.claims import (
    MOVED,
    Verified,
    at_most,
    at_most_words,
    beyond_sentence,
    missed_words,
    plan_sentences,
    range_rows,
    reading_words,
    remaining_words,
    too_early_sentence,
)
from pages.research.figures import Axes, Series, curves, palette
from pages.research.stard import flow
from pages.ui.format import NOT_YET, interval, percent, plain_percent, rate
from pages.ui.labels import OUTCOME_WORDS
from pages.ui.widgets import how_to_read
from screening.evaluation.estimates import WeightedRate
from screening.evaluation.guarantee import Binding, Guarantee, Standing, plan_readings, readings_required
from screening.evaluation.monitoring import SwitchRate
from screening.words import count_of
from storage.research.outcome_mix import REFERENCE


def show_claims(found: Verified, now: Binding, second_rate: float) -> None:
    """The missed first, then sensitivity and specificity, each with its bound and its n."""
    first, second, third = st.columns(3, border=True)
    with first:
        st.metric("Missed cases per 1,000 labeled safe", at_most_words(found) if found.at_most else NOT_YET)
        st.caption(f"{COUNTS_WHAT_REVIEWERS_SAY} {missed_words(found)}")
    for cell, name, kind in (
        (second, "Sensitivity, weighted", "sensitivity"),
        (third, "Specificity, weighted", "specificity"),
    ):
        with cell:
            settled: WeightedRate = getattr(found.estimates, kind)
            st.metric(name, NOT_YET if settled.value is None else percent(settled.value))
            single: WeightedRate = getattr(found.single_reader, kind)
            first_word = f" By the first review alone: {percent(single.value)}, "
            alone = "" if single.value is None else f"{first_word}{interval(single.low, single.high)}."
            st.caption(f"{_rate_words(name, settled, found.guarantee)}{alone}")
    if found.estimates.sensitivity.value is not None or found.estimates.specificity.value is not None:
        st.caption(ONE_LOOK)
    st.caption(remaining_words(second_rate))
    show_range(found)
    _show_guarantee(found, now)


RECOGNIZE = "Of unsafe texts, reviewers recognize"
COUNTS_WHAT_REVIEWERS_SAY = "Counts what reviewers would call unsafe, on average over the whole period."


def show_range(found: Verified) -> None:
    """The bound for the whole period and the last 90 days, by how many unsafe texts reviewers recognize."""
    of = found.range
    if of.whole is None:
        return
    with st.expander("If reviewers miss some unsafe texts, and the last 90 days alone", icon=":material/tune:"):
        rows = [
            {
                RECOGNIZE: words,
                f"Whole period (n = {of.reviewed:,})": NOT_YET if whole is None else at_most(1000 * whole),
                f"Last 90 days (n = {of.recent:,})": NOT_YET if lately is None else at_most(1000 * lately),
            }
            for words, whole, lately in range_rows(of)
        ]
        st.table(pd.DataFrame(rows).set_index(RECOGNIZE))
        how_to_read(
            "Missed cases per 1,000 labeled safe, at most (95%), from first blinded reviews.",
            "- A first review that was inconclusive or lost counts as missed.\n"
            "- The whole period holds at any time, however often you look, and averages over it: where the share has "
            "risen it lies below the share of today. The last 90 days hold on any one day, not on all days together.\n"
            "- The measured share is from randomly chosen texts with two blinded reviews, with its own limit. It "
            "assumes that they overlook texts independently. What all reviewers miss alike, no review shows.",
        )


ONE_LOOK = (
    "These intervals hold on one day fixed beforehand: looked at every day, they leave the truth out on some day in "
    "more than 5% of sites. The bound on missed cases holds on all days together."
)


def _rate_words(name: str, found: WeightedRate, plan: Guarantee) -> str:
    """The interval; before there is one, why, and of sensitivity how far the readings are on the way to the plan."""
    if found.value is None:
        if not name.startswith("Sensitivity"):
            return "Not enough reviews yet."
        return f"Not enough reviews of unsafe texts yet ({plan.read:,} of {plan.readings_required:,})."
    naive = f"Unweighted, not to be used: {rate(found.naive)}."
    return f"{interval(found.low, found.high)}. {naive}"


def _show_guarantee(found: Verified, now: Binding) -> None:
    guarantee, stale = found.guarantee, found.guarantee.stale(now)
    rate, sure = plain_percent(guarantee.at_most), plain_percent(guarantee.confidence)
    words = f"Target (miss rate ≤ {rate}, {sure} confidence): {guarantee.statement}."
    if stale:
        words = f"Outdated. {words} It speaks of another configuration than the active one."
    shown = st.success if guarantee.standing is Standing.GUARANTEED and not stale else st.warning
    shown(" ".join(part for part in (words, too_early_sentence(found), beyond_sentence(found)) if part))
    st.caption(" ".join(plan_sentences(found.plan)))


def show_binding(found: Verified, now: Binding) -> None:
    """What was measured beside what runs now; any difference makes the figures stale."""
    binding = found.guarantee.binding
    if binding is None:
        st.warning("What was measured was not recorded, so nothing here can be claimed.")
        return
    st.html(binding_html(binding, now))


PARTS = {"Model": "model", "Prompts": "prompt_hash", "Rule": "rule", "Label definition": "label_definition"}


def binding_html(measured: Binding, now: Binding) -> str:
    """A table whose cells show all of a rule, which a data frame would cut."""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Part", "Measured", "Runs now", "Same"))
    return f'<table class="sl-agree"><thead><tr>{head}</tr></thead><tbody>{_parts(measured, now)}</tbody></table>'


def _parts(measured: Binding, now: Binding) -> str:
    rows = ((name, getattr(measured, field), getattr(now, field)) for name, field in PARTS.items())
    return "".join(
        f'<tr><th scope="row">{name}</th>{_cell(one)}{_cell(other)}'
        f"<td>{'✓ same' if one == other else '✗ differs: stale'}</td></tr>"
        for name, one, other in rows
    )


def _cell(words: str) -> str:
    return f'<td style="overflow-wrap:anywhere">{escape(words)}</td>'  # a hash is wider than a phone has room for


def show_sample(found: Verified) -> None:
    """How far the audit is: the flow of cases, and the tally by stratum and outcome."""
    left, right = st.columns([1, 1.7])
    left.dataframe(pd.DataFrame(flow(found), columns=["Cases", "n"]), hide_index=True, height="content")
    rows = [
        {
            "Outcome": OUTCOME_WORDS[each.outcome],
            "Sampling probability": each.probability,
            "Texts": each.cases,
            "Selected": each.selected,
            "Reviewed": each.read,
            "Unsafe": each.unsafe,
            "Insufficient information": each.inconclusive,
            "Second review": each.read_again,
            "Pending": each.waiting,
            "Not assessable": each.lost,
        }
        for each in found.strata
    ]
    right.dataframe(pd.DataFrame(rows), hide_index=True)
    right.caption(
        "Sampled cases are in the same queue as all others, unmarked. Only blinded first reviews count; not assessable "
        "is what can no longer be reviewed blinded."
    )


def show_sequence(found: Verified) -> None:
    """Limits that hold however often one looks."""
    if not found.looks:
        st.info("No text labeled safe has been reviewed for the plan yet; the sequence starts with the first.")
        return
    last = found.looks[-1]
    series = Series(
        name="Unsafe among texts labeled safe",
        x=[look.observations for look in found.looks],
        y=[look.estimate for look in found.looks],
        low=[look.low for look in found.looks],
        high=[look.high for look in found.looks],
        mode="lines",
    )
    axes = Axes(
        title="Unsafe among texts labeled safe",
        x="reviews of texts labeled safe",
        y="share unsafe",
        y_percent=True,
        y_range=(-0.02, 1.02),
    )
    figure = curves([series], axes, palette(st.context.theme.type))
    st.plotly_chart(figure, key="sequence", alt="Confidence sequence of the share of unsafe among texts labeled safe")
    how_to_read(
        f"Now {percent(last.estimate)}, between {percent(last.low)} and {percent(last.high)} after "
        f"{count_of(last.observations, 'review')}; 95%, valid at any time.",
        "The more reviews, the narrower the band. It may be looked at every day: a Wilson interval looked at daily is "
        "wrong at some time in a third to half of all runs.",
    )
    if last.contradictory:
        st.warning(f"The estimate lies outside its own limits: {MOVED}.")


def show_planner(found: Verified) -> None:
    """What tomorrow's readings buy, and how many it takes to say something at the plan's confidence."""
    confidence = found.plan.confidence
    more = st.number_input("Reviews a day that your organization can spend on texts labeled safe", 1, 10_000, 12)
    st.write(reading_words(found, int(more)))
    one, two, three = st.columns(3)
    target = one.select_slider("Target miss rate", (0.005, 0.01, 0.02, 0.05, 0.1), 0.05, format_func=percent)
    assumed = two.select_slider(
        "Assumed true rate", (0.0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04), 0.01, format_func=percent
    )
    chance = three.select_slider("Power", (0.5, 0.8, 0.9, 0.95), 0.8, format_func=percent)
    plan = plan_readings(target, assumed, confidence=confidence, chance=chance)
    if plan is None:
        st.warning("No number of reviews will do: the rate assumed is not below the one to be shown.")
        return
    st.write(
        f"Plan: review **{plan.readings:,}** truly unsafe texts and allow **{plan.allowed_misses}** misses; it "
        f"succeeds with probability {plan.chance:.0%}. With no miss at all "
        f"{readings_required(target, 0, confidence):,} would do."
    )
    st.caption(
        f"Exact binomial (learn then test), {plain_percent(confidence)} confidence. The number of misses allowed is "
        "fixed before the first review: raising it after each miss, on the same cases, breaks the guarantee. The plan "
        "in force is set on the Settings page."
    )


def show_switches(found: SwitchRate) -> None:
    """How often seeing the AI's result changed a label, and whether for the better."""
    if found.switched.value is None:
        st.info("No closed case yet whose reviewer saw the AI's result after a blinded first review.")
        return
    rows = [
        ("changed after seeing the AI", rate(found.switched)),
        ("correct → incorrect (harm)", rate(found.right_to_wrong)),
        ("incorrect → correct (help)", rate(found.wrong_to_right)),
    ]
    st.dataframe(pd.DataFrame(rows, columns=["Label", "Share, 95% CI"]), hide_index=True)
    st.caption(
        "All closed cases whose reviewer saw the AI's result after a blinded first review, any configuration. Against "
        f"the original label; {count_of(found.without_reference, 'review has', 'reviews have')} none."
    )


def show_drift(found: Verified) -> None:
    """Whether misses or escalations rise, month by month; and the first agent's ends against the frozen reference."""
    rows = [
        {
            "Share": name,
            "Before": rate(made[-1].before),
            "Last": f"{rate(made[-1].recent)}, {count_of(made[-1].months, 'month')}",
            "p": f"{made[-1].p:.2g}",
            "Finding": "▲ risen" if made[-1].found else "▲ risen earlier" if any(r.found for r in made) else "none",
        }
        for name, made in found.rises.items()
        if made
    ]
    if rows:
        st.table(pd.DataFrame(rows).set_index("Share"))
    else:
        st.info("Misses and escalations are compared month by month: not yet, as two full months are needed.")
    how_to_read(
        "Misses (labeled safe, reviewed, unsafe) and escalations: the last 1, 3 and 6 months against all before.",
        "- Compared once at the end of each 30 days, against a reference that grows; exact tests. Where nothing "
        "changes, either has a finding in at most 5% of years, however often you look.\n"
        "- A doubling of misses from 2 to 4% in the middle of a year is found by its end in about 7 of 10 sites that "
        "review 10 texts labeled safe a day, and in about 1 of 25 that review 1 a day (`make simulate`).",
    )
    _show_mix(found)


def _show_mix(found: Verified) -> None:
    moved = found.drift
    if moved.reason is not None:
        st.info(f"No finding: {moved.reason}. The reference is the first {REFERENCE} cases of the configuration.")
        return
    rows = [
        {
            "End": share.name,
            "Reference": rate(share.reference),
            "Since": rate(share.since),
            "Evidence that it moved": f"{share.evidence:,.2f}",
        }
        for share in moved.shares
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True)
    finding = "▲ Drift: case mix has changed." if moved.moved else "Case mix: no change shown."
    most = f"at most {moved.most:,.2f} so far; {moved.threshold:,.0f} is a finding"
    st.write(f"{finding} Evidence {moved.evidence:,.2f}, {most}.")
    how_to_read(
        f"How the first agent ended: the first {REFERENCE} cases, which never change, against all since.",
        "The evidence is an e-value counted up to each day's end. Without a change it is ever a finding in at most "
        f"{moved.alarm_rate:.0%} of all sites, however long and often one looks. A file sorted by subject moves it.",
    )
