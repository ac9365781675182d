"""A pipeline drawn: agents, labelled ways, outcomes; the same picture live, as a trail, with counts, and as a preview.

Pure: data in, markup for `st.html` out, which lets no SVG through: lines are borders of boxes. Where the picture has no
room, and for screen readers, the same stands as a list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Literal

from pages.ui.engine_view import ABSTAINED, NodeView, State, node_view
from screening.labels import LABELS, OUTCOMES, Outcome
from screening.pipeline.config import NodeConfig, PipelineConfig
from screening.pipeline.engine import MAIN
from screening.words import count_of

NOT_SETTLED = "not settled"
Drawn = Literal["idle", "asked", "done", "passed"]
OUTCOME_WORDS = {Outcome.SAFE.value: "safe", Outcome.UNSAFE.value: "unsafe", Outcome.HUMAN_REVIEW.value: "a clinician"}
_WIDTH, _HEIGHT, _GAP, _LEFT = 148, 58, 92, 2
_LANES = {Outcome.SAFE.value: 22, Outcome.HUMAN_REVIEW.value: 104, Outcome.UNSAFE.value: 186}
_MIDDLE, _ABSTAINED, _SKIPPED = _LANES["human_review"], 158, 58
_PICTURE_HEIGHT = 208


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMark:
    """What the drawing says of one agent: a line under its name, and whether it is being asked or is done."""

    words: str = ""
    state: Drawn = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class WayMark:
    """What the drawing says of the way a label takes out of a node: how many cases took it, with a link to them."""

    count: int | None = None
    taken: bool = False
    href: str | None = None


Way = tuple[str, str]
"""The name of a node, and the label (or NOT_SETTLED) with which a case leaves it."""


def diagram_html(
    pipeline: PipelineConfig,
    nodes: Mapping[str, NodeMark] | None = None,
    ways: Mapping[Way, WayMark] | None = None,
    end: str | None = None,
) -> str:
    """The pipeline with its marks; ``end`` is the outcome that was reached, if one was."""
    frame = _Frame(tuple(_Agent(node.name, node.title, tuple(ways_of(node).items())) for node in pipeline.nodes))
    drawn = _Drawing(frame, nodes or {}, _ways_html(frame, tuple((ways or {}).items())), end)
    return f'<div class="sl-dag">{drawn.picture()}{drawn.list_html()}</div>'


def ways_of(node: NodeConfig) -> Mapping[str, str]:
    """Where each label, and an abstention, leads from this node."""
    return {label.value: node.routes[label] for label in LABELS} | {NOT_SETTLED: node.target(None)}


@dataclass(frozen=True, slots=True)
class _Agent:
    """A node as it is drawn; ``ways`` are its labels, each with where it leads."""

    name: str
    title: str
    ways: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Frame:
    """What of a pipeline is drawn alike for all texts, and where."""

    agents: tuple[_Agent, ...]

    @property
    def width(self) -> int:
        return _LEFT + len(self.agents) * (_WIDTH + _GAP) + 96

    def title(self, target: str) -> str:
        return OUTCOME_WORDS[target] if target in OUTCOMES else self.agents[self.place(target)].title

    def place(self, name: str) -> int:
        return [agent.name for agent in self.agents].index(name)

    def box(self, left: int, top: int, right: int, bottom: int) -> str:
        """Where a part lies: across in shares of the width, so that the picture shrinks; down in pixels."""
        across = f"left:{100 * left / self.width:.2f}%;width:{100 * (right - left) / self.width:.2f}%"
        return f'style="{across};top:{top}px;height:{bottom - top}px"'

    def line(self, position: int, target: str) -> "_Line":
        """A way as the box whose borders draw it."""
        x, right, end = _x(position), _x(position) + _WIDTH, self.width - 94
        last = position == len(self.agents) - 1
        if target == Outcome.SAFE:
            return _Line("up", (x + 40, _LANES[target], end, _MIDDLE))
        if target == Outcome.UNSAFE:
            return _Line("down", (x + 40, _MIDDLE, end, _LANES[target]))
        if target in OUTCOMES and not last:
            return _Line("under", (x + 96, _MIDDLE + 14, end + 30, _ABSTAINED))
        if target in OUTCOMES:
            return _Line("straight", (right, _MIDDLE, end, _MIDDLE))
        there = self.place(target)
        if there == position + 1:
            return _Line("straight", (right, _MIDDLE, _x(there) - 2, _MIDDLE))
        return _Line("over", (x + 110, _SKIPPED, _x(there) + 30, _MIDDLE - _HEIGHT // 2))


@dataclass(frozen=True, slots=True)
class _Drawing:
    """``ways`` is what `_ways_html` makes of them."""

    frame: _Frame
    nodes: Mapping[str, NodeMark]
    ways: "_WaysHtml"
    end: str | None

    def picture(self) -> str:
        """The drawing, hidden from screen readers, which read the list."""
        inside = self.ways.drawn
        inside += "".join(self._node(position, agent) for position, agent in enumerate(self.frame.agents))
        inside += "".join(self._outcome(name, y) for name, y in _LANES.items())
        size = f"height:{_PICTURE_HEIGHT}px;max-width:{self.frame.width}px"
        return f'<div class="p" style="{size}" aria-hidden="true">{inside}</div>'

    def list_html(self) -> str:
        """The same as an ordered list."""
        items = zip(self.frame.agents, self.ways.listed, strict=True)
        return f"<ol>{''.join(self._in_words(agent, ways) for agent, ways in items)}</ol>"

    def _in_words(self, agent: _Agent, ways: str) -> str:
        mark = self.nodes.get(agent.name, NodeMark())
        said = f" <span>{escape(mark.words)}</span>" if mark.words else ""
        current = ' aria-current="step"' if mark.state == "asked" else ""
        return f'<li class="{mark.state}"{current}><b>{escape(agent.title)}</b>{said}<ul>{ways}</ul></li>'

    def _node(self, position: int, agent: _Agent) -> str:
        mark = self.nodes.get(agent.name, NodeMark())
        x, y = _x(position), _MIDDLE - _HEIGHT // 2
        where = self.frame.box(x, y, x + _WIDTH, y + _HEIGHT)
        return (
            f'<div class="n {mark.state}" {where}><b>{escape(agent.title)}</b><span>{escape(mark.words)}</span></div>'
        )

    def _outcome(self, name: str, y: int) -> str:
        reached = " reached" if name == self.end else ""
        where = self.frame.box(self.frame.width - 88, y - 11, self.frame.width, y + 11)
        return f'<div class="o o-{name}{reached}" {where}>{OUTCOME_WORDS[name]}</div>'


@dataclass(frozen=True, slots=True)
class _WaysHtml:
    """All ways as lines of the picture, and each agent's as items of the list."""

    drawn: str
    listed: tuple[str, ...]


