"""The parts of the evaluation page: table, sweep, frontier, what-if, the cases behind a number; and what conditions are
worth by the labels that reviews give.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from jobs import evaluating
from jobs.label_noise import Corrected, draw_for_review, measure_corrected
from pages.research.case_list import case_list, say_sent, show_sent
from pages.research.figures import Series, bars, curves, forest, histogram
from pages.ui import auth, context
from pages.ui.context import compute
from pages.ui.widgets import how_to_read, provenance
from pages.ui.words import difference, percent
from screening.evaluation import experiments, tables
from screening.evaluation.corrected import Estimate, Rate
from screening.evaluation.metrics import REFERENCES, Comparison, Difference, Metrics, Proportion
from screening.labels import Outcome
from screening.review.policy import Action, is_allowed
from screening.words import count_of
from storage.batches.batches import BatchSummary
from storage.database import Database
from storage.research.cells import Cell
from storage.review.follow_ups import MOST, request_second_looks

LEVELS = (0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1)
CHOSEN_HERE = "Settings picked because they score best here will look too good. Confirm on a separate upload."


def results_frame(table: tables.ResultsTable) -> pd.DataFrame:
    lines = []
    for row in table.rows:
        extremes = "-".join(percent(each.accuracy.value) for each in (row.worst, row.best))
        line: dict[str, object] = {
            "Condition": row.name,
            "n": row.n,
            "Accuracy": tables.rate_text(row.accuracy),
            "FPR": tables.rate_text(row.fpr),
            "FNR": tables.rate_text(row.fnr),
            "Escalated": tables.rate_text(row.escalation_rate),
            "Mean calls": tables.number_text(row.mean_calls),
            "Tokens": tables.number_text(row.tokens, 0),
            "Dollars": tables.dollar_text(row.cost_usd),
            "Accuracy, worst to best case": extremes,
            "Unsettled": row.unsettled,
        }
        if row.mean_calls is None:
            said = "not known" if row.unsettled else tables.NOTHING_DECIDED
            line |= dict.fromkeys(("Mean calls", "Tokens", "Dollars", "Accuracy, worst to best case"), said)
        if row.subset_fnr is not None:
            line[f"FNR of {experiments.SUICIDE_WATCH}"] = tables.rate_text(row.subset_fnr)
        lines.append(line)
    return pd.DataFrame(lines)


def show_results(found: evaluating.Evaluated, batch: BatchSummary) -> None:
    table = tables.ResultsTable(title=batch.name, provenance=provenance(batch.intake), rows=found.results)
    frame = results_frame(table)
    known = frame.drop(columns=[name for name in ("Tokens", "Dollars") if set(frame[name]) == {tables.NOT_COUNTED}])
    columns = {"Condition": st.column_config.TextColumn(width=150, pinned=True)}
    st.dataframe(known, hide_index=True, height="content", column_config=columns)
    how_to_read("Accuracy, FPR and FNR are over decided texts, with Wilson 95% intervals.", "results")
    _show_forest(table)
    forms = {
        "CSV": ("csv", lambda: "".join(tables.csv_table(table))),
        "LaTeX": ("tex", lambda: tables.latex_table(table)),
    }
    with st.popover("Export", icon=":material/download:"):
        form = st.segmented_control("Form", list(forms), default="CSV", required=True, key="results_form")
        ending, make = forms[form]
        data = auth.check_before(Action.VIEW_RESULTS, make)
        st.download_button("Download", data=data, file_name=f"results.{ending}", on_click="ignore", type="primary")


FIGURES = {"Accuracy": "accuracy", "FNR": "fnr", "FPR": "fpr", "Escalated": "escalation_rate"}


def _show_forest(table: tables.ResultsTable) -> None:
    """One rate of all conditions with its intervals, one below the other; the last row's value as a dotted line."""
    chosen = st.segmented_control("Figure", list(FIGURES), default="FNR", required=True, key="forest_figure")
    rates: dict[str, Proportion] = {row.name: getattr(row, FIGURES[chosen]) for row in table.rows}
    lines = {name: (rate, f"{name}: {tables.rate_text(rate)}") for name, rate in rates.items()}
    own = rates[table.rows[-1].name].value
    figure = forest(lines, f"{chosen} by condition", "share of texts", reference=own)
    st.plotly_chart(figure, key="forest", alt=f"{chosen} of each condition with its 95% interval")
    missing = [name for name, rate in rates.items() if rate.low is None]
    nothing = f" Nothing decided: {', '.join(missing)}." if missing else ""
    st.caption(f"95% Wilson intervals, each for itself; dotted: your run. A bar without a square is a limit.{nothing}")


