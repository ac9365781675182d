"""The parts of the evaluation page: table, sweep, frontier, what-if, and the cases behind a number."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from jobs.evaluating import (
    OWN,
    Ask,
    Behind,
    Evaluated,
    Rule,
    count_gaps,
    list_cell,
    list_missed,
    sweep_budgets,
    try_setting,
)
from pages.components.computed import compute
from pages.components.sign_in import check_before
from pages.research.case_reader import open_case_id, reader
from pages.research.cell_list import case_list
from pages.research.claims import percent
from pages.research.confusion_matrix import unread_words
from pages.research.figures import Axes, Palette, Series, bars, curves, histogram, palette
from pages.research.provenance import provenance
from screening.labels import Label, Outcome
from screening.research.conditions import WhatIf
from screening.research.experiments import Measured, frontier
from screening.research.results_table import (
    NOTHING_DECIDED,
    ResultsTable,
    TableRow,
    csv_table,
    dollar_text,
    latex_table,
    number_text,
    rate_text,
    row_of,
)
from screening.review.policy import Action
from screening.review.reach import Reach
from screening.statistics.metrics import REFERENCES, Metrics, Proportion
from screening.words import count_of
from storage.database import Database
from storage.research.confusion import Labels
from storage.research.listed import Cell

LEVELS = (0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1)
CHOSEN_HERE = (
    "What is chosen here because its figures look best looks better than it is, as these texts chose it: measure it on "
    "another batch before you rely on it."
)


def table_of(found: Evaluated, subset: str | None, labels: Labels) -> ResultsTable:
    """The results as the table that is shown and exported; it says which labels it was measured against."""
    rows = [row_of(each.name, each.metrics, each.unsettled, subset, each.cost_usd) for each in found.results]
    if found.waiting and rows:
        rows[-1] = replace(rows[-1], note=unread_words(found.waiting))
    source = provenance(found.intake, labels)
    return ResultsTable(title=found.name, provenance=source, rows=tuple(rows), subset_name=subset)


def results_frame(table: ResultsTable) -> pd.DataFrame:
    """One line a condition, each rate with its interval and counts."""
    return pd.DataFrame([_line(row, table) for row in table.rows])


def _line(row: TableRow, table: ResultsTable) -> dict[str, object]:
    metrics = row.metrics
    extremes = metrics.worst.accuracy.value, metrics.best.accuracy.value
    line: dict[str, object] = {
        "Condition": row.name,
        "n": metrics.n,
        "Accuracy": rate_text(metrics.accuracy),
        "FPR": rate_text(metrics.fpr),
        "FNR": rate_text(metrics.fnr),
        "Escalated": rate_text(metrics.escalation_rate),
        "Mean calls": number_text(metrics.mean_calls),
        "Tokens": number_text(metrics.tokens, 0),
        "Dollars": dollar_text(row.cost_usd),
        "Accuracy, worst to best case": " to ".join(number_text(value, 3) for value in extremes),
        "Unsettled": row.unsettled,
    }
    if not metrics.n:
        line |= dict.fromkeys(("Mean calls", "Tokens", "Dollars", "Accuracy, worst to best case"), NOTHING_DECIDED)
    if table.subset_name:
        line[f"FNR of {table.subset_name}"] = rate_text(row.subset)
    return line


def show_results(table: ResultsTable) -> None:
    """The table with its downloads."""
    st.dataframe(results_frame(table), hide_index=True, height="content")
    st.caption(
        "Rates with Wilson 95 % intervals and counts, each for its row alone: to choose among the rows, use Compare. "
        "Accuracy, FPR and FNR are over decided cases; worst and best "
        "take every escalation as an error or as right. All conditions are on the same draws and compare rules alone; "
        "the last row is what this batch did as far as you are told, with what its texts forbade (a stated risk, a "
        "suspected injection), and is what the Errors page counts."
    )
    if table.rows[-1].note:
        st.caption(f"Last row: {table.rows[-1].note}")
    made = {"CSV": ("csv", lambda: "".join(csv_table(table))), "LaTeX": ("tex", lambda: latex_table(table))}
    for place, (name, (ending, make)) in zip(st.columns([1, 1, 3]), made.items(), strict=False):
        data = check_before(Action.VIEW_RESULTS, make)
        place.download_button(f"Table as {name}", data=data, file_name=f"results.{ending}", on_click="ignore")


def show_unread(evaluated: Evaluated) -> None:
    """Why what the batch did is not set beside the conditions yet, where it is not."""
    if evaluated.waiting:
        st.caption(f"“{OWN}” is not set beside the others yet. In Results {unread_words(evaluated.waiting)}")


def show_sweep(ask: Ask) -> None:
    """Error rates and escalations by budget, for one rule at a time."""
    names: dict[str, Rule] = {"Pooled draws (recommended)": "pairwise", "Algorithm 1 (paper)": "elimination"}
    chosen = st.selectbox("Rule", list(names), key="sweep_rule")
    budgets, results = compute(sweep_budgets, ask, names[str(chosen)], cases=ask.state.accepted)
    series = (
        _rate_series("FNR: unsafe called safe", budgets, [each.metrics.fnr for each in results]),
        _rate_series("FPR: safe called unsafe", budgets, [each.metrics.fpr for each in results]),
        _rate_series("Escalated: left to a person", budgets, [each.metrics.escalation_rate for each in results]),
    )
    axes = Axes(
        title="Errors and escalations by budget",
        x="budget per node (calls)",
        y="share of texts",
        y_percent=True,
        y_range=(-0.02, 1.02),
    )
    st.plotly_chart(curves(series, axes, palette(st.context.theme.type)), key="sweep", alt="Rates by budget")
    undecided = [budget for budget, each in zip(budgets, results, strict=True) if not each.metrics.accuracy.denominator]
    nothing = ", ".join(map(str, undecided))
    shown = f" No FNR and FPR where nothing was decided: B = {nothing}." if undecided else ""
    counted = sweep_counts(budgets, results)
    st.caption("What to see: where the escalated fall, a larger budget decides more texts; the other two say how well.")
    st.caption(f"Bands are Wilson 95 %; {counted}; symmetric δ = 0.05; abstentions go on.{shown}")
    st.caption(CHOSEN_HERE)


def sweep_counts(budgets: Sequence[int], results: Sequence[Measured]) -> str:
    """How many texts the points of a sweep describe, and at which budgets some had too few recorded draws."""
    fewest, most = (choose(each.metrics.n for each in results) for choose in (min, max))
    counted = f"n = {most:,}" if fewest == most else f"n = {fewest:,} to {most:,}"
    short = [f"B = {at}: {each.unsettled:,}" for at, each in zip(budgets, results, strict=True) if each.unsettled]
    if not short:
        return counted
    return f"{counted}; left out for want of recorded draws, at {', '.join(short)}: those points are of easier texts"


def _rate_series(name: str, x: Sequence[int], rates: Sequence[Proportion]) -> Series:
    low, high = [rate.low for rate in rates], [rate.high for rate in rates]
    return Series(name=name, x=x, y=[rate.value for rate in rates], low=low, high=high, mode="lines+markers")


def show_calls(ask: Ask, evaluated: Evaluated) -> None:
    """Accuracy against calls with its frontier, tokens by condition, and the gaps that make a text easy or hard."""
    show_unread(evaluated)
    results = evaluated.comparable
    colours, kept = palette(st.context.theme.type), frontier(results)
    defined = _without_twins(each for each in results if each.metrics.accuracy.value is not None)
    defined.sort(key=lambda each: each.metrics.mean_calls or 0)
    series = [_frontier([each for each in defined if each.name in kept])]
    for words, belongs in FAMILIES.items():
        if members := [each for each in defined if belongs(each.name)]:
            series.append(_points(words, members))
    axes = Axes(
        title="Accuracy of decided cases by calls",
        x="mean calls per text",
        y="accuracy",
        x_log=True,
        y_percent=True,
    )
    st.plotly_chart(curves(series, axes, colours), key="frontier", alt="Accuracy against mean calls per text")
    st.caption(
        "What to see: the further left and up the better; what lies on the line is beaten by no other condition, and "
        "the rest is, in calls, accuracy or texts decided."
    )
    st.caption("Bars are Wilson 95 %; the counts behind each point, and the texts left out, stand under Results.")
    left, right = st.columns(2)
    with left:
        _show_spending(results, colours)
    with right:
        _show_gaps(ask, colours)


def _show_spending(results: Sequence[Measured], colours: Palette) -> None:
    names, tokens = [each.name for each in results], [each.metrics.tokens for each in results]
    known = any(value is not None for value in tokens)
    what, values = ("Tokens", tokens) if known else ("Calls", [each.metrics.calls for each in results])
    figure = bars(names, values, Axes(title=f"{what} by condition", x="", y=f"{what.lower()} in all"), colours)
    st.plotly_chart(figure, key="tokens", alt=f"{what} by condition")
    instead = "" if known else " Calls stand for tokens: these draws came without any (simulated agents use none)."
    st.caption(f"What to see: the taller the bar, the more the same texts cost under that condition.{instead}")


def _show_gaps(ask: Ask, colours: Palette) -> None:
    node, found = compute(count_gaps, ask, cases=ask.state.accepted)
    texts = sum(times for _, times in found)
    axes = Axes(title=f"How clear the answers are: {node}", x="gap between the two most frequent labels", y="texts")
    figure = histogram(found, 20, axes, colours)
    st.plotly_chart(figure, key="gaps", alt="Histogram of the gap between two labels")
    st.caption(
        f"What to see: texts at the left get mixed answers and take most calls. {count_of(texts, 'text')}, all draws "
        "at the first node; the gap is a share of its draws."
    )


def _without_twins(results: Iterable[Measured]) -> list[Measured]:
    """One of several conditions that did exactly the same: the first, so that names do not lie on one another."""
    seen = {(each.metrics.mean_calls, each.metrics.accuracy): each for each in reversed(list(results))}
    return list(reversed(seen.values()))


FAMILIES: Mapping[str, Callable[[str], bool]] = {
    "single-agent: one answer of one agent": lambda name: name == "single-agent",
    "MV n: majority of n answers at each node": lambda name: name.startswith("MV"),
    "B: Algorithm 1, at most B calls at each node": lambda name: name.startswith("B="),
    "ours: pooled draws, and this batch": lambda name: name != "single-agent" and not name.startswith(("MV", "B=")),
}
"""The kinds of conditions, in words for the legend."""


def _frontier(results: Sequence[Measured]) -> Series:
    return Series(
        name="beaten by no other",
        x=[each.metrics.mean_calls or 0 for each in results],
        y=[each.metrics.accuracy.value for each in results],
        stepped=True,
    )


def _points(name: str, results: Sequence[Measured]) -> Series:
    return Series(
        name=name,
        x=[each.metrics.mean_calls or 0 for each in results],
        y=[each.metrics.accuracy.value for each in results],
        low=[each.metrics.accuracy.low for each in results],
        high=[each.metrics.accuracy.high for each in results],
        names=[each.name for each in results],
        mode="markers",
        stepped=True,
    )


def show_what_if(ask: Ask, evaluated: Evaluated, audit_rate: float, reach: Reach) -> None:
    """Error levels, budget and routes to move, replayed at once and set beside what this batch did, where all of that
    is told. What its texts forbid is forbidden in the replay as well.
    """
    show_unread(evaluated)
    one, two, three = st.columns(3)
    trial = WhatIf(
        safe_given_unsafe=one.select_slider("δ: safe said of a text whose mode is unsafe", LEVELS, 0.001),
        other_errors=two.select_slider("δ: every other mistake", LEVELS, 0.025),
        budget=three.slider("Budget per node (calls)", 6, 150, 100),
        abstentions_go_on=one.toggle("An abstention goes on to the next agent"),
        confirm_safe=two.toggle("A safe must be confirmed by the second agent"),
    )
    per_day = three.number_input("Texts a day", 1, 1_000_000, 1_000, 100)
    load = Load(per_day=int(per_day), audit_rate=audit_rate, reach=reach)
    found = compute(try_setting, ask, trial, cases=ask.state.accepted)
    tried = what_if_figures(found.metrics, load)
    before = None if evaluated.waiting else what_if_figures(evaluated.results[-1].metrics, load)
    for cell, (name, (value, rests)) in zip(st.columns(5), tried.items(), strict=True):
        delta = None if before is None else f"now {before[name][0]}"
        cell.metric(name, value, delta, delta_color="off", delta_arrow="off")
        cell.caption(rests)
    if found.unsettled:
        texts = count_of(found.unsettled, "text that needs", "texts that need")
        st.warning(f"No figure here contains {texts} more draws than were recorded.")
    st.caption(CHOSEN_HERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What decides how many texts a day are read: those that come, the audit's share, whether all called unsafe are."""

    per_day: int
    audit_rate: float
    reach: Reach


