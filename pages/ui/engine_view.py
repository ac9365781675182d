"""A case's draws as the live view and the case page show them: each node's labels, evidence and state, replayed; and
the pipeline drawn, live, as a trail, with counts, or as a preview.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import exp, floor
from types import MappingProxyType

from pages.ui.html import macros
from pages.ui.words import WORDS
from screening.labels import LABELS, OUTCOMES, Label, Outcome
from screening.pipeline.config import NodeConfig, PipelineConfig
from screening.pipeline.draws import LabelDistribution, decode_draws, read_distribution
from screening.pipeline.engine import MAIN, with_usable_grounds
from screening.stopping.rules import (
    Arm,
    Comparison,
    Ended,
    MajorityVote,
    Pairwise,
    StoppingRule,
    SuccessiveElimination,
    Verdict,
    conclude,
    label_numbers,
)
from screening.words import count_of

TRACE_POINTS = 24


class State(StrEnum):
    """What a node is doing, as its badge says it: a mark and words."""

    WAITING = "○ Waiting"
    SAMPLING = "● Sampling"
    IDENTIFIED = "✓ Answered"
    EXHAUSTED = "◇ No decision: answers too mixed, limit reached"
    FUTILITY = "◇ No decision: answers too mixed"
    NOT_ASKED = "– Not asked"
    NO_ANSWER = "! No usable answer"
    TOO_CLOSE = "◇ No decision: too close to tell"
    STOPPED = "■ Stopped"


ABSTAINED = frozenset({State.EXHAUSTED, State.FUTILITY, State.TOO_CLOSE})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node as it stands after ``codes``. Nothing is compared before a draw, and where there was no answer.
    ``trace`` is how far the leading label was on the way to its line against the strongest rival, at about
    `TRACE_POINTS` moments spread evenly, the last one always among them; empty for a rule without a line.
    """

    title: str
    question: str
    state: State
    label: Label | None
    rule: StoppingRule
    codes: str
    compared: tuple[Comparison, ...]
    trace: tuple[float, ...]

    @property
    def distribution(self) -> LabelDistribution | None:
        """The server's probabilities, where they were read off instead of drawing."""
        return read_distribution(self.codes)

    @property
    def calls(self) -> int:
        return 1 if self.distribution else len(self.codes)


def node_views(pipeline: PipelineConfig, draws: Mapping[str, str], *, ended: bool) -> tuple[NodeView, ...]:
    """Every node in order, after each its second look; ``draws`` are the codes by "node/variant"."""
    views = []
    for node in pipeline.nodes:
        views.append(node_view(node, draws.get(f"{node.name}/{MAIN}"), ended=ended))
        for key, codes in draws.items():
            name, _, variant = key.partition("/")
            if name == node.name and variant != MAIN:
                views.append(node_view(node, codes, ended=ended, title=f"{node.title}, second wording"))
    return tuple(views)


def node_view(node: NodeConfig, codes: str | None, *, ended: bool, title: str | None = None) -> NodeView:
    """One node after the draws ``codes``, or the distribution they stand for; None is a node that was not reached."""
    verdict, compared, trace = _replay(node.rule, codes) if codes else (None, (), ())  # tables of a budget take long
    if verdict is not None:
        state = State[verdict.ended.name]
    elif ended:
        state = State.NOT_ASKED if codes is None else State.STOPPED
    else:
        state = State.WAITING if codes is None else State.SAMPLING
    return NodeView(
        title=title or node.title,
        question=node.question,
        state=state,
        label=verdict.label if verdict else None,
        rule=node.rule,
        codes=codes or "",
        compared=compared,
        trace=trace,
    )


