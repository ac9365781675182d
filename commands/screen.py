"""`screen`: a file in, one outcome a row out; the same engine, storage and worker as behind the pages."""

import asyncio
import hashlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Literal

from commands.batches import HideInReview, ResultsFile, exit_code
from commands.file_options import FileReading, mapped_table, mapping_lines
from commands.options import opened, say
from commands.pipelines import chosen_pipeline
from jobs.intake import fill_batch, open_batch, require_overnight, unlabelled_rows
from jobs.overnight import OvernightRunner
from jobs.process import retry_in_thread, system_clock, worker_name
from jobs.runner import AlreadyRunning, LocalRunner, only_worker, runner_for
from jobs.screening_job import ScreeningJob, open_job
from screening.datasets.reader import Table, describe_reading
from screening.labels import Label
from screening.pipeline.config import PipelineConfig
from screening.review.policy import LOCAL_USER
from screening.review.triage import Reach
from screening.settings import SIMULATED_NOTICE, Settings
from screening.words import count_of
from storage.batches.batch_state import ACTIVE, BatchState
from storage.batches.batches import NewBatch, batch_state, list_batches, progress
from storage.batches.intake import count_not_screened, takes_rows
from storage.batches.overnight import is_overnight
from storage.batches.results import count_in_review
from storage.database import Database
from storage.settings_store import settings_now

NOT_SCREENED = (
    "NOT SCREENED: {rows} could not be read as they should, and state a risk. They are in the queue with the reason; "
    "without --database nobody sees them but you: row_rejected in the results."
)
PATIENCE_S = 120.0
"""How long a command waits for a service that answers nobody, before it ends and says what is pending."""
TELL_EVERY_S, SAID_EVERY_S = 2.0, 4.0
NOT_REVIEWED = {
    Reach.LIST: "texts that the AI labels unsafe are listed for sign-off, and reviewed by nobody",
    Reach.COUNT: "texts that the AI labels unsafe are only counted, and seen by nobody",
}
SUMMED = (
    *("rows_in", "accepted", "rejected", "safe", "unsafe", "human_review", "pending"),
    *("calls", "lost_calls", "cost_usd"),
)
COUNT_AS_SEEN = (
    "Cases in review in this database: {cases:,}. The results show their outcomes, so they count as seen by the local "
    "user: a later review of them is stored as not blinded. --hide-in-review leaves these outcomes out."
)


def screen(
    file: Annotated[Path, "the texts", "FILE"],
    *,
    out: Annotated[Path, "results, one JSON object a row", "FILE"],
    sampler: Literal["simulated", "anthropic", "chat", "logprobs"] | None = None,
    pipeline: Annotated[
        str | None, "a TOML file, or a pipeline's name; else the active one of the database", "FILE_OR_NAME"
    ] = None,
    seed: Annotated[int | None, "seed of the simulated agents"] = None,
    overnight: Annotated[
        bool,
        "by message batches, at about half the price and within a day a round; needs --database, its administrator's "
        "leave, and a reference label in every row",
    ] = False,
    database: Annotated[str | None, "keep everything here; else nothing is kept", "URL"] = None,
    hide_in_review: HideInReview = False,
    reading: FileReading,
    unsafe: Annotated[
        Reach,
        "texts that the AI labels unsafe: review every one (read, the default), list for sign-off, or only count",
    ] = Reach.READ,
    no_living_authors: Annotated[
        bool, "the texts' authors are no longer alive: review them in random order, without priority"
    ] = False,
    resume: Annotated[bool, "go on with an earlier run of this file that the database knows"] = False,
    patience: Annotated[float, "how long to wait for a model that answers nothing", "SECONDS"] = PATIENCE_S,
    json: Annotated[bool, "print the summary as one JSON object on the last line"] = False,
) -> int:
    """Screen the file, write and sum up the results; exit code 0 (all settled), 3 (some pending) or 4 (no row)."""
    settings = settings_with(sampler=sampler, seed=seed)
    with opened(database) if database else _temporary() as db:
        settings = settings_now(db, settings)
        chosen = chosen_pipeline(db, pipeline, settings)
        table = mapped_table(file, reading)
        say(*announcements(table, unsafe))
        if overnight:
            require_overnight(db, settings, chosen, unlabelled_rows(table, settings))
        new = NewBatch(
            name=table.name,
            reach=unsafe,
            intake=_intake(table, file),
            overnight=overnight,
            research_order=no_living_authors,
        )
        batch_id = _take_in(db, table, chosen, new, settings, resume=resume)
        results = ResultsFile(db=db, batch_id=batch_id, out=out, hide=hide_in_review or None)
        asyncio.run(screen_batch(db, settings, batch_id, tell=results.write_settled, patience_s=patience))
        results.end()
        open_ones = 0 if hide_in_review or not database else count_in_review(db, batch_id)
        not_screened = count_not_screened(db, batch_id)
        found = progress(db, batch_id)
    if not_screened:
        say(in_red(NOT_SCREENED.format(rows=count_of(not_screened, "row"))))
    if found.rows_in and not found.accepted:
        say(in_red(f"NOT ONE of {count_of(found.rows_in, 'row')} was taken in: all are rejected."))
    if open_ones:
        say(COUNT_AS_SEEN.format(cases=open_ones))
    if settings.simulated:
        say(SIMULATED_NOTICE)
    summary = {name: getattr(found, name) for name in SUMMED} | {"not_screened": not_screened}
    print(dumps(summary) if json else "\n".join(f"{name}: {value}" for name, value in summary.items()))
    return exit_code(found)


