"""What one call with a whole distribution settles, and what the part that was not told could change."""

import pytest

from screening.labels import LABELS, Label
from screening.pipeline.draws import MARK, LabelDistribution, read_distribution
from screening.stopping.rules import Ended

SAFE, UNSAFE, ESCALATE = LABELS


def of(*shares: float, unknown: float = 0.0, most_unknown: float = 1.0) -> LabelDistribution:
    labels = dict(zip(LABELS, shares, strict=True))
    return LabelDistribution(labels=labels, unknown=unknown, most_unknown=most_unknown)


@pytest.mark.parametrize(
    ("shares", "unknown", "mode"),
    [
        ((0.75, 0.25, 0.0), 0.0, SAFE),
        ((0.25, 0.75, 0.0), 0.0, UNSAFE),
        ((0.0, 0.25, 0.75), 0.0, ESCALATE),
        ((0.5, 0.25, 0.0), 0.25, None),  # all of it could be the second's, and then they are level
        ((0.5, 0.25, 0.125), 0.125, SAFE),
        ((0.375, 0.375, 0.25), 0.0, None),
        ((0.0, 0.0, 0.0), 1.0, None),
    ],
)
def test_a_label_is_named_where_it_leads_wherever_the_unknown_part_belongs(
    shares: tuple[float, ...], unknown: float, mode: Label | None
) -> None:
    told = of(*shares, unknown=unknown)
    assert told.mode() is mode
    verdict = told.verdict()
    assert verdict is not None and (verdict.label, verdict.calls) == (mode, 1)
    assert verdict.ended is (Ended.TOO_CLOSE if mode is None else Ended.IDENTIFIED)


def test_the_gap_is_between_the_first_two_in_whatever_order() -> None:
    assert {of(*shares).gap for shares in ((0.75, 0.125, 0.5), (0.125, 0.5, 0.75), (0.5, 0.75, 0.125))} == {0.25}


def test_too_much_unknown_decides_nothing() -> None:
    assert of(0.75, 0.0, 0.0, unknown=0.25, most_unknown=0.25).verdict() is not None
    assert of(0.75, 0.0, 0.0, unknown=0.25, most_unknown=0.24).verdict() is None


def test_each_rival_is_excluded_by_itself() -> None:
    told = of(0.25, 0.5, 0.0, unknown=0.25)
    found = [(one.rival, one.leader, one.scale, one.value, one.needed, one.excluded) for one in told.comparisons()]
    assert found == [
        (SAFE, UNSAFE, "probability", 0.25, 0.25, False),
        (ESCALATE, UNSAFE, "probability", 0.5, 0.25, True),
    ]


def test_its_code_is_read_back() -> None:
    told = of(0.123456789, 0.5, 0.25, unknown=0.126543, most_unknown=0.2)
    assert told.code == "=0.123457|0.5|0.25|0.126543|0.2"
    back = read_distribution(told.code)
    assert back is not None and back.labels == {SAFE: 0.123457, UNSAFE: 0.5, ESCALATE: 0.25}
    assert (back.unknown, back.most_unknown, back.code) == (0.126543, 0.2, told.code)
    assert read_distribution("SSUE?") is None and read_distribution("") is None
    with pytest.raises(ValueError):
        read_distribution(MARK + "0.5|0.5|0|0")
