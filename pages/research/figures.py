"""Plotly figures of the researcher's pages: data in, figure out, legible on a light and on a dark page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any, Literal

import plotly.graph_objects as go

HEIGHT, LINE_HEIGHT, LINES = 340, 24, 2
"""Pixels of one figure with so many lines of names below it, and of each more: on a phone every name has its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """Colours of one theme: of the series in order, of text, and of the grid. Plotly does not take the theme's own."""

    series: tuple[str, ...]
    ink: str
    grid: str


LIGHT = Palette(
    series=("#0f5f73", "#b45309", "#6d4aa8", "#1d7a46", "#b42318", "#5b6770"), ink="#10191f", grid="#dfe5ea"
)
DARK = Palette(series=("#5bb8cf", "#e89a4c", "#b296e3", "#57bd86", "#f0796f", "#98a5ae"), ink="#e8eef1", grid="#35424b")

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_WIDE, _HIGH, _LETTER, _LINE = 760.0, 190.0, 7.0, 15.0
"""Pixels that points spread over in a figure of usual width, and those of a letter and a line of a name."""
_PATTERNS = ("", "/", ".", "x")
_MARKERS = ("circle", "x", "square", "diamond", "triangle-up", "cross")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What the figure is called, what the axes say and how they run."""

    title: str
    x: str
    y: str
    x_log: bool = False
    y_log: bool = False
    y_percent: bool = False
    y_range: tuple[float, float] | None = None


def palette(theme: str | None) -> Palette:
    """The palette of Streamlit's theme type: "dark", or anything else for light."""
    return DARK if theme == "dark" else LIGHT


def curves(series: Sequence[Series], axes: Axes, colours: Palette) -> go.Figure:
    """Lines and points in one figure. Series differ in dash and marker too, not by colour alone."""
    traces = []
    shown = _without_collisions(series, axes)
    for number, one in enumerate(series):
        colour = colours.series[number % len(colours.series)]
        if one.low is not None and one.high is not None and not one.stepped:
            traces.append(_band(one, colour))
        traces.append(_line(one, shown[number], colour, number, colours))
    return _figure(traces, axes, colours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One line of a forest plot; a None in ``value`` is a range without a best guess, in ``low`` nothing to draw."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    hover: str = ""


def forest(lines: Sequence[Interval], axes: Axes, colours: Palette, reference: float | None = None) -> go.Figure:
    """Values with their intervals, one below the other, the first on top; a dotted line marks the ``reference``."""
    shown = [one for one in lines if one.low is not None and one.high is not None]
    middles = [(one.low or 0) / 2 + (one.high or 0) / 2 if one.value is None else one.value for one in shown]
    trace: Trace = {
        "type": "scatter",
        "mode": "markers",
        "x": middles,
        "y": [one.name for one in shown],
        "hovertext": [one.hover or one.name for one in shown],
        "hoverinfo": "text",
        "marker": {
            "color": colours.series[0],
            "size": 9,
            "symbol": ["line-ns" if one.value is None else "square" for one in shown],
        },
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [(one.high or 0) - middle for one, middle in zip(shown, middles, strict=True)],
            "arrayminus": [middle - (one.low or 0) for one, middle in zip(shown, middles, strict=True)],
            "color": colours.series[0],
            "thickness": 2,
            "width": 4,
        },
        "showlegend": False,
    }
    figure = _figure([trace], axes, colours)
    figure.update_layout(height=110 + 26 * len(shown), yaxis_autorange="reversed", yaxis_tickformat=None)
    figure.update_xaxes(tickformat=".0%" if axes.y_percent else None)
    if reference is not None:
        figure.add_vline(x=reference, line_dash="dot", line_color=colours.ink, line_width=1)
    return figure


def grouped_bars(names: Sequence[str], groups: Mapping[str, Sequence[int]], axes: Axes, colours: Palette) -> go.Figure:
    """For each name a bar of each group, with its number written on it; groups differ in pattern too."""
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": group,
            "x": list(names),
            "y": list(values),
            "text": [f"{value:,}" for value in values],
            "textposition": "outside",
            "cliponaxis": False,
            "marker": {
                "color": colours.series[place % len(colours.series)],
                "pattern": {"shape": _PATTERNS[place % len(_PATTERNS)]},
            },
        }
        for place, (group, values) in enumerate(groups.items())
    ]
    return _figure(traces, axes, colours).update_layout(barmode="group")


def bars(names: Sequence[str], values: Sequence[float | None], axes: Axes, colours: Palette) -> go.Figure:
    """One bar a name; an undefined value has none."""
    bar = {"type": "bar", "x": list(names), "y": list(values), "name": axes.y, "showlegend": False}
    return _figure([bar | {"marker": {"color": colours.series[0]}}], axes, colours)


def histogram(counted: Sequence[tuple[float, int]], edges: int, axes: Axes, colours: Palette) -> go.Figure:
    """How many values fall in each of ``edges`` equal parts of [0, 1], the last with its upper end, from how often each
    value occurs.
    """
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
        "marker": {"color": colours.series[0]},
        "showlegend": False,
    }
    return _figure([trace], axes, colours).update_layout(xaxis_range=[0, 1.02])


