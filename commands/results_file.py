"""A batch's results in a file that only its owner can read, written as rows are settled: a command that is killed
leaves what was settled by then.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from jobs.port import system_clock
from screening.datasets.export import jsonl_lines
from screening.datasets.rows import rejected_csv
from screening.review.actors import LOCAL_USER
from storage.batches.batches import Progress
from storage.batches.exports import export_rejected, export_results
from storage.batches.results import Result
from storage.database import Database
from storage.kinds import PENDING

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
            yield _as_json(result)
            self._last = result.row


def _as_json(result: Result) -> dict[str, Any]:
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
