"""`batches`: list, show, pause, resume, cancel, retry, and write results and corrected data sets."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

from commands.options import Url, opened
from jobs.intake import discard_files_of
from jobs.process import system_clock
from pages.ui.words import duration, money
from screening.datasets.export import jsonl_lines, rejected_csv
from screening.pipeline.files import ERROR_KINDS
from screening.review.policy import LOCAL_USER, Acting
from screening.settings import Settings
from screening.words import count_of
from storage.batches import batches
from storage.batches.batches import Progress, find_batch
from storage.batches.counts import PENDING
from storage.batches.results import Result, export_rejected, export_results
from storage.database import Database
from storage.research.corrected_labels import export_corrected_labels
from storage.research.review_table import collect_reviews

Batch = Annotated[str, "its id", "BATCH"]
Json = Annotated[bool, "print JSON, one object a batch"]
HideInReview = Annotated[bool, "leave out what the AI made of cases in review"]


def list_newest(*, limit: int = 20, json: Json = False, database: Url = None) -> None:
    with opened(database) as db:
        for batch in batches.list_batches(db, LOCAL_USER, limit, now=system_clock()):
            _print(json, batch.id, batch.name, batch.progress)


def _does(control: Callable[[Database, Acting, str], int | None] | None) -> Callable[..., None]:
    """The command that does this to a batch, and prints how far it is."""

    def command(batch: Batch, *, json: Json = False, database: Url = None) -> None:
        with opened(database) as db:
            if control:
                control(db, LOCAL_USER.at(system_clock()), batch)
            _print(json, batch, None, batches.progress(db, batch, system_clock()))

    return command


def _cancel(db: Database, by: Acting, batch_id: str) -> None:
    """End the batch for good, and remove its file where it lies on this machine: nobody will take it in."""
    batches.cancel(db, by, batch_id)
    discard_files_of(Settings().data_directory, batch_id)


def codes() -> None:
    from pages.ui.words import REASON_WORDS

    errors = ((code, known.words) for code, known in ERROR_KINDS.items())
    for code, words in (*REASON_WORDS.items(), *errors):
        print(f"{code}\t{words}")


def _print(as_json: bool, batch_id: str, name: str | None, found: Progress) -> None:
    if as_json:
        named = {"batch": batch_id} | ({"name": name} if name else {})
        print(json.dumps(named | asdict(found) | {"seconds_left": found.seconds_left}, default=datetime.isoformat))
        return
    left, decided = found.seconds_left, found.accepted - found.pending
    parts = [
        batch_id,
        name,
        f"{found.state}" + (f" ({found.why})" if found.why else ""),
        f"{decided:,} of {found.accepted:,} done: {found.safe:,} safe, {found.unsafe:,} unsafe, "
        f"{found.human_review:,} escalated",
        found.failed and f"{found.failed:,} failed",
        found.rejected and f"{count_of(found.rejected, 'row')} rejected",
        count_of(found.calls, "call"),
        money(found.cost_usd),
        found.pending and found.rate and f"{found.rate:.1f} a second",
        found.pending and left and f"{duration(left)} left",
    ]
    print("  ".join(str(part) for part in parts if part))


def results(
    batch: Batch,
    *,
    out: Annotated[Path, "results, one JSON object a row", "FILE"],
    hide_in_review: HideInReview = False,
    json: Json = False,
    database: Url = None,
) -> int:
    """Write what became of each row, and beside it what was rejected; the exit code is that of `screen`."""
    with opened(database) as db:
        stands = batches.progress(db, batch, system_clock())
        _print(json, batch, None, stands)
        ResultsFile(db=db, batch_id=batch, out=out, hide=hide_in_review or None).end()
    return exit_code(stands)


def export(
    batch: Batch,
    *,
    out: Annotated[Path, "the file, which its owner alone may read", "FILE"],
    what: Literal["corrected", "results", "reviews"] = "corrected",
    format: Literal["csv", "jsonl", "parquet", "label-studio"] = "jsonl",
    as_of: Annotated[int | None, "of the corrected data set its state after N final labels", "N"] = None,
    without_text: Annotated[bool, "of the corrected data set ids and labels alone"] = False,
    hide_in_review: HideInReview = False,
    database: Url = None,
) -> None:
    """Write the file. ValueError for an option that the kind of file does not have."""
    from pages.ui.downloads import CORRECTED_LABELS, RESULTS, export, export_reviews

    if as_of is not None and as_of < 0:
        raise ValueError("--as-of: a version is a whole number from 0, the file as it came")
    if what != "corrected" and (as_of is not None or without_text):
        raise ValueError("--as-of and --without-text are for --what corrected only")
    by, key, hide = LOCAL_USER.at(system_clock()), Settings().pseudonym_secret, hide_in_review or None
    parts: Iterator[str] | Iterator[bytes] | Iterator[str | bytes]
    with opened(database) as db:
        find_batch(db, LOCAL_USER, batch)
        if what == "results":
            parts = export(RESULTS, export_results(db, by, batch, hide=hide), format)
        elif what == "reviews":
            parts = export_reviews(collect_reviews(db, by, key, batch), format)
        else:
            rows = export_corrected_labels(db, by, batch, key, with_text=not without_text, as_of=as_of, hide=hide)
            parts = export(CORRECTED_LABELS, rows, format)
        with private_file(out) as file:
            for part in parts:
                file.buffer.write(part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass"))


ACTIONS = {
    "list": (list_newest, "the newest batches (also without an action)"),
    "show": (_does(None), "how far one batch is"),
    "pause": (_does(batches.pause), "make no further calls for it until it is resumed"),
    "resume": (_does(batches.resume), "go on with a paused batch"),
    "cancel": (
        _does(_cancel),
        "end it for good: what is pending stays pending, a file still being taken in is removed",
    ),
    "retry": (_does(batches.retry_failed), "take up again the cases whose last attempt failed"),
    "results": (results, "write what became of each row, and beside it what was rejected"),
    "export": (export, "results, reviews or the corrected data set as a file"),
    "codes": (codes, "what each reason in a file of results means"),
}

ALL_SETTLED, SOME_PENDING, NONE_TAKEN = 0, 3, 4
"""Exit codes; 2 is for input that is refused."""
RESULT_FIELDS = (
    *("id", "row", "outcome", "node", "reason", "calls", "cost_usd", "delta", "pipeline_delta", "contract", "grounds"),
    *("reference", "reference_value", "group", "final_label"),
)
"""Of a line in a file of results."""


@dataclass(slots=True, kw_only=True)
class ResultsFile:
    """One JSON object a row, in the file's order; ``hide`` leaves out what the AI made of cases in review."""

    db: Database
    batch_id: str
    out: Path
    hide: bool | None
    _last: int = 0
    _begun: bool = False

    def write_settled(self) -> None:
        """Write what was not written yet, up to the first row that is not settled."""
        self._write(lambda result: result.outcome != PENDING)

    def end(self) -> None:
        """Write the rest and, beside it (``may.rejected.csv``), the rows that were not taken in, with the reasons."""
        self._write(lambda _: True)
        rows = export_rejected(self.db, LOCAL_USER.at(system_clock()), self.batch_id)
        with private_file(self.out.with_name(f"{self.out.stem}.rejected.csv")) as file:
            file.writelines(rejected_csv(rows, byte_order_mark=False))

    def _write(self, goes_on: Callable[[Result], bool]) -> None:
        by, last = LOCAL_USER.at(system_clock()), self._last
        found = export_results(self.db, by, self.batch_id, after=last, again=self._begun, hide=self.hide)
        with private_file(self.out, more=self._begun) as file:
            self._begun = True
            file.writelines(jsonl_lines(map(self._row, takewhile(goes_on, found))))

    def _row(self, result: Result) -> dict[str, Any]:
        self._last = result.row
        named = {"id": result.external_id, "reason": result.reason or result.error, "final_label": result.accepted}
        return {name: named[name] if name in named else getattr(result, name) for name in RESULT_FIELDS}


def private_file(path: Path, *, more: bool = False) -> TextIO:
    """The file for writing, which its owner alone may read: it may hold texts, or tell of them."""
    mode = os.O_APPEND if more else os.O_TRUNC
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | mode, 0o600)
    os.fchmod(descriptor, 0o600)  # also where the file existed before
    return os.fdopen(descriptor, "w", encoding="utf-8", newline="")


def exit_code(found: Progress) -> int:
    """Whether every row came to its end, and any was taken in at all."""
    if found.rows_in and not found.accepted:
        return NONE_TAKEN
    return SOME_PENDING if found.pending else ALL_SETTLED
