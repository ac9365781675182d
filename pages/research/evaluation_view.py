"""The parts of the evaluation page: table, sweep, frontier, what-if, and the cases behind a number."""

from collections.abc import Iterable, Sequence

import pandas as pd
import streamlit as st

from pages.components.sign_in import rechecked
from pages.research.experiment import Experiment, WhatIf, budget_conditions
from pages.research.figures import Axes, Series, bars, curves, histogram, palette
from pages.research.provenance import provenance
from screening.labels import Label, Outcome
from screening.research.conditions import Condition
from screening.research.experiments import ConditionResult, consistently_missed, empirical_gaps, frontier
from screening.research.recording import Item
from screening.research.results_table import (
    ResultsTable,
    TableRow,
    csv_table,
    latex_table,
    number_text,
    rate_text,
    row_of,
)
from screening.review.policy import Action
from screening.statistics.metrics import REFERENCES, Metrics, Proportion
from storage.research.confusion import Labels

Sweep = tuple[list[int], tuple[ConditionResult, ...]]
ERRORS = ((Label.SAFE, Outcome.UNSAFE), (Label.UNSAFE, Outcome.SAFE))
LEVELS = (0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1)


def table_of(
    experiment: Experiment, results: Sequence[ConditionResult], subset: str | None, labels: Labels
) -> ResultsTable:
    """The results as the table that is shown and exported; it says which labels it was measured against."""
    rows = tuple(row_of(each.name, each.metrics, each.unsettled, subset, each.cost_usd) for each in results)
    source = provenance(experiment.batch.intake, labels)
    return ResultsTable(title=experiment.batch.name, provenance=source, rows=rows, subset_name=subset)


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
        "Dollars": number_text(row.cost_usd, 2),
        "Accuracy, worst to best case": " to ".join(number_text(value, 3) for value in extremes),
        "Unsettled": row.unsettled,
    }
    if table.subset_name:
        line[f"FNR of {table.subset_name}"] = rate_text(row.subset)
    return line


def show_results(table: ResultsTable) -> None:
    """The table with its downloads."""
    st.dataframe(results_frame(table), hide_index=True, height=38 * (len(table.rows) + 1))
    st.caption(
        "Rates with Wilson 95 % intervals and counts. Accuracy, FPR and FNR are over decided cases; worst and best "
        "take every escalation as an error or as right. All conditions are on the same draws and compare rules alone; "
        "the last row is what this batch did, with what its texts forbade (a stated risk, a suspected injection), and "
        "is what the Errors page counts."
    )
    made = {"CSV": ("csv", lambda: "".join(csv_table(table))), "LaTeX": ("tex", lambda: latex_table(table))}
    for place, (name, (ending, make)) in zip(st.columns([1, 1, 3]), made.items(), strict=False):
        data = rechecked(Action.VIEW_RESULTS, make)
        place.download_button(f"Table as {name}", data=data, file_name=f"results.{ending}", on_click="ignore")


@st.cache_data(max_entries=8, show_spinner="Replaying every budget…")
def _sweep(_experiment: Experiment, _items: Sequence[Item], rule: str, key: tuple[object, ...]) -> Sweep:
    sweep = budget_conditions("elimination" if rule == "elimination" else "pairwise")
    return [b for b, _ in sweep], _experiment.run(_items, [condition for _, condition in sweep])


def show_sweep(experiment: Experiment, items: Sequence[Item], key: tuple[object, ...]) -> None:
    """Error rates and escalations by budget, for one rule at a time."""
    names = {"Pooled draws (recommended)": "pairwise", "Algorithm 1 (paper)": "elimination"}
    chosen = st.selectbox("Rule", list(names), key="sweep_rule")
    budgets, results = _sweep(experiment, items, names[str(chosen)], key)
    series = (
        _rate_series("FNR", budgets, [each.metrics.fnr for each in results]),
        _rate_series("FPR", budgets, [each.metrics.fpr for each in results]),
        _rate_series("Escalated", budgets, [each.metrics.escalation_rate for each in results]),
    )
    axes = Axes(x="budget per node (calls)", y="rate", y_percent=True, y_range=(-0.02, 1.02))
    st.plotly_chart(curves(series, axes, palette(st.context.theme.type)), key="sweep", alt="Rates by budget")
    undecided = [budget for budget, each in zip(budgets, results, strict=True) if not each.metrics.accuracy.denominator]
    shown = f" Undefined where nothing was decided: B = {', '.join(map(str, undecided))}." if undecided else ""
    counted = sweep_counts(budgets, results)
    st.caption(f"Bands are Wilson 95 %; {counted}; symmetric δ = 0.05; abstentions go on.{shown}")


