"""`screen`: a file in, one outcome a row out; the same engine, storage and worker as behind the pages."""

import argparse
import asyncio
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, get_args

from commands.batches import ResultsFile, exit_code, write_rejected
from commands.file_options import add_mapping_options, mapped_table, mapping_lines, save_mapping
from commands.one_batch import PATIENCE_S, screen_batch
from commands.pipelines import chosen_pipeline, pipeline_in_force
from jobs.agents import Agents
from jobs.intake import BatchRequest, fill_batch, open_batch, require_overnight, unlabelled_rows
from jobs.port import system_clock
from screening.datasets.reader import FileReport, Table, describe_reading
from screening.labels import Label
from screening.pipeline.config import PipelineConfig, Preset, preset
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.settings import SIMULATED_NOTICE, Settings
from screening.words import count_of
from storage.batches.batch_state import ACTIVE, BatchState
from storage.batches.batches import Progress, list_batches, progress
from storage.batches.intake import count_not_screened, takes_rows
from storage.batches.results import count_in_review
from storage.database import Database
from storage.settings_store import settings_now

GOING_ON = "going on with batch {batch}, an earlier run of this file"
UNFINISHED = "batch {batch} is an earlier run of this file that was not finished: --resume goes on with it"
NOT_SCREENED = (
    "NOT SCREENED: {rows} could not be read as they should, and state a risk. They are in the queue with the reason; "
    "without --database nobody sees them but you: row_rejected in the results."
)
MOST_LOOKED_AT = 1_000
TOLD_EVERY_S = 3.0
NOT_REVIEWED = {
    Reach.LIST: "texts that the AI labels unsafe are listed for sign-off, and reviewed by nobody",
    Reach.COUNT: "texts that the AI labels unsafe are only counted, and seen by nobody",
}
COUNT_AS_SEEN = (
    "Cases in review in this database: {cases:,}. The results show their outcomes, so they count as seen by the local "
    "user: a later review of them is stored as not blinded. --hide-in-review leaves these outcomes out."
)


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser(
        "screen", help="screen a file: CSV, JSON, xlsx, Parquet, a saved data set, or a tool's export"
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, help="results, one JSON object a row")
    parser.add_argument("--sampler", choices=["simulated", "anthropic", "chat", "logprobs"], default=None)
    parser.add_argument(
        "--pipeline",
        default=None,
        metavar="FILE_OR_NAME",
        help="a TOML file, or a pipeline's name; else what is in force in the database",
    )
    parser.add_argument("--preset", choices=get_args(Preset), default=None)
    parser.add_argument("--delta", type=float, default=None, help="error level, symmetric over the labels")
    parser.add_argument("--budget", type=int, default=None, help="most calls a node may use on a text")
    parser.add_argument("--seed", type=int, default=None, help="seed of the simulated agents")
    parser.add_argument(
        "--overnight",
        action="store_true",
        help="by message batches, at about half the price and within a day a round; needs --database, its "
        "administrator's leave, and a reference label in every row",
    )
    parser.add_argument("--database", default=None, metavar="URL", help="keep everything here; else nothing is kept")
    parser.add_argument("--hide-in-review", action="store_true", help="leave out what the AI made of cases in review")
    add_mapping_options(parser)
    parser.add_argument(
        "--unsafe",
        choices=list(Reach),
        type=Reach,
        default=Reach.READ,
        help="texts that the AI labels unsafe: review every one (read, the default), list for sign-off, or only count",
    )
    parser.add_argument(
        "--no-living-authors", action="store_true",
        help="the texts' authors are no longer alive: review them in random order, without priority",
    )  # fmt: skip
    parser.add_argument(
        "--resume", action="store_true", help="go on with an earlier run of this file that the database knows"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE_S,
        metavar="SECONDS",
        help="how long to wait for a model that answers nothing",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object on the last line")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Screen the file, write the results and beside them what was rejected, print the summary; the exit code tells
    whether all is settled (0), something is pending (3) or no row was taken in (4).
    """
    settings = _settings(arguments)
    pipeline = _pipeline(arguments, settings)
    table = mapped_table(arguments.file, arguments.file.name, arguments)
    save_mapping(table.report, arguments)
    for line in (*announcements(table.report), *unseen(table.report, arguments.unsafe)):
        print(line, file=sys.stderr)
    with _database(arguments.database) as db:
        settings = settings_now(db, settings)
        intake = _intake(table, arguments.file)
        if arguments.overnight:
            require_overnight(db, settings, pipeline, unlabelled_rows(table, settings))
        request = BatchRequest(
            name=table.report.name,
            pipeline=pipeline,
            reach=arguments.unsafe,
            intake=intake,
            overnight=arguments.overnight,
            research_order=arguments.no_living_authors,
        )
        batch_id = _screen(db, table, request, settings, arguments)
        open_ones = 0 if arguments.hide_in_review or not arguments.database else count_in_review(db, batch_id)
        not_screened = count_not_screened(db, batch_id)
        found = progress(db, batch_id)
    if not_screened:
        print(in_red(NOT_SCREENED.format(rows=count_of(not_screened, "row"))), file=sys.stderr)
    if found.rows_in and not found.accepted:
        print(in_red(f"NOT ONE of {count_of(found.rows_in, 'row')} was taken in: all are rejected."), file=sys.stderr)
    if open_ones:
        print(COUNT_AS_SEEN.format(cases=open_ones), file=sys.stderr)
    if settings.simulated:
        print(SIMULATED_NOTICE, file=sys.stderr)
    summary = _summary(found) | {"not_screened": not_screened}
    print(json.dumps(summary) if arguments.json else "\n".join(f"{name}: {value}" for name, value in summary.items()))
    return exit_code(found)


def in_red(sentence: str) -> str:
    """The sentence, in red on a terminal."""
    return f"\x1b[1;31m{sentence}\x1b[0m" if sys.stderr.isatty() else sentence


def announcements(report: FileReport) -> Iterator[str]:
    """What a person should know of how the file was read."""
    read_as = ", ".join(part for part in (report.format, report.encoding, _separator(report.separator)) if part)
    yield f"{report.name}: {count_of(report.rows, 'row')}, read as {read_as}"
    yield from mapping_lines(report)
    yield from report.warnings


def unseen(report: FileReport, reach: Reach) -> Iterator[str]:
    """What nobody will see where texts labeled unsafe are not reviewed."""
    if reach is not Reach.READ:
        labeled = sum(report.label_values[value] for value, label in report.labels.items() if label is Label.UNSAFE)
        known = f"; {count_of(labeled, 'row has', 'rows have')} an unsafe original label" if labeled else ""
        yield f"WARNING: {NOT_REVIEWED[reach]}{known}"


def _separator(separator: str | None) -> str | None:
    names = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
    return None if separator is None else f"separated by {names.get(separator, repr(separator))}"


def _pipeline(arguments: argparse.Namespace, settings: Settings) -> PipelineConfig:
    """What is asked for; where nothing is, the pipeline that is in force in the database. Raises PipelineRefused."""
    own_rules = (arguments.preset, arguments.delta, arguments.budget) != (None, None, None)
    if arguments.pipeline is not None and own_rules:
        raise ValueError("--pipeline says rule, levels and budgets itself: leave out --preset, --delta and --budget")
    if arguments.pipeline is not None:
        return chosen_pipeline(arguments.pipeline, arguments.database, settings)
    if arguments.database and not own_rules:
        with _database(arguments.database) as db:
            return pipeline_in_force(db, settings)
    return preset(settings.preset, delta=arguments.delta, budget=settings.budget)


def _settings(arguments: argparse.Namespace) -> Settings:
    given: Mapping[str, Any] = {
        "sampler": arguments.sampler,
        "preset": arguments.preset,
        "budget": arguments.budget,
        "seed": arguments.seed,
    }
    return Settings(**{name: value for name, value in given.items() if value is not None})


@contextmanager
def _database(url: str | None) -> Iterator[Database]:
    """The database asked for, or a temporary one."""
    with ExitStack() as stack:
        if url is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = f"sqlite:///{folder}/screening.db"
        db = Database(url)
        stack.callback(db.close)
        db.prepare()
        yield db


def _screen(
    db: Database, table: Table, request: BatchRequest, settings: Settings, arguments: argparse.Namespace
) -> str:
    """The batch of this run, or of the earlier one that it goes on with, and its files."""
    take_in = partial(_take_in, db, table, request, settings)
    if (earlier := _unfinished_batch(db, request.intake)) is not None:
        print((GOING_ON if arguments.resume else UNFINISHED).format(batch=earlier), file=sys.stderr)
        take_in = partial(_continue_batch, db, table, earlier, settings) if arguments.resume else take_in
    results = ResultsFile(db=db, out=arguments.out, hide=arguments.hide_in_review or None)
    work = screen_batch(db, settings, take_in, tell=results.write_settled, patience_s=arguments.patience)
    batch_id = asyncio.run(work)
    results.write_all(batch_id)
    write_rejected(db, batch_id, arguments.out)
    return batch_id


def _take_in(db: Database, table: Table, request: BatchRequest, settings: Settings, agents: Agents) -> str:
    batch_id = open_batch(db, LOCAL_USER, request, settings, agents, system_clock)
    fill_batch(db, LOCAL_USER, batch_id, table, settings, system_clock, _teller(table.report.rows))
    return batch_id


def _continue_batch(db: Database, table: Table, batch_id: str, settings: Settings, _agents: Agents) -> str:
    """Take in the rest of an earlier run's rows; returns the batch's id."""
    if takes_rows(db, batch_id):
        fill_batch(db, LOCAL_USER, batch_id, table, settings, system_clock, _teller(table.report.rows))
    return batch_id


def _teller(rows: int) -> Callable[[int], None]:
    """Says every few seconds how many rows have been looked at."""
    said = monotonic()

    def tell(row: int) -> None:
        nonlocal said
        if monotonic() - said > TOLD_EVERY_S:
            said = monotonic()
            print(f"Checking the texts: {row:,} of {rows:,}", file=sys.stderr)

    return tell


def _unfinished_batch(db: Database, intake: Mapping[str, Any]) -> str | None:
    """The newest batch of this very file, read in this very way, whose rows are not all settled."""
    going = ACTIVE | {BatchState.NEEDS_RETRY}
    found = list_batches(db, LOCAL_USER, limit=MOST_LOOKED_AT)
    same = (one for one in found if "sha256" in one.intake and dict(one.intake) == dict(intake))
    return next((one.id for one in same if one.progress.state in going), None)


def _intake(table: Table, file: Path) -> dict[str, Any]:
    """How the file is read, and which file it is."""
    known = describe_reading(table.report)
    if not file.is_file():
        return known
    with file.open("rb") as content:
        return known | {"sha256": hashlib.file_digest(content, "sha256").hexdigest()}


def _summary(found: Progress) -> dict[str, int | float | None]:
    return {
        "rows_in": found.rows_in,
        "accepted": found.accepted,
        "rejected": found.rejected,
        "safe": found.safe,
        "unsafe": found.unsafe,
        "human_review": found.human_review,
        "pending": found.pending,
        "calls": found.calls,
        "lost_calls": found.lost_calls,
        "cost_usd": found.cost_usd,
    }
