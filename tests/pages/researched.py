"""What a worker does, inside a test; and rows of the sample data, decided by the simulated agents."""

import asyncio
import csv
import io
from pathlib import Path

from jobs.agents import Agents
from jobs.evaluating import Ask
from jobs.intake import fill_batch, open_batch
from jobs.process import system_clock
from jobs.runner import LocalRunner
from screening.datasets.reader import read_table
from screening.pipeline.config import preset
from screening.review.policy import LOCAL_USER, Actor
from screening.settings import Settings
from storage.batches.batches import NewBatch
from storage.batches.counts import batch_now
from storage.database import Database
from storage.review.claims import claim_next
from storage.review.reviews import submit_review
from storage.schema.columns import new_id
from tests.jobs.running import job_of
from tests.storage.inbox_cases import form

SAMPLE = Path(__file__).parent.parent.parent / "data" / "sample.csv"


def sample_rows(every: int = 1, *, labelled: bool = True) -> bytes:
    """Every so-manieth row of the sample data as CSV, with or without its labels."""
    with SAMPLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    kept = [name for name in rows[0] if labelled or name != "label"]
    out = io.StringIO()
    writer = csv.DictWriter(out, kept, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows[::every])
    return out.getvalue().encode()


def screened(db: Database, content: bytes, *, audit_rate: float = 0.5, name: str = "sample.csv") -> str:
    """A batch of these rows, screened to the end; its id."""
    return asyncio.run(screening_of(db, content, audit_rate=audit_rate, name=name))


async def screening_of(
    db: Database, content: bytes, *, audit_rate: float, name: str = "sample.csv", provenance: str | None = None
) -> str:
    """The same, awaited; ``provenance`` is what the intake says of the labels."""
    settings = Settings(sampler="simulated", audit_rate=audit_rate)
    agents = Agents(settings)
    intake = {"label_column": "label", "provenance": provenance}
    new = NewBatch(name=name, intake=intake)
    batch_id = open_batch(db, LOCAL_USER, preset("recommended"), new, settings, system_clock)
    fill_batch(db, LOCAL_USER, batch_id, read_table(content, name), settings, system_clock)
    await LocalRunner(job_of(db, agents), 8).until_done()
    await agents.aclose()
    return batch_id


def work(db: Database) -> None:
    asyncio.run(LocalRunner(job_of(db, Agents(Settings())), 4).until_done())


def review(db: Database, *labels: str, who: Actor = LOCAL_USER, most: int = 1_000) -> int:
    """This person reviews what waits, with these labels by turns; how many cases there were, so many at most."""
    for done in range(most):
        now = system_clock()
        if (claim := claim_next(db, who.at(now))) is None:
            return done
        submit_review(db, who.at(now), claim.case_id, claim.token, form(labels[done % len(labels)]), new_id(now))
    return most


def asked(db: Database, batch_id: str, who: Actor = LOCAL_USER) -> Ask:
    """What the pages of a batch's figures ask for."""
    return Ask(actor=who, batch_id=batch_id, standing=batch_now(db, who, batch_id))
