"""What may be claimed about missed cases, and what cannot be claimed yet; bound to one configuration."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from jobs.reviews import Kind, audit_cases, count_revisions
from pages.research import claims, figures
from pages.research.case_list import case_list
from pages.research.reports import FLOW_AUDITED, FLOW_NOT_AUDITED, FLOW_SETTLED, flow, report_html, tally
from pages.ui import auth, context
from pages.ui.context import REVIEW, compute
from pages.ui.widgets import how_to_read, show_open
from pages.ui.words import NOT_YET, interval, literal, percent, plain_percent, rate, seen_from, zone_name
from screening.evaluation.audit import Standing, binding_of, plan_reviews, reviews_required
from screening.evaluation.estimates import WeightedRate
from screening.labels import Outcome
from screening.review.policy import Action, require
from screening.review.review_form import FORM_VERSION
from screening.words import count_of
from storage.batches.counts import configuration_now, count_reviews, revisions_now
from storage.research.cells import MOST_LISTED, Cell
from storage.research.reliability import REFERENCE, measured_configurations, priorities_shown, settled_cases, severities
from storage.settings_store import audit_plan

READ = {"read": "reviewed", "unsafe": "unsafe", "inconclusive": "insufficient information"}
REVIEWED: Mapping[str, Kind] = {
    "Reviewed": ("read", ""),
    "Insufficient information": ("inconclusive", ""),
    "Reviewed unblinded": ("not blind", ""),
}
CALLED = {
    Outcome.SAFE: "Labeled safe by the AI",
    Outcome.UNSAFE: "Labeled unsafe by the AI",
    Outcome.HUMAN_REVIEW: "Escalated",
}
RECOGNIZE = "Of unsafe texts, reviewers recognize"
Behind = tuple[int, Callable[[], tuple[str, ...]]]
"""A count and how its cases are looked up, `MOST_LISTED` at most."""

db, person = context.database(), context.actor()
require(person, Action.VIEW_RESULTS)


def printed(zone: str | None) -> str:
    """The report as of now, with times of the page that asks."""
    graded, shown = severities(db, person, version), priorities_shown(db, person, version)
    with seen_from(zone):
        return report_html(found, now, context.now(), context.site(), graded, shown)


def show_claims() -> None:
    """The missed first, then sensitivity and specificity, each with its bound and its n."""
    first, second, third = st.columns(3, border=True)
    with first:
        st.metric("Missed cases per 1,000 labeled safe", claims.at_most_words(found))
        said = claims.missed_words(found)
        st.caption(f"Counts what reviewers would call unsafe, on average over the whole period. {said}")
    plan = found.plan
    counted = f"{found.guarantee.read:,} of {plan.reviews_required:,}"
    so_far = f"Not enough unsafe texts reviewed yet: the plan counts {counted}."
    every, alone = found.estimates, found.single_reviewer
    with second:
        show_rate("Sensitivity, weighted", every.sensitivity, alone.sensitivity, so_far)
    with third:
        show_rate("Specificity, weighted", every.specificity, alone.specificity, "Not enough reviews yet.")
    if every.sensitivity.value is not None or every.specificity.value is not None:
        st.caption(
            "These intervals hold on one day fixed beforehand: looked at every day, they leave the truth out on some "
            "day in more than 5% of sites. The bound on missed cases holds on all days together."
        )
    st.caption(
        "Reviewers can be wrong. Texts labeled safe by the AI but unsafe by a reviewer get a blinded second review, as "
        f"do {percent(context.site().second_review_rate)} of the rest. Errors shared by all reviewers are not detected."
    )
    show_range()
    target = f"miss rate ≤ {plain_percent(plan.at_most)}, {plain_percent(plan.confidence)} confidence"
    words, shown = f"Target ({target}): {claims.guarantee_words(found.guarantee)}.", st.warning
    if found.binding != now:
        words = f"Outdated. {words} It is about another configuration than the active one."
    elif found.guarantee.standing is Standing.GUARANTEED:
        shown = st.success
    shown(f"{words} {found.left_out}".strip())
    st.caption(" ".join(claims.plan_sentences(plan)))


def show_rate(name: str, settled: WeightedRate, alone: WeightedRate, not_yet: str) -> None:
    st.metric(name, percent(settled.value))
    words = not_yet
    if settled.value is not None:
        words = f"{interval(settled.low, settled.high)}. Unweighted, not to be used: {rate(settled.naive)}."
    if alone.value is not None:
        words += f" By the first review alone: {percent(alone.value)}, {interval(alone.low, alone.high)}."
    st.caption(words)


def show_range() -> None:
    """The bound for the whole period and the last 90 days, by how many unsafe texts reviewers recognize."""
    reviewed, recent = found.first_reviews
    if not reviewed:
        return
    with st.expander("If reviewers miss some unsafe texts, and the last 90 days alone", icon=":material/tune:"):
        rows = [
            {
                RECOGNIZE: words,
                f"Whole period (n = {reviewed:,})": NOT_YET if whole is None else claims.at_most(1000 * whole),
                f"Last 90 days (n = {recent:,})": NOT_YET if lately is None else claims.at_most(1000 * lately),
            }
            for words, whole, lately in found.ranges
        ]
        st.table(pd.DataFrame(rows).set_index(RECOGNIZE))
        how_to_read("Missed cases per 1,000 labeled safe, at most (95%), from first blinded reviews.", "range")


def audit() -> None:
    """How far the audit is: the flow of cases, the tally by stratum and outcome, and the cases of every count."""
    left, right = st.columns([1, 1.7])
    left.dataframe(pd.DataFrame(flow(found), columns=["Cases", "n"]), hide_index=True, height="content")
    strata = pd.DataFrame([tally(each) for each in found.strata])
    right.dataframe(strata.drop(columns="Stratum (π of its audit)", errors="ignore"), hide_index=True)
    right.caption(
        "Sampled cases are in the same queue as all others, unmarked. Only blinded first reviews count; not assessable "
        "is what can no longer be reviewed blinded."
    )
    standing, reviews = configuration_now(db, version), REVIEW * count_reviews(db)
    by_kind = compute(audit_cases, person, version, standing=standing, cases=reviews)

    of_flow = dict(flow(found))
    behind = {
        "Screened": settled(of_flow[FLOW_SETTLED]),
        "Not in the sample": settled(of_flow[FLOW_NOT_AUDITED], sampled=False),
        "In the sample": settled(of_flow[FLOW_AUDITED], sampled=True),
    }
    kinds: dict[str, Kind] = dict(REVIEWED)
    for outcome, words in CALLED.items():
        behind[words] = settled(of_flow[words[0].lower() + words[1:]], sampled=True, outcome=outcome)
        kinds |= {f"{words}, {said}": (name, outcome.value) for name, said in READ.items()}
    for words, kind in kinds.items():
        count, ids = by_kind.get(kind, (0, ()))
        behind[words] = count, partial(tuple, ids)
    open_cases(behind, "Cases of the quality-check sample", "audit_cases")
    st.caption(
        "Cases whose review is pending are not listed: whoever reviews one must not know that it belongs to the sample."
    )


def settled(count: int, **wanted: Any) -> Behind:
    return count, partial(settled_cases, db, person, version, MOST_LISTED, **wanted)


def open_cases(behind: Mapping[str, Behind], title: str, key: str) -> None:
    """The counts as choices; the chosen one's cases as a list with the viewer below it."""
    counted = {f"{words} {count:,}": (count, ids) for words, (count, ids) in behind.items() if count}
    if not counted or (chosen := st.pills(title, list(counted), key=key)) is None:
        return
    count, look_up = counted[chosen]
    ids = look_up()[:MOST_LISTED]
    if len(ids) < count:
        st.caption(f"The first {len(ids):,} in the order in which they were screened. Results lists all.")
    case_list(db, person, Cell(batch_id="", ids=ids))