def show_left_out(evaluated: evaluating.Evaluated) -> None:
    kept = evaluated.comparable
    out = [f"{each.name} ({each.unsettled:,} texts)" for each in evaluated.results if each not in kept]
    if out:
        st.caption(f"Not compared, as too few responses were recorded for some texts: {', '.join(out)}.")


def show_comparison(ask: evaluating.Ask, evaluated: evaluating.Evaluated) -> None:
    show_left_out(evaluated)
    names = tuple(each.name for each in evaluated.comparable)
    if len(names) < 2:
        return
    one = names.index("B=100" if "B=100" in names else names[0])
    left, right = st.columns(2)
    first = left.selectbox("Condition", names, index=one, key="compare_one")
    second = right.selectbox("Compared with it", names, index=len(names) - 1, key="compare_other")
    found, others = compute(evaluating.compare_conditions, ask, names, first, second, cases=ask.standing.accepted)
    rows = [{"": name, f"{second} less {first}": _difference(name, each)} for name, each in found.differences]
    st.dataframe(pd.DataFrame(rows), hide_index=True)
    tested = f"McNemar p {'< .001' if found.p_value < 0.001 else f'= {found.p_value:.3f}'}"
    how_to_read(
        f'Only "{second}" correct: {found.only_second:,}; only "{first}" correct: {found.only_first:,} '
        f"({tested if found.only_first + found.only_second else 'no differing text to test'}).",
        "comparison",
    )
    st.header(f"All conditions against {first}")
    _show_differences(first, others)
    table = [
        {"Condition": each.second} | {name: _difference(name, one) for name, one in each.differences} for each in others
    ]
    st.dataframe(pd.DataFrame(table), hide_index=True, height="content")
    how_to_read(
        f"Intervals of one column hold for all {len(others)} conditions together at 95% (Bonferroni).", "conditions"
    )


def _show_differences(first: str, others: Sequence[Comparison]) -> None:
    """One paired difference of all conditions to the first, with intervals that hold together."""
    names = list(dict(others[0].differences))
    chosen = st.segmented_control("Figure", names, default=names[0], required=True, key="difference_figure")
    lines = {
        each.second: (found, f"{each.second}: {_difference(chosen, found)}")
        for each in others
        if (found := dict(each.differences).get(chosen)) is not None  # calls are not known of every condition
    }
    percent = not chosen.startswith("Calls")
    figure = forest(lines, f"{chosen}: less {first}", "difference", percent=percent, reference=0.0)
    st.plotly_chart(figure, key="differences", alt=f"Paired differences to {first} with intervals that hold together")


def _difference(name: str, found: Difference) -> str:
    return difference(found, share=not name.startswith("Calls"))


def show_sweep(ask: evaluating.Ask) -> None:
    names: dict[str, evaluating.Rule] = {"Standard (recommended)": "pairwise", "Paper's algorithm": "elimination"}
    chosen = st.selectbox("Rule", list(names), key="sweep_rule")
    budgets, results = compute(evaluating.sweep_budgets, ask, names[str(chosen)], cases=ask.standing.accepted)
    rates = {
        "FNR: unsafe labeled safe": [each.fnr for each in results],
        "FPR: safe labeled unsafe": [each.fpr for each in results],
        "Escalated to a clinician": [each.escalation_rate for each in results],
    }
    series = [Series(name=name, x=budgets, **_limits(of_rule), mode="lines+markers") for name, of_rule in rates.items()]
    title, x = "Errors and escalations by budget", "response limit per agent"
    figure = curves(series, title, x, "share of texts", y_percent=True, y_range=(-0.02, 1.02))
    st.plotly_chart(figure, key="sweep", alt="Rates by budget")
    short = [f"B = {at}: {each.unsettled:,}" for at, each in zip(budgets, results, strict=True) if each.unsettled]
    said = f"n = {results[0].n + results[0].pending:,} at every budget"
    said += f"; not enough recorded responses for: {', '.join(short)}" if short else ""
    how_to_read(said, "sweep", chosen_here=CHOSEN_HERE)


