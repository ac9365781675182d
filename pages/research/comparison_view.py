"""Two conditions side by side, and all against one: paired differences, said to be exploratory where they are."""

import pandas as pd
import streamlit as st

from jobs.evaluating import Ask, Evaluated, compare_conditions
from pages.components.computed import compute
from pages.research.evaluation_view import show_left_out
from screening.research.comparison import Comparison
from screening.statistics.paired import FEWEST, Difference


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
    rows = [{"": name, f"{second} less {first}": difference_words(name, each)} for name, each in found.differences]
    st.dataframe(pd.DataFrame(rows), hide_index=True)
    st.caption(
        f"Right in {second} alone: {found.only_second:,}; in {first} alone: {found.only_first:,}; exact McNemar "
        f"p = {found.p_value:.3g}. 95 % intervals by a paired bootstrap over the same cases, never narrower "
        "than a formula's for few cases; each, like p, is for itself. An escalation counts as not right."
    )
    st.header(f"All conditions against {first}")
    table = [_line(each) for each in others]
    st.dataframe(pd.DataFrame(table), hide_index=True, height="content")
    st.caption(
        f"Intervals of one column hold for all {len(others)} conditions together at 95 % (Bonferroni): the best of "
        "them may be chosen from one column. Choosing by several columns, or choosing what is compared with after "
        "seeing this table, is exploratory: confirm it on other cases. Below about 60 texts those of calls may be too "
        "narrow, where a few texts take most of them."
    )


def _line(found: Comparison) -> dict[str, str]:
    return {"Condition": found.second} | {name: difference_words(name, each) for name, each in found.differences}


def few_words(found: Difference) -> str:
    """Why a difference has no interval."""
    return f"no interval yet: {found.n} of {FEWEST} pairs"


def difference_words(name: str, found: Difference) -> str:
    """The difference with its interval and number of cases; rates in percentage points.

    >>> rate = Difference(n=200, first=0.8, second=0.815, value=0.015, low=-0.01, high=0.04, confidence=0.95)
    >>> difference_words("Decided right", rate)
    '+1.5 points (-1.0 to +4.0), n = 200'
    """
    if found.value is None:
        return "not yet: 0 such cases"
    scale, unit = (1, "") if name.startswith("Calls") else (100, " points")
    if found.low is None or found.high is None:
        return f"{scale * found.value:+.1f}{unit} ({few_words(found)})"
    return f"{scale * found.value:+.1f}{unit} ({scale * found.low:+.1f} to {scale * found.high:+.1f}), n = {found.n:,}"