@lru_cache(maxsize=128)
def _ways_html(frame: _Frame, marks: tuple[tuple[Way, WayMark], ...]) -> _WaysHtml:
    """Cached: while a text is screened its picture is drawn twice a second, and its ways change with an agent's end."""
    ways = dict(marks)
    drawn = "".join(_ways(frame, ways, position, agent) for position, agent in enumerate(frame.agents))
    return _WaysHtml(drawn, tuple(_ways_in_words(frame, ways, agent) for agent in frame.agents))


def _ways_in_words(frame: _Frame, ways: Mapping[Way, WayMark], agent: _Agent) -> str:
    marks = [(label, target, ways.get((agent.name, label), WayMark())) for label, target in agent.ways]
    return "".join(_way_in_words(f"{label} → {frame.title(target)}", mark) for label, target, mark in marks)


def _way_in_words(words: str, mark: WayMark) -> str:
    if mark.count is not None:
        words += f": {mark.count:,}"
    inner = _link(escape(words), mark.href if mark.count else None)
    return f"<li{' class=taken' if mark.taken else ''}>{inner}{' (taken)' if mark.taken else ''}</li>"


def _ways(frame: _Frame, ways: Mapping[Way, WayMark], position: int, agent: _Agent) -> str:
    """Every target once, with all the labels that lead there."""
    targets: dict[str, dict[str, WayMark]] = {}
    for label, target in agent.ways:
        targets.setdefault(target, {})[label] = ways.get((agent.name, label), WayMark())
    return "".join(_way(frame, position, target, marks) for target, marks in targets.items())


