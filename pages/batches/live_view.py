"""The nodes as rows on one axis from 0 to 1, as HTML for `st.html`: pure functions, a few milliseconds a tick."""

from collections.abc import Sequence
from html import escape

from pages.batches.trail import ABSTAINED, NodeView, State, TracePoint
from screening.labels import Label
from screening.statistics.rules.protocol import Arm

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


def live_html(views: Sequence[NodeView]) -> str:
    """All nodes, one under the other. Every row keeps its height while it fills. `STYLE` belongs to it, once a page."""
    rows = "".join(_node(number, view) for number, view in enumerate(views, start=1))
    return f'<div class="sl-live">{rows}</div>'


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
    words = f"Identified: {view.label}" if view.state is State.IDENTIFIED else view.state.value
    return f'<span class="sl-badge sl-c-{_colour(view)}">{_ICONS[view.state]} {escape(words)}</span>'


def _colour(view: NodeView) -> str:
    if view.label is not None:
        return view.label.value
    if view.state in ABSTAINED:
        return "escalate"
    return "open" if view.state is State.SAMPLING else "quiet"


def _node(number: int, view: NodeView) -> str:
    return (
        f'<section class="sl-node" aria-label="{escape(view.title, quote=True)}">'
        f'<div><h4>{number} {escape(view.title)}</h4><p class="q">{escape(view.question)}</p>{badge_html(view)}</div>'
        f'<div class="sl-arms">{node_arms_html(view)}</div>{_trace(view.trace, view.budget)}</section>'
    )


def node_arms_html(view: NodeView) -> str:
    """A node's labels with their bands on one axis, the content of a ``sl-arms`` grid."""
    return (
        "".join(_arm(arm, view) for arm in view.arms)
        + '<span class="pad"></span><div class="sl-axis" aria-hidden="true"><span>0</span><span>0.5</span>'
        '<span>1</span></div><span class="pad"></span>'
    )


def _arm(arm: Arm, view: NodeView) -> str:
    chosen = arm.label is view.label
    mark = " out" if arm.eliminated else " chosen" if chosen else ""
    colour = arm.label.value if chosen else "open"
    return (
        f'<span class="n{mark}">{escape(arm.label)}</span>'
        f'<div class="sl-track{mark} sl-c-{colour}" aria-hidden="true">{_drawn(arm)}{_best(view.arms)}</div>'
        f'<span class="v{mark}">{escape(arm_words(arm, chosen=view.label))}</span>'
    )


def arm_words(arm: Arm, *, chosen: Label | None) -> str:
    """A label's estimate, draws and fate in words, such as ``0.93 · 14 draws · out``; a dash before any draw."""
    if arm.estimate is None:
        return "–"
    fate = " · out" if arm.eliminated else " · identified" if arm.label is chosen else ""
    if arm.draws == 0:  # read off, not drawn
        return f"{arm.estimate:.3f} of probability{fate}"
    return f"{arm.estimate:.2f} · {arm.draws} {'draw' if arm.draws == 1 else 'draws'}{fate}"


def _drawn(arm: Arm) -> str:
    if arm.estimate is None:
        return ""
    low, high = max(0.0, arm.low), min(1.0, arm.high)
    return (
        f'<i class="sl-band" style="left:{100 * low:.2f}%;width:{100 * (high - low):.2f}%"></i>'
        f'<i class="sl-dot" style="left:{100 * arm.estimate:.2f}%"></i>'
    )


def _best(arms: Sequence[Arm]) -> str:
    best = max(arm.low for arm in arms)
    return f'<i class="sl-best" style="left:{100 * min(1.0, best):.2f}%"></i>' if best > 0 else ""


def _trace(trace: Sequence[TracePoint], budget: int) -> str:
    """The leading label's band width after ever more draws, from 0 (no bar) to 1 (full height)."""
    if not trace:
        return '<div class="sl-trace"></div>'
    bars = "".join(f'<i style="height:{100 * min(1.0, point.width):.1f}%"></i>' for point in trace)
    return (
        f'<div class="sl-trace"><div class="g" aria-hidden="true">{bars}</div>'
        f"band {trace[-1].width:.2f} wide after {trace[-1].draws} of {budget} draws</div>"
    )
