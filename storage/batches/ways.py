"""How many cases of a batch took which way through its pipeline, as far as this person may know."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from screening.engine.pipeline import PipelineConfig
from screening.engine.screen import MAIN, Reason
from screening.labels import OUTCOMES, Label
from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.blindness import is_withheld
from storage.database import Database
from storage.schema import cases, node_runs, screenings

_OF_THE_RULE = {Reason.IDENTIFIED, Reason.ESCALATED, Reason.EXHAUSTED, Reason.CURTAILED}
_ABSTAINED = {Reason.EXHAUSTED, Reason.CURTAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """``asked`` counts cases by agent. ``taken`` counts them by agent and label, None for a case it did not settle.

    ``kept_back`` went to a clinician for what stands in the text or for a fault, on no way of the pipeline;
    ``withheld`` wait to be read blind by this person and are counted nowhere.
    """

    asked: Mapping[str, int]
    taken: Mapping[tuple[str, Label | None], int]
    kept_back: int
    withheld: int


def count_ways(db: Database, actor: Actor, batch_id: str, pipeline: PipelineConfig) -> Ways:
    """The counts of now. Raises Forbidden."""
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        asked, onward = _runs(conn, actor, batch_id, pipeline)
        ended, kept_back = _ends(conn, actor, batch_id, pipeline)
        hidden = select(func.count()).select_from(screenings).where(screenings.c.batch_id == batch_id)
        waiting = conn.execute(hidden.where(is_withheld(actor, screenings.c.case_id))).scalar_one()
    return Ways(asked=asked, taken=onward | ended, kept_back=kept_back, withheld=waiting)


def _runs(
    conn: Connection, actor: Actor, batch_id: str, pipeline: PipelineConfig
) -> tuple[dict[str, int], dict[tuple[str, Label | None], int]]:
    """How many cases each agent was asked about, and the ways that lead from one agent to another."""
    run = node_runs.c
    query = select(run.node, run.label, func.count()).join(cases, cases.c.id == run.case_id)
    shown = query.where(cases.c.batch_id == batch_id, run.variant == MAIN, ~is_withheld(actor, cases.c.id))
    asked: dict[str, int] = {}
    onward: dict[tuple[str, Label | None], int] = {}
    for name, said, count in conn.execute(shown.group_by(run.node, run.label)):
        label = None if said is None else Label(said)
        asked[name] = asked.get(name, 0) + count
        if pipeline.node(name).target(label) not in OUTCOMES:
            onward[name, label] = count
    return asked, onward


def _ends(
    conn: Connection, actor: Actor, batch_id: str, pipeline: PipelineConfig
) -> tuple[dict[tuple[str, Label | None], int], int]:
    """The ways that lead to an outcome, and how many cases went to a clinician beside them."""
    end = screenings.c
    query = select(end.node, end.outcome, end.reason, func.count()).where(end.batch_id == batch_id)
    shown = query.where(~is_withheld(actor, end.case_id)).group_by(end.node, end.outcome, end.reason)
    ended: dict[tuple[str, Label | None], int] = {}
    kept_back = 0
    for name, outcome, reason, count in conn.execute(shown):
        if name is None or reason not in _OF_THE_RULE:
            kept_back += count
            continue
        routes = pipeline.node(name).routes
        label = None if reason in _ABSTAINED else next(label for label in Label if routes[label] == outcome)
        ended[name, label] = ended.get((name, label), 0) + count
    return ended, kept_back
