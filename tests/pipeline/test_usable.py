"""An escalation that only unusable answers make is told apart from one that the model gave."""

import pytest

from screening.labels import Label
from screening.pipeline.draws import decode_draws
from screening.pipeline.engine import MOST_UNUSABLE, unusable_sentence, with_usable_grounds
from screening.stopping.rules import Ended, MajorityVote, PairwiseMixture, Verdict, conclude, label_numbers

MIXTURE = PairwiseMixture()


def _concluded(rule, codes: str) -> Verdict | None:
    return conclude(rule, label_numbers(draw.label for draw in decode_draws(codes)))


def ended(rule, codes: str) -> Ended | None:
    verdict = with_usable_grounds(rule, decode_draws(codes), _concluded(rule, codes))
    return None if verdict is None else verdict.ended


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ("??????", Ended.NO_ANSWER),  # six answers that were no label: the tight band that was none
        ("EEE???", Ended.NO_ANSWER),  # three usable answers would not have identified it
        ("EEEEEE", Ended.IDENTIFIED),
        ("EEEEE?", Ended.NO_ANSWER),  # one is enough to miss the six it takes
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
    spent = with_usable_grounds(MIXTURE, decode_draws(codes + "S?"), None)
    assert spent == Verdict(label=Label.ESCALATE, ended=Ended.NO_ANSWER, calls=2 * MOST_UNUSABLE)


def test_a_vote_is_an_answer_when_most_usable_votes_say_so():
    vote = MajorityVote(n=5)
    assert ended(vote, "EEE??") is Ended.IDENTIFIED
    assert ended(vote, "ESS??") is Ended.NO_ANSWER
    assert ended(vote, "EESS?") is Ended.NO_ANSWER  # of the usable votes as many say safe


SHORT = PairwiseMixture(budget=12, stop_for_futility=False)


@pytest.mark.parametrize(
    ("rule", "label", "codes", "expected"),
    [
        (MIXTURE, Label.ESCALATE, "EEEEEE?", Ended.IDENTIFIED),  # the six usable ones are enough by themselves
        (MIXTURE, Label.ESCALATE, "EEEEEESSSSSS?", Ended.IDENTIFIED),  # they were, before the others came
        (MIXTURE, Label.ESCALATE, "UUUUUUEEEEEE?", Ended.NO_ANSWER),  # they say unsafe
        (MIXTURE, Label.ESCALATE, "UUUUUU?", Ended.NO_ANSWER),
        (MIXTURE, Label.SAFE, "SSSSSSSSSSS?", Ended.IDENTIFIED),  # another label needs no such grounds
        (SHORT, Label.ESCALATE, "SUESUESUESUEEE?", Ended.NO_ANSWER),  # they exhaust the budget
    ],
)
def test_the_usable_answers_are_read_as_if_they_were_all(rule, label, codes, expected):
    draws = decode_draws(codes)
    verdict = Verdict(label=label, ended=Ended.IDENTIFIED, calls=len(draws))
    found = with_usable_grounds(rule, draws, verdict)
    assert found == Verdict(label=label, ended=expected, calls=len(draws))


def test_it_is_said_how_many_answers_were_no_label():
    assert unusable_sentence(decode_draws("S?!E")) == "2 of 4 answers were no label"
