"""`batches`: list, show, pause, resume, cancel, retry, and write results and corrected data sets."""

import argparse
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from jobs.port import system_clock
from jobs.uploads import discard_files_of
from pages.ui.format import duration, money
from screening.datasets.export import jsonl_lines, rejected_csv
from screening.review.actors import LOCAL_USER, Acting
from screening.settings import Settings
from screening.words import count_of
from storage.batches import batch_state, batches
from storage.batches.batches import Progress, find_batch
from storage.batches.counts import PENDING
from storage.batches.results import Result, export_rejected, export_results
from storage.database import Database
from storage.research.reading_table import export_readings
from storage.research.relabelled import export_relabelled


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
    actions.add_parser("codes", help="what each reason in a file of results means")
    for name, (_control, help_text) in CONTROLS.items():
        actions.add_parser(name, help=help_text).add_argument("batch", metavar="BATCH")


def codes() -> None:
    """Print each reason that a file of results may hold, with its meaning."""
    from pages.ui.labels import ERROR_WORDS, REASON_WORDS

    for code, words in (*REASON_WORDS.items(), *ERROR_WORDS.items()):
        print(f"{code}\t{words}")


def run(arguments: argparse.Namespace) -> int:
    """Do it, and print how far the batch is, or the batches are. ValueError for a batch that does not exist."""
    if arguments.action == "codes":
        codes()
        return 0
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
    decided = found.accepted - found.pending
    parts = [
        f"{found.state}" + (f" ({found.why})" if found.why else ""),
        f"{decided:,} of {found.accepted:,} done: {found.safe:,} safe, {found.unsafe:,} unsafe, "
        f"{found.human_review:,} to humans",
        f"{found.failed:,} failed" if found.failed else "",
        f"{count_of(found.rejected, 'row')} rejected" if found.rejected else "",
        count_of(found.calls, "call"),
        money(found.cost_usd),
        f"{found.rate:.1f} a second" if found.rate and found.pending else "",
    ]
    left = found.seconds_left
    return [*parts, f"{duration(left)} left" if left and found.pending else ""]


WHAT, FORMATS = ("relabelled", "results", "readings"), ("csv", "jsonl", "parquet", "label-studio")


def add_export(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this action's arguments."""
    parser = actions.add_parser("export", help="results, readings or the relabelled data set as a file")
    parser.add_argument("batch", metavar="BATCH")
    parser.add_argument("--what", choices=WHAT, default="relabelled")
    parser.add_argument("--format", choices=FORMATS, default="jsonl")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--as-of", type=_version, metavar="N", help="of the relabelled data set its state after N accepted labels"
    )
    parser.add_argument("--without-text", action="store_true", help="of the relabelled data set ids and labels alone")
    parser.add_argument("--hide-in-review", action="store_true", help="leave out what the AI made of cases in review")


def export(db: Database, arguments: argparse.Namespace) -> None:
    """Write the file, which its owner alone may read. ValueError for
    an option that the kind of file does not have.
    """
    if arguments.what != "relabelled" and (arguments.as_of is not None or arguments.without_text):
        raise ValueError("--as-of and --without-text are for --what relabelled alone")
    find_batch(db, LOCAL_USER, arguments.batch)
    with private_bytes(arguments.out) as file:
        for part in _parts(db, arguments):
            file.write(part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass"))


def _parts(db: Database, arguments: argparse.Namespace) -> Iterator[str] | Iterator[bytes] | Iterator[str | bytes]:
    from pages.ui.downloads import RELABELLED, RESULTS, export, export_reviews

    by, key = LOCAL_USER.at(system_clock()), Settings().pseudonym_secret
    hide = arguments.hide_in_review or None
    if arguments.what == "results":
        return export(RESULTS, export_results(db, by, arguments.batch, hide=hide), arguments.format)
    if arguments.what == "readings":
        return export_reviews(export_readings(db, by, key, arguments.batch), arguments.format)
    text, version = not arguments.without_text, arguments.as_of
    rows = export_relabelled(db, by, arguments.batch, key, with_text=text, as_of=version, hide=hide)
    return export(RELABELLED, rows, arguments.format)


def _version(word: str) -> int:
    if not word.isdecimal():
        raise argparse.ArgumentTypeError("a version is a whole number from 0, the file as it came")
    return int(word)


ALL_SETTLED, SOME_PENDING, NONE_TAKEN = 0, 3, 4
"""Exit codes; 2 is for input that is refused."""


@dataclass(slots=True, kw_only=True)
class ResultsFile:
    """One JSON object a row, in the file's order; ``hide`` leaves out what the AI made of cases in review."""

    db: Database
    out: Path
    hide: bool | None
    _last: int = 0
    _begun: bool = field(default=False)

    def write_settled(self, batch_id: str) -> None:
        """Write the rows settled since the last time, up to the first that is not."""
        self._write(batch_id, settled_only=True)

    def write_all(self, batch_id: str) -> None:
        """Write the remaining rows, settled or not."""
        self._write(batch_id, settled_only=False)

    def _write(self, batch_id: str, *, settled_only: bool) -> None:
        by, last = LOCAL_USER.at(system_clock()), self._last
        found = export_results(self.db, by, batch_id, after=last, again=self._begun, hide=self.hide)
        with private_file(self.out, more=self._begun) as file:
            self._begun = True
            file.writelines(jsonl_lines(self._rows(found, settled_only=settled_only)))

    def _rows(self, found: Iterable[Result], *, settled_only: bool) -> Iterator[dict[str, Any]]:
        for result in found:
            if settled_only and result.outcome == PENDING:
                return
            yield _cell_json(result)
            self._last = result.row


def _cell_json(result: Result) -> dict[str, Any]:
    return {
        "id": result.external_id,
        "row": result.row,
        "outcome": result.outcome,
        "node": result.node,
        "reason": result.reason or result.error,
        "calls": result.calls,
        "cost_usd": result.cost_usd,
        "delta": result.delta,
        "pipeline_delta": result.pipeline_delta,
        "contract": result.contract,
        "grounds": result.grounds,
        "reference": result.reference,
        "reference_value": result.reference_value,
        "group": result.group,
        "final_label": result.accepted,
    }


def private_file(path: Path, *, more: bool = False) -> TextIO:
    """The file for writing, which its owner alone may read: it may hold texts, or tell of them."""
    mode = os.O_APPEND if more else os.O_TRUNC
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | mode, 0o600)
    os.fchmod(descriptor, 0o600)  # also where the file existed before
    return os.fdopen(descriptor, "w", encoding="utf-8", newline="")


def private_bytes(path: Path) -> BinaryIO:
    """The same for a file of bytes, emptied first."""
    private_file(path).close()
    return path.open("wb")


def rejected_path(out: Path) -> Path:
    """Where the rows that were not taken in go: named after the run's results.

    >>> rejected_path(Path("runs/may.jsonl")).as_posix()
    'runs/may.rejected.csv'
    """
    return out.with_name(f"{out.stem}.rejected.csv")


def write_rejected(db: Database, batch_id: str, out: Path) -> None:
    """Write the rows that were not taken in, each with its reason."""
    rows = export_rejected(db, LOCAL_USER.at(system_clock()), batch_id)
    with private_file(rejected_path(out)) as file:
        file.writelines(rejected_csv(rows, byte_order_mark=False))


def exit_code(found: Progress) -> int:
    """Whether every row came to its end, and any was taken in at all."""
    if found.rows_in and not found.accepted:
        return NONE_TAKEN
    return SOME_PENDING if found.pending else ALL_SETTLED
