"""Plotly figures of the researcher's pages: data in, figure out, legible on a light and on a dark page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import ceil, floor, log10
from typing import Any, Literal

import plotly.graph_objects as go
import streamlit as st

from screening.evaluation.metrics import Difference, Proportion

HEIGHT, LINE_HEIGHT, LINES = 340, 24, 2
"""Pixels of one figure with so many lines of names below it, and of each more: on a phone every name has its line."""
_INK, _GRID = {"dark": "#e8eef1", "light": "#10191f"}, {"dark": "#35424b", "light": "#dfe5ea"}
_COLORS = {
    "dark": ("#5bb8cf", "#e89a4c", "#b296e3", "#57bd86", "#f0796f", "#98a5ae"),
    "light": ("#0f5f73", "#b45309", "#6d4aa8", "#1d7a46", "#b42318", "#5b6770"),
}
"""Colors of text, of the grid and of the series in order: the theme's own are too faint to read."""
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_WIDE, _HIGH, _LETTER, _LINE = 760.0, 190.0, 7.0, 15.0
"""Pixels that points spread over in a figure of usual width, and those of a letter and a line of a name."""
_PATTERNS = ("", "/", ".", "x")
_MARKERS = ("circle", "x", "square", "diamond", "triangle-up", "cross")

_TOOLS = ["zoom", "pan", "zoomin", "zoomout", "autoscale", "select", "lasso"]
"""Left out of the tool bar, which would cover the title on a phone: to zoom in, a box is drawn."""

