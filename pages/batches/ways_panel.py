"""A batch's cases on the drawing of its pipeline: how many took each way, and a link to them."""

from collections.abc import Mapping
from urllib.parse import urlencode

import streamlit as st

from jobs.overview import Overview, batch_overview
from pages.batches.batch_progress import ENDED
from pages.batches.cost_panel import cost_panel
from pages.ui import context
from pages.ui.charts import NOT_SETTLED, NodeMark, Way, WayMark, diagram_html
from pages.ui.compute import compute, compute_again
from pages.ui.widgets import result_links_html
from screening.engine.pipeline import PipelineConfig
from screening.labels import OUTCOMES, Label
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.words import count_of
from storage.batches.batches import BatchSummary, progress
from storage.batches.configurations import load_configuration
from storage.batches.ways import Ways
from storage.database import Database
from storage.research.standing import batch_now


def ways_panel(db: Database, person: Actor, one: BatchSummary) -> None:
    """The numbers and the drawing as of this moment, each number with its list, and what is on no way of it."""
    linked = is_allowed(person, Action.VIEW_RESULTS)
    st.html(result_links_html(one.id, progress(db, one.id, context.now()), linked=linked))
    pipeline = load_configuration(db, one.configuration_version).pipeline
    overview = _overview(db, person, one)
    found = overview.ways
    st.html(ways_html(pipeline, found, one.id, linked=linked))
    if found.kept_back:
        st.caption(f"{found.kept_back:,} more were escalated for what stands in the text, or for a fault.")
    cost_panel(one, pipeline, overview)


def _overview(db: Database, person: Actor, one: BatchSummary) -> Overview:
    """The counts, as of this moment where the batch has ended, else at most as old as the next look."""
    standing, accepted = batch_now(db, person, one.id), one.progress.accepted
    if one.progress.state in ENDED:
        return compute(batch_overview, person, one.id, standing=standing, cases=accepted)
    return compute_again(batch_overview, person, one.id, standing=standing, cases=accepted)


def ways_html(pipeline: PipelineConfig, found: Ways, batch_id: str, *, linked: bool) -> str:
    """The drawing with its counts, ``linked`` to their cases."""
    nodes = {node.name: NodeMark(words=count_of(found.asked.get(node.name, 0), "text")) for node in pipeline.nodes}
    ways: dict[Way, WayMark] = {}
    for node in pipeline.nodes:
        for label in (*Label, None):
            target = node.target(label)
            count = found.taken.get((node.name, label), 0)
            said = label.value if label else NOT_SETTLED
            ended = {"node": node.name, "outcome": target}
            where = ended if target in OUTCOMES else {"way": f"{node.name}:{said}"}
            ways[node.name, said] = WayMark(count=count, href=_results(batch_id, where) if linked else None)
    return diagram_html(pipeline, nodes, ways)


def _results(batch_id: str, where: Mapping[str, str]) -> str:
    return "results?" + urlencode({"batch": batch_id, **where})
