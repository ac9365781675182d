"""One case through the pipeline, driven by a recording: what is asked, what is committed, what it ends as."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.labels import Label, Outcome
from screening.pipeline.config import PipelineConfig, chain, preset
from screening.pipeline.draws import (
    TOO_LONG,
    Answer,
    Draw,
    DrawRequest,
    LabelDistribution,
    SamplerError,
    ScreenedText,
    decode_draws,
    encode_draws,
)
from screening.pipeline.engine import (
    SECOND_LOOK,
    Guard,
    NodeRun,
    Reason,
    Screening,
    screen,
    screening_steps,
    to_a_human,
)
from screening.stopping.rules import Ended, PairwiseMixture, Verdict

TEXT = ScreenedText(text="a text")
RECOMMENDED = preset("recommended")
PAPER = preset("paper")


class Recording:
    """Endless draws per node and variant: the given codes over and over. Keeps what it was asked for."""

    def __init__(self, **codes: str) -> None:
        self.codes = codes
        self.asked: list[DrawRequest] = []

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        self.asked.append(request)
        name = request.node if request.variant == "main" else f"{request.node}_{request.variant}"
        endless = itertools.islice(itertools.cycle(decode_draws(self.codes[name])), request.first, None)
        return list(itertools.islice(endless, request.count))


async def _outcome(
    sampler: Recording, guard: Guard | None = None, pipeline: PipelineConfig = RECOMMENDED
) -> tuple[Outcome, str | None, Reason, int]:
    result = await screen(TEXT, guard or Guard(), pipeline, sampler)
    return result.outcome, result.node, result.reason, result.calls


async def test_a_unanimous_safe_takes_eleven_draws_and_a_unanimous_unsafe_six() -> None:
    assert await _outcome(Recording(worker="S")) == (Outcome.SAFE, "worker", Reason.IDENTIFIED, 11)
    assert await _outcome(Recording(worker="U")) == (Outcome.UNSAFE, "worker", Reason.IDENTIFIED, 6)


async def test_draws_are_asked_for_in_the_largest_draw_batches_of_which_none_can_be_wasted() -> None:
    sampler = Recording(worker="S")
    await screen(TEXT, Guard(), RECOMMENDED, sampler)
    assert [(request.first, request.count) for request in sampler.asked] == [(0, 6), (6, 5)]  # unsafe could end at 6


async def test_an_identified_escalate_goes_down_the_chain_to_a_human() -> None:
    expected = (Outcome.HUMAN_REVIEW, "legal", Reason.ESCALATED, 18)
    assert await _outcome(Recording(worker="E", risk="E", legal="E")) == expected
    assert await _outcome(Recording(worker="E", risk="U")) == (Outcome.UNSAFE, "risk", Reason.IDENTIFIED, 12)


async def test_an_abstention_goes_to_a_human_and_is_not_called_an_escalation() -> None:
    outcome, node, reason, calls = await _outcome(Recording(worker="SU"))
    assert (outcome, node) == (Outcome.HUMAN_REVIEW, "worker")
    assert reason in (Reason.FUTILITY, Reason.EXHAUSTED) and calls <= 100


async def test_the_papers_abstention_goes_on_to_the_next_node() -> None:
    sampler = Recording(worker="SU", risk="SU", legal="U")
    outcome, node, _, _ = await _outcome(sampler, pipeline=PAPER)
    assert (outcome, node) == (Outcome.UNSAFE, "legal")


@pytest.mark.parametrize("code", ["?", "!", "_", "~"])
async def test_an_unusable_answer_counts_as_escalate_and_never_as_safe(code: str) -> None:
    outcome, _, reason, _ = await _outcome(Recording(worker=code, risk=code, legal=code))
    assert (outcome, reason) == (Outcome.HUMAN_REVIEW, Reason.NO_ANSWER)


def test_an_unusable_answer_cannot_be_made_a_safe_draw() -> None:
    with pytest.raises(ValueError):
        Draw(label=Label.SAFE, answer=Answer.REFUSAL)


async def test_what_the_text_forbids_is_stronger_than_a_unanimous_model() -> None:
    sampler = Recording(worker="S")
    unscreened = await screen(TEXT, Guard(refuse_screening=Reason.TOO_LONG), RECOMMENDED, sampler)
    assert unscreened == Screening(outcome=Outcome.HUMAN_REVIEW, node=None, reason=Reason.TOO_LONG, runs=(), delta=0.0)
    assert not sampler.asked
    refused = await _outcome(sampler, Guard(refuse_safe=Reason.SUSPECTED_INJECTION))
    assert refused == (Outcome.HUMAN_REVIEW, "worker", Reason.SUSPECTED_INJECTION, 11)
    unsafe = await _outcome(Recording(worker="U"), Guard(refuse_safe=Reason.SUSPECTED_INJECTION))
    assert unsafe[0] is Outcome.UNSAFE


async def test_a_second_look_must_agree_before_safe_commits() -> None:
    guard = Guard(second_look=True)
    agreed = await screen(TEXT, guard, RECOMMENDED, Recording(worker="S", worker_second_look="S"))
    assert (agreed.outcome, agreed.calls) == (Outcome.SAFE, 22) and agreed.runs[-1].variant == SECOND_LOOK
    for other in ("U", "E", "?", "SU"):
        result = await screen(TEXT, guard, RECOMMENDED, Recording(worker="S", worker_second_look=other))
        assert (result.outcome, result.reason) == (Outcome.HUMAN_REVIEW, Reason.SECOND_LOOK_DISAGREED)


async def test_committed_runs_are_taken_over_and_nothing_is_asked_again() -> None:
    kept: list[NodeRun] = []

    async def keep(run: NodeRun) -> None:
        kept.append(run)

    whole = await screen(TEXT, Guard(), RECOMMENDED, Recording(worker="E", risk="E", legal="S"), commit=keep)
    assert [run.node for run in kept] == ["worker", "risk", "legal"]
    for done in range(4):
        sampler = Recording(worker="", risk="E", legal="S") if done else Recording(worker="E", risk="E", legal="S")
        again = await screen(TEXT, Guard(), RECOMMENDED, sampler, committed=kept[:done])
        assert again == whole
        assert not {request.node for request in sampler.asked} & {run.node for run in kept[:done]}
    twice = await screen(TEXT, Guard(second_look=True), RECOMMENDED, Recording(worker="S", worker_second_look="S"))
    again = await screen(TEXT, Guard(second_look=True), RECOMMENDED, Recording(), committed=twice.runs)
    assert again == twice, "the second look is kept too"


async def test_the_guarantee_is_the_sum_over_the_nodes_on_the_way() -> None:
    one = await screen(TEXT, Guard(), RECOMMENDED, Recording(worker="S"))
    three = await screen(TEXT, Guard(), RECOMMENDED, Recording(worker="E", risk="E", legal="E"))
    assert one.delta == pytest.approx(0.05) and three.delta == pytest.approx(0.15)


@given(st.text("SUE?!_~", min_size=1, max_size=30), st.text("SUE?!_~", min_size=1, max_size=30))
async def test_safe_is_committed_only_when_a_node_identified_safe(worker: str, risk: str) -> None:
    sampler = Recording(worker=worker, risk=risk, legal="E")
    for pipeline in (RECOMMENDED, PAPER):
        result = await screen(TEXT, Guard(), pipeline, sampler)
        last = result.runs[-1].verdict
        assert (result.outcome is Outcome.SAFE) == (last.label is Label.SAFE and last.ended is Ended.IDENTIFIED)
        assert all(len(run.draws) <= pipeline.node(run.node).rule.budget for run in result.runs)


@pytest.mark.parametrize(("node", "variant"), [("risk", "main"), ("worker", SECOND_LOOK)])
async def test_a_committed_run_of_another_node_or_question_is_not_taken_over(node: str, variant: str) -> None:
    earlier = NodeRun(
        node=node,
        variant=variant,
        draws=tuple(decode_draws("S" * 11)),
        verdict=Verdict(label=Label.SAFE, ended=Ended.IDENTIFIED, calls=11),
    )
    with pytest.raises(ValueError, match=f"a committed run of {node} stands where worker is due"):
        await screen(TEXT, Guard(), RECOMMENDED, Recording(worker="S"), committed=[earlier])


def test_what_is_no_draws_is_refused_as_an_answer() -> None:
    steps = screening_steps(TEXT, Guard(), RECOMMENDED)
    next(steps)
    with pytest.raises(ValueError, match="must give draws"):
        steps.send(None)


NARROW = chain("narrow", PairwiseMixture.symmetric(0.05, 6), "human_review")
"""Six calls, all of which must agree: after two that differ nothing can be identified."""


def test_a_draw_batch_may_end_once_nothing_can_be_identified_and_no_sooner() -> None:
    for codes, hopeless in (("", False), ("S", False), ("SU", True), ("SUS", True), ("SSSSS", False)):
        request = next(screening_steps(TEXT, Guard(), NARROW))
        assert isinstance(request, DrawRequest) and request.enough is not None
        assert request.enough(decode_draws(codes)) is hopeless
        steps = screening_steps(TEXT, Guard(), NARROW)
        next(steps)
        if hopeless:
            run = steps.send(decode_draws(codes))
            assert isinstance(run, NodeRun) and run.verdict.ended is Ended.FUTILITY
            assert (run.codes, run.verdict.calls) == (codes, len(codes))
        else:
            with pytest.raises(ValueError, match="exactly the draws"):
                steps.send(decode_draws(codes))


async def test_a_text_too_long_for_a_model_on_the_way_goes_to_a_human_with_what_was_drawn() -> None:
    class Full(Recording):
        async def draw(self, request: DrawRequest) -> Sequence[Draw]:
            if request.node == "risk":
                raise SamplerError(TOO_LONG, "longer than the model's context")
            return await super().draw(request)

    result = await screen(TEXT, Guard(), RECOMMENDED, Full(worker="E"))
    assert (result.outcome, result.node, result.reason) == (Outcome.HUMAN_REVIEW, "risk", Reason.TOO_LONG)
    assert [run.node for run in result.runs] == ["worker"] and result.calls == 6
    assert result.delta == pytest.approx(0.05)


async def test_a_case_given_to_a_human_keeps_its_runs_and_promises_nothing() -> None:
    runs = (await screen(TEXT, Guard(), RECOMMENDED, Recording(worker="E", risk="E", legal="S"))).runs
    given = to_a_human(Reason.STOPPED, runs)
    assert given == Screening(
        outcome=Outcome.HUMAN_REVIEW, node="legal", reason=Reason.STOPPED, runs=tuple(runs), delta=None
    )
    assert to_a_human(Reason.REPEATED_FAILURE, ()).node is None


async def test_a_share_is_that_of_the_draws_or_of_the_servers_probabilities() -> None:
    drawn = (await screen(TEXT, Guard(), RECOMMENDED, Recording(worker="UUUSUUUUU"))).runs[0]
    assert drawn.share(Label.SAFE) == pytest.approx(drawn.codes.count("S") / len(drawn.codes))
    assert drawn.share(Label.UNSAFE) == pytest.approx(drawn.codes.count("U") / len(drawn.codes))
    nothing = replace(drawn, draws=())
    assert nothing.share(Label.SAFE) == 0.0
    shares = {Label.SAFE: 0.7, Label.UNSAFE: 0.2, Label.ESCALATE: 0.1}
    known = LabelDistribution(labels=shares, unknown=0.0)
    assert replace(drawn, draws=(), distribution=known).share(Label.UNSAFE) == 0.2
    assert replace(drawn, distribution=known).share(Label.UNSAFE) == drawn.share(Label.UNSAFE)


async def test_each_draw_batch_is_told_with_its_draws_and_asked_of_the_nodes_own_agent() -> None:
    nodes = [node.model_copy(update={"model": f"model-of-{node.name}"}) for node in RECOMMENDED.nodes]
    own, told = RECOMMENDED.model_copy(update={"nodes": tuple(nodes)}), []

    async def tell(request: DrawRequest, draws: Sequence[Draw]) -> None:
        told.append((request.node, request.first, encode_draws(draws)))

    sampler = Recording(worker="E", risk="S")
    await screen(TEXT, Guard(), own, sampler, progress=tell)
    assert told == [("worker", 0, "EEEEEE"), ("risk", 0, "SSSSSS"), ("risk", 6, "SSSSS")]
    assert [request.agent.model for request in sampler.asked] == ["model-of-worker"] + ["model-of-risk"] * 2
