"""One case through the pipeline, driven by a recording: what is asked, what is committed, what it ends as and why."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.labels import Label, Outcome
from screening.pipeline.config import chain, preset
from screening.pipeline.draws import TOO_LONG, LabelDistribution, SamplerError, ScreenedText, decode_draws, encode_draws
from screening.pipeline.engine import (
    MOST_UNUSABLE,
    SECOND_LOOK,
    Guard,
    Reason,
    guard_for,
    screen,
    screening_steps,
    to_a_human,
    with_usable_grounds,
)
from screening.stopping.rules import Ended, MajorityVote, PairwiseMixture, Verdict
from screening.text.flags import FORBIDS, Flag, Forbids
from tests.fixtures import tables

TEXT = ScreenedText(text="a text")
RECOMMENDED = preset("recommended")
NODES = ("worker", "risk", "legal")


class Recording:
    """Endless draws per node and variant: the given codes over and over."""

    def __init__(self, **codes):
        self.codes = codes

    async def draw(self, request):
        name = request.node if request.variant == "main" else f"{request.node}_{request.variant}"
        endless = itertools.islice(itertools.cycle(decode_draws(self.codes[name])), request.first, None)
        return list(itertools.islice(endless, request.count))


PLAIN, ASKED_AGAIN = Guard(), Guard(second_look=True)
GUARDS = {
    "plain": PLAIN,
    "asked again": ASKED_AGAIN,
    "injected": Guard(refuse_safe=Reason.SUSPECTED_INJECTION),
    "too long": Guard(refuse_screening=Reason.TOO_LONG),
}
TABLES = tables(__file__)


@pytest.mark.parametrize(("pipeline", "guard", "codes", "expected"), TABLES["ends"])
async def test_what_a_case_ends_as_and_its_bound_is_the_sum_over_the_runs(pipeline, guard, codes, expected):
    found = await screen(TEXT, GUARDS[guard], preset(pipeline), Recording(**codes))
    assert f"{found.outcome} {found.node} {found.reason} {found.calls}" == expected
    assert found.delta == pytest.approx(0.05 * len(found.runs))
    assert [run.variant == SECOND_LOOK for run in found.runs[1:]] == [
        node == "worker_second_look" for node in list(codes)[1:]
    ]


async def test_committed_runs_are_taken_over_and_nothing_is_asked_again():
    kept = []

    async def keep(run):
        kept.append(run)

    answers = {"worker": "E", "risk": "E", "legal": "S"}
    for guard, codes in ((PLAIN, answers), (ASKED_AGAIN, answers | {"legal_second_look": "S"})):
        kept.clear()
        whole = await screen(TEXT, guard, RECOMMENDED, Recording(**codes), commit=keep)
        assert [run.node for run in kept] == ["worker", "risk", "legal", "legal"][: len(codes)]
        for done in range(len(codes) + 1):
            rest = Recording(**dict(list(codes.items())[done:]))
            assert await screen(TEXT, guard, RECOMMENDED, rest, committed=kept[:done]) == whole
    for wrong in (replace(kept[0], node="risk"), replace(kept[0], variant=SECOND_LOOK)):
        with pytest.raises(ValueError, match=f"a committed run of {wrong.node} stands where worker is due"):
            await screen(TEXT, PLAIN, RECOMMENDED, Recording(worker="S"), committed=[wrong])


@given(st.text("SUE?!_~", min_size=1, max_size=30), st.text("SUE?!_~", min_size=1, max_size=30))
async def test_safe_is_committed_only_when_a_node_identified_safe(worker, risk):
    sampler = Recording(worker=worker, risk=risk, legal="E")
    for pipeline in (RECOMMENDED, preset("paper")):
        result = await screen(TEXT, Guard(), pipeline, sampler)
        last = result.runs[-1].verdict
        assert (result.outcome is Outcome.SAFE) == (last.label is Label.SAFE and last.ended is Ended.IDENTIFIED)
        assert all(len(run.draws) <= pipeline.node(run.node).rule.budget for run in result.runs)


def test_a_draw_batch_may_end_once_nothing_can_be_identified_and_no_sooner():
    """Six calls, all of which must agree: after two that differ nothing can be identified."""
    narrow = chain("narrow", PairwiseMixture.symmetric(0.05, 6), "human_review")
    for codes, hopeless in (("", False), ("S", False), ("SU", True), ("SUS", True), ("SSSSS", False)):
        steps, draws = screening_steps(TEXT, Guard(), narrow), decode_draws(codes)
        assert next(steps).enough(draws) is hopeless
        if hopeless:
            run = steps.send(draws)
            assert (run.codes, run.verdict.ended, run.verdict.calls) == (codes, Ended.FUTILITY, len(codes))
        else:
            with pytest.raises(ValueError, match="exactly the draws"):
                steps.send(draws)
    for sent, words in ((None, "must give draws"), (decode_draws("S" * 7), "exactly the draws")):
        steps = screening_steps(TEXT, Guard(), narrow)
        next(steps)
        with pytest.raises(ValueError, match=words):
            steps.send(sent)


async def test_a_text_too_long_for_a_model_or_a_case_that_was_stopped_goes_to_a_human_with_what_was_drawn():
    class Full(Recording):
        async def draw(self, request):
            if request.node == "risk":
                raise SamplerError(TOO_LONG, "longer than the model's context")
            return await super().draw(request)

    result = await screen(TEXT, Guard(), RECOMMENDED, Full(worker="E"))
    assert (result.outcome, result.node, result.reason) == (Outcome.HUMAN_REVIEW, "risk", Reason.TOO_LONG)
    assert [run.node for run in result.runs] == ["worker"] and result.calls == 6
    assert result.delta == pytest.approx(0.05)
    runs = (await screen(TEXT, PLAIN, RECOMMENDED, Recording(worker="E", risk="E", legal="S"))).runs
    given = to_a_human(Reason.STOPPED, runs)
    assert (given.outcome, given.node, given.reason) == (Outcome.HUMAN_REVIEW, "legal", Reason.STOPPED)
    assert (given.runs, given.delta, to_a_human(Reason.REPEATED_FAILURE, ()).node) == (tuple(runs), None, None)


async def test_a_share_is_that_of_the_draws_or_of_the_servers_probabilities():
    drawn = (await screen(TEXT, PLAIN, RECOMMENDED, Recording(worker="UUUSUUUUU"))).runs[0]
    for label in (Label.SAFE, Label.UNSAFE):
        assert drawn.share(label) == pytest.approx(drawn.codes.count(label.name[0]) / len(drawn.codes))
    shares = {Label.SAFE: 0.7, Label.UNSAFE: 0.2, Label.ESCALATE: 0.1}
    known = replace(drawn, distribution=LabelDistribution(labels=shares, unknown=0.0))
    assert replace(drawn, draws=()).share(Label.SAFE) == 0.0
    assert replace(known, draws=()).share(Label.UNSAFE) == 0.2
    assert known.share(Label.UNSAFE) == drawn.share(Label.UNSAFE)


async def test_each_draw_batch_is_told_with_its_draws_and_asked_of_the_nodes_own_agent():
    nodes = [node.model_copy(update={"model": f"model-of-{node.name}"}) for node in RECOMMENDED.nodes]
    own, told, sampler = RECOMMENDED.model_copy(update={"nodes": tuple(nodes)}), [], Recording(worker="E", risk="S")

    async def tell(request, draws):
        told.append((request.node, request.first, encode_draws(draws), request.agent.model))

    await screen(TEXT, PLAIN, own, sampler, progress=tell)
    assert [each[:3] for each in told] == [("worker", 0, "EEEEEE"), ("risk", 0, "SSSSSS"), ("risk", 6, "SSSSS")]
    assert [each[3] for each in told] == ["model-of-worker", "model-of-risk", "model-of-risk"]


# --- an escalation that only unusable answers make is told apart from one that the model gave


def test_an_escalation_stands_on_usable_answers_and_a_node_ends_after_so_many_others():
    mixture, short = PairwiseMixture(), PairwiseMixture(budget=12, stop_for_futility=False)
    rules = {"mixture": mixture, "short": short, "vote": MajorityVote(n=5)}
    for rule, named, codes, ended in TABLES["grounds"]:
        draws = decode_draws(codes)
        verdict = Verdict(label=Label(named), ended=Ended.IDENTIFIED, calls=len(draws))
        found = with_usable_grounds(rules[rule], draws, verdict)
        assert found == replace(verdict, ended=Ended(ended)), codes
    assert with_usable_grounds(mixture, decode_draws("S?" * (MOST_UNUSABLE - 1)), None) is None
    spent = with_usable_grounds(mixture, decode_draws("S?" * MOST_UNUSABLE), None)
    assert spent == Verdict(label=Label.ESCALATE, ended=Ended.NO_ANSWER, calls=2 * MOST_UNUSABLE)


def test_every_finding_forbids_what_it_should():
    for flag in Flag:
        guard = guard_for([flag.value])
        assert (guard.refuse_screening is not None) == (FORBIDS[flag] is Forbids.SCREENING), flag
        assert (guard.refuse_safe is not None) == (FORBIDS[flag] >= Forbids.SAFE), flag
        assert guard.second_look == (FORBIDS[flag] is Forbids.UNCHECKED_SAFE), flag
    assert guard_for([]) == Guard()
    gravest = guard_for(["no_words", "suspected_injection"])
    assert gravest.refuse_safe is Reason.SUSPECTED_INJECTION
    assert guard_for(["a finding of a later version"]) == Guard(refuse_safe=Reason.UNREADABLE)
