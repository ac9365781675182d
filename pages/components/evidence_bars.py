"""What a rule decided by, drawn: the leading label against each rival, and the line past which the rival is excluded.

Every line stands at the same place, so each bar has a scale of its own; the figures beside it say the values.
"""

from collections.abc import Iterable, Sequence
from html import escape
from math import exp, floor

from screening.statistics.rules.pairwise_mixture import PairwiseMixture
from screening.statistics.rules.protocol import Comparison, StoppingRule
from screening.statistics.rules.successive_elimination import SuccessiveElimination

LINE = 72.0
"""Where the line stands, in percent of the track."""
SHORT = LINE - 2.0
"""A rival that is not excluded stays visibly short of it."""
LARGEST = 1e6

_LINES = (
    '<i class="short" aria-hidden="true"></i>not yet ruled out &nbsp; <i aria-hidden="true"></i>ruled out &nbsp; '
    '<u aria-hidden="true"></u>threshold'
)
_VOTES = '<i class="short" aria-hidden="true"></i>how many votes the leading label is ahead of this rival'

_AXES = {
    "evidence": ("1:1", "odds (log scale)"),
    "pulls": ("level", "lead, in answers"),
    "votes": ("level", "lead, in votes"),
    "probability": ("level", "lead, in probability"),
}


def bars_html(compared: Sequence[Comparison], rule: StoppingRule) -> str:
    """A row for each rival and the axis below; before any draw the same rows with nothing in them.

    ``compared`` is empty where there is nothing to show: no draw yet, or answers that were no labels.
    """
    rows = "".join(_row(each, rule) for each in compared) or _EMPTY * 2
    scale = compared[0].scale if compared else _scale(rule)
    start, title = _AXES[scale]
    line = "" if scale == "votes" else f'<span style="left:{LINE:.0f}%">threshold</span>'
    return (
        f'<div class="sl-ev-bars">{rows}<span class="pad"></span><div class="t" aria-hidden="true">'
        f'<span>{start}</span>{line}</div><span class="c">{title}</span></div>'
    )


_EMPTY = '<span class="n">–</span><div class="sl-over" aria-hidden="true"></div><span class="v">–</span>'


def _scale(rule: StoppingRule) -> str:
    if isinstance(rule, PairwiseMixture):
        return "evidence"
    return "pulls" if isinstance(rule, SuccessiveElimination) else "votes"


def _row(compared: Comparison, rule: StoppingRule) -> str:
    mark = " out" if compared.excluded else ""
    rival = f"<b>{escape(compared.rival)}</b>"
    name = f"{escape(compared.leader)} over {rival}" if compared.leader else rival
    line = "" if compared.needed is None else f'<u style="left:{LINE:.0f}%"></u>'
    return (
        f'<span class="n{mark}">{name}</span>'
        f'<div class="sl-over{mark}" aria-hidden="true"><i style="width:{_width(compared, rule):.1f}%"></i>{line}</div>'
        f'<span class="v{mark}">{escape(words(compared))}</span>'
    )


def _width(compared: Comparison, rule: StoppingRule) -> float:
    """Percent of the track: past the line exactly where the rival is excluded."""
    if compared.needed is None:
        return 100 * compared.value / max(1, rule.budget)
    share = LINE * max(0.0, compared.value) / max(compared.needed, 1e-9)
    return min(100.0, max(LINE + 2, share)) if compared.excluded else min(SHORT, share)


def words(compared: Comparison) -> str:
    """Where it stands and its line, in words.

    >>> from screening.labels import Label
    >>> from math import log
    >>> named = {"rival": Label.SAFE, "leader": Label.ESCALATE, "scale": "evidence"}
    >>> words(Comparison(**named, value=log(86.4), needed=log(11), excluded=True))
    '86.4:1 · needs 11.0:1 · ✓ ruled out'
    >>> words(Comparison(**named, value=log(0.2), needed=log(1000), excluded=False))
    '0.2:1 · needs 1,000:1'
    """
    fate = " · ✓ ruled out" if compared.excluded else ""
    if compared.scale == "evidence":
        stands, line = _factor(compared.value), _factor(compared.needed or 0.0)
        near = " · just short" if stands == line and not compared.excluded else ""
        return f"{stands} · needs {line}{fate}{near}"
    if compared.scale == "probability":
        return f"lead of {compared.value:.3f} · unknown {compared.needed or 0.0:.3f}{fate}"
    if compared.leader is None:
        return f"lead of {compared.value:.0f} or more{fate}"
    line = "" if compared.needed is None else f" · needs {compared.needed:.0f}"
    return f"lead of {compared.value:.0f}{line}{fate}"


def _factor(logarithm: float) -> str:
    """The factor rounded down, so that nothing looks nearer to its line than it is."""
    if logarithm > 13.8155:  # ln of a million
        return f"over {LARGEST:,.0f}:1"
    factor = exp(logarithm) * (1 + 1e-12)
    if factor < 0.1:
        return "0.0:1"
    return f"{floor(10 * factor) / 10:.1f}:1" if factor < 100 else f"{floor(factor):,}:1"


def rule_sentence(rule: StoppingRule) -> str:
    """How the rule decides and what that is worth, in one sentence that claims no more."""
    if isinstance(rule, PairwiseMixture):
        return (
            "An agent commits to a label only when the evidence against both others passes the threshold. By design it "
            f"commits to something other than its own most frequent answer at most {_rate(rule.delta)} of the time."
        )
    if isinstance(rule, SuccessiveElimination):
        return (
            "A label is ruled out once another leads it by the threshold, and the last one left is the answer. By "
            f"design that is not the agent's own most frequent answer at most {_rate(rule.delta)} of the time."
        )
    return f"The most frequent of {rule.budget} answers counts; there is no threshold and no error bound."


READ_OFF = (
    "Read off one call: the most probable label counts where its lead over each other is more than what the server "
    "leaves unknown; no error bound holds."
)


def legend_html(rules: Iterable[StoppingRule], *, read_off: bool) -> str:
    """What the bars of a picture mean and how their rules decide: each thing said once for all its nodes.

    ``rules`` are those of the nodes that were sampled; ``read_off`` where probabilities stand in the place of draws.
    """
    found = list(rules)
    marks = [_LINES] * (read_off or any(_scale(rule) != "votes" for rule in found))
    marks += [_VOTES] * any(_scale(rule) == "votes" for rule in found)
    sentences = dict.fromkeys(escape(rule_sentence(rule)) for rule in found)
    told = [READ_OFF] * read_off
    return "".join(f'<p class="sl-key">{words}</p>' for words in [*marks, *sentences, *told])


def _rate(probability: float) -> str:
    return f"{100 * probability:.3g}%"
