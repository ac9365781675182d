"""One case through the pipeline: which draws to ask for, when a node ends, which node comes next.

`screening_steps` holds the logic: a generator that asks for draws and is sent them. `screen` drives it: it gets the
draws from a model, a recording or a simulation, and keeps nodes that have ended.

An escalation that rests on unusable answers alone is no answer of the model: marked here for all who show it.

What the findings in a text forbid the engine to do.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial, reduce
from typing import Protocol, runtime_checkable

from screening.labels import LABELS, OUTCOMES, Label, Outcome
from screening.pipeline.config import NodeConfig, PipelineConfig
from screening.pipeline.draws import (
    TOO_LONG,
    Answer,
    Draw,
    DrawRequest,
    DrawSource,
    LabelDistribution,
    SamplerError,
    ScreenedText,
    Usage,
    encode_draws,
)
from screening.stopping.rules import Ended, StoppingRule, Verdict, conclude, label_numbers, minimum_budget, next_batch
from screening.text import flags as flags_module
from screening.text.flags import REFUSES_SAFE, REFUSES_SCREENING, Flag

MAIN = "main"
SECOND_LOOK = "second_look"


class Reason(StrEnum):
    """Why a case ended as it did. The kinds of escalation are never merged."""

    IDENTIFIED = "identified"
    ESCALATED = "escalated"
    EXHAUSTED = "exhausted"
    FUTILITY = "futility"
    NO_ANSWER = "no_answer"
    TOO_CLOSE = "too_close"
    SECOND_LOOK_DISAGREED = "second_look_disagreed"
    STATED_RISK = "stated_risk"
    SUSPECTED_INJECTION = "suspected_injection"
    HIDDEN_CHARACTERS = "hidden_characters"
    OBFUSCATED = "obfuscated"
    NO_WORDS = "no_words"
    UNSUPPORTED_LANGUAGE = "unsupported_language"
    TOO_LONG = "too_long"
    UNREADABLE = "unreadable"
    ROW_REJECTED = "row_rejected"
    REPEATED_FAILURE = "repeated_failure"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What the text itself forbids, whatever the model answers.

    ``refuse_screening``: the case goes to a human without a call. ``refuse_safe``: the outcome must not be ``safe``.
    ``second_look``: ``safe`` needs the agreement of the second prompt variant.
    """

    refuse_screening: Reason | None = None
    refuse_safe: Reason | None = None
    second_look: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """One node's whole work on one case: every draw in request order, and how it ended.

    ``distribution`` holds the label probabilities that the server gave, where it was asked for them: without draws the
    verdict rests on it, with draws too much of it was unknown.
    """

    node: str
    variant: str
    draws: tuple[Draw, ...]
    verdict: Verdict
    distribution: LabelDistribution | None = None

    @property
    def read_off(self) -> bool:
        """Whether the verdict rests on the server's probabilities and nothing was sampled."""
        return self.distribution is not None and not self.draws

    @property
    def usage(self) -> Usage:
        asked = Usage() if self.distribution is None else self.distribution.usage
        return reduce(lambda total, draw: total + draw.usage, self.draws, asked)

    @property
    def calls(self) -> int:
        """All its calls: the draws, and the one for the probabilities."""
        return len(self.draws) + (self.distribution is not None)

    @property
    def codes(self) -> str:
        """Its draws in one string, or the distribution that was read off instead."""
        return self.distribution.code if self.distribution and not self.draws else encode_draws(self.draws)

    def share(self, label: Label) -> float:
        """This label's share of the draws, or its probability; 0 without either."""
        if self.distribution is not None and not self.draws:
            return self.distribution.labels[label]
        return sum(draw.label is label for draw in self.draws) / len(self.draws) if self.draws else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """A case's outcome: where it ended, why, and the node runs that led there.

    ``delta`` bounds the probability that any label named on the way was not its node's mode (the sum over
    the nodes visited); None where a rule without a guarantee took part, or a server's probabilities instead of a rule.
    """

    outcome: Outcome
    node: str | None
    reason: Reason
    runs: tuple[NodeRun, ...]
    delta: float | None

    @property
    def calls(self) -> int:
        return sum(run.calls for run in self.runs)