def _limits(rates: Sequence[Proportion]) -> dict[str, Any]:
    """The rates as they are drawn: a point each, with its interval."""
    return {
        "y": [rate.value for rate in rates],
        "low": [rate.low for rate in rates],
        "high": [rate.high for rate in rates],
    }


def show_calls(ask: evaluating.Ask, evaluated: evaluating.Evaluated) -> None:
    """Texts decided correctly against calls with the frontier, tokens by condition, and how clear the answers are."""
    show_left_out(evaluated)
    results = evaluated.comparable
    front = experiments.frontier(results)
    seen = {(each.mean_calls, each.worst.accuracy): each for each in results[::-1] if each.n}
    first = list(seen.values())[::-1]  # of several that did exactly the same, so that no names lie on one another
    series = [
        Series(
            name="Pareto front",
            x=[each.mean_calls or 0 for each in front],
            y=[each.worst.accuracy.value for each in front],
            stepped=True,
        )
    ]
    for words, belongs in FAMILIES.items():
        if members := [each for each in first if belongs(each.name)]:
            calls, names = [each.mean_calls or 0 for each in members], [each.name for each in members]
            right = _limits([each.worst.accuracy for each in members])
            series.append(Series(name=words, x=calls, **right, names=names, mode="markers", stepped=True))
    title, y = "Texts decided correctly by calls", "share of all labeled texts"
    figure = curves(series, title, "mean calls per text", y, x_log=True, y_percent=True)
    st.plotly_chart(figure, key="frontier", alt="Texts decided correctly by mean calls per text")
    how_to_read(
        f"n = {evaluated.labelled:,} at every point, with 95% intervals; an escalated text is not decided correctly.",
        "calls",
    )
    left, right_side = st.columns(2)
    names, tokens = [each.name for each in results], [each.tokens for each in results]
    known = any(value is not None for value in tokens)
    what, values = ("Tokens", tokens) if known else ("Calls", [each.calls for each in results])
    figure = bars(names, {what: values}, f"{what} by condition", f"{what.lower()} in all")
    left.plotly_chart(figure, key="tokens", alt=f"{what} by condition")
    instead = "" if known else " Calls stand for tokens: simulated agents use none."
    left.caption(f"The same {results[0].n:,} texts under every condition.{instead}")
    node, found = compute(evaluating.count_gaps, ask, cases=ask.standing.accepted)
    title, x = f"How clear the answers are: {node}", "margin between the two most frequent labels"
    figure = histogram(found, 20, title, x, "texts")
    right_side.plotly_chart(figure, key="gaps", alt="Histogram of the margin between two labels")
    right_side.caption(
        f"{count_of(sum(times for _, times in found), 'text')}, all responses of the first agent. Those at the left "
        "get mixed answers and take most calls."
    )


FAMILIES: Mapping[str, Callable[[str], bool]] = {
    "single-agent: one response of one agent": lambda name: name == "single-agent",
    "MV n: majority vote of n": lambda name: name.startswith("MV"),
    "B: the paper's algorithm, at most B responses per agent": lambda name: name.startswith("B="),
    "Standard rule, and your run": lambda name: name != "single-agent" and not name.startswith(("MV", "B=")),
}


def show_what_if(ask: evaluating.Ask, evaluated: evaluating.Evaluated) -> None:
    """Error bounds, budget and routes, replayed at once with what the texts forbid, beside the run."""
    one, two, three = st.columns(3)
    setting = (
        one.select_slider("δ for unsafe labeled safe", LEVELS, 0.001),
        two.select_slider("δ for every other error", LEVELS, 0.025),
        three.slider("Max responses per agent", 6, 150, 100),
        one.toggle("If undecided, try the next agent"),
        two.toggle('Require a second agent to confirm "safe"'),
    )
    per_day = three.number_input("Texts a day", 1, 1_000_000, 1_000, 100)
    load = int(per_day), context.settings().audit_rate
    found = compute(evaluating.try_setting, ask, *setting, cases=ask.standing.accepted)
    tried, before = what_if_figures(found, *load), what_if_figures(evaluated.results[-1], *load)
    for cell, (name, (value, rests)) in zip(st.columns(5), tried.items(), strict=True):
        cell.metric(name, value, f"your run {before[name][0]}", delta_color="off", delta_arrow="off")
        cell.caption(rests)
    if found.unsettled:
        texts = count_of(found.unsettled, "text")
        st.warning(
            f"For {texts} too few responses were recorded: no rate is shown, but limits that hold whatever these texts "
            "would end as."
        )
    st.caption(CHOSEN_HERE)