def sequence() -> None:
    if not found.looks:
        st.info("No text labeled safe has been reviewed for the plan yet; the sequence starts with the first.")
        return
    last = found.looks[-1]
    x, y, low, high = zip(*((one.observations, one.estimate, one.low, one.high) for one in found.looks), strict=True)
    title, below = "Unsafe among texts labeled safe", "reviews of texts labeled safe"
    series = [figures.Series(name=title, x=x, y=y, low=low, high=high)]
    figure = figures.curves(series, title, below, "share unsafe", y_percent=True, y_range=(-0.02, 1.02))
    st.plotly_chart(figure, key="sequence", alt="Confidence sequence of the share of unsafe among texts labeled safe")
    how_to_read(
        f"Now {percent(last.estimate)}, between {percent(last.low)} and {percent(last.high)} after "
        f"{count_of(last.observations, 'review')}; 95%, valid at any time.",
        "sequence",
    )
    if last.contradictory:
        st.warning(f"The estimate lies outside its own limits: {claims.MOVED}.")


def planner() -> None:
    confidence = found.plan.confidence
    more = st.number_input("Reviews a day that your organization can spend on texts labeled safe", 1, 10_000, 12)
    st.write(claims.review_words(found, int(more)))
    one, two, three = st.columns(3)
    target = one.select_slider("Target miss rate", (0.005, 0.01, 0.02, 0.05, 0.1), 0.05, format_func=percent)
    assumed = two.select_slider(
        "Assumed true rate", (0.0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04), 0.01, format_func=percent
    )
    chance = three.select_slider("Power", (0.5, 0.8, 0.9, 0.95), 0.8, format_func=percent)
    shortest = plan_reviews(target, assumed, confidence=confidence, chance=chance)
    if shortest is None:
        st.warning("No number of reviews will do: the rate assumed is not below the one to be shown.")
        return
    misses, reviews, success = shortest
    st.write(
        f"Plan: review **{reviews:,}** truly unsafe texts and allow **{misses}** misses; it "
        f"succeeds with probability {success:.0%}. With no miss at all "
        f"{reviews_required(target, 0, confidence):,} would do."
    )
    st.caption(
        f"Exact binomial (learn then test), {plain_percent(confidence)} confidence. The number of misses allowed is "
        "fixed before the first review: raising it after each miss, on the same cases, breaks the guarantee. The "
        "active plan is set on the Settings page."
    )


