"""Plotly figures of the researcher's pages: data in, figure out, legible on a light and on a dark page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import plotly.graph_objects as go

HEIGHT = 340
"""Pixels of one figure."""


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
_BESIDE = ("top left", "bottom right")
"""Where names stand in turn: beside the bar of their point, and neighbours not on one another."""
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
    """What the axes say and how they run."""

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
    figure = go.Figure()
    for number, one in enumerate(series):
        colour = colours.series[number % len(colours.series)]
        if one.low is not None and one.high is not None and not one.stepped:
            figure.add_trace(_band(one, colour))
        figure.add_trace(_line(one, colour, number, colours))
    return _laid_out(figure, axes, colours)


def bars(names: Sequence[str], values: Sequence[float | None], axes: Axes, colours: Palette) -> go.Figure:
    """One bar a name; an undefined value has none."""
    bar = go.Bar(x=list(names), y=list(values), marker_color=colours.series[0], name=axes.y, showlegend=False)
    return _laid_out(go.Figure(bar), axes, colours)


def histogram(values: Sequence[float], edges: int, axes: Axes, colours: Palette) -> go.Figure:
    """How many values fall in each of ``edges`` equal parts of [0, 1]."""
    bins = {"start": 0.0, "end": 1.0 + 1e-9, "size": 1 / edges}
    trace = go.Histogram(x=list(values), xbins=bins, marker_color=colours.series[0], showlegend=False)
    figure = _laid_out(go.Figure(trace), axes, colours)
    return figure.update_layout(bargap=0.05).update_xaxes(range=[0, 1.02])


def _line(one: Series, colour: str, number: int, colours: Palette) -> go.Scatter:
    return go.Scatter(
        name=one.name,
        x=list(one.x),
        y=list(one.y),
        mode=one.mode + ("+text" if one.names else ""),
        text=list(one.names) if one.names else None,
        textposition=[_BESIDE[at % len(_BESIDE)] for at in range(len(one.x))],
        textfont={"color": colours.ink, "size": 11},
        line={
            "color": colour,
            "width": 2,
            "dash": _DASHES[number % len(_DASHES)],
            "shape": "hv" if one.stepped else "linear",
        },
        marker={"color": colour, "size": 9, "symbol": _MARKERS[number % len(_MARKERS)]},
        error_y=_bars(one) if one.stepped else None,
        connectgaps=False,
        legendgroup=one.name,
    )


def _bars(one: Series) -> dict[str, object]:
    """From ``low`` to ``high`` at each point; none where a value is undefined."""
    points = list(zip(one.y, one.low or one.y, one.high or one.y, strict=True))
    above = [0.0 if y is None or high is None else high - y for y, _, high in points]
    below = [0.0 if y is None or low is None else y - low for y, low, _ in points]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1, "width": 3}


def _band(one: Series, colour: str) -> go.Scatter:
    """The band as one closed outline over the points where it is defined."""
    ends = [
        (x, low, high)
        for x, low, high in zip(one.x, one.low or (), one.high or (), strict=True)
        if low is not None and high is not None
    ]
    forth, back = [(x, high) for x, _, high in ends], [(x, low) for x, low, _ in reversed(ends)]
    outline = forth + back
    return go.Scatter(
        x=[x for x, _ in outline],
        y=[y for _, y in outline],
        mode="lines",
        fill="toself",
        fillcolor=_faded(colour),
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
        legendgroup=one.name,
    )


def _faded(colour: str) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"


def _laid_out(figure: go.Figure, axes: Axes, colours: Palette) -> go.Figure:
    figure.update_layout(
        height=HEIGHT,
        margin={"l": 8, "r": 8, "t": 36, "b": 8},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": colours.ink, "size": 13},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"color": colours.ink}},
        hovermode="closest",
    )
    look = {"gridcolor": colours.grid, "zerolinecolor": colours.grid, "color": colours.ink, "automargin": True}
    log = {"type": "log", "dtick": "D2"} if axes.x_log else {}
    figure.update_xaxes(title={"text": axes.x}, **log, **look)
    figure.update_yaxes(
        title={"text": axes.y},
        type="log" if axes.y_log else None,
        tickformat=".0%" if axes.y_percent else None,
        range=list(axes.y_range) if axes.y_range else None,
        **look,
    )
    return figure
