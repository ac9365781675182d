"""`rule`: run a stopping rule on given draws."""

import argparse
import json
import sys

from screening.labels import Label
from screening.pipeline.config import RULES, pooled_rule, read_rule, villes_levels
from screening.stopping.certificates import CertifiedMixture
from screening.stopping.rules import (
    MajorityVote,
    StoppingRule,
    SuccessiveElimination,
    conclude,
    label_numbers,
    minimum_budget,
)

DELTA = 0.05
CONTRACTS = {"any": pooled_rule, "default": pooled_rule}
"""The rule for each contract; those with levels of their own are asked for without δ."""


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("rule", help="run a stopping rule on given draws")
    parser.add_argument("rule", choices=list(RULES))
    parser.add_argument("--delta", type=float, default=DELTA, help="error level, symmetric over the labels")
    parser.add_argument("--budget", type=int, default=100, help="most draws")
    parser.add_argument(
        "--method",
        choices=["certified", "ville"],
        default=None,
        help="pooled draws: levels calibrated for the budget, or Ville's bound; certified where a certificate exists",
    )
    parser.add_argument(
        "--contract",
        choices=list(CONTRACTS),
        default="any",
        help="pooled draws: what is promised. any: any wrong label at most --delta in all; default: 0.05 in all, and "
        "safe at most 0.001 where it is not the mode",
    )
    parser.add_argument("--n", type=int, default=None, help="draws of a majority vote")
    parser.add_argument("--draws", required=True, help="labels in request order, separated by spaces")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict as JSON; draws after it are not looked at."""
    rule = _rule(arguments)
    labels = [_label(word) for word in arguments.draws.replace(",", " ").split()]
    print(json.dumps(_conclusion(rule, labels)))
    if (least := minimum_budget(rule)) > rule.budget:
        print(f"no label can be identified with {rule.budget} draws: {least} needed", file=sys.stderr)
    return 0


def _conclusion(rule: StoppingRule, labels: list[Label]) -> dict[str, str | int | None]:
    """The rule's verdict on the labels in order, or ``needs_draws`` when they end before it."""
    verdict = conclude(rule, label_numbers(labels))
    if verdict is None:
        return {"verdict": None, "ended": "needs_draws", "calls": len(labels)}
    return {
        "verdict": verdict.label.value if verdict.label else None,
        "ended": verdict.ended.value,
        "calls": verdict.calls,
    }


def _rule(arguments: argparse.Namespace) -> StoppingRule:
    if arguments.rule == "majority-vote":
        n = arguments.n if arguments.n is not None else arguments.budget
        if n > arguments.budget:
            raise ValueError(f"--n {n} is more than --budget {arguments.budget}")
        return MajorityVote(budget=n)
    if arguments.rule == "successive-elimination":
        return SuccessiveElimination(delta=arguments.delta, budget=arguments.budget)
    if arguments.rule == "pairwise-mixture":
        return _pooled_rule(arguments)
    return read_rule({"kind": arguments.rule, "budget": arguments.budget})


def _pooled_rule(arguments: argparse.Namespace) -> StoppingRule:
    method, delta, budget = arguments.method, arguments.delta, arguments.budget
    if arguments.contract != "any" and delta != DELTA:
        raise ValueError(f"--contract {arguments.contract} has levels of its own: leave out --delta")
    own = None if arguments.contract != "any" else delta
    if method == "ville":
        return villes_levels(own, budget)
    config = CONTRACTS[arguments.contract](own, budget)
    if method == "certified" and not isinstance(config, CertifiedMixture):
        raise ValueError(f"no certificate covers --delta {delta:g} with --budget {budget}; --method ville always does")
    return config


def _label(word: str) -> Label:
    try:
        return Label(word.strip().casefold())
    except ValueError:
        raise ValueError(f"--draws: {word[:20]!r} is not one of {', '.join(Label)}") from None