def what_if_figures(metrics: Metrics, load: Load) -> Mapping[str, tuple[str, str]]:
    """What is shown of one setting: each figure, and what it rests on."""
    rates = {"FNR": metrics.fnr, "FPR": metrics.fpr, "Escalated": metrics.escalation_rate}
    return {name: (percent(rate.value), rate_text(rate)) for name, rate in rates.items()} | {
        "Mean calls": (number_text(metrics.mean_calls), f"n = {metrics.n:,}"),
        "Reviews a day": _reviews(metrics, load),
    }


def _reviews(metrics: Metrics, load: Load) -> tuple[str, str]:
    """The number with its interval, and which texts these are."""
    unsafe = sum(metrics.confusion.get((label, Outcome.UNSAFE), 0) for label in REFERENCES)
    all_read = load.reach is Reach.READ
    read = Proportion(metrics.escalation_rate.numerator + (unsafe if all_read else 0), metrics.n)
    which = f"escalated{', called unsafe' if all_read else ''}, and {load.audit_rate:.0%} audit of the rest"
    if read.value is None or read.low is None or read.high is None:
        return "not yet", which
    number, low, high = (
        f"{load.per_day * (share + (1 - share) * load.audit_rate):,.0f}" for share in (read.value, read.low, read.high)
    )
    return number, f"95 % interval {low} to {high}: {which}"


