"""`metrics`: accuracy, FPR, FNR and escalation rate of a file of outcomes against reference labels."""

import argparse
import csv
import json
from collections.abc import Iterator
from pathlib import Path

from screening.labels import Label, Outcome
from screening.statistics.metrics import Proportion, evaluate

_OUTCOMES = {outcome.value: outcome for outcome in Outcome} | {
    "escalate": Outcome.HUMAN_REVIEW,
    "pending": None,
    "": None,
}
_REFERENCES = {"safe": Label.SAFE, "unsafe": Label.UNSAFE, "": None}


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("metrics", help="metrics of a CSV file with columns reference and outcome")
    parser.add_argument("file", type=Path, metavar="FILE.csv")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the metrics as JSON; an undefined value is null."""
    pairs = list(_pairs(arguments.file))
    measured = evaluate([reference for reference, _ in pairs], [outcome for _, outcome in pairs])
    report = {
        "accuracy": proportion(measured.accuracy),
        "fpr": proportion(measured.fpr),
        "fnr": proportion(measured.fnr),
        "escalation_rate": proportion(measured.escalation_rate),
        "n": measured.n,
        "pending": measured.pending,
        "without_reference": measured.without_reference,
    }
    print(json.dumps(report))
    return 0


def proportion(measured: Proportion) -> dict[str, float | int | None]:
    """A proportion with its Wilson 95 % interval as plain data."""
    return {
        "value": measured.value,
        "low": measured.low,
        "high": measured.high,
        "numerator": measured.numerator,
        "denominator": measured.denominator,
    }


def _pairs(path: Path) -> Iterator[tuple[Label | None, Outcome | None]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        columns = {name.strip().casefold(): name for name in reader.fieldnames or ()}
        if missing := {"reference", "outcome"} - set(columns):
            raise ValueError(f"no column {' and no column '.join(sorted(missing))}")
        for number, row in enumerate(reader, start=1):
            reference = (row[columns["reference"]] or "").strip().casefold()
            outcome = (row[columns["outcome"]] or "").strip().casefold()
            if reference not in _REFERENCES:
                raise ValueError(f"row {number}: reference {reference[:20]!r} is neither safe nor unsafe")
            if outcome not in _OUTCOMES:
                raise ValueError(f"row {number}: outcome {outcome[:20]!r} is not one of {', '.join(Outcome)}, pending")
            yield _REFERENCES[reference], _OUTCOMES[outcome]
