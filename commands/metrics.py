"""`metrics`: accuracy, FPR, FNR and escalation rate of a file of outcomes against reference labels; and how another
file of the same cases differs: another model, other prompts, another pipeline.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ValidationError, ValidationInfo, field_validator

from screening.evaluation.metrics import evaluate, outcome_codes, reference_codes
from screening.evaluation.paired import Told, compare_codes
from screening.evaluation.public_datasets import published_rows
from screening.labels import Label, Outcome


class Row(BaseModel):
    """A case as a file has it; an empty cell is None."""

    id: str = ""
    reference: Literal[Label.SAFE, Label.UNSAFE] | None
    outcome: Outcome | None
    calls: float | None = None

    @field_validator("reference", "outcome", "calls", mode="before")
    @classmethod
    def _in_our_words(cls, cell: str, info: ValidationInfo) -> str | None:
        others = {"pending": None, "escalate": Outcome.HUMAN_REVIEW} if info.field_name == "outcome" else {}
        return others.get(cell.casefold(), cell.casefold() or None)


def metrics(
    file: Annotated[Path, "CSV, or the JSON lines that screen writes", "FILE"],
    *,
    against: Annotated[
        Path | None,
        "another file of the same cases, joined by id: paired differences (OTHER less FILE) with 95 % intervals and "
        "McNemar's exact test, by FILE's references",
        "OTHER",
    ] = None,
) -> None:
    """Print the metrics as JSON; an undefined value is null."""
    rows = list(_rows(file))
    measured = evaluate(reference_codes([row.reference for row in rows]), outcome_codes([row.outcome for row in rows]))
    rates = ("accuracy", "fpr", "fnr", "escalation_rate")
    report: dict[str, object] = {name: getattr(measured, name).plain for name in rates}
    report |= {name: getattr(measured, name) for name in ("n", "pending", "without_reference")}
    if against is not None:
        report["against"] = _compared(_by_id(file, rows), _by_id(against, _rows(against)), file.name, against.name)
    print(json.dumps(report))


def _compared(first: dict[str, Row], second: dict[str, Row], *names: str) -> dict[str, object]:
    """How the other file differs, over the cases that both hold."""
    shared = [each for each in first if each in second]
    references = reference_codes([first[each].reference for each in shared])
    one, other = (
        _decisions(name, [rows[each] for each in shared]) for name, rows in zip(names, (first, second), strict=True)
    )
    found = compare_codes(references, one, other)
    return {
        "file": found.second,
        "shared": len(shared),
        "not_in_both": len(first) + len(second) - 2 * len(shared),
        "right_in_the_first_alone": found.only_first,
        "right_in_the_other_alone": found.only_second,
        "mcnemar_p": found.p_value,
        "differences": {name: asdict(each) for name, each in found.differences},
        "note": "each interval holds by itself: one chosen out of several is exploratory",
    }


def _by_id(path: Path, rows: Sequence[Row] | Iterator[Row]) -> dict[str, Row]:
    every = list(rows)
    found = {row.id: row for row in every if row.id}
    if len(found) < len(every):
        raise ValueError(f"{path.name}: every row needs an id of its own to be compared")
    return found


def _decisions(name: str, rows: Sequence[Row]) -> Told:
    calls = [row.calls for row in rows if row.calls is not None]
    known = np.array(calls, dtype=np.float64) if len(calls) == len(rows) else None
    return Told(name=name, outcome=outcome_codes([row.outcome for row in rows]), calls=known)


def _rows(path: Path) -> Iterator[Row]:
    """The rows of a CSV file or of JSON lines, read as every file of rows is: no row is cut, none is left out.
    ValueError with the row for what cannot be read.
    """
    for number, (_, fields) in enumerate(published_rows(path, frozenset()), start=1):
        cells = {name.strip().casefold(): (cell or "").strip() for name, cell in fields.items()}
        try:
            yield Row.model_validate(cells)
        except ValidationError as problem:
            wrong = problem.errors(include_url=False)[0]
            name = wrong["loc"][0]
            if wrong["type"] == "missing":
                raise ValueError(f"no column {name}") from None
            raise ValueError(f"row {number}: {name} {str(wrong['input'])[:20]!r}: {wrong['msg']}") from None
