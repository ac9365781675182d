"""Each label's share of the answers and its band against the number of draws: three panels, as plain HTML and CSS.

`st.html` removes drawings (SVG), so bands and lines are elements cut to their shape.
"""

from collections.abc import Sequence
from functools import lru_cache
from html import escape

from screening.engine.draws import decode_draws
from screening.labels import LABELS, Label
from screening.statistics.rules.pairwise_mixture import PairwiseMixture
from screening.statistics.rules.protocol import Arm, StoppingRule
from screening.statistics.rules.successive_elimination import SuccessiveElimination

POINTS = 48
LINE = 1.2
"""Half of the share line's thickness, in percent of the panel's height."""

Step = tuple[int, tuple[Arm, ...]]


def steps(rule: StoppingRule, codes: str) -> tuple[list[Step], dict[Label, int]]:
    """About `POINTS` moments of the replayed draws, and since which draw each label that is excluded now has been."""
    state = rule.start()
    kept: list[Step] = []
    out: dict[Label, int] = {}
    every = max(1, -(-len(codes) // POINTS))
    for number, draw in enumerate(decode_draws(codes), start=1):
        state = state.observe(draw.label)
        excluded = {each.rival for each in state.comparisons() if each.excluded}
        out = {label: out.get(label, number) for label in LABELS if label in excluded}
        if number % every == 0 or number == len(codes):
            kept.append((number, state.arms()))
    return kept, out


@lru_cache(maxsize=512)
def bands_fold_html(rule: StoppingRule, codes: str) -> str:
    """The three panels, folded until opened by a click or Enter; empty without draws."""
    if not codes:
        return ""
    kept, out = steps(rule, codes)
    panels = "".join(_panel(label, kept, out.get(label)) for label in LABELS)
    return (
        '<details class="sl-fold"><summary>Answer shares over time, with confidence bands</summary>'
        f'<div class="sl-bands"><div class="y" aria-hidden="true"><span>1</span><span>share</span><span>0</span></div>'
        f'{panels}</div><p class="sl-key">Line: the share of the answers so far. Shaded: where the agent\'s own share '
        f"may lie. Gray, from the dashed line on: ruled out. {bands_sentence(rule)}</p></details>"
    )


def bands_sentence(rule: StoppingRule) -> str:
    """How the bands relate to the decision."""
    if isinstance(rule, PairwiseMixture):
        return (
            "The rule does not decide by these bands but by the evidence above, which compares two labels at a time "
            "and is sharper: a label can be ruled out while its band still overlaps another."
        )
    if isinstance(rule, SuccessiveElimination):
        return "A label is dropped at the end of the round in which its band ends below another's."
    return "They hold for the number of votes fixed beforehand, and decide nothing."


def _panel(label: Label, kept: Sequence[Step], out: int | None) -> str:
    last = kept[-1][0]
    found = [(calls, next(arm for arm in arms if arm.label is label)) for calls, arms in kept]
    seen = [(100 * calls / last, arm) for calls, arm in found if arm.estimate is not None]
    band = [f"{x:.1f}% {_down(arm.high):.1f}%" for x, arm in seen]
    band += [f"{x:.1f}% {_down(arm.low):.1f}%" for x, arm in reversed(seen)]
    line = [f"{x:.1f}% {_down(arm.estimate) - LINE:.1f}%" for x, arm in seen]
    line += [f"{x:.1f}% {_down(arm.estimate) + LINE:.1f}%" for x, arm in reversed(seen)]
    gone = "" if out is None else f'<u style="left:{100 * out / last:.1f}%"></u>'
    fate = "" if out is None else f"ruled out after answer {out}"
    return (
        f'<figure class="{"in" if out is None else "out"}">'
        f'<div class="sl-plot sl-c-{label.value}" role="img" '
        f'aria-label="{escape(_words(label, found[-1][1], fate), quote=True)}">'
        f'<i class="b" style="clip-path:polygon({",".join(band)})"></i>'
        f'<i style="clip-path:polygon({",".join(line)})"></i>{gone}</div>'
        f'<div class="x" aria-hidden="true"><span>answer {kept[0][0]}</span><span>{last}</span></div>'
        f"<figcaption><b>{label.value}</b><span>{fate}</span></figcaption></figure>"
    )


def _words(label: Label, arm: Arm, fate: str) -> str:
    band = f"{label}: band from {max(0.0, arm.low):.2f} to {min(1.0, arm.high):.2f} after the last answer"
    return f"{band}, {fate}" if fate else band


def _down(share: float | None) -> float:
    """Percent from the top."""
    return 100 * (1 - min(1.0, max(0.0, share or 0.0)))
