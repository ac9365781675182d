"""Small tools: `rule` runs a stopping rule on given draws, `certify` proves the calibrated levels anew, `metrics` tells
accuracy, FPR, FNR and escalation rate of a file of outcomes, and how another file of the same cases differs.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ValidationError, ValidationInfo, field_validator

from commands.options import say
from screening.evaluation.metrics import Told, compare, evaluate, outcome_codes, reference_codes
from screening.evaluation.public_datasets import published_rows
from screening.labels import Label, Outcome
from screening.pipeline.config import RULES, pooled_rule, read_rule
from screening.stopping.certificates import CERTIFICATES, Certificate, WorstErrors
from screening.stopping.rules import StoppingRule, conclude, label_numbers, minimum_budget

USUAL_BUDGET = 100
USUAL: dict[str, dict[str, Any]] = {
    "successive-elimination": {"delta": 0.05, "budget": USUAL_BUDGET},
    "majority-vote": {"budget": USUAL_BUDGET},
}


def rule(
    kind: Annotated[str, f"one of {', '.join(RULES)}", "RULE"],
    *,
    draws: Annotated[str, "labels in request order, separated by spaces"],
    delta: Annotated[float | None, "error bound δ, the same for each label; pooled draws: any wrong label"] = None,
    budget: Annotated[int | None, "most draws; of a majority vote all its draws"] = None,
    set: Annotated[list[str] | None, "another setting of the rule", "NAME=VALUE"] = None,
) -> None:
    """Print the verdict as JSON, ``needs_draws`` where they end before it; draws after it are not looked at.

    Pooled draws are those of a pipeline: certified where a certificate covers δ and budget, else Ville's levels;
    without δ with the default contract.
    """
    if delta is not None and not 0 < delta < 1:
        raise ValueError("--delta: an error bound lies strictly between 0 and 1")
    if kind == "pairwise-mixture" and not set:
        chosen: StoppingRule = pooled_rule(delta, budget or USUAL_BUDGET)
    else:
        given = {name: value for name, value in (("delta", delta), ("budget", budget)) if value is not None}
        chosen = read_rule(USUAL.get(kind, {}) | given | dict(map(_pair, set or ())) | {"kind": kind})
    labels = [_label(word) for word in draws.replace(",", " ").split()]
    found = conclude(chosen, label_numbers(labels))
    verdict, ended, calls = (found.label, found.ended, found.calls) if found else (None, "needs_draws", len(labels))
    print(json.dumps({"verdict": verdict, "ended": ended, "calls": calls}))
    if (least := minimum_budget(chosen)) > chosen.budget:
        say(f"no label can be identified with {chosen.budget} draws: {least} needed")


def _pair(word: str) -> tuple[str, str]:
    name, found, value = word.partition("=")
    if not found:
        raise ValueError(f"--set {word}: give it as NAME=VALUE")
    return name, value


def _label(word: str) -> Label:
    try:
        return Label(word.casefold())
    except ValueError:
        raise ValueError(f"--draws: {word[:20]!r} is not one of {', '.join(Label)}") from None


def certify(*, up_to: Annotated[int, "leave out those of larger budgets", "BUDGET"] = 300) -> int:
    """1 if a certificate does not hold or says less than the worst error proven now."""
    failed = 0
    for certificate in (each for each in CERTIFICATES if each.budget <= up_to):
        errors = certificate.recompute()
        holds = errors.keep(certificate.contract) and errors.any_wrong.bound <= certificate.worst
        failed += not holds
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {_words(certificate, errors)}", flush=True)
    if failed:
        say(f"{failed} certificates do not hold")
    return 1 if failed else 0


def _words(certificate: Certificate, errors: WorstErrors) -> str:
    pairs = [
        f"{said} for {mode} {errors.pairs[said, mode].bound:.6f}" for (said, mode), _ in certificate.contract.pairs
    ]
    worst = ", ".join([f"any wrong label {errors.any_wrong.bound:.6f}", *pairs])
    return f"up to {certificate.budget} calls, {certificate.contract.words()}. Worst: {worst}"


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
        "another file of the same cases, joined by id: paired differences (OTHER less FILE) with 95% intervals and "
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
    (found,) = compare(references, one, [other])
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
    """The rows of a CSV file or of JSON lines, none cut or left out. ValueError with the row for an unreadable one."""
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
