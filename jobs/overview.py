"""A batch at a glance, as one person may know it: counted beside the server (`jobs.computing`) where it is large, and
kept while nothing that it follows from is another.
"""

from dataclasses import dataclass

from screening.review.actors import Actor
from storage.batches.batches import find_batch
from storage.batches.configurations import load_configuration
from storage.batches.costs import NodeCost, cost_by_node
from storage.batches.results import Ways, count_ways
from storage.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The ways its cases took, what each agent has used, and all calls made."""

    ways: Ways
    costs: tuple[NodeCost, ...]
    calls: int


def batch_overview(db: Database, actor: Actor, batch_id: str) -> Overview:
    """The figures of now. Raises Forbidden, UnknownBatch."""
    one = find_batch(db, actor, batch_id)
    pipeline = load_configuration(db, one.configuration_version).pipeline
    return Overview(
        ways=count_ways(db, actor, batch_id, pipeline),
        costs=cost_by_node(db, actor, batch_id),
        calls=one.progress.calls,
    )