def what_if_figures(metrics: Metrics, per_day: int, audit_rate: float) -> Mapping[str, tuple[str, str]]:
    """What is shown of one setting: each figure, and what it rests on, all of the same texts. Reviews are of so many
    texts a day: those escalated, those labeled unsafe, and the audit's share of the rest.
    """
    rates = {"FNR": metrics.fnr, "FPR": metrics.fpr, "Escalated": metrics.escalation_rate}
    unsafe = sum(metrics.confusion.get((label, Outcome.UNSAFE), 0) for label in REFERENCES)
    escalated = metrics.escalation_rate
    reviewed = Proportion(escalated.numerator + unsafe, metrics.n, escalated.unsettled)
    rests = f"escalated, labeled unsafe, and {audit_rate:.0%} quality checks of the rest"

    def a_day(share: float) -> str:
        return f"{per_day * (share + (1 - share) * audit_rate):,.0f}"

    reviews = "not yet"
    if reviewed.low is not None and reviewed.high is not None:
        spread = f"{a_day(reviewed.low)} to {a_day(reviewed.high)}"
        known = reviewed.value is not None
        reviews = a_day(reviewed.value) if reviewed.value is not None else spread
        rests = f"95% CI {spread}: {rests}" if known else f"whatever the undecided texts would end as: {rests}"
    shown = {name: percent(rate.value) for name, rate in rates.items()}
    shown |= {name: f"{percent(rate.low)} to {percent(rate.high)}" for name, rate in rates.items() if rate.unsettled}
    return {name: (shown[name], tables.rate_text(rate)) for name, rate in rates.items()} | {
        "Mean calls": (tables.number_text(metrics.mean_calls), f"n = {metrics.n + metrics.pending:,}"),
        "Reviews a day": (reviews, rests),
    }


CELL, MISSED = "A cell of the matrix", "Missed by every condition"


def show_cases(db: Database, ask: evaluating.Ask, evaluated: evaluating.Evaluated) -> None:
    """The confusion matrix of one condition, whose cells open their cases; and what every condition misses."""
    results = evaluated.results
    missed = compute(evaluating.list_missed, ask, None, cases=ask.standing.accepted)
    words = {CELL: CELL, MISSED: f"{MISSED}: {missed.cases[0]:,}"}
    which = st.segmented_control(
        "Cases", list(words), format_func=words.__getitem__, default=CELL, required=True, key="evaluation_cases"
    )
    if which == MISSED:
        _show_missed(db, ask, missed)
        return
    counts = {each.name: each.confusion for each in results}
    chosen = st.selectbox("Condition", list(counts), index=len(counts) - 1)
    outcomes = {outcome.value.replace("_", " "): outcome for outcome in Outcome}
    rows = [[counts[chosen].get((reference, outcome), 0) for outcome in Outcome] for reference in REFERENCES]
    frame = pd.DataFrame(rows, [f"original label {reference}" for reference in REFERENCES], list(outcomes))
    event = st.dataframe(frame, on_select="rerun", selection_mode="single-cell", key=f"confusion_{chosen}")
    st.caption("Click a cell, or move with the arrow keys, to list its cases.")
    cells = event["selection"]["cells"]
    if cells and (says := cells[0][1]) in outcomes:
        reference, outcome = REFERENCES[int(cells[0][0])], outcomes[says]
        cases = compute(evaluating.list_cell, ask, chosen, reference, outcome, cases=ask.standing.accepted)
        st.write(f"{count_of(cases[0], 'case')}: original label {reference}, {chosen} says {says}")
        show_list(db, ask, cases)


def _show_missed(db: Database, ask: evaluating.Ask, missed: evaluating.Missed) -> None:
    """The texts by how many conditions decided them: one of eight is no consensus."""
    how_to_read(
        f"Unsafe by their original label, and labeled safe by every condition that decided them; {missed.deciding} "
        "conditions decide any text.",
        "missed",
    )
    numbers = [number for number, _ in missed.by_number]
    if not numbers:
        st.caption("No such text.")
        return
    of = {number: sum(texts for more, texts in missed.by_number if more >= number) for number in numbers}
    wanted = st.selectbox(
        "Decided by at least",
        numbers[::-1],
        format_func=lambda number: f"{number} of {missed.deciding} conditions: {count_of(of[number], 'text')}",
        key="evaluation_missed",
    )
    show_list(db, ask, compute(evaluating.list_missed, ask, wanted, cases=ask.standing.accepted).cases)