Step = DrawRequest | NodeRun
Reply = Sequence[Draw] | LabelDistribution | None
Steps = Generator[Step, Reply, Screening]


def screening_steps(
    text: ScreenedText, guard: Guard, pipeline: PipelineConfig, committed: Sequence[NodeRun] = ()
) -> Steps:
    """Yields a `DrawRequest` (send back its draws) or an ended `NodeRun` (send back None); returns the outcome.

    The first request of a node may be answered with its whole distribution instead. Where too much of that is unknown
    the same draws are asked for again.

    ``committed`` are the runs of an earlier start, in order: they are taken over, nothing is asked again.
    """
    if guard.refuse_screening is not None:
        return Screening(outcome=Outcome.HUMAN_REVIEW, node=None, reason=guard.refuse_screening, runs=(), delta=0.0)
    earlier, runs = list(committed), []
    target = pipeline.nodes[0].name
    while target not in OUTCOMES:
        node = pipeline.node(target)
        run = yield from _node_run(node, text, MAIN, earlier)
        runs.append(run)
        target = node.target(run.verdict.label)
    outcome, reason = Outcome(target), _reason(run.verdict, Outcome(target))
    if outcome is Outcome.SAFE and guard.refuse_safe is not None:
        outcome, reason = Outcome.HUMAN_REVIEW, guard.refuse_safe
    elif outcome is Outcome.SAFE and guard.second_look:
        second = yield from _node_run(node, text, SECOND_LOOK, earlier)
        runs.append(second)
        if second.verdict.label is not Label.SAFE:
            outcome, reason = Outcome.HUMAN_REVIEW, Reason.SECOND_LOOK_DISAGREED
    return Screening(outcome=outcome, node=node.name, reason=reason, runs=tuple(runs), delta=_delta(pipeline, runs))


def _node_run(
    node: NodeConfig, text: ScreenedText, variant: str, earlier: list[NodeRun]
) -> Generator[Step, Reply, NodeRun]:
    if earlier:
        run = earlier.pop(0)
        if (run.node, run.variant) != (node.name, variant):
            raise ValueError(f"a committed run of {run.node} stands where {node.name} is due")
        return run
    rule, draws = node.rule, list[Draw]()
    distribution: LabelDistribution | None = None
    while (verdict := with_usable_grounds(rule, draws, _verdict(rule, draws))) is None:
        request = DrawRequest(
            node=node.name,
            text=text,
            first=len(draws),
            count=next_batch(rule, label_numbers(draw.label for draw in draws)),
            variant=variant,
            agent=node.agent,
            enough=partial(_is_futile, rule, tuple(draws)),
        )
        batch = yield request
        if isinstance(batch, LabelDistribution) and not draws and distribution is None:
            distribution = batch
            if (verdict := batch.verdict()) is not None:
                break
            continue
        draws += _sufficient(batch, request)
    run = NodeRun(node=node.name, variant=variant, draws=tuple(draws), verdict=verdict, distribution=distribution)
    run = replace(run, verdict=replace(verdict, calls=run.calls))
    yield run
    return run


def _verdict(rule: StoppingRule, draws: Sequence[Draw]) -> Verdict | None:
    return conclude(rule, label_numbers(draw.label for draw in draws))


def _is_futile(rule: StoppingRule, before: Sequence[Draw], batch: Sequence[Draw]) -> bool:
    """Whether, after these first draws of a batch, no label can be identified whatever the others say. Labels are only
    identified at the end of a batch, so this is all that its first draws can decide. While all draws agree on a label
    that the budget can ever name, there is no need to look.
    """
    labels = {draw.label for draw in (*before, *batch)}
    if len(labels) == 1 and minimum_budget(rule, *labels) <= rule.budget:
        return False
    verdict = _verdict(rule, [*before, *batch])
    return verdict is not None and verdict.ended is Ended.FUTILITY


