"""An escalation that only unusable answers make is told apart from one that the model gave."""

import pytest

from screening.engine.draws import decode_draws
from screening.engine.pipeline import MajorityVoteConfig, PairwiseMixtureConfig
from screening.engine.usable import MOST_UNUSABLE, with_usable_grounds
from screening.labels import Label
from screening.statistics.rules.protocol import Ended

MIXTURE = PairwiseMixtureConfig().rule()


def ended(rule, codes: str) -> Ended | None:
    state = rule.start()
    for draw in decode_draws(codes):
        state = state.observe(draw.label)
    verdict = with_usable_grounds(rule, decode_draws(codes), state.verdict())
    return None if verdict is None else verdict.ended


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ("??????", Ended.NO_ANSWER),  # six answers that were no label: the tight band that was none
        ("EEE???", Ended.NO_ANSWER),  # three usable answers would not have identified it
        ("EEEEEE", Ended.IDENTIFIED),
        ("UUUUUU", Ended.IDENTIFIED),
        ("SSS???", None),
    ],
)
def test_an_escalation_needs_usable_answers(codes, expected):
    assert ended(MIXTURE, codes) is expected


def test_a_node_ends_after_so_many_unusable_answers():
    codes = "S?" * (MOST_UNUSABLE - 1)
    assert ended(MIXTURE, codes) is None
    assert ended(MIXTURE, codes + "S?") is Ended.NO_ANSWER


def test_the_way_goes_on_as_for_escalate():
    verdict = with_usable_grounds(MIXTURE, decode_draws("??????"), MIXTURE.start().verdict())
    assert verdict is None
    state = MIXTURE.start()
    for draw in decode_draws("??????"):
        state = state.observe(draw.label)
    found = with_usable_grounds(MIXTURE, decode_draws("??????"), state.verdict())
    assert found is not None and found.label is Label.ESCALATE and found.calls == 6


def test_a_vote_is_an_answer_when_most_usable_votes_say_so():
    vote = MajorityVoteConfig(n=5).rule()
    assert ended(vote, "EEE??") is Ended.IDENTIFIED
    assert ended(vote, "ESS??") is Ended.NO_ANSWER