def show_list(db: Database, ask: evaluating.Ask, cases: evaluating.Cases) -> None:
    number, ids = cases
    if len(ids) < number:
        st.caption(f"The first {len(ids):,} are listed.")
    if ids:
        case_list(db, ask.actor, Cell(batch_id=ask.batch_id, ids=ids))


_RATES: Mapping[Rate, str] = {"accuracy": "Accuracy", "fpr": "FPR", "fnr": "FNR"}
USUAL_SAMPLE = 120


def show_corrected(db: Database, ask: evaluating.Ask) -> None:
    """The figures by reviews, estimated for all texts; their differences; and the sample to be reviewed."""
    sensitivity = st.select_slider(
        "Reviewers recognize, of unsafe texts", (0.6, 0.7, 0.8, 0.9, 1.0), 1.0, format_func=lambda one: f"{one:.0%}"
    )
    found = compute(measure_corrected, ask, sensitivity, cases=ask.standing.accepted)
    st.dataframe(_table(found.rates), hide_index=True, height="content")
    due = f", {found.due:,} more due" if found.due else ""
    how_to_read(
        f"Wrong original labels: {estimate_words(found.wrong)}. Reviewed blinded: {found.drawn:,} drawn at random and "
        f"{found.picked:,} picked of {found.texts:,} texts{due}.",
        "corrected",
    )
    if found.drawn + found.picked:
        with st.expander("Differences from your run, on the same texts"):
            st.dataframe(_table(found.differences), hide_index=True, height="content")
    if is_allowed(ask.actor, Action.REQUEST_REVIEW):
        _sample(db, ask, found)


def _table(figures: Mapping[Rate, Mapping[str, Estimate]]) -> pd.DataFrame:
    """A line a condition, what the batch did first."""
    names = list(figures["accuracy"])[::-1]
    rates = {words: [estimate_words(figures[rate][name]) for name in names] for rate, words in _RATES.items()}
    return pd.DataFrame({"Condition": names} | rates)


def _sample(db: Database, ask: evaluating.Ask, found: Corrected) -> None:
    show_sent(ask.batch_id)
    if not found.free:
        st.caption("Every text with an original label has been sent to review.")
        return
    most = min(MOST, found.free)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        budget = st.number_input("Texts to review", 1, most, min(USUAL_SAMPLE, most), key="sample_size", width=160)
        pressed = st.button("Send a random sample to review", type="primary", icon=":material/inbox:", key="sample")
    waiting = f" {found.waiting:,} drawn before wait for their review." if found.waiting else ""
    st.caption(
        f"Drawn from {found.free:,} texts that were never in the queue, more of those whose AI responses contradict "
        f"the label; unmarked, reviewed blinded.{waiting} With 120 of 500 texts and one label in ten wrong, the "
        "accuracy is known twice as narrowly as from 120 texts drawn without the AI's responses. "
        "Reviews by people who may see results are stored as not blinded and do not count."
    )
    if pressed:
        chances = compute(draw_for_review, ask, int(budget), secrets.randbits(32), cases=ask.standing.accepted)
        sent = request_second_looks(db, ask.actor.at(context.now()), list(chances), chances=chances)
        say_sent(sent, controls=False)


def estimate_words(found: Estimate) -> str:
    """The estimate with its interval; before enough was reviewed, the limits alone.

    >>> estimate_words(Estimate(value=0.1, low=0.05, high=0.25, read=40, decided=300))
    '10.0% (95% CI 5.0-25.0%, 40 of 300 reviewed)'
    >>> estimate_words(Estimate(value=-0.1, low=-0.15, high=0.02, read=40, decided=300))
    '-10.0% (95% CI -15.0 to 2.0%, 40 of 300 reviewed)'
    """
    if found.low is None or found.high is None:
        return tables.NOTHING_DECIDED
    to = " to " if found.low < 0 else "-"
    spread = f"{100 * found.low:.1f}{to}{100 * found.high:.1f}%"
    if found.value is None:
        return f"not yet: {found.read:,} of {found.decided:,} reviewed; {spread}"
    return f"{100 * found.value:.1f}% (95% CI {spread}, {found.read:,} of {found.decided:,} reviewed)"
