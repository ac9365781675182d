"""The largest evidence levels that keep a contract up to a budget: a search, whose result is proven like any other."""

from collections.abc import Callable
from math import floor, log10

from screening.labels import Label
from screening.statistics.certification.certificates import Certificate, evidence_levels
from screening.statistics.certification.worst_case import WorstErrors, worst_errors
from screening.statistics.rules.contract import Contract

DIGITS = 3
"""Significant digits of a level."""


def calibrate(contract: Contract, budget: int) -> Certificate:
    """The certificate for this contract and budget. Takes about thirty proofs: seconds at 100 calls, minutes at 300.
    ValueError where no level is found that keeps the contract.

    First the level for saying safe, where the contract holds that to less, then the level for all other pairs.
    """
    safe_bounds = [bound for (said, _), bound in contract.pairs if said is Label.SAFE]

    def errors_at(level: float, safe_level: float) -> WorstErrors:
        return worst_errors(evidence_levels(contract, level, safe_level), budget)

    safe_level = 0.0
    if safe_bounds:
        bound = min(safe_bounds)
        safe_level = _largest(lambda safe: _worst_safe(errors_at(contract.any_wrong, safe)) <= bound, bound)
    level = _largest(lambda other: errors_at(other, safe_level).keep(contract), contract.any_wrong / 2)
    errors = errors_at(level, safe_level)
    if not errors.keep(contract):
        raise ValueError("no level found that keeps the contract")
    return Certificate(
        contract=contract,
        budget=budget,
        levels=evidence_levels(contract, level, safe_level),
        worst=errors.any_wrong.bound,
        worst_safe=_worst_safe(errors),
    )


def _worst_safe(errors: WorstErrors) -> float:
    return max(largest.bound for (said, _), largest in errors.pairs if said is Label.SAFE)


def _largest(kept: Callable[[float], bool], start: float) -> float:
    """The largest level, rounded down, between ``start`` and six times it (below ½) that a halving search finds."""
    low, high = start / 2, min(0.49, 6 * start)
    while high / low > 1 + 10**-DIGITS:
        middle = (low + high) / 2
        low, high = (middle, high) if kept(middle) else (low, middle)
    unit: float = 10.0 ** (floor(log10(low)) - DIGITS + 1)
    return round(floor(low / unit) * unit, 10)
