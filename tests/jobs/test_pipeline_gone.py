"""A pipeline that is taken away while its cases run: they end with it, as it was when they were handed in."""

from sqlalchemy import delete, select

from jobs.agents import Agents
from jobs.intake import configuration
from jobs.local import LocalRunner
from jobs.port import system_clock
from jobs.screening_job import ScreeningJob
from screening.datasets.rows import NewCase
from screening.pipeline.files import shipped_pipelines
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from screening.text.received import receive
from storage.batches.batches import NewBatch, create_batch
from storage.batches.configurations import save_configuration
from storage.batches.intake import add_rows, close_intake
from storage.batches.pipelines import activate, active_version, keep_version
from storage.database import Database
from storage.schema import node_runs, pipeline_activations, pipeline_versions, screenings
from tests.jobs.running import PLACES, agents
from tests.storage.inbox_cases import ADMIN

THROUGH_ALL = "Our dog died and the house is so quiet now. I miss him at the door."


async def test_cases_end_with_the_pipeline_they_began_with(db: Database) -> None:
    four = shipped_pipelines()["four_agents"].model_copy(update={"name": "ours"})
    keep_version(db, ADMIN.at(system_clock()), four, "", 0)
    activate(db, ADMIN.at(system_clock()), "ours", 1, "tried")
    settings = Settings(_env_file=None, sampler="simulated")
    version = save_configuration(db, configuration(settings, Agents(settings), four), system_clock())
    new = NewBatch(name="p", configuration_version=version, seed=settings.seed)
    batch_id = create_batch(db, LOCAL_USER.at(system_clock()), new)
    rows = [NewCase(row=row, external_id=str(row), text=receive(THROUGH_ALL)) for row in (1, 2, 3)]
    add_rows(db, batch_id, rows, system_clock())
    close_intake(db, LOCAL_USER.at(system_clock()), batch_id)
    with db.write() as conn:  # no service deletes a version; whoever has the database could
        conn.execute(delete(pipeline_activations))
        conn.execute(delete(pipeline_versions))
    assert active_version(db) is None
    job = ScreeningJob(db=db, agents=agents(), clock=system_clock, worker="w")
    await LocalRunner(job, PLACES, until_done=True).run()
    ended = db.values(select(screenings.c.configuration))
    asked = set(db.values(select(node_runs.c.node)))
    assert ended == [version] * 3 and asked == {node.name for node in four.nodes}
