"""How many cases of a batch took which way through its pipeline."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from screening.labels import OUTCOMES, Label
from screening.pipeline.config import PipelineConfig
from screening.pipeline.engine import MAIN, Reason
from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.database import Database
from storage.kinds import PENDING, Kind, kinds
from storage.schema import node_runs

_OF_THE_RULE = {Reason.IDENTIFIED, Reason.ESCALATED, Reason.EXHAUSTED, Reason.CURTAILED}
_ABSTAINED = {Reason.EXHAUSTED, Reason.CURTAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """``asked`` counts cases by agent. ``taken`` counts them by agent and label, None for a case it did not settle.

    ``kept_back`` went to a clinician for what stands in the text or for a fault, on no way of the pipeline.
    """

    asked: Mapping[str, int]
    taken: Mapping[tuple[str, Label | None], int]
    kept_back: int


def count_ways(db: Database, actor: Actor, batch_id: str, pipeline: PipelineConfig) -> Ways:
    """The counts of now. Raises Forbidden."""
    require(actor, Action.VIEW_BATCHES)
    with db.read() as conn:
        asked, onward = _runs(conn, batch_id, pipeline)
        ended, kept_back = _ends(kinds(conn, batch_id), pipeline)
    return Ways(asked=asked, taken=onward | ended, kept_back=kept_back)


def _runs(
    conn: Connection, batch_id: str, pipeline: PipelineConfig
) -> tuple[dict[str, int], dict[tuple[str, Label | None], int]]:
    """How many cases each agent was asked about, and the ways that lead from one agent to another."""
    run = node_runs.c
    query = select(run.node, run.label, func.count()).where(run.batch_id == batch_id, run.variant == MAIN)
    asked: dict[str, int] = {}
    onward: dict[tuple[str, Label | None], int] = {}
    for name, said, count in conn.execute(query.group_by(run.node, run.label)):
        label = None if said is None else Label(said)
        asked[name] = asked.get(name, 0) + count
        if pipeline.node(name).target(label) not in OUTCOMES:
            onward[name, label] = count
    return asked, onward


def _ends(known: Mapping[Kind, int], pipeline: PipelineConfig) -> tuple[dict[tuple[str, Label | None], int], int]:
    """The ways that lead to an outcome, and how many cases went to a clinician beside them."""
    ended: dict[tuple[str, Label | None], int] = {}
    kept_back = 0
    for kind, count in known.items():
        if kind.outcome == PENDING:
            continue
        if kind.node is None or kind.reason not in _OF_THE_RULE:
            kept_back += count
            continue
        name, routes = kind.node, pipeline.node(kind.node).routes
        label = None if kind.reason in _ABSTAINED else next(each for each in Label if routes[each] == kind.outcome)
        ended[name, label] = ended.get((name, label), 0) + count
    return ended, kept_back