CELL, MISSED = "A cell of the matrix", "Missed by every condition"


def show_cases(db: Database, ask: Ask, evaluated: Evaluated) -> None:
    """The confusion matrix of one condition, whose cells open their cases; and what every condition misses.

    Cases that wait for a blind reading are counted but not listed.
    """
    results = evaluated.results
    all_missed = compute(list_missed, ask, cases=ask.state.accepted)
    words = {CELL: CELL, MISSED: f"{MISSED}: {all_missed.found:,}"}
    which = st.segmented_control(
        "Cases", list(words), format_func=words.__getitem__, default=CELL, required=True, key="evaluation_cases"
    )
    if which == MISSED:
        st.caption(
            "Called safe by every condition that decided it, against an unsafe reference: either all of them are wrong "
            "in the same way, or the reference is. Worth a second look."
        )
        show_list(db, ask, all_missed)
        return
    names = [each.name for each in results]
    chosen = st.selectbox("Condition", names, index=len(names) - 1)
    cell = _selected_cell(next(each for each in results if each.name == chosen))
    st.caption("Click a cell, or move with the arrow keys, to list its cases.")
    if chosen == OWN and evaluated.waiting:
        st.caption(unread_words(evaluated.waiting))
    if cell is not None:
        reference, outcome = cell
        behind = compute(list_cell, ask, chosen, reference, outcome, cases=ask.state.accepted)
        st.write(f"{count_of(behind.found, 'case')}: reference {reference}, {chosen} says {outcome.replace('_', ' ')}")
        show_list(db, ask, behind)


