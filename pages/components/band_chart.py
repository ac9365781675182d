"""Each label's estimate and band against the number of draws, as a small drawing a node: three panels side by side."""

from collections.abc import Sequence
from html import escape

from screening.draws import decode_draws
from screening.labels import LABELS, Label
from screening.pipeline import NodeConfig
from screening.rules.protocol import Arm

POINTS = 48
WIDTH, HEIGHT, GAP, TOP = 150, 64, 16, 14

Step = tuple[int, tuple[Arm, ...]]


def steps(node: NodeConfig, codes: str) -> tuple[list[Step], dict[Label, int]]:
    """About `POINTS` moments of the replayed draws, and after how many draws each label went out."""
    state = node.rule.rule().start()
    kept: list[Step] = []
    out: dict[Label, int] = {}
    every = max(1, -(-len(codes) // POINTS))
    for number, draw in enumerate(decode_draws(codes), start=1):
        state = state.observe(draw.label)
        arms = state.arms()
        for arm in arms:
            if arm.eliminated:
                out.setdefault(arm.label, number)
        if number % every == 0 or number == len(codes):
            kept.append((number, arms))
    return kept, out


def bands_svg(node: NodeConfig, codes: str) -> str:
    """The drawing, with its content in words for who cannot see it. Nothing for no draws."""
    if not codes:
        return ""
    kept, out = steps(node, codes)
    panels = "".join(_panel(number, label, kept, out.get(label)) for number, label in enumerate(LABELS))
    words = "; ".join(_words(label, kept[-1][1], out.get(label)) for label in LABELS)
    width = 3 * WIDTH + 2 * GAP
    return (
        f'<svg viewBox="0 0 {width} {HEIGHT + TOP + 13}" role="img" aria-label="{escape(words, quote=True)}" '
        f'font-size="9" fill="currentColor">{panels}</svg>'
    )


def _words(label: Label, arms: Sequence[Arm], out: int | None) -> str:
    arm = next(each for each in arms if each.label is label)
    fate = f", out after {out} draws" if out else ""
    return f"{label}: band from {max(0.0, arm.low):.2f} to {min(1.0, arm.high):.2f} at the end{fate}"


def _panel(number: int, label: Label, kept: Sequence[Step], out: int | None) -> str:
    left = number * (WIDTH + GAP)
    last = kept[-1][0]
    found = [(calls, next(arm for arm in arms if arm.label is label)) for calls, arms in kept]
    seen = [(left + WIDTH * calls / last, arm) for calls, arm in found if arm.estimate is not None]
    upper = [f"{x:.1f},{_y(arm.high):.1f}" for x, arm in seen]
    lower = [f"{x:.1f},{_y(arm.low):.1f}" for x, arm in reversed(seen)]
    line = " ".join(f"{x:.1f},{_y(arm.estimate or 0.0):.1f}" for x, arm in seen)
    colour = f'class="sl-c-{label.value}" style="color:var(--c)"'
    gone = "" if out is None else _gone(left, WIDTH * out / last, out)
    return (
        f'<text x="{left}" y="9" font-weight="600">{label.value}</text>'
        f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="currentColor" '
        f'stroke-opacity=".25"/><g {colour}><polygon points="{" ".join(upper + lower)}" fill="currentColor" '
        f'fill-opacity=".2"/><polyline points="{line}" fill="none" stroke="currentColor" stroke-width="1.6"/></g>{gone}'
        f'<text x="{left}" y="{TOP + HEIGHT + 11}" fill-opacity=".75">1</text>'
        f'<text x="{left + WIDTH}" y="{TOP + HEIGHT + 11}" text-anchor="end" fill-opacity=".75">{last} draws</text>'
    )


def _gone(left: float, along: float, out: int) -> str:
    x = left + along
    anchor = f'x="{x - 3:.1f}" text-anchor="end"' if along > WIDTH / 2 else f'x="{x + 3:.1f}"'
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{TOP + HEIGHT}" stroke="currentColor" stroke-dasharray="3 2"/>'
        f'<text {anchor} y="{TOP + 10}">out at {out}</text>'
    )


def _y(share: float) -> float:
    return TOP + HEIGHT * (1 - min(1.0, max(0.0, share)))
