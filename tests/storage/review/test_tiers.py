"""How urgent a case is, and that an audit sample cannot be told from the cases around it."""

import pytest

from screening.engine.screen import Reason, Screening
from screening.labels import Label, Outcome
from screening.review.tiers import TARGETS, Tier, Why, audit_placement, due_at, tier_for
from tests.storage.batch_of import NOW, run, screening

WORKER = run("EEEEEE", Label.ESCALATE)


def _left(*runs: object, reason: Reason = Reason.EXHAUSTED) -> Screening:
    return screening(Outcome.HUMAN_REVIEW, *runs, reason=reason)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ended", "tier", "why"),
    [
        (_left(WORKER, run("UUUUS", None, node="risk")), Tier.P0, Why.LIKELY_URGENT),
        (_left(WORKER, run("UUSS", None, node="risk")), Tier.P1, Why.PERSON_NEEDED),  # half is not more than half
        (_left(run("UUUUS", None)), Tier.P1, Why.PERSON_NEEDED),  # the first node is no second reading
        (
            _left(WORKER, run("EEEEEE", Label.ESCALATE, node="risk"), reason=Reason.ESCALATED),
            Tier.P1,
            Why.PERSON_NEEDED,
        ),
        (_left(run("SSSSSS"), reason=Reason.SECOND_LOOK_DISAGREED), Tier.P1, Why.PERSON_NEEDED),
        (_left(run("SSSSSS"), reason=Reason.SUSPECTED_INJECTION), Tier.P1, Why.ADDRESSES_MODEL),
        (_left(run("SSUSES", None)), Tier.P2, Why.UNSETTLED),
        (_left(run("SSESES", None), reason=Reason.CURTAILED), Tier.P3, Why.UNSETTLED),
        (_left(reason=Reason.TOO_LONG), Tier.P2, Why.NOT_SCREENABLE),
        (_left(reason=Reason.UNREADABLE), Tier.P2, Why.NOT_SCREENABLE),
        (_left(reason=Reason.REPEATED_FAILURE), Tier.P2, Why.FAILED),
        (_left(reason=Reason.STOPPED), Tier.P2, Why.FAILED),
    ],
)
def test_the_first_rule_that_fits_decides(ended: Screening, tier: Tier, why: Why) -> None:
    found = tier_for(ended)
    assert (found.tier, found.why) == (tier, why)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_tier(reason: Reason) -> None:
    assert tier_for(_left(reason=reason)).tier in Tier


def test_a_decided_case_has_no_tier_of_its_own() -> None:
    with pytest.raises(ValueError, match="decided"):
        tier_for(screening(Outcome.SAFE, run("SSSSSS")))


def test_audit_samples_look_like_unsettled_cases_of_both_tiers() -> None:
    places = {audit_placement(f"{number:032x}") for number in range(64)}
    unsettled = {tier_for(_left(run("SSUSES", None))), tier_for(_left(run("SSESES", None)))}
    assert places == unsettled


def test_each_tier_is_due_after_its_target() -> None:
    assert [(due_at(tier, NOW) - NOW).total_seconds() / 60 for tier in Tier] == [5, 15, 240, 1440]
    assert list(TARGETS) == list(Tier)
