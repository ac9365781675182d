"""The certificates that come with the program: which evidence levels keep which contract up to which budget."""

from dataclasses import dataclass

from screening.labels import Label
from screening.statistics.certification.table import ROWS
from screening.statistics.certification.worst_case import WorstErrors, worst_errors
from screening.statistics.rules.contract import SAFE_ERRORS, Contract
from screening.statistics.rules.pairwise_mixture import ErrorLevels

DEFAULT_CONTRACT = Contract(any_wrong=0.05, pairs=SAFE_ERRORS)
"""Any wrong label at most 0.05 in all; safe where the mode is unsafe, or escalate, at most 0.001 each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """With these evidence levels the contract holds for every budget up to ``budget``, and for none above it.

    ``worst`` is the proven worst probability of any wrong label, ``worst_safe`` of saying safe where it is not the
    mode; `recompute` proves them anew.
    """

    contract: Contract
    budget: int
    levels: ErrorLevels
    worst: float
    worst_safe: float

    def recompute(self) -> WorstErrors:
        """The worst errors, counted and bounded from the levels alone."""
        return worst_errors(self.levels, self.budget)


def symmetric_contract(delta: float) -> Contract:
    """Any wrong label at most ``delta`` in all, and nothing more."""
    return Contract(any_wrong=delta)


def evidence_levels(contract: Contract, level: float, safe_level: float) -> ErrorLevels:
    """One level for all pairs, but for saying safe where the contract holds that to less."""
    held = [pair for pair, _ in contract.pairs if pair[0] is Label.SAFE]
    return ErrorLevels(default=level, overrides=tuple((pair, safe_level) for pair in held))


def find(contract: Contract, budget: int) -> Certificate | None:
    """The certificate of this contract with the smallest budget that covers ``budget``; None where there is none."""
    fitting = [each for each in CERTIFICATES if each.contract == contract and each.budget >= budget]
    return min(fitting, key=lambda each: each.budget, default=None)


def _contract(any_wrong: float, kind: str) -> Contract:
    return DEFAULT_CONTRACT if kind == "default" else symmetric_contract(any_wrong)


CERTIFICATES: tuple[Certificate, ...] = tuple(
    Certificate(
        contract=(contract := _contract(any_wrong, kind)),
        budget=budget,
        levels=evidence_levels(contract, level, safe_level),
        worst=worst,
        worst_safe=worst_safe,
    )
    for any_wrong, kind, budget, level, safe_level, worst, worst_safe in ROWS
)
