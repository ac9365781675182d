"""`rule`: run a stopping rule on given draws; `certify`: prove the calibrated levels anew."""

import argparse
import json
import sys

from screening.labels import Label
from screening.pipeline.config import RULES, pooled_rule, read_rule, villes_levels
from screening.stopping.certificates import CERTIFICATES, Certificate, CertifiedMixture, WorstErrors, calibrate
from screening.stopping.rules import (
    Contract,
    MajorityVote,
    StoppingRule,
    SuccessiveElimination,
    conclude,
    label_numbers,
    minimum_budget,
)

DELTA = 0.05


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommands of this file."""
    parser = subcommands.add_parser("rule", help="run a stopping rule on given draws")
    parser.add_argument("rule", choices=list(RULES))
    parser.add_argument("--delta", type=float, default=DELTA, help="error level, symmetric over the labels")
    parser.add_argument("--budget", type=int, help="most draws (100, or a new rule's own)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of a new rule")
    parser.add_argument(
        "--method",
        choices=["certified", "ville"],
        help="pooled draws: levels calibrated for the budget, or Ville's bound; certified where a certificate exists",
    )
    parser.add_argument(
        "--contract",
        choices=["any", "default"],
        default="any",
        help="pooled draws: what is promised. any: any wrong label at most --delta in all; default: 0.05 in all, and "
        "safe at most 0.001 where it is not the mode",
    )
    parser.add_argument("--n", type=int, help="draws of a majority vote")
    parser.add_argument("--draws", required=True, help="labels in request order, separated by spaces")
    parser.set_defaults(run=run_rule)
    parser = subcommands.add_parser("certify", help="prove the certificates anew, or find the levels of another")
    parser.add_argument("--up-to", type=int, default=300, metavar="BUDGET", help="leave out those of larger budgets")
    parser.add_argument("--calibrate", type=float, metavar="DELTA", help="find the levels for this δ")
    parser.add_argument("--budget", type=int, default=100, help="with --calibrate: most draws")
    parser.set_defaults(run=run_certify)


def run_rule(arguments: argparse.Namespace) -> int:
    """Print the verdict as JSON, ``needs_draws`` where they end before it; draws after it are not looked at."""
    rule = _rule(arguments)
    labels = [_label(word) for word in arguments.draws.replace(",", " ").split()]
    found = conclude(rule, label_numbers(labels))
    verdict, ended, calls = (found.label, found.ended, found.calls) if found else (None, "needs_draws", len(labels))
    print(json.dumps({"verdict": verdict, "ended": ended, "calls": calls}))
    if (least := minimum_budget(rule)) > rule.budget:
        print(f"no label can be identified with {rule.budget} draws: {least} needed", file=sys.stderr)
    return 0


def _rule(arguments: argparse.Namespace) -> StoppingRule:
    delta, budget = arguments.delta, 100 if arguments.budget is None else arguments.budget
    if arguments.rule == "majority-vote":
        n = arguments.n if arguments.n is not None else budget
        if n > budget:
            raise ValueError(f"--n {n} is more than --budget {budget}")
        return MajorityVote(budget=n)
    if arguments.rule == "successive-elimination":
        return SuccessiveElimination(delta=delta, budget=budget)
    if arguments.rule != "pairwise-mixture":
        said = {} if arguments.budget is None else {"budget": budget}
        return read_rule(said | dict(_pair(one) for one in arguments.set) | {"kind": arguments.rule})
    if arguments.contract != "any" and delta != DELTA:
        raise ValueError(f"--contract {arguments.contract} has levels of its own: leave out --delta")
    own = delta if arguments.contract == "any" else None
    if arguments.method == "ville":
        return villes_levels(own, budget)
    config = pooled_rule(own, budget)
    if arguments.method == "certified" and not isinstance(config, CertifiedMixture):
        raise ValueError(f"no certificate covers --delta {delta:g} with --budget {budget}; --method ville always does")
    return config


def _pair(word: str) -> tuple[str, str]:
    name, found, value = word.partition("=")
    if not found:
        raise ValueError(f"--set {word}: give it as NAME=VALUE")
    return name, value


def _label(word: str) -> Label:
    try:
        return Label(word.strip().casefold())
    except ValueError:
        raise ValueError(f"--draws: {word[:20]!r} is not one of {', '.join(Label)}") from None


def run_certify(arguments: argparse.Namespace) -> int:
    """1 if a certificate does not hold or says less than the worst error proven now."""
    if arguments.calibrate is not None:
        found = calibrate(Contract(any_wrong=arguments.calibrate), arguments.budget)
        print(f"level {found.level:g}: {_words(found, found.recompute())}")
        return 0
    failed = 0
    for certificate in (each for each in CERTIFICATES if each.budget <= arguments.up_to):
        errors = certificate.recompute()
        holds = errors.keep(certificate.contract) and errors.any_wrong.bound <= certificate.worst
        failed += not holds
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {_words(certificate, errors)}", flush=True)
    if failed:
        print(f"{failed} certificates do not hold", file=sys.stderr)
    return 1 if failed else 0


def _words(certificate: Certificate, errors: WorstErrors) -> str:
    pairs = dict(errors.pairs)
    worst_pairs = [f"{said} for {mode} {pairs[said, mode].bound:.6f}" for (said, mode), _ in certificate.contract.pairs]
    worst = ", ".join([f"any wrong label {errors.any_wrong.bound:.6f}", *worst_pairs])
    return f"up to {certificate.budget} calls, {certificate.contract.words()}. Worst: {worst}"
