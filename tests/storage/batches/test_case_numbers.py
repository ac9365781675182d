"""Cases of a pipeline with a δ schedule are counted over all its batches; the numbers decide their error levels."""

import pytest
from sqlalchemy import select

from jobs.local import LocalRunner
from jobs.port import system_clock
from jobs.screening_job import ScreeningJob
from screening.datasets.rows import NewCase
from screening.engine.pipeline import PipelineConfig, preset
from screening.engine.pipeline_file import check
from screening.review.actors import LOCAL_USER
from screening.text.received import receive
from storage.batches.batches import NewBatch, create_batch
from storage.batches.configurations import Configuration, save_configuration
from storage.batches.intake import add_rows, close_intake
from storage.batches.screenings import case_for_screening
from storage.database import Database
from storage.schema import cases, screenings
from tests.jobs.running import PLACES, agents

PLAIN = preset("recommended")
SCHEDULED = check(
    {"name": "scheduled", "node": [node | {"schedule": "harmonic"} for node in PLAIN.model_dump(mode="json")["nodes"]]}
)


def _batch(db: Database, pipeline: PipelineConfig, seed: int = 0) -> str:
    kept = Configuration(pipeline=pipeline, sampler=agents().describe(seed))
    version = save_configuration(db, kept, system_clock())
    return create_batch(db, LOCAL_USER.at(system_clock()), NewBatch(name="p", configuration_version=version, seed=seed))


def _rows(first: int, last: int) -> list[NewCase]:
    text = receive("I want to kill myself tonight.")
    return [NewCase(row=row, external_id=str(row), text=text) for row in range(first, last + 1)]


def _numbers(db: Database, batch_id: str) -> list[int | None]:
    return db.values(select(cases.c.number).where(cases.c.batch_id == batch_id).order_by(cases.c.row))


def test_numbers_go_on_over_the_batches_of_a_pipeline_and_nothing_else_is_counted(db: Database) -> None:
    first, second, plain = _batch(db, SCHEDULED), _batch(db, SCHEDULED, seed=1), _batch(db, PLAIN)
    add_rows(db, first, _rows(1, 3), system_clock(), chunk=2)
    add_rows(db, second, _rows(1, 2), system_clock())
    add_rows(db, first, _rows(1, 5), system_clock())  # again after a crash: what is there keeps its number
    add_rows(db, plain, _rows(1, 2), system_clock())
    assert _numbers(db, first) == [1, 2, 3, 6, 7] and _numbers(db, second) == [4, 5]
    assert _numbers(db, plain) == [None, None]


async def test_a_case_is_decided_at_the_level_of_its_number(db: Database) -> None:
    batch_id = _batch(db, SCHEDULED)
    add_rows(db, batch_id, _rows(1, 40), system_clock())
    close_intake(db, LOCAL_USER.at(system_clock()), batch_id)
    last = db.value(select(cases.c.id).where(cases.c.row == 40))
    found = case_for_screening(db, last)
    assert found is not None and found.number == 40
    assert found.pipeline.nodes[0].rule.rule().delta == pytest.approx(0.05 / 40)
    assert found.configuration.pipeline == SCHEDULED
    job = ScreeningJob(db=db, agents=agents(), clock=system_clock, worker="w")
    await LocalRunner(job, PLACES, until_done=True).run()
    query = select(cases.c.row, screenings.c.delta, screenings.c.calls)
    ended = db.rows(query.join(screenings, screenings.c.case_id == cases.c.id).order_by(cases.c.row))
    assert len(ended) == 40
    assert all(abs(one.delta - 0.05 / one.row) < 1e-12 for one in ended if one.calls)
    assert ended[39].calls > ended[0].calls
