"""Two conditions side by side, and all against one: paired differences, said to be exploratory where they are."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from jobs.evaluating import Ask, Evaluated, compare_conditions
from pages.research.evaluation_view import show_left_out
from pages.research.figures import Axes, Interval, forest, palette
from pages.ui.compute import compute
from pages.ui.format import difference
from pages.ui.widgets import how_to_read
from screening.evaluation.paired import Comparison, Difference


def show_comparison(ask: Ask, evaluated: Evaluated) -> None:
    """Choose two conditions; then all of them against the first."""
    show_left_out(evaluated)
    names = tuple(each.name for each in evaluated.comparable)
    if len(names) < 2:
        return
    one = names.index("B=100" if "B=100" in names else names[0])
    left, right = st.columns(2)
    first = left.selectbox("Condition", names, index=one, key="compare_one")
    second = right.selectbox("Compared with it", names, index=len(names) - 1, key="compare_other")
    found, others = compute(compare_conditions, ask, names, first, second, cases=ask.state.accepted)
    rows = [{"": name, f"{second} less {first}": _difference(name, each)} for name, each in found.differences]
    st.dataframe(pd.DataFrame(rows), hide_index=True)
    how_to_read(
        f'Only "{second}" correct: {found.only_second:,}; only "{first}" correct: {found.only_first:,} '
        f"(McNemar p {_p_words(found.p_value)}).",
        "- An escalated text is not decided correctly. 95% intervals over the same texts: Bonett and Price for shares; "
        "for calls one that holds for every distribution between the fewest and the most calls of a text.\n"
        "- Each interval, like p, is for itself.",
    )
    st.header(f"All conditions against {first}")
    _show_forest(first, others)
    table = [_line(each) for each in others]
    st.dataframe(pd.DataFrame(table), hide_index=True, height="content")
    how_to_read(
        f"Intervals of one column hold for all {len(others)} conditions together at 95% (Bonferroni).",
        "The best of them may be chosen from one column. Choosing by several columns, or what is compared with "
        "after seeing this table, is exploratory: confirm it on other texts.",
    )


def _show_forest(first: str, others: Sequence[Comparison]) -> None:
    """One paired difference of all conditions to the first, with intervals that hold together."""
    names = [name for name, _ in others[0].differences]
    chosen = st.segmented_control("Figure", names, default=names[0], required=True, key="difference_figure")
    lines, percent = [], not chosen.startswith("Calls")
    for each in others:
        found = dict(each.differences).get(chosen)
        if found is not None and found.value is not None:
            hover = f"{each.second}: {_difference(chosen, found)}"
            lines.append(Interval(name=each.second, value=found.value, low=found.low, high=found.high, hover=hover))
    axes = Axes(title=f"{chosen}: less {first}", x="difference", y="", y_percent=percent)
    figure = forest(lines, axes, palette(st.context.theme.type), reference=0.0)
    st.plotly_chart(figure, key="differences", alt=f"Paired differences to {first} with intervals that hold together")


def _p_words(p: float) -> str:
    return "< .001" if p < 0.001 else f"= {p:.3f}"


def _line(found: Comparison) -> dict[str, str]:
    return {"Condition": found.second} | {name: _difference(name, each) for name, each in found.differences}


def _difference(name: str, found: Difference) -> str:
    return difference(found, share=not name.startswith("Calls"))
