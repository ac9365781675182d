"""`batches`: see how far batches are, pause, resume, cancel them, retry what failed, and take the results."""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from commands.batch_files import add_export, export
from commands.results_file import ResultsFile, exit_code, write_rejected
from jobs.port import system_clock
from jobs.uploads import discard_files_of
from screening.review.actors import LOCAL_USER, Acting
from screening.settings import Settings
from screening.words import count_of
from storage.batches import batch_state, batches
from storage.batches.batches import Progress
from storage.database import Database


def cancel(db: Database, by: Acting, batch_id: str) -> None:
    """End the batch for good, and remove its file where it lies on this machine: nobody will take it in."""
    batches.cancel(db, by, batch_id)
    discard_files_of(Settings().data_directory, batch_id)


Control = Callable[[Database, Acting, str], int | None]
CONTROLS: dict[str, tuple[Control, str]] = {
    "pause": (batches.pause, "make no further calls for it until it is resumed"),
    "resume": (batches.resume, "go on with a paused batch"),
    "cancel": (cancel, "end it for good: what is pending stays pending, a file still being taken in is removed"),
    "retry": (batches.retry_failed, "take up again the cases whose last attempt failed"),
}


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser(
        "batches", help="list, show, pause, resume, cancel, retry batches, and write their results"
    )
    parser.add_argument("--database", default=None, metavar="URL", help="instead of DATABASE_URL")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a batch")
    parser.set_defaults(run=run, limit=20)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="the newest batches (also without an action)")
    listing.add_argument("--limit", type=int, default=20)
    show = actions.add_parser("show", help="how far one batch is")
    show.add_argument("batch", metavar="BATCH")
    taken = actions.add_parser("results", help="write what became of each row, and beside it what was rejected")
    taken.add_argument("batch", metavar="BATCH")
    taken.add_argument("--out", type=Path, required=True, help="results, one JSON object a row")
    taken.add_argument("--hide-in-review", action="store_true", help="leave out what the AI made of cases in review")
    add_export(actions)
    for name, (_control, help_text) in CONTROLS.items():
        actions.add_parser(name, help=help_text).add_argument("batch", metavar="BATCH")


def run(arguments: argparse.Namespace) -> int:
    """Do it, and print how far the batch is, or the batches are. ValueError for a batch that does not exist."""
    db = Database(arguments.database or Settings().database_url)
    try:
        db.prepare()
        if arguments.action in (None, "list"):
            for found in batches.list_batches(db, LOCAL_USER, arguments.limit, now=system_clock()):
                _print(arguments.json, found.id, found.name, found.progress)
            return 0
        if arguments.action in CONTROLS:
            CONTROLS[arguments.action][0](db, LOCAL_USER.at(system_clock()), arguments.batch)
        now = system_clock()
        stands = batches.progress(db, arguments.batch, now)
        _print(arguments.json, arguments.batch, None, stands)
        if arguments.action == "export":
            export(db, arguments)
        if arguments.action == "results":
            ResultsFile(db=db, out=arguments.out, hide=arguments.hide_in_review or None).write_all(arguments.batch)
            write_rejected(db, arguments.batch, arguments.out)
            return exit_code(stands)
    except batch_state.UnknownBatch as unknown:
        raise ValueError(f"there is no batch {unknown}") from None
    finally:
        db.close()
    return 0


def _print(as_json: bool, batch_id: str, name: str | None, found: Progress) -> None:
    if as_json:
        print(json.dumps(_as_json(batch_id, name, found)))
    else:
        print("  ".join(part for part in (batch_id, name, *_description(found)) if part))


def _as_json(batch_id: str, name: str | None, found: Progress) -> dict[str, Any]:
    fields = asdict(found) | {"seconds_left": found.seconds_left}
    times = {key: value.isoformat() for key, value in fields.items() if isinstance(value, datetime)}
    return {"batch": batch_id} | ({"name": name} if name else {}) | fields | times


def _description(found: Progress) -> list[str]:
    """The parts of a line a person reads.

    >>> _duration(3_725.0), _duration(40.2)
    ('1 h 2 min', '40 s')
    """
    decided = found.accepted - found.pending
    cost = "cost unknown" if found.cost_usd is None else f"${found.cost_usd:.2f}"
    parts = [
        f"{found.state}" + (f" ({found.why})" if found.why else ""),
        f"{decided:,} of {found.accepted:,} done: {found.safe:,} safe, {found.unsafe:,} unsafe, "
        f"{found.human_review:,} to humans",
        f"{found.failed:,} failed" if found.failed else "",
        f"{count_of(found.rejected, 'row')} rejected" if found.rejected else "",
        count_of(found.calls, "call"),
        cost,
        f"{found.rate:.1f} a second" if found.rate and found.pending else "",
    ]
    left = found.seconds_left
    return [*parts, f"{_duration(left)} left" if left and found.pending else ""]


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
