"""`rule`: run a stopping rule on given draws; `certify`: prove the calibrated levels anew."""

import json
import sys
from typing import Annotated, Any

from screening.labels import Label
from screening.pipeline.config import RULES, pooled_rule, read_rule
from screening.stopping.certificates import CERTIFICATES, Certificate, WorstErrors, calibrate
from screening.stopping.rules import Contract, StoppingRule, conclude, label_numbers, minimum_budget

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
        print(f"no label can be identified with {chosen.budget} draws: {least} needed", file=sys.stderr)


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


def certify(
    *,
    up_to: Annotated[int, "leave out those of larger budgets", "BUDGET"] = 300,
    calibrate_: Annotated[float | None, "find the levels for this δ", "DELTA"] = None,
    budget: Annotated[int, "with --calibrate: most draws"] = USUAL_BUDGET,
) -> int:
    """1 if a certificate does not hold or says less than the worst error proven now."""
    if calibrate_ is not None:
        found = calibrate(Contract(any_wrong=calibrate_), budget)
        print(f"level {found.level:g}: {_words(found, found.recompute())}")
        return 0
    failed = 0
    for certificate in (each for each in CERTIFICATES if each.budget <= up_to):
        errors = certificate.recompute()
        holds = errors.keep(certificate.contract) and errors.any_wrong.bound <= certificate.worst
        failed += not holds
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {_words(certificate, errors)}", flush=True)
    if failed:
        print(f"{failed} certificates do not hold", file=sys.stderr)
    return 1 if failed else 0


def _words(certificate: Certificate, errors: WorstErrors) -> str:
    pairs = [
        f"{said} for {mode} {errors.pairs[said, mode].bound:.6f}" for (said, mode), _ in certificate.contract.pairs
    ]
    worst = ", ".join([f"any wrong label {errors.any_wrong.bound:.6f}", *pairs])
    return f"up to {certificate.budget} calls, {certificate.contract.words()}. Worst: {worst}"
