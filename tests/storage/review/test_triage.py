"""How urgent a case is, and that an audit sample cannot be told from the cases around it."""

import pytest

from screening.labels import Label, Outcome
from screening.pipeline.engine import Reason, Screening
from screening.review.triage import TARGETS, Tier, Why, audit_placement, due_at, tier_for, unscreened_placement
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
        (_left(reason=Reason.UNSUPPORTED_LANGUAGE), Tier.P1, Why.NOT_SCREENABLE),  # nobody has looked at it
        (_left(reason=Reason.TOO_LONG), Tier.P2, Why.NOT_SCREENABLE),
        (_left(reason=Reason.UNREADABLE), Tier.P2, Why.NOT_SCREENABLE),
        (_left(reason=Reason.REPEATED_FAILURE), Tier.P2, Why.FAILED),
        (_left(reason=Reason.STOPPED), Tier.P2, Why.FAILED),
    ],
)
def test_the_first_rule_that_fits_decides(ended: Screening, tier: Tier, why: Why) -> None:
    found = tier_for(ended, [])
    assert (found.tier, found.why) == (tier, why)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_tier(reason: Reason) -> None:
    assert tier_for(_left(reason=reason), []).tier in Tier


def test_a_case_called_safe_has_no_tier_of_its_own() -> None:
    with pytest.raises(ValueError, match="called safe"):
        tier_for(screening(Outcome.SAFE, run("SSSSSS")), [])


@pytest.mark.parametrize(
    ("node", "flags", "tier"),
    [
        ("worker", [], Tier.P1),
        ("risk", [], Tier.P0),  # a second reader said so
        ("worker", ["stated_risk"], Tier.P1),
        ("worker", ["stated_risk", "stated_imminent"], Tier.P0),
    ],
)
def test_what_is_called_unsafe_is_urgent(node: str, flags: list[str], tier: Tier) -> None:
    runs = [run("EEEEEE", Label.ESCALATE)] if node == "risk" else []
    ended = screening(Outcome.UNSAFE, *runs, run("UUUUUU", Label.UNSAFE, node), node=node)
    assert tier_for(ended, flags).tier is tier


def test_audit_samples_look_like_other_cases_of_their_tiers() -> None:
    called = tier_for(screening(Outcome.UNSAFE, run("UUUUUU", Label.UNSAFE)), [])
    alike = [called, tier_for(_left(run("SSUSES", None)), []), tier_for(_left(run("SSESES", None)), [])]
    for flags, places in (([], set(alike)), (["stated_risk"], {called})):
        drawn = [audit_placement(f"{number:032x}", 0.1, flags) for number in range(2_000)]
        assert set(drawn) == places
        assert flags or 150 < drawn.count(called) < 250  # 200 expected, +- 3.7 deviations of 13.4
    imminent = tier_for(_left(run("SSESES", None)), ["stated_imminent"])
    assert {audit_placement(f"{number:032x}", 0.1, ["stated_imminent"]) for number in range(99)} == {imminent}


def test_what_cannot_be_screened_is_urgent_where_a_risk_is_stated() -> None:
    found = [unscreened_placement(flags).tier for flags in ([], ["no_words"], ["stated_risk"], ["stated_imminent"])]
    assert found == [Tier.P2, Tier.P2, Tier.P0, Tier.P0]


def test_each_tier_is_due_after_its_target() -> None:
    assert [(due_at(tier, NOW) - NOW).total_seconds() / 60 for tier in Tier] == [5, 15, 240, 1440]
    assert list(TARGETS) == list(Tier)