def _sufficient(batch: Reply, request: DrawRequest) -> Sequence[Draw]:
    """The batch, if it is complete or ends where no label can be identified any more."""
    if batch is None or isinstance(batch, LabelDistribution):
        raise ValueError("a sampler must give draws")
    if len(batch) != request.count and not (len(batch) < request.count and request.enough and request.enough(batch)):
        raise ValueError("a sampler must give exactly the draws that were asked for, or the first that are enough")
    return batch


def _reason(verdict: Verdict, outcome: Outcome) -> Reason:
    if verdict.ended is not Ended.IDENTIFIED:
        return Reason(verdict.ended.value)
    return Reason.ESCALATED if outcome is Outcome.HUMAN_REVIEW else Reason.IDENTIFIED


def _delta(pipeline: PipelineConfig, runs: Sequence[NodeRun]) -> float | None:
    deltas = [None if run.read_off else pipeline.node(run.node).rule.error_bound for run in runs]
    return None if any(delta is None for delta in deltas) else sum(delta or 0.0 for delta in deltas)


@runtime_checkable
class DistributionSource(Protocol):
    """A source of draws that may know a node's whole distribution."""

    def distribution(self, request: DrawRequest) -> Awaitable[LabelDistribution] | None:
        """The distribution behind these draws, in one call; None, and nothing asked, where its server gives none."""
        ...


Commit = Callable[[NodeRun], Awaitable[None]]
Progress = Callable[[DrawRequest, Sequence[Draw]], Awaitable[None]]


async def _ignore(*_: object) -> None:
    return None


async def screen(
    text: ScreenedText,
    guard: Guard,
    pipeline: PipelineConfig,
    sampler: DrawSource,
    *,
    committed: Sequence[NodeRun] = (),
    commit: Commit = _ignore,
    progress: Progress = _ignore,
) -> Screening:
    """Drive `screening_steps` with a sampler; ``commit`` is awaited when a node ends, before the next begins,
    and ``progress`` after each draw batch. Raises SamplerError when the sampler cannot answer: the case is then
    pending, and a later call with the committed runs goes on from there. A text too long for the model goes to a human.
    """
    steps = screening_steps(text, guard, pipeline, committed)
    answer: Reply = None
    runs = list(committed)
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as ended:
            result: Screening = ended.value
            return result
        if isinstance(step, NodeRun):
            await commit(step)
            runs.append(step)
            answer = None
            continue
        try:
            answer = await _answer(step, sampler, sampled=isinstance(answer, LabelDistribution))
        except SamplerError as error:
            if error.kind != TOO_LONG:
                raise
            return replace(to_a_human(Reason.TOO_LONG, runs), node=step.node, delta=_delta(pipeline, runs))
        if not isinstance(answer, LabelDistribution):
            await progress(step, answer)


async def _answer(step: DrawRequest, sampler: DrawSource, *, sampled: bool) -> Sequence[Draw] | LabelDistribution:
    """The node's distribution where its server gives it, else draws. ``sampled``: too little of it was known."""
    if step.first == 0 and not sampled and isinstance(sampler, DistributionSource):
        found = sampler.distribution(step)
        if found is not None:
            return await found
    return await sampler.draw(step)


def to_a_human(reason: Reason, runs: Sequence[NodeRun]) -> Screening:
    """The outcome that a person decides, with the runs so far: they were paid for, and they are shown."""
    node = runs[-1].node if runs else None
    return Screening(outcome=Outcome.HUMAN_REVIEW, node=node, reason=reason, runs=tuple(runs), delta=None)


MOST_UNUSABLE = 12
"""A node ends once so many of its answers were no label: more calls would say no more."""


