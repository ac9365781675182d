"""A batch whose first cases bring no usable answer is paused with that reason; one usable answer ends the question."""

import pytest

from jobs.first_answers import FIRST_CASES, FirstAnswers
from screening.engine.draws import SamplerError, decode_draws
from screening.engine.screen import NodeRun, Reason, Screening
from screening.labels import Label, Outcome
from screening.statistics.rules.protocol import Ended, Verdict


def result(codes: str, reason: Reason) -> Screening:
    verdict = Verdict(label=Label.ESCALATE, ended=Ended.NO_ANSWER, calls=len(codes))
    run = NodeRun(node="worker", variant="main", draws=decode_draws(codes), verdict=verdict)
    return Screening(outcome=Outcome.HUMAN_REVIEW, node="worker", reason=reason, runs=(run,), delta=None)


def test_the_first_cases_without_a_usable_answer_pause_the_batch() -> None:
    first = FirstAnswers()
    for _ in range(FIRST_CASES - 1):
        first.look_at("b", result("??????", Reason.NO_ANSWER))
    first.look_at("another", result("??????", Reason.NO_ANSWER))
    with pytest.raises(SamplerError) as error:
        first.look_at("b", result("~~~~~~", Reason.NO_ANSWER))
    assert (error.value.kind, error.value.stops_batch) == ("no_usable_answer", True)


def test_one_usable_answer_is_enough_to_go_on() -> None:
    first = FirstAnswers()
    first.look_at("b", result("?????E", Reason.NO_ANSWER))
    for _ in range(2 * FIRST_CASES):
        first.look_at("b", result("??????", Reason.NO_ANSWER))
