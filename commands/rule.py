"""`rule`: run a stopping rule on given draws."""

import argparse
import json
import sys

from screening.engine.certified_mixture import CertifiedMixtureConfig
from screening.engine.pipeline import (
    MajorityVoteConfig,
    RuleConfig,
    SuccessiveEliminationConfig,
    pooled_rule,
    villes_levels,
)
from screening.labels import Label
from screening.statistics.rules.protocol import StoppingRule

DELTA = 0.05
CONTRACTS = {"any": pooled_rule, "default": pooled_rule}
"""The rule for each contract; those with levels of their own are asked for without δ."""


def add_to(subcommands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this subcommand's arguments."""
    parser = subcommands.add_parser("rule", help="run a stopping rule on given draws")
    parser.add_argument("rule", choices=["pairwise-mixture", "successive-elimination", "majority-vote"])
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
    rule = _config(arguments).rule()
    labels = [_label(word) for word in arguments.draws.replace(",", " ").split()]
    print(json.dumps(conclude(rule, labels)))
    if rule.minimum_budget() > rule.budget:
        print(f"no label can be identified with {rule.budget} draws: {rule.minimum_budget()} needed", file=sys.stderr)
    return 0


def conclude(rule: StoppingRule, labels: list[Label]) -> dict[str, str | int | None]:
    """The rule's verdict on the labels in order, or ``needs_draws`` when they end before it."""
    state = rule.start()
    for label in labels:
        if state.verdict() is not None:
            break
        state = state.observe(label)
    verdict = state.verdict()
    if verdict is None:
        return {"verdict": None, "ended": "needs_draws", "calls": state.calls}
    return {
        "verdict": verdict.label.value if verdict.label else None,
        "ended": verdict.ended.value,
        "calls": verdict.calls,
    }


def _config(arguments: argparse.Namespace) -> RuleConfig:
    if arguments.rule == "majority-vote":
        n = arguments.n if arguments.n is not None else arguments.budget
        if n > arguments.budget:
            raise ValueError(f"--n {n} is more than --budget {arguments.budget}")
        return MajorityVoteConfig(n=n)
    if arguments.rule == "successive-elimination":
        return SuccessiveEliminationConfig(delta=arguments.delta, budget=arguments.budget)
    return _pooled_rule(arguments)


def _pooled_rule(arguments: argparse.Namespace) -> RuleConfig:
    method, delta, budget = arguments.method, arguments.delta, arguments.budget
    if arguments.contract != "any" and delta != DELTA:
        raise ValueError(f"--contract {arguments.contract} has levels of its own: leave out --delta")
    own = None if arguments.contract != "any" else delta
    if method == "ville":
        return villes_levels(own, budget)
    config = CONTRACTS[arguments.contract](own, budget)
    if method == "certified" and not isinstance(config, CertifiedMixtureConfig):
        raise ValueError(f"no certificate covers --delta {delta:g} with --budget {budget}; --method ville always does")
    return config


def _label(word: str) -> Label:
    try:
        return Label(word.strip().casefold())
    except ValueError:
        raise ValueError(f"--draws: {word[:20]!r} is not one of {', '.join(Label)}") from None