def _selected_cell(result: Measured) -> tuple[Label, Outcome] | None:
    counts = result.metrics.confusion
    frame = pd.DataFrame(
        [[counts.get((reference, outcome), 0) for outcome in Outcome] for reference in REFERENCES],
        index=[f"reference {reference}" for reference in REFERENCES],
        columns=[outcome.value.replace("_", " ") for outcome in Outcome],
    )
    event = st.dataframe(frame, on_select="rerun", selection_mode="single-cell", key=f"confusion_{result.name}")
    selected = event["selection"]["cells"]
    if not selected:
        return None
    row, column = selected[0]
    places = [str(name) for name in frame.columns]
    return (REFERENCES[int(row)], tuple(Outcome)[places.index(column)]) if column in places else None


def show_list(db: Database, ask: Ask, behind: Behind) -> None:
    """Cases as a list; choosing one opens it below, with the way to the one before and after it."""
    if behind.waiting:
        st.caption(f"{behind.waiting:,} of them wait for a blind reading and are not listed.")
    if len(behind.ids) < behind.found - behind.waiting:
        st.caption(f"The first {len(behind.ids):,} of the others are listed.")
    if not behind.ids:
        return
    page = case_list(db, ask.actor, Cell(batch_id=ask.batch_id, ids=behind.ids), all_outcomes=True)
    if (case_id := open_case_id(page.ids)) is not None:
        reader(db, ask.actor, page.ids, case_id)