@lru_cache(maxsize=4096)
def _replay(rule: StoppingRule, codes: str) -> tuple[Verdict | None, tuple[Comparison, ...], tuple[float, ...]]:
    """Cached: everybody who watches sees the same, and a node that is done is shown again at every tick."""
    if (told := read_distribution(codes)) is not None:
        return told.verdict(), told.comparisons(), ()
    draws = label_numbers(draw.label for draw in decode_draws(codes))
    verdict = with_usable_grounds(rule, decode_draws(codes), conclude(rule, draws))
    if verdict is not None and verdict.ended is Ended.NO_ANSWER:  # nothing in it may look decided
        return verdict, (), ()
    moments = range(len(draws), 0, -max(1, -(-len(draws) // TRACE_POINTS)))[::-1]
    reached = ([each.progress for each in rule.comparisons(draws[:calls])] for calls in moments)
    trace = tuple(min(share for share in shares if share is not None) for shares in reached if None not in shares)
    return verdict, rule.comparisons(draws), trace


NOT_ACCURACY = "Shows consistency, not correctness."


def evidence_sentence(codes: str, label: Label) -> str:
    """What the draws say about an identified label: how constant the answers are, and not that they are right.

    >>> evidence_sentence("S" * 11, Label.SAFE)
    '11 of 11 answers: safe. Shows consistency, not correctness.'
    """
    if (told := read_distribution(codes)) is not None:
        words = distribution_words(told)
        return f"{words[0].upper()}{words[1:]}; {label} leads by {told.gap:.3f}. Read off one call. {NOT_ACCURACY}"
    draws = decode_draws(codes)
    said = sum(draw.label is label for draw in draws)
    return f"{said} of {len(draws)} answers: {label}. {NOT_ACCURACY}"


def distribution_words(told: LabelDistribution) -> str:
    """Each label's probability and the part that is not known.

    >>> distribution_words(read_distribution("=0.7|0.2|0.1|0|1"))
    'the server gives safe 0.700, unsafe 0.200, escalate 0.100 and leaves 0.000 unknown'
    """
    shares = ", ".join(f"{label} {told.labels[label]:.3f}" for label in LABELS)
    return f"the server gives {shares} and leaves {told.unknown:.3f} unknown"


LINE = 72.0
SHORT = LINE - 2.0
"""A rival that is not excluded stays visibly short of it."""
LARGEST = 1e6

_AXES = {
    "evidence": ("1:1", "odds (log scale)"),
    "pulls": ("level", "lead, in answers"),
    "votes": ("level", "lead, in votes"),
    "probability": ("level", "lead, in probability"),
}


def bars_html(compared: Sequence[Comparison], rule: StoppingRule) -> str:
    """A row for each rival and the axis below; the same rows with nothing in them for no comparison."""
    kind = _kind(rule)
    scale = compared[0].scale if compared else "votes" if kind == "own" else kind
    rows = [(each, _width(each, rule), words(each)) for each in compared]
    return macros("cards").bars(rows, round(LINE), *_AXES[scale], scale != "votes")


def _kind(rule: StoppingRule) -> str:
    """The scale of its comparisons, by which its sentences are called too; "own" of a rule of the site's."""
    kinds = {Pairwise: "evidence", SuccessiveElimination: "pulls", MajorityVote: "votes"}
    return next((name for kind, name in kinds.items() if isinstance(rule, kind)), "own")


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


def legend_html(rules: Iterable[StoppingRule], *, read_off: bool) -> str:
    """What the bars mean, and how the ``rules`` of sampled nodes decide, claiming no more; each thing said once."""
    votes, sentences = set[bool](), dict[str, None]()
    for rule in rules:
        kind, bound = _kind(rule), None if rule.error_bound is None else f"{100 * rule.error_bound:.3g}%"
        own = f"error bound {bound}" if bound else "no error bound holds"
        votes.add(kind in ("votes", "own"))
        sentences[WORDS["decides"][kind].format(bound=bound, votes=rule.budget, title=rule.title, own=own)] = None
    said = [*sentences, *[WORDS["decides"]["read_off"]] * read_off]
    return macros("cards").legend(read_off or False in votes, True in votes, said)


POINTS = 48
BAND_LINE = 1.2
"""Half of the share line's thickness, in percent of the panel's height."""


def steps(rule: StoppingRule, codes: str) -> tuple[list[tuple[int, tuple[Arm, ...]]], dict[Label, int]]:
    """About `POINTS` moments of the replayed draws, and since which draw each label that is excluded now has been."""
    draws = label_numbers(draw.label for draw in decode_draws(codes))
    kept: list[tuple[int, tuple[Arm, ...]]] = []
    out: dict[Label, int] = {}
    every = max(1, -(-len(codes) // POINTS))
    for number in range(1, len(draws) + 1):
        excluded = {each.rival for each in rule.comparisons(draws[:number]) if each.excluded}
        out = {label: out.get(label, number) for label in LABELS if label in excluded}
        if number % every == 0 or number == len(codes):
            kept.append((number, rule.arms(draws[:number])))
    return kept, out


@lru_cache(maxsize=512)
def bands_fold_html(rule: StoppingRule, codes: str) -> str:
    """The three panels, folded until opened by a click or Enter; empty without draws."""
    if not codes:
        return ""
    kept, out = steps(rule, codes)
    panels = [_panel(label, kept, out.get(label)) for label in LABELS]
    return macros("cards").bands(panels, WORDS["bands"][_kind(rule)])


def _panel(label: Label, kept: Sequence[tuple[int, tuple[Arm, ...]]], out: int | None) -> dict[str, object]:
    """One label's share with its band, as the corners of two shapes in percent of the panel."""
    last = kept[-1][0]
    found = [(100 * calls / last, arms[LABELS.index(label)]) for calls, arms in kept]
    end, fate = found[-1][1], "" if out is None else f"ruled out after answer {out}"
    words = f"{label}: band from {max(0.0, end.low):.2f} to {min(1.0, end.high):.2f} after the last answer"
    seen = [(x, arm, _down(arm.estimate)) for x, arm in found if arm.estimate is not None]
    return {
        "label": label.value,
        "words": f"{words}, {fate}" if fate else words,
        "band": _shape([(x, _down(arm.high), _down(arm.low)) for x, arm, _ in seen]),
        "line": _shape([(x, share - BAND_LINE, share + BAND_LINE) for x, _, share in seen]),
        "gone": 100 * (out or 0) / last,
        "fate": fate,
        "first": kept[0][0],
        "last": last,
    }


def _down(share: float) -> float:
    return 100 * (1 - min(1.0, max(0.0, share)))


def _shape(edges: Sequence[tuple[float, float, float]]) -> str:
    """Its corners: along the upper edge, and back along the lower one."""
    corners = [(x, upper) for x, upper, _ in edges] + [(x, lower) for x, _, lower in reversed(edges)]
    return ",".join(f"{x:.1f}% {y:.1f}%" for x, y in corners)


def live_html(views: Sequence[NodeView], *, ended: bool) -> str:
    """All nodes, one under the other, each row of one height; bands once it ``ended``: each tick would fold them."""
    sampled = [view.rule for view in views if view.distribution is None]
    cards = [
        {
            "view": view,
            "badge": badge_html(view),
            "bars": bars_html(view.compared, view.rule),
            "bands": bands_fold_html(view.rule, view.codes)
            if ended and view.compared and view.distribution is None
            else "",
            "drawn": f"{view.calls} of at most {view.rule.budget} answers",
        }
        for view in views
    ]
    return macros("cards").agents(cards, legend_html(sampled, read_off=len(sampled) < len(views)))


def badge_html(view: NodeView) -> str:
    """The node's state in words with its mark; colour only repeats it."""
    words = f"{view.state}: {view.label}" if view.state is State.IDENTIFIED else view.state.value
    color = "escalate" if view.state in ABSTAINED else "open" if view.state is State.SAMPLING else "quiet"
    return macros("cards").badge(view.label or color, words)


NO_DECISION = "no decision"
_OUTCOMES = {Outcome.SAFE.value: "safe", Outcome.UNSAFE.value: "unsafe", Outcome.HUMAN_REVIEW.value: "a clinician"}
_WIDTH, _HEIGHT, _GAP, _LEFT = 148, 58, 92, 2
_LANES = {Outcome.SAFE.value: 22, Outcome.HUMAN_REVIEW.value: 104, Outcome.UNSAFE.value: 186}
_MIDDLE, _ABSTAINED, _SKIPPED = _LANES["human_review"], 158, 58
_PICTURE_HEIGHT = 208


Way = tuple[str, str]
"""The name of a node, and the label (or NO_DECISION) with which a case leaves it."""
Counts = Mapping[Way, tuple[int, str | None]]
"""How many cases went each way, and the address of their list."""


def diagram_html(
    pipeline: PipelineConfig,
    words: Mapping[str, str],
    counts: Counts = MappingProxyType({}),
    *,
    states: Mapping[str, str] = MappingProxyType({}),
    taken: Collection[Way] = (),
    end: str | None = None,
) -> str:
    """The pipeline with a line under each agent's name, and of the ways out of it how many cases took each, with a link
    to them. Of one case: ``states`` of the agents ("asked", "done" or "passed", else idle), the ways ``taken``, and the
    outcome at the ``end``, if one was reached.
    """
    names = [node.name for node in pipeline.nodes]
    titles = _OUTCOMES | {node.name: node.title for node in pipeline.nodes}
    width = _LEFT + len(names) * (_WIDTH + _GAP) + 96
    agents, lines = [], []
    for position, node in enumerate(pipeline.nodes):
        leads = {label.value: node.routes[label] for label in LABELS} | {NO_DECISION: node.target(None)}
        ways = []
        for label, target in leads.items():
            number, href = _sum(node.name, [label], counts)
            led = {"words": f"{label} → {titles[target]}{number and f': {number}'}", "href": href}
            ways.append(led | {"taken": (node.name, label) in taken})
        x, y = _x(position), _MIDDLE - _HEIGHT // 2
        agents.append(
            {
                "title": node.title,
                "words": words.get(node.name, ""),
                "state": states.get(node.name, "idle"),
                "box": _box(width, x, y, x + _WIDTH, y + _HEIGHT),
                "ways": ways,
            }
        )
        for target in dict.fromkeys(leads.values()):  # every target once, with all the labels that lead there
            labels = [label for label in leads if leads[label] == target]
            shape, corners = _line(names, position, target, width)
            kind = f"e-{target if target in OUTCOMES else 'on'} {shape}"
            kind += " taken" if any((node.name, label) in taken for label in labels) else ""
            kind += " dashed" if labels == [NO_DECISION] else ""
            # what stands on it: to an outcome its number alone, to an agent with its labels before it
            named = [] if target in OUTCOMES else [label for label in labels if label != NO_DECISION] or labels
            number, href = _sum(node.name, named or labels, counts)
            below = None
            if named and named != labels:
                undecided, its_href = _sum(node.name, [NO_DECISION], counts)
                below = f"{NO_DECISION} {undecided}".strip(), its_href
            said = " ".join([*named, number]).strip()
            box = _box(width, *corners)
            lines.append({"kind": kind, "box": box, "words": said, "href": href, "below": below})
    outcomes = [
        {
            "name": name,
            "words": _OUTCOMES[name],
            "reached": name == end,
            "box": _box(width, width - 88, y - 11, width, y + 11),
        }
        for name, y in _LANES.items()
    ]
    return macros("diagram").drawn(agents, lines, outcomes, _PICTURE_HEIGHT, width)


def _sum(node: str, labels: Sequence[str], counts: Counts) -> tuple[str, str | None]:
    """The number of cases that left the node by all these labels, and where they are if one address holds them all."""
    found = [counts[node, label] for label in labels if (node, label) in counts]
    addresses = {href for count, href in found if count}
    return f"{sum(count for count, _ in found):,}" if found else "", addresses.pop() if len(addresses) == 1 else None


def _x(position: int) -> int:
    return _LEFT + position * (_WIDTH + _GAP)


def _box(width: int, left: int, top: int, right: int, bottom: int) -> str:
    """Where a part lies: across in shares of the width, so that the picture shrinks; down in pixels."""
    across = f"left:{100 * left / width:.2f}%;width:{100 * (right - left) / width:.2f}%"
    return f"{across};top:{top}px;height:{bottom - top}px"


def _line(names: Sequence[str], position: int, target: str, width: int) -> tuple[str, tuple[int, int, int, int]]:
    """A way as the box whose borders draw it: which borders, and its corners."""
    x, right, end = _x(position), _x(position) + _WIDTH, width - 94
    if target == Outcome.SAFE:
        return "up", (x + 40, _LANES[target], end, _MIDDLE)
    if target == Outcome.UNSAFE:
        return "down", (x + 40, _MIDDLE, end, _LANES[target])
    if target in OUTCOMES and position < len(names) - 1:
        return "under", (x + 96, _MIDDLE + 14, end + 30, _ABSTAINED)
    if target in OUTCOMES:
        return "straight", (right, _MIDDLE, end, _MIDDLE)
    there = names.index(target)
    if there == position + 1:
        return "straight", (right, _MIDDLE, _x(there) - 2, _MIDDLE)
    return "over", (x + 110, _SKIPPED, _x(there) + 30, _MIDDLE - _HEIGHT // 2)


def way_html(pipeline: PipelineConfig, draws: Mapping[str, str], *, ended: bool, outcome: str | None = None) -> str:
    """The diagram with the agents that were asked, the ways that were taken, and where it ended."""
    words, states, taken = dict[str, str](), dict[str, str](), list[Way]()
    for node in pipeline.nodes:
        view = node_view(node, draws.get(f"{node.name}/{MAIN}"), ended=ended)
        way = view.label.value if view.label else NO_DECISION if view.state in ABSTAINED else None
        if way is not None:
            taken.append((node.name, way))
        if way is not None or view.state is State.NO_ANSWER:
            said, states[node.name] = f"{way or 'no usable answer'} · {count_of(view.calls, 'call')}", "done"
        elif view.state is State.SAMPLING:
            said, states[node.name] = f"{view.calls} of ≤ {view.rule.budget} calls", "asked"
        else:
            said = "not started" if view.state is State.WAITING else view.state.value[2:].lower()
            states[node.name] = "passed" if view.state is State.NOT_ASKED else "idle"
        words[node.name] = said
    return diagram_html(pipeline, words, states=states, taken=taken, end=outcome)