def _way(frame: _Frame, position: int, target: str, marks: Mapping[str, WayMark]) -> str:
    labels = list(marks)
    taken = " taken" if any(mark.taken for mark in marks.values()) else ""
    dashed = " dashed" if labels == [NOT_SETTLED] else ""
    kind = f"e-{target}" if target in OUTCOMES else "e-on"
    line = frame.line(position, target)
    named = [] if target in OUTCOMES else [label for label in labels if label != NOT_SETTLED] or labels
    words = _counts_html(named, [marks[label] for label in named or labels])
    below = f"<small>{_counts_html([NOT_SETTLED], [marks[NOT_SETTLED]])}</small>" if named and named != labels else ""
    said = f"<span>{words}{below}</span>" if words else ""
    return f'<div class="e {kind} {line.shape}{taken}{dashed}" {frame.box(*line.box)}>{said}</div>'


@dataclass(frozen=True, slots=True)
class _Line:
    shape: str
    box: tuple[int, int, int, int]


def _x(position: int) -> int:
    return _LEFT + position * (_WIDTH + _GAP)


def _counts_html(labels: Sequence[str], marks: Sequence[WayMark]) -> str:
    """These labels with the cases of all of them, and the way to those where one address holds them all."""
    counts = [mark.count for mark in marks if mark.count is not None]
    words = " ".join((*labels, f"{sum(counts):,}")) if counts else " ".join(labels)
    addresses = {mark.href for mark in marks if mark.count}
    return _link(escape(words), addresses.pop() if len(addresses) == 1 else None)


def _link(markup: str, href: str | None) -> str:
    return f'<a href="{escape(href, quote=True)}" target="_self">{markup}</a>' if href and markup else markup


_WORDS = {State.WAITING: "waits", State.NOT_ASKED: "not asked", State.STOPPED: "stopped"}


def way_html(pipeline: PipelineConfig, draws: Mapping[str, str], *, ended: bool, outcome: str | None = None) -> str:
    """The diagram with the agents that were asked, the ways that were taken, and where it ended.

    ``draws`` holds the codes so far by "node/variant"; ``ended`` says that no more will come.
    """
    views = {node.name: node_view(node, draws.get(f"{node.name}/{MAIN}"), ended=ended) for node in pipeline.nodes}
    nodes = {node.name: _mark(views[node.name]) for node in pipeline.nodes}
    ways = dict(way for node in pipeline.nodes for way in _ways_taken(node, views[node.name]))
    return diagram_html(pipeline, nodes, ways, outcome)


def _mark(view: NodeView) -> NodeMark:
    if view.state is State.NO_ANSWER:
        return NodeMark(words=f"no usable answer · {count_of(view.calls, 'call')}", state="done")
    if view.label is not None:
        return NodeMark(words=f"{view.label} · {count_of(view.calls, 'call')}", state="done")
    if view.state is State.SAMPLING:
        return NodeMark(words=f"{view.calls} of ≤ {view.budget} calls", state="asked")
    if view.state in ABSTAINED:
        return NodeMark(words=f"not settled · {count_of(view.calls, 'call')}", state="done")
    return NodeMark(words=_WORDS[view.state], state="passed" if view.state is State.NOT_ASKED else "idle")


def _ways_taken(node: NodeConfig, view: NodeView) -> list[tuple[Way, WayMark]]:
    if view.label is not None:
        return [((node.name, view.label.value), WayMark(taken=True))]
    abstained = view.state in ABSTAINED
    return [((node.name, NOT_SETTLED), WayMark(taken=True))] if abstained else []