def label_changes() -> None:
    """How often seeing the AI's result changed a label, whether for the better, and the cases where it did."""
    key, reviews = context.settings().pseudonym_secret, REVIEW * count_reviews(db)
    found, cases = compute(count_revisions, person, key, standing=revisions_now(db), cases=reviews)
    if found.switched.value is None:
        st.info("No case with a final label yet whose reviewer saw the AI's result after a blinded first review.")
        return
    rows = [
        ("changed after seeing the AI", rate(found.switched)),
        ("correct → incorrect (harm)", rate(found.to_wrong)),
        ("incorrect → correct (help)", rate(found.to_right)),
    ]
    st.table(pd.DataFrame(rows, columns=["Label", "Share, 95% CI"]), hide_index=True)
    without = found.switched.denominator - found.to_right.denominator - found.to_wrong.denominator
    st.caption(
        "All cases with a final label whose reviewer saw the AI's result after a blinded first review, any "
        f"configuration. Against the original label; {count_of(without, 'review has', 'reviews have')} none."
    )
    behind: dict[str, Behind] = {words: (count, partial(tuple, ids)) for words, (count, ids) in cases.items()}
    open_cases(behind, "Cases with such a review", "switch_cases")


def drift() -> None:
    """Whether misses or escalations rise by month; the first agent's ends against the reference."""
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
        "rises",
    )
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
        "drift",
        alarm_rate=moved.alarm_rate,
    )
    behind = {
        f"{share.name}, {words}": settled(part.numerator, first_end=share.name, in_reference=words == "reference")
        for share in moved.shares
        for words, part in (("reference", share.reference), ("since", share.since))
    }
    open_cases(behind, "Cases that ended so at the first agent", "drift_cases")


def configuration() -> None:
    """What was measured beside what runs now; any difference makes the figures stale."""
    rows = []
    for name, one in found.binding.items():
        same = "✓ same" if one == now[name] else "✗ differs: stale"
        rows.append({"Part": name, "Measured": literal(one), "Runs now": literal(now[name]), "Same": same})
    st.table(rows, hide_index=True)  # its cells show all of a rule, which a data frame would cut


st.title("Reliability")
st.write(
    "Measured against reviewers' blinded first reviews of a random quality-check sample. The stopping rule's error "
    "bound (δ) is about the AI's own most frequent answer and plays no part here."
)
measured = {one.version: one for one in measured_configurations(db, person)}
if not measured:
    st.info("No file has been screened yet, so there is no evidence yet.")
    st.stop()
titles = {
    one.version: f"{one.version} · {count_of(one.settled, 'text')} · {one.first_at:%Y-%m-%d} to {one.last_at:%Y-%m-%d}"
    for one in measured.values()
}
version = st.selectbox("Configuration", list(measured), format_func=titles.__getitem__)
if len(measured) > 1:
    st.caption(
        "These figures hold for each configuration alone. The best of several, chosen by these figures, looks better "
        "than it is: only texts screened after the choice tell how good it is."
    )
now = binding_of(context.configuration(context.usual_pipeline()).body, FORM_VERSION)
found = compute(
    claims.verify_now, person, version, audit_plan(db), context.now().date(),
    standing=configuration_now(db, version), cases=REVIEW * count_reviews(db),
)  # fmt: skip
show_claims()
report = st.container()  # filled last: a file that is asked for while the page still runs is gone when it ends
show_open(
    "reliability_tab",
    {
        "Quality-check sample": audit,
        "Confidence sequence": sequence,
        "Planner": planner,
        "Label changes after AI result": label_changes,
        "Drift": drift,
        "Configuration measured": configuration,
    },
)
report.download_button(
    "Report to print (STARD)",
    data=auth.check_before(Action.VIEW_RESULTS, partial(printed, zone_name())),
    file_name=f"reliability-{version}.html",
    mime="text/html",
    on_click="ignore",
    icon=":material/print:",
)
