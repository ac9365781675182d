"""A case's draws as the live view and the case page show them: each node's labels, evidence and state, replayed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from screening.engine.distribution import LabelDistribution, read_distribution
from screening.engine.draws import decode_draws
from screening.engine.pipeline import NodeConfig, PipelineConfig
from screening.engine.screen import MAIN
from screening.engine.usable import with_usable_grounds
from screening.labels import LABELS, Label
from screening.statistics.rules.protocol import Comparison, Ended, RuleState, StoppingRule, Verdict

TRACE_POINTS = 24


class State(StrEnum):
    """What a node is doing, as its badge says it."""

    WAITING = "Waiting"
    SAMPLING = "Sampling"
    IDENTIFIED = "Answered"
    EXHAUSTED = "No decision: answers too mixed, limit reached"
    CURTAILED = "No decision: answers too mixed"
    NOT_ASKED = "Not needed"
    NO_ANSWER = "No usable answer"
    TOO_CLOSE = "No decision: too close to tell"
    STOPPED = "Stopped"


ABSTAINED = frozenset({State.EXHAUSTED, State.CURTAILED, State.TOO_CLOSE})


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePoint:
    """How far the leading label was on the way to its line against the strongest rival, after so many draws."""

    draws: int
    reached: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node as it stands after ``codes``. Nothing is compared before a draw, and where there was no answer."""

    title: str
    question: str
    state: State
    label: Label | None
    rule: StoppingRule
    codes: str
    compared: tuple[Comparison, ...]
    trace: tuple[TracePoint, ...]

    @property
    def distribution(self) -> LabelDistribution | None:
        """The server's probabilities, where they were read off instead of drawing."""
        return read_distribution(self.codes)

    @property
    def calls(self) -> int:
        """Calls so far."""
        return 1 if self.distribution else len(self.codes)

    @property
    def budget(self) -> int:
        """Most draws of the node."""
        return self.rule.budget


def node_views(pipeline: PipelineConfig, draws: Mapping[str, str], *, ended: bool) -> tuple[NodeView, ...]:
    """Every node of the pipeline in order, and after each the second look at it, if there was one.

    ``draws`` holds the codes so far by "node/variant"; ``ended`` says that no more will come.
    """
    views = []
    for node in pipeline.nodes:
        views.append(node_view(node, draws.get(f"{node.name}/{MAIN}"), ended=ended))
        for key, codes in draws.items():
            name, _, variant = key.partition("/")
            if name == node.name and variant != MAIN:
                views.append(node_view(node, codes, ended=ended, title=f"{node.title}, second wording"))
    return tuple(views)


def node_view(node: NodeConfig, codes: str | None, *, ended: bool, title: str | None = None) -> NodeView:
    """One node after the draws ``codes``, or the distribution they stand for; None is a node that was not reached."""
    rule, told = node.rule.rule(), read_distribution(codes or "")
    replayed = _replay(rule, codes or "") if told is None else _replay_distribution(told)
    verdict = replayed.verdict if codes else None
    return NodeView(
        title=title or node.title,
        question=node.question,
        state=_state(verdict, asked=codes is not None, ended=ended),
        label=verdict.label if verdict else None,
        rule=rule,
        codes=codes or "",
        compared=replayed.compared if codes else (),
        trace=replayed.trace,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replayed:
    """A rule after some draws, as far as it is shown."""

    verdict: Verdict | None
    compared: tuple[Comparison, ...]
    trace: tuple[TracePoint, ...]


def _replay_distribution(distribution: LabelDistribution) -> _Replayed:
    return _Replayed(verdict=distribution.verdict(), compared=distribution.comparisons(), trace=())


@lru_cache(maxsize=4096)
def _replay(rule: StoppingRule, codes: str) -> _Replayed:
    """Cached: everybody who watches sees the same, and a node that is done is shown again at every tick."""
    states = _states(rule, codes)
    verdict = with_usable_grounds(rule, decode_draws(codes), states[-1].verdict())
    if verdict is not None and verdict.ended is Ended.NO_ANSWER:  # nothing in it may look decided
        return _Replayed(verdict=verdict, compared=(), trace=())
    return _Replayed(verdict=verdict, compared=states[-1].comparisons(), trace=_trace(states))


def _states(rule: StoppingRule, codes: str) -> list[RuleState]:
    states: list[RuleState] = [rule.start()]
    for draw in decode_draws(codes):
        states.append(states[-1].observe(draw.label))
    return states


def _state(verdict: Verdict | None, *, asked: bool, ended: bool) -> State:
    if verdict is not None:
        return {
            Ended.IDENTIFIED: State.IDENTIFIED,
            Ended.EXHAUSTED: State.EXHAUSTED,
            Ended.CURTAILED: State.CURTAILED,
            Ended.NO_ANSWER: State.NO_ANSWER,
            Ended.TOO_CLOSE: State.TOO_CLOSE,
        }[verdict.ended]
    if ended:
        return State.STOPPED if asked else State.NOT_ASKED
    return State.SAMPLING if asked else State.WAITING


def _trace(states: Sequence[RuleState]) -> tuple[TracePoint, ...]:
    """The way to the line at about `TRACE_POINTS` moments spread evenly, the last one always among them; nothing for
    a rule without a line.
    """
    drawn = states[1:]
    step = max(1, -(-len(drawn) // TRACE_POINTS))
    found = ((state.calls, [each.progress for each in state.comparisons()]) for state in reversed(drawn[::-step]))
    return tuple(
        TracePoint(draws=calls, reached=min(share for share in reached if share is not None))
        for calls, reached in found
        if None not in reached
    )


NOT_ACCURACY = "Shows consistency, not correctness."


def evidence_sentence(codes: str, label: Label) -> str:
    """What the draws say about an identified label: how constant the answers are, and not that they are right.

    >>> evidence_sentence("S" * 11, Label.SAFE)
    '11 of 11 answers: safe. Shows consistency, not correctness.'
    """
    told = read_distribution(codes)
    if told is not None:
        words = distribution_words(told)
        lead = f"{words[0].upper()}{words[1:]}; {label} leads by {told.gap:.3f}."
        return f"{lead} Read off one call. {NOT_ACCURACY}"
    draws = decode_draws(codes)
    said = sum(draw.label is label for draw in draws)
    return f"{said} of {len(draws)} answers: {label}. {NOT_ACCURACY}"


def distribution_words(told: LabelDistribution) -> str:
    """Each label's probability and the part that is not known.

    >>> distribution_words(read_distribution("=0.7|0.2|0.1|0|1"))
    'the server gives safe 0.700, unsafe 0.200, escalate 0.100 and leaves 0.000 unknown'
    """
    shares = ", ".join(f"{label} {told.labels[label]:.3f}" for label in LABELS)
    return f"the server gives {shares} and leaves {told.unknown:.3f} unknown"
