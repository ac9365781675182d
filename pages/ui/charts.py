"""A pipeline drawn: agents, labelled ways, outcomes; the same picture live, as a trail, with counts, and as a preview.

Pure: data in, markup for `st.html` out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pages.ui.engine_view import ABSTAINED, NodeView, State, node_view
from pages.ui.html import macros
from screening.labels import LABELS, OUTCOMES, Outcome
from screening.pipeline.config import NodeConfig, PipelineConfig
from screening.pipeline.engine import MAIN
from screening.words import count_of

NO_DECISION = "no decision"
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
"""The name of a node, and the label (or NO_DECISION) with which a case leaves it."""


def diagram_html(
    pipeline: PipelineConfig,
    nodes: Mapping[str, NodeMark] | None = None,
    ways: Mapping[Way, WayMark] | None = None,
    end: str | None = None,
) -> str:
    """The pipeline with its marks; ``end`` is the outcome that was reached, if one was."""
    names = [node.name for node in pipeline.nodes]
    titles = OUTCOME_WORDS | {node.name: node.title for node in pipeline.nodes}
    width = _LEFT + len(names) * (_WIDTH + _GAP) + 96
    agents, lines = [], []
    for position, node in enumerate(pipeline.nodes):
        mark = (nodes or {}).get(node.name, NodeMark())
        leads = {label.value: node.routes[label] for label in LABELS} | {NO_DECISION: node.target(None)}
        marks = {label: (ways or {}).get((node.name, label), WayMark()) for label in leads}
        x, y = _x(position), _MIDDLE - _HEIGHT // 2
        agents.append(
            {
                "title": node.title,
                "words": mark.words,
                "state": mark.state,
                "box": _box(width, x, y, x + _WIDTH, y + _HEIGHT),
                "ways": [_listed(f"{label} → {titles[target]}", marks[label]) for label, target in leads.items()],
            }
        )
        for target in dict.fromkeys(leads.values()):  # every target once, with all the labels that lead there
            labels = [label for label in leads if leads[label] == target]
            shape, corners = _line(names, position, target, width)
            lines.append(_way(labels, marks, target, shape) | {"box": _box(width, *corners)})
    outcomes = [
        {
            "name": name,
            "words": OUTCOME_WORDS[name],
            "reached": name == end,
            "box": _box(width, width - 88, y - 11, width, y + 11),
        }
        for name, y in _LANES.items()
    ]
    return str(macros("diagram").drawn(agents, lines, outcomes, _PICTURE_HEIGHT, width))


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


def _listed(words: str, mark: WayMark) -> dict[str, object]:
    """A way as an item of the list."""
    counted = words if mark.count is None else f"{words}: {mark.count:,}"
    return {"words": counted, "href": mark.href if mark.count else None, "taken": mark.taken}


def _way(labels: Sequence[str], marks: Mapping[str, WayMark], target: str, shape: str) -> dict[str, object]:
    """A way as a line of the picture: to an outcome its number alone, to an agent with its labels before it."""
    taken = " taken" if any(marks[label].taken for label in labels) else ""
    dashed = " dashed" if labels == [NO_DECISION] else ""
    named = [] if target in OUTCOMES else [label for label in labels if label != NO_DECISION] or labels
    words, href = _counted(named, [marks[label] for label in named or labels])
    below = _counted([NO_DECISION], [marks[NO_DECISION]]) if named and named != labels else None
    kind = f"e-{target if target in OUTCOMES else 'on'} {shape}{taken}{dashed}"
    return {"kind": kind, "words": words, "href": href, "below": below}


def _counted(labels: Sequence[str], marks: Sequence[WayMark]) -> tuple[str, str | None]:
    """These labels with the cases of all of them, and the way to those where one address holds them all."""
    counts = [mark.count for mark in marks if mark.count is not None]
    words = " ".join((*labels, f"{sum(counts):,}")) if counts else " ".join(labels)
    addresses = {mark.href for mark in marks if mark.count}
    return words, addresses.pop() if len(addresses) == 1 else None


_WORDS = {State.WAITING: "not started", State.NOT_ASKED: "not asked", State.STOPPED: "stopped"}


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
        return NodeMark(words=f"no decision · {count_of(view.calls, 'call')}", state="done")
    return NodeMark(words=_WORDS[view.state], state="passed" if view.state is State.NOT_ASKED else "idle")


def _ways_taken(node: NodeConfig, view: NodeView) -> list[tuple[Way, WayMark]]:
    if view.label is not None:
        return [((node.name, view.label.value), WayMark(taken=True))]
    abstained = view.state in ABSTAINED
    return [((node.name, NO_DECISION), WayMark(taken=True))] if abstained else []