def sweep_counts(budgets: Sequence[int], results: Sequence[ConditionResult]) -> str:
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


def show_calls(experiment: Experiment, results: Sequence[ConditionResult]) -> None:
    """Accuracy against calls with its frontier, tokens by condition, and the gaps that make a text easy or hard."""
    colours, kept = palette(st.context.theme.type), frontier(results)
    defined = _without_twins(each for each in results if each.metrics.accuracy.value is not None)
    defined.sort(key=lambda each: each.metrics.mean_calls or 0)
    best = [each for each in defined if each.name in kept]
    others = [each for each in defined if each.name not in kept]
    series = [_points("On the frontier", best, "lines+markers"), _points("Beaten", others, "markers")]
    axes = Axes(x="mean calls per text", y="accuracy of decided cases", x_log=True, y_percent=True)
    st.plotly_chart(curves(series, axes, colours), key="frontier", alt="Accuracy against mean calls per text")
    st.caption("Bars are Wilson 95 %; the counts behind each point, and the texts left out, stand under Results.")
    left, right = st.columns(2)
    tokens = [each.metrics.tokens for each in results]
    if any(value is not None for value in tokens):
        figure = bars([each.name for each in results], tokens, Axes(x="", y="tokens in all"), colours)
        left.plotly_chart(figure, key="tokens", alt="Tokens by condition")
    else:
        calls = [each.metrics.calls for each in results]
        figure = bars([each.name for each in results], calls, Axes(x="", y="calls in all"), colours)
        left.plotly_chart(figure, key="tokens", alt="Calls by condition")
        left.caption("Tokens are undefined: these draws came without any (simulated agents use none).")
    node = experiment.batch.configuration.pipeline.nodes[0].name
    gaps = empirical_gaps(experiment.record, node)
    axes = Axes(x=f"gap p̂₁ − p̂₂ at {node}", y="texts")
    right.plotly_chart(histogram(gaps, 20, axes, colours), key="gaps", alt="Histogram of the gap between two labels")
    right.caption(f"n = {len(gaps)} texts, over all draws at the first node. Small gaps are what takes calls.")


def _without_twins(results: Iterable[ConditionResult]) -> list[ConditionResult]:
    """One of several conditions that did exactly the same: the first, so that names do not lie on one another."""
    seen = {(each.metrics.mean_calls, each.metrics.accuracy): each for each in reversed(list(results))}
    return list(reversed(seen.values()))


def _points(name: str, results: Sequence[ConditionResult], mode: str) -> Series:
    return Series(
        name=name,
        x=[each.metrics.mean_calls or 0 for each in results],
        y=[each.metrics.accuracy.value for each in results],
        low=[each.metrics.accuracy.low for each in results],
        high=[each.metrics.accuracy.high for each in results],
        names=[each.name for each in results],
        mode="lines+markers" if mode == "lines+markers" else "markers",
        stepped=True,
    )


