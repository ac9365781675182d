"""`metrics`: accuracy, FPR, FNR and escalation rate of a file of outcomes against reference labels; and how another
file of the same cases differs: another model, other prompts, another pipeline.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from screening.evaluation.metrics import Proportion, evaluate, reference_codes
from screening.evaluation.paired import UNSETTLED, Told, compare_codes
from screening.evaluation.public_datasets import published_rows
from screening.labels import Label, Outcome

_OUTCOMES = {outcome.value: outcome for outcome in Outcome} | {
    "escalate": Outcome.HUMAN_REVIEW,
    "pending": None,
    "": None,
}
_REFERENCES = {"safe": Label.SAFE, "unsafe": Label.UNSAFE, "": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    id: str
    reference: Label | None
    outcome: Outcome | None
    calls: float | None


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
    measured = evaluate([row.reference for row in rows], [row.outcome for row in rows])
    report = {
        "accuracy": proportion(measured.accuracy),
        "fpr": proportion(measured.fpr),
        "fnr": proportion(measured.fnr),
        "escalation_rate": proportion(measured.escalation_rate),
        "n": measured.n,
        "pending": measured.pending,
        "without_reference": measured.without_reference,
    }
    if arguments.against is not None:
        report["against"] = _against(arguments, rows, list(_rows(arguments.against)))
    print(json.dumps(report))
    return 0


def _against(arguments: argparse.Namespace, rows: Sequence[_Row], others: Sequence[_Row]) -> dict[str, object]:
    """How the other file differs, over the cases that both hold; ValueError where ids cannot join them."""
    first, second = (_by_id(path, each) for path, each in ((arguments.file, rows), (arguments.against, others)))
    shared = [each for each in first if each in second]
    one, other = ([by_id[each] for each in shared] for by_id in (first, second))
    found = compare_codes(
        reference_codes([row.reference for row in one]),
        _decisions_of(arguments.file.name, one),
        _decisions_of(arguments.against.name, other),
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
    found = {row.id: row for row in rows if row.id}
    if len(found) < len(rows):
        raise ValueError(f"{path.name}: every row needs an id of its own to be compared")
    return found


def _decisions_of(name: str, rows: Sequence[_Row]) -> Told:
    codes = [UNSETTLED if row.outcome is None else tuple(Outcome).index(row.outcome) for row in rows]
    known = all(row.calls is not None for row in rows)
    calls = np.array([row.calls for row in rows], dtype=np.float64) if known else None
    return Told(name=name, outcome=np.array(codes, dtype=np.int64), calls=calls)


def proportion(measured: Proportion) -> dict[str, float | int | None]:
    """A proportion with its Wilson 95 % interval as plain data."""
    return {
        "value": measured.value,
        "low": measured.low,
        "high": measured.high,
        "numerator": measured.numerator,
        "denominator": measured.denominator,
    }


def _rows(path: Path) -> Iterator[_Row]:
    """The rows of a CSV file or of JSON lines; ValueError with the row for what cannot be read."""
    for number, row in enumerate(_fields(path), start=1):
        reference, outcome = row["reference"].casefold(), row["outcome"].casefold()
        if reference not in _REFERENCES:
            raise ValueError(f"row {number}: reference {reference[:20]!r} is neither safe nor unsafe")
        if outcome not in _OUTCOMES:
            raise ValueError(f"row {number}: outcome {outcome[:20]!r} is not one of {', '.join(Outcome)}, pending")
        yield _Row(
            id=row.get("id", ""),
            reference=_REFERENCES[reference],
            outcome=_OUTCOMES[outcome],
            calls=_number(row.get("calls", "")),
        )


def _number(cell: str) -> float | None:
    try:
        return float(cell) if cell else None
    except ValueError:
        raise ValueError(f"calls {cell[:20]!r} is no number") from None


def _fields(path: Path) -> Iterator[dict[str, str]]:
    """The cells by column names in lower case, read as every file of rows is: no row is cut, none is left out."""
    for _row, fields in published_rows(path, frozenset()):
        yield _require_columns({name.strip().casefold(): (cell or "").strip() for name, cell in fields.items()})


def _require_columns(row: dict[str, str]) -> dict[str, str]:
    if missing := {"reference", "outcome"} - set(row):
        raise ValueError(f"no column {' and no column '.join(sorted(missing))}")
    return row
