"""The nodes as rows, each with its evidence against its lines, as HTML for `st.html`: pure functions, and fast."""

from collections.abc import Sequence
from html import escape

from pages.components.band_chart import bands_fold_html
from pages.components.evidence_bars import bars_html, legend_html
from pages.components.trail import ABSTAINED, NodeView, State, TracePoint

_ICONS = {
    State.WAITING: "○",
    State.SAMPLING: "●",
    State.IDENTIFIED: "✓",
    State.EXHAUSTED: "◇",
    State.CURTAILED: "◇",
    State.TOO_CLOSE: "◇",
    State.NO_ANSWER: "!",
    State.NOT_ASKED: "–",
    State.STOPPED: "■",
}


def live_html(views: Sequence[NodeView], *, ended: bool) -> str:
    """All nodes, one under the other. Every row keeps its height while it fills.

    The shares with their bands are one click away once it has ``ended``: a tick would close them again.
    """
    return f'<div class="sl-live">{"".join(rows_html(views, ended=ended))}{key_html(views)}</div>'


def rows_html(views: Sequence[NodeView], *, ended: bool) -> tuple[str, ...]:
    """Each node's row."""
    return tuple(_node(number, view, ended) for number, view in enumerate(views, start=1))


def key_html(views: Sequence[NodeView]) -> str:
    """What the bars of these rows mean."""
    sampled = [view.rule for view in views if view.distribution is None]
    return legend_html(sampled, read_off=len(sampled) < len(views))


def budget_html(calls: int, budget: int, *, cost_usd: float | None, seconds: float | None) -> str:
    """Calls used of the most there can be, what they cost and how long it has taken."""
    share = min(100.0, 100 * calls / budget) if budget else 0.0
    time = f" · {seconds:.0f} s" if seconds is not None else ""
    return (
        f'<div class="sl-live sl-budget"><div class="w">'
        f"<div><b>{calls}</b> of at most {budget} calls{time}</div>"
        f"<span>{escape(money(cost_usd))}</span></div>"
        f'<div class="sl-bar" aria-hidden="true"><i style="width:{share:.1f}%"></i></div></div>'
    )


def money(cost_usd: float | None) -> str:
    """An amount in US dollars; unknown is not free.

    >>> money(None), money(0.0), money(0.00042), money(12.345)
    ('cost unknown', 'no cost', '$0.0004', '$12.35')
    """
    if cost_usd is None:
        return "cost unknown"
    if cost_usd == 0:
        return "no cost"
    return f"${cost_usd:,.2f}" if cost_usd >= 1 else f"${cost_usd:.4f}"


def badge_html(view: NodeView) -> str:
    """The node's state in words with its mark; colour only repeats it."""
    words = f"Answered: {view.label}" if view.state is State.IDENTIFIED else view.state.value
    return f'<span class="sl-badge sl-c-{_colour(view)}">{_ICONS[view.state]} {escape(words)}</span>'


def _colour(view: NodeView) -> str:
    if view.label is not None:
        return view.label.value
    if view.state in ABSTAINED:
        return "escalate"
    return "open" if view.state is State.SAMPLING else "quiet"


def _node(number: int, view: NodeView, ended: bool) -> str:
    drawn = ended and view.compared and view.distribution is None
    folded = bands_fold_html(view.rule, view.codes) if drawn else _NO_BANDS
    return (
        f'<section class="sl-node" aria-label="{escape(view.title, quote=True)}">'
        f'<div><h4>{number} {escape(view.title)}</h4><p class="q">{escape(view.question)}</p>{badge_html(view)}</div>'
        f"<div>{bars_html(view.compared, view.rule)}{folded}</div>{_trace(view)}</section>"
    )


_NO_BANDS = '<p class="sl-later" aria-hidden="true">&nbsp;</p>'
"""Keeps the place of the shares."""


def _trace(view: NodeView) -> str:
    """How far the label in the lead was from being named, after ever more draws: full height is the line."""
    drawn = f"{view.calls} of at most {view.budget} answers"
    if not view.trace:
        return f'<div class="sl-trace">{drawn if view.calls else ""}</div>'
    bars = "".join(f'<i style="height:{100 * point.reached:.1f}%"></i>' for point in view.trace)
    return (
        f'<div class="sl-trace"><div class="g" aria-hidden="true">{bars}</div>'
        f"{_way(view.trace[-1])} of the way to the threshold after {drawn}</div>"
    )


def _way(point: TracePoint) -> str:
    """In percent, rounded down: 100 is the line itself."""
    return f"{int(100 * point.reached)}%"
