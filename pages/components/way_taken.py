"""The way one text takes through its pipeline, for the diagram: from the draws so far, or from the runs that ended."""

from collections.abc import Mapping

from pages.components.diagram import NOT_SETTLED, NodeMark, Way, WayMark, diagram_html
from pages.components.trail import ABSTAINED, NodeView, State, node_view
from screening.engine.pipeline import NodeConfig, PipelineConfig
from screening.engine.screen import MAIN
from screening.words import count_of

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
