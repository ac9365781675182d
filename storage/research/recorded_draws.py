"""The draws of a batch as they were recorded, for replay: cases in the file's order, the main prompt's runs only.

No text is shown here; where the agents are simulated, texts are read so that further draws of the same agents can be
made. What is read is numbers about a batch, not a view of a case.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, func, select

from screening.evaluation.recording import DrawBook, Item, NodeDraws
from screening.labels import Label
from screening.pipeline.draws import ScreenedText
from screening.pipeline.engine import MAIN
from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.batches.batch_state import batch_row
from storage.batches.case_texts import text_for_agents
from storage.batches.configurations import Configuration, load_configuration
from storage.database import Database
from storage.schema import adjudications, batch_tallies, cases, node_runs, screenings

_NO_TEXT = ScreenedText(text="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What a batch of recorded draws is: its name, what was announced of it, and what it ran with."""

    batch_id: str
    name: str
    intake: Mapping[str, Any]
    configuration_version: str
    configuration: Configuration
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBatch(Recording):
    """The same with its items and their original references, and its draws.

    ``items`` are in the order of ``case_ids``; their texts are empty unless asked for. ``pending`` cases have no
    outcome yet: their draws so far are there.
    """

    case_ids: tuple[str, ...]
    items: tuple[Item, ...]
    book: DrawBook
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingState:
    """What changes when a batch's draws or accepted labels do: cheap to read, to tell whether a result is stale."""

    accepted: int
    settled: int
    calls: int
    adjudications: int


def recording_state(db: Database, actor: Actor, batch_id: str) -> RecordingState:
    """The state now."""
    require(actor, Action.VIEW_RESULTS)
    tally = batch_tallies.c
    outcomes = func.sum(tally.safe + tally.unsafe + tally.human_review)
    sums = select(func.sum(tally.accepted), outcomes, func.sum(tally.calls)).where(tally.batch_id == batch_id)
    made = select(func.count()).select_from(adjudications).join(cases, cases.c.id == adjudications.c.case_id)
    with db.read() as conn:
        accepted, settled, calls = (int(each or 0) for each in conn.execute(sums).one())
        labels = conn.execute(made.where(cases.c.batch_id == batch_id)).scalar_one()
    return RecordingState(accepted=accepted, settled=settled, calls=calls, adjudications=labels)


def recorded_batch(db: Database, actor: Actor, batch_id: str, *, with_texts: bool = False) -> RecordedBatch:
    """All draws of a batch, from one moment of the database. Raises Forbidden, UnknownBatch."""
    require(actor, Action.VIEW_RESULTS)
    found = recording(db, batch_id)
    with db.read() as conn:
        rows = _cases(conn, batch_id, with_texts)
        places = {row.id: place for place, row in enumerate(rows)}
        book = _book(conn, batch_id, places)
    return RecordedBatch(
        **{each.name: getattr(found, each.name) for each in fields(found)},
        case_ids=tuple(row.id for row in rows),
        items=tuple(_item(row, with_texts) for row in rows),
        book=book,
        pending=sum(row.outcome is None for row in rows),
    )


def recording(db: Database, batch_id: str) -> Recording:
    """What the batch is. Raises UnknownBatch. For callers that have asked whether it may be seen."""
    with db.read() as conn:
        batch = batch_row(conn, batch_id)
    return Recording(
        batch_id=batch_id,
        name=batch.name,
        intake=batch.intake,
        configuration_version=batch.configuration,
        configuration=load_configuration(db, batch.configuration),
        seed=batch.seed,
    )


def _cases(conn: Connection, batch_id: str, with_texts: bool) -> list[Any]:
    case = cases.c
    columns = [case.id, case.external_id, case.reference, case.group_name]
    if with_texts:
        columns += [case.text, case.model_text, case.reply, case.model_reply, case.turns]
    query = select(*columns, screenings.c.outcome).select_from(cases).outerjoin(screenings)
    return list(conn.execute(query.where(case.batch_id == batch_id).order_by(case.row)))


def _book(conn: Connection, batch_id: str, places: Mapping[str, int]) -> DrawBook:
    run, book = node_runs.c, DrawBook(len(places))
    tokens = (run.input_tokens + run.output_tokens).label("tokens")
    query = select(run.case_id, run.node, run.draws, run.cost_usd, tokens).join(cases, cases.c.id == run.case_id)
    for row in conn.execute(query.where(cases.c.batch_id == batch_id, run.variant == MAIN).order_by(run.position)):
        book.nodes[places[row.case_id], row.node] = NodeDraws(
            codes=row.draws, tokens=row.tokens or None, cost_usd=row.cost_usd
        )
    return book


def _item(row: Any, with_texts: bool) -> Item:
    return Item(
        id=row.external_id,
        text=text_for_agents(row) if with_texts else _NO_TEXT,
        reference=None if row.reference is None else Label(row.reference),
        group=row.group_name,
    )
