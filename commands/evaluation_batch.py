"""An experiment's draws as a batch in a database: kept for good, continued by the worker, shown on the pages."""

import sys
from dataclasses import replace
from functools import partial

from commands.one_batch import screen_batch
from jobs.agents import Agents
from jobs.intake import BatchRequest, open_batch
from jobs.port import system_clock
from screening.evaluation.conditions import BUDGETS, PAPER_DELTA
from screening.evaluation.public_datasets import EvaluationData, renumbered
from screening.evaluation.recording import DrawBook
from screening.pipeline.config import chain
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.settings import Settings
from screening.stopping.rules import SuccessiveElimination
from screening.words import count_of
from storage.batches.intake import add_rows, close_intake
from storage.database import Database
from storage.research.recorded_draws import recorded_batch

RECORDING = chain("recording", SuccessiveElimination(budget=max(BUDGETS), delta=PAPER_DELTA, curtail=False), "next")
"""The paper's most demanding condition: its draws settle nearly every case of all the others."""


async def record_as_batch(url: str, data: EvaluationData, settings: Settings) -> DrawBook:
    """Screen the data set as a batch of this database, and give back its draws. A case that fails stays pending; rows
    that no model may be shown follow the others in the batch, so that a person sees them.
    """
    db = Database(url)
    try:
        db.prepare()
        batch_id = await screen_batch(db, settings, partial(_take_in, db, data, settings))
        recorded = recorded_batch(db, LOCAL_USER, batch_id)
    finally:
        db.close()
    print(
        f"batch {batch_id}: {count_of(recorded.book.draws, 'draw')} kept, {count_of(recorded.pending, 'text')} pending",
        file=sys.stderr,
    )
    return replace(recorded.book, cases=len(data.items))


def _take_in(db: Database, data: EvaluationData, settings: Settings, agents: Agents) -> str:
    intake = {"provenance": data.provenance, "steps": [list(step) for step in data.steps], **data.sample}
    request = BatchRequest(name=data.title, pipeline=RECORDING, reach=Reach.COUNT, intake=intake)
    batch_id = open_batch(db, LOCAL_USER, request, settings, agents, system_clock)
    add_rows(db, batch_id, renumbered((*data.rows, *data.left_out)), system_clock())
    close_intake(db, LOCAL_USER.at(system_clock()), batch_id)
    return batch_id
