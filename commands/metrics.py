"""`metrics`: accuracy, FPR, FNR and escalation rate of a file of outcomes against reference labels; and how another
file of the same cases differs: another model, other prompts, another pipeline.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from screening.evaluation.metrics import evaluate, reference_codes
from screening.evaluation.paired import UNSETTLED, Told, compare_codes
from screening.evaluation.public_datasets import published_rows
from screening.labels import Label, Outcome

_OUTCOMES = {outcome.value: outcome for outcome in Outcome} | {
    "escalate": Outcome.HUMAN_REVIEW,
    "pending": None,
    "": None,
}
_REFERENCES = {"safe": Label.SAFE, "unsafe": Label.UNSAFE, "": None}


_Row = tuple[str, Label | None, Outcome | None, float | None]
"""Id, reference, outcome, calls."""


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("metrics", help="metrics of a CSV file with columns reference and outcome")
    parser.add_argument("file", type=Path, metavar="FILE", help="CSV, or the JSON lines that screen writes")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="OTHER",
        help="another file of the same cases, joined by id: paired differences (OTHER less FILE) with 95 %% intervals "
        "and McNemar's exact test, by FILE's references",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the metrics as JSON; an undefined value is null."""
    rows = list(_rows(arguments.file))
    measured = evaluate([reference for _, reference, _, _ in rows], [outcome for _, _, outcome, _ in rows])
    rates = ("accuracy", "fpr", "fnr", "escalation_rate")
    report: dict[str, object] = {name: getattr(measured, name).plain for name in rates}
    report |= {name: getattr(measured, name) for name in ("n", "pending", "without_reference")}
    if arguments.against is not None:
        report["against"] = _against(arguments, rows, list(_rows(arguments.against)))
    print(json.dumps(report))
    return 0


def _against(arguments: argparse.Namespace, rows: Sequence[_Row], others: Sequence[_Row]) -> dict[str, object]:
    """How the other file differs, over the cases that both hold; ValueError where ids cannot join them."""
    first, second = (_by_id(path, each) for path, each in ((arguments.file, rows), (arguments.against, others)))
    shared = [each for each in first if each in second]
    found = compare_codes(
        reference_codes([first[each][1] for each in shared]),
        _decisions(arguments.file.name, [first[each] for each in shared]),
        _decisions(arguments.against.name, [second[each] for each in shared]),
    )
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


def _by_id(path: Path, rows: Sequence[_Row]) -> dict[str, _Row]:
    found = {row[0]: row for row in rows if row[0]}
    if len(found) < len(rows):
        raise ValueError(f"{path.name}: every row needs an id of its own to be compared")
    return found


def _decisions(name: str, rows: Sequence[_Row]) -> Told:
    codes = [UNSETTLED if outcome is None else tuple(Outcome).index(outcome) for _, _, outcome, _ in rows]
    calls = [calls for *_, calls in rows if calls is not None]
    known = np.array(calls, dtype=np.float64) if len(calls) == len(rows) else None
    return Told(name=name, outcome=np.array(codes, dtype=np.int64), calls=known)


def _rows(path: Path) -> Iterator[_Row]:
    """The rows of a CSV file or of JSON lines, read as every file of rows is: no row is cut, none is left out.
    ValueError with the row for what cannot be read.
    """
    for number, (_, fields) in enumerate(published_rows(path, frozenset()), start=1):
        row = {name.strip().casefold(): (cell or "").strip() for name, cell in fields.items()}
        if missing := {"reference", "outcome"} - set(row):
            raise ValueError(f"no column {' and no column '.join(sorted(missing))}")
        reference, outcome, calls = row["reference"].casefold(), row["outcome"].casefold(), row.get("calls", "")
        if reference not in _REFERENCES:
            raise ValueError(f"row {number}: reference {reference[:20]!r} is neither safe nor unsafe")
        if outcome not in _OUTCOMES:
            raise ValueError(f"row {number}: outcome {outcome[:20]!r} is not one of {', '.join(Outcome)}, pending")
        try:
            made = float(calls) if calls else None
        except ValueError:
            raise ValueError(f"row {number}: calls {calls[:20]!r} is no number") from None
        yield row.get("id", ""), _REFERENCES[reference], _OUTCOMES[outcome], made