def show_what_if(experiment: Experiment, items: Sequence[Item], now: ConditionResult, audit_rate: float) -> None:
    """Error levels, budget and routes to move, replayed at once and set beside what this batch did. What its texts
    forbid is forbidden in the replay as well.
    """
    one, two, three = st.columns(3)
    trial = WhatIf(
        safe_given_unsafe=one.select_slider("δ: safe said of a text whose mode is unsafe", LEVELS, 0.001),
        other_errors=two.select_slider("δ: every other mistake", LEVELS, 0.025),
        budget=three.slider("Budget per node (calls)", 6, 150, 100),
        abstentions_go_on=one.toggle("An abstention goes on to the next agent"),
        confirm_safe=two.toggle("A safe must be confirmed by the second agent"),
    )
    per_day = three.number_input("Texts a day", 1, 1_000_000, 1_000, 100)
    (found,) = experiment.run(items, [Condition(name="what-if", pipeline=trial.pipeline())], guarded=True)
    metrics = found.metrics
    rates = (
        ("FNR", metrics.fnr, now.metrics.fnr),
        ("FPR", metrics.fpr, now.metrics.fpr),
        ("Escalated", metrics.escalation_rate, now.metrics.escalation_rate),
    )
    cells = st.columns(5)
    for cell, (name, rate, before) in zip(cells, rates, strict=False):
        cell.metric(name, _percent(rate), f"now {_percent(before)}", delta_color="off", delta_arrow="off")
        cell.caption(rate_text(rate))
    calls, before_calls = number_text(metrics.mean_calls), number_text(now.metrics.mean_calls)
    cells[3].metric("Mean calls", calls, f"now {before_calls}", delta_color="off", delta_arrow="off")
    cells[3].caption(f"n = {metrics.n}")
    reviews = [_reviews(each.metrics, int(per_day), audit_rate) for each in (found, now)]
    cells[4].metric("Reviews a day", reviews[0], f"now {reviews[1]}", delta_color="off", delta_arrow="off")
    cells[4].caption(f"escalated, and {audit_rate:.0%} audit of the rest")
    if found.unsettled:
        st.warning(f"{found.unsettled} texts need more draws than were recorded; no figure here contains them.")


def _percent(rate: Proportion) -> str:
    return "undefined" if rate.value is None else f"{rate.value:.1%}"


def _reviews(metrics: Metrics, per_day: int, audit_rate: float) -> str:
    escalated = metrics.escalation_rate.value
    if escalated is None:
        return "undefined"
    return f"{per_day * (escalated + (1 - escalated) * audit_rate):,.0f}"


def show_cases(
    experiment: Experiment, items: Sequence[Item], results: Sequence[ConditionResult], waiting: frozenset[str]
) -> None:
    """The confusion matrix of one condition, whose cells open their cases; and what every condition misses.

    Cases that ``waiting`` names are counted but not listed: somebody must read them blind first.
    """
    names = [each.name for each in results]
    chosen = st.selectbox("Condition", names, index=len(names) - 1)
    result = next(each for each in results if each.name == chosen)
    cell = _selected_cell(result)
    st.caption("Click a cell, or move with the arrow keys, to list its cases.")
    if cell is not None:
        reference, outcome = cell
        cases = [i for i, item in enumerate(items) if item.reference is reference and result.outcomes[i] is outcome]
        st.write(f"{len(cases)} cases: reference {reference}, outcome {outcome.replace('_', ' ')}")
        show_list(experiment, items, cases, waiting)
    missed = consistently_missed(items, results)
    st.header(f"Called safe by every condition that decided it, against an unsafe reference: {len(missed)}")
    st.caption("Either all conditions are wrong in the same way, or the reference is: worth a second look.")
    show_list(experiment, items, missed, waiting)


def _selected_cell(result: ConditionResult) -> tuple[Label, Outcome] | None:
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


def show_list(experiment: Experiment, items: Sequence[Item], cases: Sequence[int], waiting: frozenset[str]) -> None:
    """Cases as a list without text, each with a link to its page."""
    shown = [i for i in cases if experiment.batch.case_ids[i] not in waiting]
    if len(shown) < len(cases):
        st.caption(f"{len(cases) - len(shown)} of them wait for a blind reading and are not listed.")
    if not shown:
        return
    rows = [
        {"Case": items[i].id, "Group": items[i].group or "", "Open": f"/case?case={experiment.batch.case_ids[i]}"}
        for i in shown
    ]
    columns = {"Open": st.column_config.LinkColumn(display_text="open")}
    st.dataframe(pd.DataFrame(rows), hide_index=True, column_config=columns, key=f"list_{hash(tuple(cases))}")
