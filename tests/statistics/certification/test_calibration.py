"""The search for levels finds what keeps the contract, and a step more would not."""

from dataclasses import replace

import pytest

from screening.labels import LABELS, Label
from screening.statistics.certification.calibration import DIGITS, _largest, calibrate
from screening.statistics.certification.certificates import evidence_levels, symmetric_contract
from screening.statistics.certification.worst_case import worst_errors
from screening.statistics.rules.contract import Contract

SAFE, UNSAFE, ESCALATE = LABELS
BUDGET = 14


def test_a_level_for_any_wrong_label_is_the_largest_that_keeps_it() -> None:
    contract = symmetric_contract(0.2)
    found = calibrate(contract, BUDGET)
    assert (found.contract, found.budget, found.levels.overrides) == (contract, BUDGET, ())
    assert found.recompute().keep(contract)
    assert found.worst == found.recompute().any_wrong.bound <= 0.2
    level = found.levels.default
    assert float(f"{level:.{DIGITS}g}") == level
    # The proof steps where a stopping boundary moves: the next level of three digits may still keep it, 1 % more not.
    assert not worst_errors(evidence_levels(contract, level * 1.01, 0.0), BUDGET).keep(contract)


def test_saying_safe_is_held_to_its_own_bound() -> None:
    contract = Contract(any_wrong=0.2, pairs=(((SAFE, UNSAFE), 0.02), ((SAFE, ESCALATE), 0.02)))
    found = calibrate(contract, BUDGET)
    errors = found.recompute()
    assert errors.keep(contract)
    assert found.worst_safe == max(largest.bound for (said, _), largest in errors.pairs if said is Label.SAFE) <= 0.02
    safe = found.levels.level(SAFE, UNSAFE)
    assert safe == found.levels.level(SAFE, ESCALATE) < found.levels.default
    other = calibrate(replace(contract, pairs=()), BUDGET).levels.default
    assert found.levels.default >= other, "what safe does not use of the bound is left to the other labels"


def test_a_contract_that_no_level_keeps_is_said_to_be_so() -> None:
    # Naming anything at all with two draws: a level below ½ that has any error has far more than this.
    with pytest.raises(ValueError, match="no level found"):
        calibrate(Contract(any_wrong=0.4, pairs=(((UNSAFE, SAFE), 1e-9),)), BUDGET)


@pytest.mark.parametrize(
    ("start", "kept_up_to", "level"),
    [
        (0.05, 0.1239, 0.123),  # found to a thousandth of itself and rounded down to three digits
        (0.005, 0.01239, 0.0123),
        (0.05, 0.0, 0.025),  # nothing is kept: the least that is looked at
        (0.05, 1.0, 0.299),  # six times the start is 0.3, and the search ends just below
        (0.2, 1.0, 0.489),  # a level is below a half
    ],
)
def test_the_search_ends_at_the_largest_level_that_is_kept(start: float, kept_up_to: float, level: float) -> None:
    assert _largest(lambda tried: tried <= kept_up_to, start) == level
