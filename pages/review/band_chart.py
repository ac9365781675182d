"""Each label's estimate and band against the number of draws: three panels side by side, as plain HTML and CSS.

`st.html` removes drawings (SVG), so bands and lines are elements cut to their shape.
"""

from collections.abc import Sequence
from html import escape

from screening.engine.draws import decode_draws
from screening.engine.pipeline import NodeConfig
from screening.labels import LABELS, Label
from screening.statistics.rules.protocol import Arm

POINTS = 48
LINE = 1.2
"""Half of the estimate line's thickness, in percent of the panel's height."""

STYLE = """<style>
.sl-bands{display:grid;grid-template-columns:repeat(3,1fr);gap:.8rem;margin:.3rem 0 .2rem}
.sl-bands figure{margin:0}.sl-bands figcaption{font-size:.78rem;color:var(--soft);display:flex;
 justify-content:space-between;gap:.4rem}
.sl-bands b{font-weight:600;color:var(--ink)}
.sl-plot{position:relative;height:4.4rem;border:1px solid var(--line);border-radius:.2rem;overflow:hidden}
.sl-plot i{position:absolute;inset:0;background:var(--c)}.sl-plot i.b{opacity:.22}
.sl-plot u{position:absolute;top:0;bottom:0;border-left:1px dashed var(--ink)}
</style>"""

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


def bands_html(node: NodeConfig, codes: str) -> str:
    """The three panels, their content in words for who cannot see them. Nothing for no draws."""
    if not codes:
        return ""
    kept, out = steps(node, codes)
    return f'<div class="sl-bands">{"".join(_panel(label, kept, out.get(label)) for label in LABELS)}</div>'


def _panel(label: Label, kept: Sequence[Step], out: int | None) -> str:
    last = kept[-1][0]
    found = [(calls, next(arm for arm in arms if arm.label is label)) for calls, arms in kept]
    seen = [(100 * calls / last, arm) for calls, arm in found if arm.estimate is not None]
    band = [f"{x:.1f}% {_down(arm.high):.1f}%" for x, arm in seen]
    band += [f"{x:.1f}% {_down(arm.low):.1f}%" for x, arm in reversed(seen)]
    line = [f"{x:.1f}% {_down(arm.estimate) - LINE:.1f}%" for x, arm in seen]
    line += [f"{x:.1f}% {_down(arm.estimate) + LINE:.1f}%" for x, arm in reversed(seen)]
    gone = "" if out is None else f'<u style="left:{100 * out / last:.1f}%"></u>'
    fate = f"out at {out}" if out is not None else f"in after {last}"
    return (
        f'<figure><div class="sl-plot sl-c-{label.value}" role="img" '
        f'aria-label="{escape(_words(label, found[-1][1]), quote=True)}">'
        f'<i class="b" style="clip-path:polygon({",".join(band)})"></i>'
        f'<i style="clip-path:polygon({",".join(line)})"></i>{gone}</div>'
        f"<figcaption><b>{label.value}</b><span>{fate}</span></figcaption></figure>"
    )


def _words(label: Label, arm: Arm) -> str:
    return f"{label}: band from {max(0.0, arm.low):.2f} to {min(1.0, arm.high):.2f} after the last draw"


def _down(share: float | None) -> float:
    """Percent from the top."""
    return 100 * (1 - min(1.0, max(0.0, share or 0.0)))