def unusable_draws(draws: Sequence[Draw]) -> int:
    return sum(draw.answer is not Answer.LABEL for draw in draws)


def with_usable_grounds(rule: StoppingRule, draws: Sequence[Draw], verdict: Verdict | None) -> Verdict | None:
    """The verdict, or `Ended.NO_ANSWER` where an identified escalation does not stand on usable answers alone, and
    where a node without a verdict has had `MOST_UNUSABLE` unusable answers. The way of the case is that of escalate.
    """
    unusable = unusable_draws(draws)
    if unusable == 0:
        return verdict
    if verdict is None:
        spent = Verdict(label=Label.ESCALATE, ended=Ended.NO_ANSWER, calls=len(draws))
        return spent if unusable >= MOST_UNUSABLE else None
    if verdict.ended is not Ended.IDENTIFIED or verdict.label is not Label.ESCALATE:
        return verdict
    usable = [draw.label for draw in draws if draw.answer is Answer.LABEL]
    return verdict if _identifies_escalate(rule, usable) else replace(verdict, ended=Ended.NO_ANSWER)


def unusable_sentence(draws: Sequence[Draw]) -> str:
    """How many answers were no label, in words.

    >>> from screening.pipeline.draws import unusable
    >>> unusable_sentence([unusable(Answer.CUT)] * 6)
    '6 of 6 answers were no label'
    """
    return f"{unusable_draws(draws)} of {len(draws)} answers were no label"


def _identifies_escalate(rule: StoppingRule, usable: Sequence[Label]) -> bool:
    """Whether these answers alone lead to escalate; where a rule has no guarantee, whether it is the most frequent."""
    if rule.error_bound is None:
        counts = {label: usable.count(label) for label in LABELS}
        return counts[Label.ESCALATE] > max(counts[Label.SAFE], counts[Label.UNSAFE])
    verdict = conclude(rule, label_numbers(usable))
    return verdict is not None and verdict.ended is Ended.IDENTIFIED and verdict.label is Label.ESCALATE


_REASONS = {
    Flag.ROW_REJECTED: Reason.ROW_REJECTED,
    Flag.TOO_LONG: Reason.TOO_LONG,
    Flag.STATED_IMMINENT: Reason.STATED_RISK,
    Flag.STATED_RISK: Reason.STATED_RISK,
    Flag.EMPTY: Reason.NO_WORDS,
    Flag.SUSPECTED_INJECTION: Reason.SUSPECTED_INJECTION,
    Flag.HIDDEN_UNICODE: Reason.HIDDEN_CHARACTERS,
    Flag.BIDI_CONTROL: Reason.HIDDEN_CHARACTERS,
    Flag.OBFUSCATED: Reason.OBFUSCATED,
    Flag.UNREADABLE: Reason.UNREADABLE,
    Flag.UNSUPPORTED_LANGUAGE: Reason.UNSUPPORTED_LANGUAGE,
    Flag.NO_WORDS: Reason.NO_WORDS,
}


def guard_for(flags: Iterable[str]) -> Guard:
    """The guard of a text with these findings. A finding this version does not know refuses `safe` as well.

    >>> guard_for(["no_words"]).refuse_safe
    <Reason.NO_WORDS: 'no_words'>
    >>> guard_for(["a finding of a later version"]).refuse_safe
    <Reason.UNREADABLE: 'unreadable'>
    """
    names = set(flags)
    known = {flag for flag in Flag if flag.value in names}
    refusing = [_REASONS[flag] for flag in _REASONS if flag in known & REFUSES_SAFE]
    if names - {flag.value for flag in Flag}:
        refusing.append(Reason.UNREADABLE)
    screening = [_REASONS[flag] for flag in _REASONS if flag in known & REFUSES_SCREENING]
    return Guard(
        refuse_screening=screening[0] if screening else None,
        refuse_safe=refusing[0] if refusing else None,
        second_look=bool(known & flags_module.SECOND_LOOK),
    )