Trace = dict[str, Any]
"""A trace as plain values: put together one property after the other, a figure takes five times as long."""
Box = tuple[float, float, float, float]
"""Left, right, bottom and top of what is drawn."""


def _without_collisions(series: Sequence[Series], axes: Axes) -> list[tuple[list[str], list[str]]]:
    """For each series its names and where they stand: beside their point, where neither another point nor another name
    is, and within the figure; a name without such a place is left to the pointer and the table.
    """
    found = [(["" for _ in one.x], ["top right" for _ in one.x]) for one in series]
    if not any(one.names for one in series):
        return found
    spots = [
        (number, at, x, y) for number, one in enumerate(series) for at, (x, y) in enumerate(_places(one, series, axes))
    ]
    taken: list[Box] = [(x - 3, x + 3, y - 3, y + 3) for _, _, x, y in spots]
    for number, at, x, y in sorted(spots, key=lambda spot: (spot[2], spot[3])):
        names = series[number].names
        for where, box in _boxes(names[at], x, y) if names else ():
            if box[1] <= 1.04 * _WIDE and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                found[number][0][at], found[number][1][at] = names[at] if names else "", where
                break
    return found


def _places(one: Series, series: Sequence[Series], axes: Axes) -> list[tuple[float, float]]:
    """The points of a series in pixels, undefined ones far outside; the axes span all points."""
    xs = [_scale(x, axes.x_log) for each in series for x in each.x]
    ys = [y for each in series for of_one in (each.y, each.low or (), each.high or ()) for y in of_one if y is not None]
    low_x, low_y = min(xs, default=0.0), min(ys, default=0.0)
    wide, high = max(xs, default=1.0) - low_x or 1.0, max(ys, default=1.0) - low_y or 1.0
    return [
        (_WIDE * (_scale(x, axes.x_log) - low_x) / wide, -9_999.0 if y is None else _HIGH * (y - low_y) / high)
        for x, y in zip(one.x, one.y, strict=True)
    ]


def _scale(value: float, log: bool) -> float:
    return log10(value) if log and value > 0 else value


def _boxes(name: str, x: float, y: float) -> Iterator[tuple[str, Box]]:
    wide = _LETTER * len(name)
    for across, left in (("right", x + 4), ("left", x - 4 - wide)):
        for along, bottom in (("top", y + 4), ("bottom", y - 4 - _LINE)):
            yield f"{along} {across}", (left, left + wide, bottom, bottom + _LINE)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _line(one: Series, shown: tuple[list[str], list[str]], colour: str, number: int, colours: Palette) -> Trace:
    return {
        "type": "scatter",
        "name": one.name,
        "x": list(one.x),
        "y": list(one.y),
        "mode": one.mode + ("+text" if one.names else ""),
        "text": shown[0] if one.names else None,
        "textposition": shown[1] if one.names else None,
        "hovertext": list(one.names) if one.names else None,
        "textfont": {"color": colours.ink, "size": 11},
        "line": {
            "color": colour,
            "width": 2,
            "dash": _DASHES[number % len(_DASHES)],
            "shape": "hv" if one.stepped else "linear",
        },
        "marker": {"color": colour, "size": 9, "symbol": _MARKERS[number % len(_MARKERS)]},
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


def _band(one: Series, colour: str) -> Trace:
    """The band as one closed outline over the points where it is defined."""
    ends = [
        (x, low, high)
        for x, low, high in zip(one.x, one.low or (), one.high or (), strict=True)
        if low is not None and high is not None
    ]
    forth, back = [(x, high) for x, _, high in ends], [(x, low) for x, low, _ in reversed(ends)]
    outline = forth + back
    return {
        "type": "scatter",
        "x": [x for x, _ in outline],
        "y": [y for _, y in outline],
        "mode": "lines",
        "fill": "toself",
        "fillcolor": _fade(colour),
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": one.name,
    }


def _fade(colour: str) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"


def _figure(traces: Sequence[Trace], axes: Axes, colours: Palette) -> go.Figure:
    ink = {"color": colours.ink}
    layout = {
        "height": HEIGHT + LINE_HEIGHT * max(0, sum(trace.get("showlegend", True) for trace in traces) - LINES),
        "title": {"text": axes.title, "x": 0, "xref": "container", "font": ink | {"size": 15}},
        "margin": {"l": 8, "r": 8, "t": 40, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": ink | {"size": 13},
        # below all else, where it takes as many lines as it needs: above, it ran into the title on a phone
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "font": ink},
        "hovermode": "closest",
        "xaxis": {**_axis(axes.x, colours), **(_log_axis(traces, "x") if axes.x_log else {})},
        "yaxis": {
            **_axis(axes.y, colours),
            "tickformat": ".0%" if axes.y_percent else None,
            "range": list(axes.y_range) if axes.y_range else None,
            **(_log_axis(traces, "y") if axes.y_log else {}),
        },
    }
    return go.Figure(data=list(traces), layout=layout)


def _axis(title: str, colours: Palette) -> dict[str, object]:
    """Its words and numbers in ink, one by one: the theme's own grey is too faint to read."""
    ink = {"color": colours.ink}
    lines = {"gridcolor": colours.grid, "zerolinecolor": colours.grid, "automargin": True}
    return {"title": {"text": title, "font": ink}, "tickfont": ink} | lines


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
