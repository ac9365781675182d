"""The paper's baseline."""

import pytest

from screening.labels import LABELS, Label
from screening.statistics.bounds import clopper_pearson
from screening.statistics.rules.majority_vote import MajorityVote, VoteState
from screening.statistics.rules.protocol import Comparison, Ended, Verdict

SAFE, UNSAFE, ESCALATE = LABELS


def voted(*labels: Label) -> VoteState:
    state = MajorityVote(n=len(labels)).start()
    for label in labels:
        assert state.verdict() is None
        state = state.observe(label)
    return state


@pytest.mark.parametrize(
    ("votes", "label"),
    [
        ((UNSAFE,), UNSAFE),
        ((SAFE, UNSAFE, SAFE), SAFE),
        ((ESCALATE, ESCALATE, SAFE), ESCALATE),
        ((SAFE, SAFE, UNSAFE, ESCALATE, UNSAFE, SAFE, SAFE), SAFE),
        ((SAFE, UNSAFE, UNSAFE, ESCALATE, ESCALATE, ESCALATE), ESCALATE),
    ],
)
def test_the_plurality_wins(votes: tuple[Label, ...], label: Label) -> None:
    verdict = voted(*votes).verdict()
    assert verdict is not None
    assert (verdict.label, verdict.ended, verdict.calls) == (label, Ended.IDENTIFIED, len(votes))


@pytest.mark.parametrize("votes", [(SAFE, UNSAFE), (SAFE, UNSAFE, ESCALATE), (SAFE, SAFE, UNSAFE, UNSAFE, ESCALATE)])
def test_a_tie_escalates_and_is_not_an_answer_of_the_model(votes: tuple[Label, ...]) -> None:
    verdict = voted(*votes).verdict()
    assert verdict is not None
    assert (verdict.label, verdict.ended) == (ESCALATE, Ended.EXHAUSTED)


def test_it_uses_all_its_draws_even_when_the_rest_cannot_change_the_winner() -> None:
    state = MajorityVote(n=5).start().observe(SAFE).observe(SAFE).observe(SAFE)
    assert state.verdict() is None
    assert state.next_wave() == state.draws_to_earliest_decision() == 2


def test_it_promises_nothing_about_the_mode() -> None:
    rule = MajorityVote(n=3)
    assert (rule.delta, rule.budget, rule.minimum_budget()) == (None, 3, 3)


def test_a_vote_without_draws_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        MajorityVote(n=0)


def test_the_displayed_interval_is_exact_at_the_end() -> None:
    # 0 of 3: (1 - high)³ = 0.05/2/3, with the level divided over both sides and three labels.
    unseen = voted(SAFE, SAFE, UNSAFE).arms()[2]
    assert (1 - unseen.high) ** 3 == pytest.approx(0.05 / 6)
    assert unseen.low == 0.0
    assert clopper_pearson(3, 3, 0.05).high == 1.0
    start = MajorityVote(n=3).start().arms()[0]
    assert (start.estimate, start.low, start.high) == (None, 0.0, 1.0)


def test_nothing_is_observed_after_the_last_vote() -> None:
    with pytest.raises(ValueError, match="stopped"):
        voted(SAFE, UNSAFE).observe(SAFE)


def test_a_tie_says_after_how_many_votes() -> None:
    assert voted(SAFE, UNSAFE).verdict() == Verdict(label=ESCALATE, ended=Ended.EXHAUSTED, calls=2)


def test_each_label_is_shown_with_its_share_and_none_is_ever_eliminated() -> None:
    arms = voted(UNSAFE, SAFE, UNSAFE, UNSAFE).arms()
    assert [(arm.label, arm.draws, arm.estimate) for arm in arms] == [
        (SAFE, 4, 0.25),
        (UNSAFE, 4, 0.75),
        (ESCALATE, 4, 0),
    ]
    assert not any(arm.eliminated for arm in arms)
    for arm, count in zip(arms, (1, 3, 0), strict=True):
        band = clopper_pearson(count, 4, 0.05 / 3)
        assert (arm.low, arm.high) == (band.low, band.high)


def test_a_lead_in_votes_is_a_count_without_a_line() -> None:
    safe, escalate = voted(UNSAFE, SAFE, UNSAFE, UNSAFE).comparisons()
    assert safe == Comparison(rival=SAFE, leader=UNSAFE, scale="votes", value=2, needed=None, excluded=False)
    assert escalate == Comparison(rival=ESCALATE, leader=UNSAFE, scale="votes", value=3, needed=None, excluded=False)


def test_the_label_with_most_votes_leads_whatever_its_name() -> None:
    assert {each.leader for each in voted(SAFE, UNSAFE, SAFE).comparisons()} == {SAFE}
    assert {each.leader for each in voted(ESCALATE, UNSAFE, ESCALATE).comparisons()} == {ESCALATE}