Trace = dict[str, Any]
"""A trace as plain values: put together one property after the other, a figure takes five times as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line or cloud of points. None in ``y`` is an undefined value: a gap, never 0.

    ``low`` and ``high`` make a band around it, or a bar at each point of a ``stepped`` one, whose line says nothing
    of what lies between; ``names`` are written beside the points.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    names: Sequence[str] | None = None
    mode: Literal["lines", "markers", "lines+markers"] = "lines"
    stepped: bool = False


def curves(
    series: Sequence[Series],
    title: str,
    x: str,
    y: str,
    *,
    x_log: bool = False,
    y_log: bool = False,
    y_percent: bool = False,
    y_range: tuple[float, float] | None = None,
) -> go.Figure:
    """Lines and points in one figure. Series differ in dash and marker too, not by color alone."""
    traces, placed = [], _place_names(series, x_log=x_log)
    for number, one in enumerate(series):
        color = _color(number)
        if one.low is not None and one.high is not None and not one.stepped:
            traces.append(_band(one, color))
        traces.append(_line(one, placed[number], color, number))
    figure = _figure(traces, title, x, y)
    figure.update_yaxes(tickformat=".0%" if y_percent else None, range=y_range)
    if x_log:
        figure.update_xaxes(_log_axis(traces, "x"))
    if y_log:
        figure.update_yaxes(_log_axis(traces, "y"))
    return figure


def forest(
    lines: Mapping[str, tuple[Proportion | Difference, str]],
    title: str,
    x: str,
    *,
    percent: bool = True,
    reference: float | None = None,
) -> go.Figure:
    """Values with their intervals, the first on top; a range without a value is a bar without a square."""
    shown = []
    for name, (found, words) in lines.items():
        if found.low is not None and found.high is not None:
            middle = found.low / 2 + found.high / 2 if found.value is None else found.value
            symbol = "line-ns" if found.value is None else "square"
            shown.append((name, words, middle, found.high - middle, middle - found.low, symbol))
    names, words_of, middles, above, below, symbols = map(list, zip(*shown, strict=True)) if shown else [[]] * 6
    ends = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    trace: Trace = {
        "type": "scatter",
        "mode": "markers",
        "x": middles,
        "y": names,
        "hovertext": words_of,
        "hoverinfo": "text",
        "marker": {"color": _color(0), "size": 9, "symbol": symbols},
        "error_x": ends | {"color": _color(0), "thickness": 2, "width": 4},
        "showlegend": False,
    }
    figure = _figure([trace], title, x, "")
    figure.update_layout(height=110 + 26 * len(shown), yaxis_autorange="reversed")
    figure.update_xaxes(tickformat=".0%" if percent else None)
    if reference is not None:
        figure.add_vline(x=reference, line_dash="dot", line_color=_INK[_theme()], line_width=1)
    return figure


def bars(names: Sequence[str], groups: Mapping[str, Sequence[float | None]], title: str, y: str) -> go.Figure:
    """For each name a bar of each group; of several, which differ in pattern too, with its number on it."""
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": group,
            "x": list(names),
            "y": list(values),
            "text": [f"{value:,}" for value in values] if len(groups) > 1 else None,
            "textposition": "outside",
            "cliponaxis": False,
            "marker": {"color": _color(place), "pattern": {"shape": _PATTERNS[place % len(_PATTERNS)]}},
            "showlegend": len(groups) > 1,
        }
        for place, (group, values) in enumerate(groups.items())
    ]
    return _figure(traces, title, "", y).update_layout(barmode="group")


def histogram(counted: Sequence[tuple[float, int]], edges: int, title: str, x: str, y: str) -> go.Figure:
    """A bar for each of ``edges`` equal parts of [0, 1]: values in it or on its lower edge; 1 counts in the last."""
    heights = [0] * edges
    for value, number in counted:
        heights[min(edges - 1, floor(value * edges + 1e-9))] += number
    trace = {
        "type": "bar",
        "x": [(place + 0.5) / edges for place in range(edges)],
        "y": heights,
        "width": 0.95 / edges,
        "hovertext": [f"{place / edges:.2f} to {(place + 1) / edges:.2f}" for place in range(edges)],
        "hoverinfo": "text+y",
        "marker": {"color": _color(0)},
        "showlegend": False,
    }
    return _figure([trace], title, x, y).update_layout(xaxis_range=[0, 1.02])


def _theme() -> str:
    return "dark" if st.context.theme.type == "dark" else "light"


def _color(number: int) -> str:
    colors = _COLORS[_theme()]
    return colors[number % len(colors)]


def _place_names(series: Sequence[Series], *, x_log: bool) -> list[tuple[list[str], list[str]]]:
    """For each series its names and where they stand: beside their point, where neither another point nor another name
    is, and within the figure; a name without such a place is left to the pointer and the table.
    """
    placed = [(["" for _ in one.x], ["top right" for _ in one.x]) for one in series]
    if not any(one.names for one in series):
        return placed
    xs = [[log10(x) if x_log and x > 0 else x for x in one.x] for one in series]
    every_x, every_y = list(chain(*xs)), [y for one in series for y in chain(one.y, one.low or (), one.high or ())]
    known = [y for y in every_y if y is not None]
    left, bottom = min(every_x), min(known, default=0.0)
    wide, high = max(every_x) - left or 1.0, max(known, default=1.0) - bottom or 1.0
    spots = sorted(  # in pixels; undefined ones far outside
        (_WIDE * (x - left) / wide, -9_999.0 if y is None else _HIGH * (y - bottom) / high, number, at)
        for number, one in enumerate(series)
        for at, (x, y) in enumerate(zip(xs[number], one.y, strict=True))
    )
    taken = [(x - 3, x + 3, y - 3, y + 3) for x, y, *_ in spots]
    for x, y, number, at in spots:
        name = (series[number].names or {at: ""})[at]
        length = _LETTER * len(name)
        for down, across in product(("top", "bottom"), ("right", "left")) if name else ():
            start, under = x + 4 if across == "right" else x - 4 - length, y + 4 if down == "top" else y - 4 - _LINE
            box = (start, start + length, under, under + _LINE)
            if box[1] <= 1.04 * _WIDE and not any(
                box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3] for other in taken
            ):
                taken.append(box)
                placed[number][0][at], placed[number][1][at] = name, f"{down} {across}"
                break
    return placed


def _line(one: Series, shown: tuple[list[str], list[str]], color: str, number: int) -> Trace:
    dash, marker = _DASHES[number % len(_DASHES)], _MARKERS[number % len(_MARKERS)]
    return {
        "type": "scatter",
        "name": one.name,
        "x": list(one.x),
        "y": list(one.y),
        "mode": one.mode + ("+text" if one.names else ""),
        "text": shown[0] if one.names else None,
        "textposition": shown[1] if one.names else None,
        "hovertext": list(one.names) if one.names else None,
        "textfont": {"color": _INK[_theme()], "size": 11},
        "line": {"color": color, "width": 2, "dash": dash, "shape": "hv" if one.stepped else "linear"},
        "marker": {"color": color, "size": 9, "symbol": marker},
        "error_y": _bars(one) if one.stepped else None,
        "connectgaps": False,
        "legendgroup": one.name,
    }


def _bars(one: Series) -> dict[str, object]:
    """From ``low`` to ``high`` at each point; none where a value is undefined."""
    points = list(zip(one.y, one.low or one.y, one.high or one.y, strict=True))
    above = [0.0 if y is None or high is None else high - y for y, _, high in points]
    below = [0.0 if y is None or low is None else y - low for y, low, _ in points]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1, "width": 3}


def _band(one: Series, color: str) -> Trace:
    """The band as one closed outline over the points where it is defined."""
    ends = [
        (x, low, high)
        for x, low, high in zip(one.x, one.low or (), one.high or (), strict=True)
        if low is not None and high is not None
    ]
    outline = [(x, high) for x, _, high in ends] + [(x, low) for x, low, _ in reversed(ends)]
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return {
        "type": "scatter",
        "x": [x for x, _ in outline],
        "y": [y for _, y in outline],
        "mode": "lines",
        "fill": "toself",
        "fillcolor": f"rgba({red},{green},{blue},0.18)",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": one.name,
    }


def _figure(traces: Sequence[Trace], title: str, x: str, y: str) -> go.Figure:
    theme = _theme()
    ink = {"color": _INK[theme]}
    axis = {"tickfont": ink, "gridcolor": _GRID[theme], "zerolinecolor": _GRID[theme], "automargin": True}
    layout = {
        "height": HEIGHT + LINE_HEIGHT * max(0, sum(trace.get("showlegend", True) for trace in traces) - LINES),
        "title": {"text": title, "x": 0, "xref": "container", "font": ink | {"size": 15}},
        "margin": {"l": 8, "r": 8, "t": 40, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": ink | {"size": 13},
        # below all else, where it takes as many lines as it needs: above, it ran into the title on a phone
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "font": ink},
        "hovermode": "closest",
        "modebar": {"remove": _TOOLS, "bgcolor": "rgba(0,0,0,0)", "color": _INK[theme], "activecolor": _INK[theme]},
        "xaxis": axis | {"title": {"text": x, "font": ink}},
        "yaxis": axis | {"title": {"text": y, "font": ink}},
    }
    return go.Figure(data=list(traces), layout=layout)


def _log_axis(traces: Sequence[Trace], axis: Literal["x", "y"]) -> dict[str, object]:
    """A logarithmic axis with its numbers written out, as many as are read without crowding."""
    values = [float(one) for trace in traces for one in trace[axis] if one is not None and one > 0]
    ticks = log_ticks(min(values, default=1.0), max(values, default=10.0))
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,.10g}" for tick in ticks]}


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every power of ten from ``low`` to ``high``; the powers alone where they span more than three.

    >>> log_ticks(3, 60), log_ticks(0.05, 700)
    ([2.0, 5.0, 10.0, 20.0, 50.0], [0.01, 0.1, 1.0, 10.0, 100.0])
    """
    first, last = floor(log10(low)), ceil(log10(high))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [tick for at, tick in enumerate(ticks) if (at + 1 == len(ticks) or ticks[at + 1] > low) and tick <= high]
