"""Interval widths, sample sizes, decidable margins and regret, with the paper's claims beside what the code shows."""

from math import isfinite, log

import pandas as pd
import streamlit as st

from pages.research import theory_numbers as theory
from pages.research.figures import Series, curves
from pages.ui.context import compute_numbers
from pages.ui.words import WORDS, percent
from screening.stopping.theory import SIMULATED, Schedule, expected_wrong_commits

st.title("Methods")
st.write("Guarantees, cost and differences from the paper.")
level = st.select_slider("Error bound δ", (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2), 0.05)

st.header("Confidence-interval width by number of responses")
series = compute_numbers(theory.radius_series, level)
title, y = "How far off an estimate may be", "half width of the band"
figure = curves(series, title, "responses (log scale)", y, x_log=True, y_range=(0, 1))
st.plotly_chart(figure, key="radii", alt="Half widths of four bounds against the number of responses")
st.caption("Every line falls as responses are added; the lower it is, the sooner a label is told apart.")
st.caption(WORDS["methods"]["radii"])

st.header("Smallest margin a budget can decide")
gaps = pd.DataFrame.from_dict(theory.decidable_gaps(level), orient="index")
table = pd.DataFrame({"Budget per agent": gaps.index})
for name in gaps:
    nothing = "no certificate" if name == "Pooled, certified" else "cannot decide anything"
    table[name] = [nothing if pd.isna(gap) else f"{gap:.3f}" for gap in gaps[name]]
st.table(table, hide_index=True)
st.caption("Margin: the probability of the most frequent answer minus that of the second. Pooled: two labels seen.")

st.header("Calls for one distribution of answers")
left, right = st.columns(2)
mode = left.slider("Probability of the most probable label", 0.4, 1.0, 0.9, 0.05)
budget = right.select_slider("Budget per agent", theory.BUDGETS[1:-1], 150)
rest = (1 - mode) / 2
needed = compute_numbers(theory.calls_needed, (mode, rest, rest), level, budget)
for cell, (name, (calls, named)) in zip(st.columns(len(needed)), needed.items(), strict=True):
    note = {theory.FEWEST: None, theory.FIXED: "one analysis, size fixed"}.get(
        name, "no certificate" if named is None else f"correct modal label: {percent(named)}"
    )
    said = "none" if calls is None else f"{calls:,.1f}" if isfinite(calls) else "no number suffices"
    cell.metric(name, said, note, delta_color="off", delta_arrow="off")
st.caption(WORDS["methods"]["calls"].format(margin=mode - rest, budget=budget, simulated=SIMULATED))
st.caption(WORDS["methods"]["certified"])

st.header("Wrong decisions over many cases")
simulated = st.select_slider("Budget of the simulated agent", (50, 100, 150, 200), 100)
regret = compute_numbers(theory.simulated_regret, level, simulated)
left, right = st.columns(2)
series = [
    Series(name=curve.name, x=list(range(1, len(curve.wrong) + 1)), y=[float(value) for value in curve.wrong])
    for curve in regret
]
figure = curves(series, "Simulated wrong decisions", "cases T", f"wrong decisions (mean of {theory.RUNS} runs)")
left.plotly_chart(figure, key="regret", alt="Simulated wrong decisions")
grid = sorted({round(theory.CASES ** (step / 40)) for step in range(41)})
series = [
    Series(name=f"Σ δ_t, {schedule} δ", x=grid, y=[expected_wrong_commits(schedule, level, cases) for cases in grid])
    for schedule in Schedule
]
series.append(Series(name="δ(1 + ln T)", x=grid, y=[level * (1 + log(cases)) for cases in grid]))
y = "expected wrong decisions (log scale)"
figure = curves(series, "What the bounds allow", "cases T (log scale)", y, x_log=True, y_log=True)
right.plotly_chart(figure, key="bound", alt="Bounds by schedule")
left.caption("The steeper a line, the more often its rule names a label that is not the modal one.")
right.caption("Under a constant δ the bound grows with the cases; where δ falls from case to case it flattens.")
allowed = ["none"] + [f"{expected_wrong_commits(schedule, level, theory.CASES):.2f}" for schedule in Schedule]
rows = [
    {
        "Rule": curve.name,
        "Wrong decisions": f"{curve.wrong[-1]:.2f}",
        "Bound": bound,
        "Mean calls": f"{curve.mean_calls:.1f}",
        "No decision": percent(curve.abstained),
    }
    for curve, bound in zip(regret, allowed, strict=True)
]
st.table(rows, hide_index=True)
st.caption(WORDS["methods"]["regret"].format(cases=theory.CASES, runs=theory.RUNS))

st.header("The paper's claims beside what the code shows")
for paper, shown in theory.claims(level):
    with st.container(border=True):
        st.markdown(f"**Paper:** {paper}")
        st.write(shown)