def in_red(sentence: str) -> str:
    return f"\x1b[1;31m{sentence}\x1b[0m" if sys.stderr.isatty() else sentence


def announcements(table: Table, reach: Reach) -> Iterator[str]:
    """How the file was read, for whoever pays for screening it, and what nobody will see."""
    yield f"{table.name}: {count_of(table.row_count, 'row')}, read as {table.layout.words}"
    yield from mapping_lines(table)
    yield from table.warnings
    if reach is not Reach.READ:
        counts = table.label_values
        labeled = sum(counts[value] for value, label in table.labels.items() if label is Label.UNSAFE)
        known = f"; {count_of(labeled, 'row has', 'rows have')} an unsafe original label" if labeled else ""
        yield f"WARNING: {NOT_REVIEWED[reach]}{known}"


@contextmanager
def _temporary() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder, opened(f"sqlite:///{folder}/screening.db") as db:
        yield db


def _intake(table: Table, file: Path) -> dict[str, Any]:
    known = describe_reading(table)
    if not file.is_file():
        return known
    with file.open("rb") as content:
        return known | {"sha256": hashlib.file_digest(content, "sha256").hexdigest()}


def _take_in(
    db: Database, table: Table, pipeline: PipelineConfig, new: NewBatch, settings: Settings, *, resume: bool
) -> str:
    """The batch of this run, or of the newest earlier one of this very file, read in this very way, whose rows are not
    all settled.
    """
    going, newest = ACTIVE | {BatchState.NEEDS_RETRY}, list_batches(db, LOCAL_USER, limit=1_000)
    same = (batch for batch in newest if "sha256" in batch.intake and dict(batch.intake) == new.intake)
    earlier = next((batch.id for batch in same if batch.progress.state in going), None)
    if earlier is not None:
        run = f"batch {earlier}, an earlier run of this file"
        say(f"going on with {run}" if resume else f"{run}, was not finished: --resume goes on")
    goes_on = earlier if resume else None
    batch_id = goes_on or open_batch(db, LOCAL_USER, pipeline, new, settings, system_clock)
    if goes_on is None or takes_rows(db, batch_id):
        tell = every_few_seconds(lambda row: f"Checking the texts: {row:,} of {table.row_count:,}")
        fill_batch(db, LOCAL_USER, batch_id, table, settings, system_clock, tell)
    return batch_id


def settings_with(**given: Any) -> Settings:
    return Settings(**{name: value for name, value in given.items() if value is not None})


def every_few_seconds(words: Callable[..., str]) -> Callable[..., None]:
    """Says what these words say of a number of things done, unless that was done a moment ago."""
    last = monotonic()

    def tell(*done: int) -> None:
        nonlocal last
        if monotonic() - last > SAID_EVERY_S:
            last = monotonic()
            say(words(*done))

    return tell


async def screen_batch(
    db: Database,
    settings: Settings,
    batch_id: str,
    *,
    tell: Callable[[], None] = lambda: None,
    patience_s: float = PATIENCE_S,
) -> None:
    """Returns when nothing more happens to the batch by itself. ``tell`` is called every few seconds meanwhile; a
    service that answers nobody is waited for up to ``patience_s``.

    No case is screened twice and no limit exceeded, whatever other workers there are.
    """
    async with open_job(settings, db, worker_name("command line "), patience_s=patience_s) as job:
        telling = asyncio.create_task(_keep_telling(tell))
        try:
            with only_worker(db):
                await _work(job, settings, batch_id)
        except AlreadyRunning:
            say("a worker is at work on this database: waiting for it to screen this batch")
            await _over(db, batch_id)
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)


async def _work(job: ScreeningJob, settings: Settings, batch_id: str) -> None:
    """By this process alone or, on a database for several, beside the others."""
    if is_overnight(job.db, batch_id):
        await OvernightRunner(job, settings.overnight_poll_s).until_over(batch_id)
    elif job.db.kind == "sqlite":
        await LocalRunner(job, settings.cases_in_flight).until_done()
    else:
        runner = runner_for(job, settings.cases_in_flight)
        work, over = asyncio.create_task(runner.run()), asyncio.create_task(_over(job.db, batch_id))
        await asyncio.wait([work, over], return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        runner.stop()
        await work


async def _keep_telling(tell: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(TELL_EVERY_S)
        await retry_in_thread(tell)


async def _over(db: Database, batch_id: str) -> None:
    """Returns when nothing more happens to the batch by itself."""
    while await retry_in_thread(batch_state, db, batch_id) in ACTIVE:  # noqa: ASYNC110 - others work on it
        await asyncio.sleep(0.5)
