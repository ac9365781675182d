"""Which readings a guarantee counts, and where its plan begins and ends."""

from dataclasses import asdict

import pytest

from screening.evaluation.audit import AuditCase
from screening.evaluation.guarantee import (
    Binding,
    Guarantee,
    Standing,
    guarantee_of,
    in_sample,
    plan_readings,
    readings_required,
)
from screening.labels import Label, Outcome

SAFE, UNSAFE = Label.SAFE, Label.UNSAFE


def case(outcome: Outcome, label: Label | None, coin: float = 0.05, **more: object) -> AuditCase:
    details = {"stratum": "a", "probability": 0.2, "blind_first": label} | more
    return AuditCase(outcome=outcome, coin=coin, **details)  # type: ignore[arg-type]


def test_only_texts_that_were_read_as_unsafe_are_counted() -> None:
    caught, missed = case(Outcome.UNSAFE, UNSAFE), case(Outcome.SAFE, UNSAFE)
    harmless = [case(Outcome.SAFE, SAFE)] * 40 + [case(Outcome.HUMAN_REVIEW, SAFE)] * 40
    found = guarantee_of([caught, caught, missed, *harmless], floor=0.2)
    assert (found.read, found.missed, found.waiting, found.inconclusive_safe) == (3, 1, 0, 0)


def test_an_inconclusive_text_may_be_a_miss_only_where_it_was_called_safe() -> None:
    unclear = [case(outcome, None, inconclusive=True) for outcome in Outcome]
    found = guarantee_of([*unclear, case(Outcome.SAFE, SAFE)], floor=0.2)
    assert (found.read, found.inconclusive_safe, found.waiting) == (0, 1, 0)


def test_a_reading_that_is_lost_may_be_a_miss_where_called_safe_and_else_keeps_nothing_waiting() -> None:
    lost = [case(outcome, None, unreadable=True) for outcome in (Outcome.UNSAFE, Outcome.HUMAN_REVIEW)]
    caught = [case(Outcome.UNSAFE, UNSAFE)] * 59
    found = guarantee_of([*caught, *lost], floor=0.2)
    assert (found.waiting, found.lost_safe, found.standing) == (0, 0, Standing.GUARANTEED)
    missed = [*caught, *lost, case(Outcome.SAFE, None, unreadable=True)]
    assert guarantee_of(missed, floor=0.2).statement == (
        "cannot be guaranteed yet: 59 of 59, 1 labeled safe can no longer be reviewed blinded"
    )
    allowed = guarantee_of([*missed, *[caught[0]] * 34], floor=0.2, allowed_misses=1)
    assert (allowed.read, allowed.standing) == (93, Standing.GUARANTEED)


def test_a_coin_of_exactly_the_floor_did_not_draw_the_case() -> None:
    assert [in_sample(case(Outcome.SAFE, None, coin), 0.1) for coin in (0.0999, 0.1, 0.1001)] == [True, False, False]
    assert [in_sample(case(Outcome.SAFE, None, 0.01, probability=p), 0.1) for p in (0.0999, 0.1, 0.11)] == [
        False, True, True,
    ]  # fmt: skip


def test_what_was_called_unsafe_counts_by_the_coin_of_the_safe_ones_though_it_is_read_anyway() -> None:
    """Else the many caught ones would hide the few misses that the audit can see."""
    caught = [case(Outcome.UNSAFE, UNSAFE, coin / 100, probability=1.0, tossed_at=0.2) for coin in range(100)]
    assert caught[0].coin_probability == 0.2 and case(Outcome.SAFE, SAFE).coin_probability == 0.2
    assert [guarantee_of(caught, floor=floor).read for floor in (0.1, 0.2, 0.21)] == [10, 20, 0]


def test_what_was_planned_and_measured_stays_with_the_guarantee() -> None:
    binding = Binding(model="m", prompt_hash="p", rule="r", label_definition="d")
    cases = [case(Outcome.UNSAFE, UNSAFE)]
    found = guarantee_of(cases, floor=0.15, at_most=0.1, confidence=0.9, allowed_misses=2, binding=binding)
    assert asdict(found) == {
        "read": 1, "missed": 0, "at_most": 0.1, "confidence": 0.9, "allowed_misses": 2, "binding": asdict(binding),
        "waiting": 0, "inconclusive_safe": 0, "lost_safe": 0, "floor": 0.15,
    }  # fmt: skip


def test_a_lower_confidence_takes_fewer_readings() -> None:
    # 0.95^45 = 0.0994 ≤ 0.1 < 0.1047 = 0.95^44
    found = Guarantee(read=45, missed=0, at_most=0.05, confidence=0.9, allowed_misses=0)
    assert found.readings_required == readings_required(0.05, 0, 0.9) == 45
    assert found.standing is Standing.GUARANTEED


def test_as_many_misses_as_the_plan_allows_are_no_failure() -> None:
    def standing(missed: int, unclear: int = 0) -> Standing:
        return Guarantee(
            read=500, missed=missed, at_most=0.05, confidence=0.95, allowed_misses=2, inconclusive_safe=unclear
        ).standing

    assert [standing(missed) for missed in (1, 2, 3)] == [Standing.GUARANTEED, Standing.GUARANTEED, Standing.FAILED]
    assert [standing(1, unclear) for unclear in (1, 2)] == [Standing.GUARANTEED, Standing.NOT_YET]


def test_a_chance_of_exactly_the_level_is_enough() -> None:
    # P[Binomial(n, ½) ≤ 0] = 2^-n: ½ after one reading, ¼ after two
    assert [readings_required(0.5, 0, confidence) for confidence in (0.5, 0.75)] == [1, 2]


@pytest.mark.parametrize(
    ("at_most", "misses", "confidence"),
    [(0, 0, 0.95), (1, 0, 0.95), (1.5, 0, 0.95), (0.05, 0, 0), (0.05, 0, 1), (0.05, 0, 1.5), (0.05, -1, 0.95)],
)
def test_what_no_readings_can_show_is_refused(at_most: float, misses: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="strictly between"):
        readings_required(at_most, misses, confidence)


def test_a_plan_is_made_for_its_confidence_and_no_rate_at_the_limit_has_one() -> None:
    plan = plan_readings(0.05, 0.0, confidence=0.9)
    assert plan is not None and (plan.allowed_misses, plan.readings) == (0, 45)
    assert plan_readings(0.05, 0.0, chance=1.0) is not None, "a rate of 0 succeeds for certain"
    assert plan_readings(0.05, 0.05, chance=0.01) is None, "59 readings without a miss happen in 5 of 100 such sites"


def test_a_plan_allows_at_most_so_many_misses() -> None:
    plan = plan_readings(0.05, 0.01)
    assert plan is not None and plan.allowed_misses > 0
    assert plan_readings(0.05, 0.01, most_misses=plan.allowed_misses) == plan
    assert plan_readings(0.05, 0.01, most_misses=plan.allowed_misses - 1) is None
