"""Any pipeline replayed on recorded draws, without a call: the same outcomes and calls as run live on them."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from screening.labels import LABELS, Label, Outcome
from screening.pipeline.config import NodeConfig, PipelineConfig
from screening.pipeline.draws import decode_draws
from screening.pipeline.engine import Guard
from screening.stopping.rules import NO_DRAW, NONE, Codes, Draws, Integers, run

OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
_TO_A_PERSON = OUTCOMES.index(Outcome.HUMAN_REVIEW)
NOT_VISITED = -2
"""In ``Replay.ended``: the case's way did not lead through this node."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodeRecord:
    """One node's draws, each sequence once: ``draws`` of shape (sequences, most draws) with ``sizes`` of them recorded,
    the shorter sequences first; ``of`` says which sequence each case drew.
    """

    draws: Draws
    sizes: Integers
    of: Integers

    @property
    def lengths(self) -> Integers:
        return self.sizes[self.of]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The draws of N cases, for each node by its name. A node that a case never visited has length 0."""

    cases: int
    nodes: Mapping[str, NodeRecord]

    @classmethod
    def from_codes(cls, codes: Mapping[str, Sequence[str]]) -> "Record":
        """From each node's strings of draw codes, one a case, in the same order; ValueError for anything else.

        >>> Record.from_codes({"worker": ["SSU", "", "E?"]}).nodes["worker"].lengths.tolist()
        [3, 0, 2]
        """
        sizes = {len(cases) for cases in codes.values()}
        if len(sizes) > 1:
            raise ValueError("every node needs one string for each case")
        nodes = {node: node_record(*number_sequences(cases)) for node, cases in codes.items()}
        return cls(cases=sizes.pop() if sizes else 0, nodes=nodes)

    def node(self, name: str) -> NodeRecord:
        """The node's draws; none at all where the record does not know the node."""
        return self.nodes.get(name) or node_record([""] * bool(self.cases), np.zeros(self.cases, np.int64))


def node_record(sequences: Sequence[str], of: Integers) -> NodeRecord:
    """From different strings of draw codes, and which of them each case drew; ValueError for what is no draw code."""
    sizes = np.fromiter(map(len, sequences), dtype=np.int64, count=len(sequences))
    order = np.argsort(sizes, kind="stable")
    sizes, place = sizes[order], np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    try:
        characters = np.frombuffer("".join(sequences[one] for one in order).encode("ascii"), dtype=np.uint8)
    except UnicodeEncodeError:
        raise ValueError("not a draw code") from None
    labels = _label_numbers()[characters]
    if (labels == NO_DRAW).any():
        raise ValueError("not a draw code")
    draws = np.full((len(sizes), int(sizes.max(initial=0))), NO_DRAW, dtype=np.uint8)
    draws[np.arange(draws.shape[1]) < sizes[:, None]] = labels
    return NodeRecord(draws=draws, sizes=sizes, of=place[of])


def number_sequences(cases: Sequence[str]) -> tuple[list[str], Integers]:
    """The different ones among the cases' strings, and which of them each case has.

    >>> number_sequences(["SU", "", "SU"])[0], number_sequences(["SU", "", "SU"])[1].tolist()
    (['SU', ''], [0, 1, 0])
    """
    numbers: dict[str, int] = {}
    of = np.fromiter((numbers.setdefault(each, len(numbers)) for each in cases), np.int64, len(cases))
    return list(numbers), of


def _label_numbers() -> Draws:
    """For each character the number of the label that the draw counts as; `NO_DRAW` for no draw code."""
    numbers = np.full(256, NO_DRAW, dtype=np.uint8)
    for character in range(128):
        with suppress(ValueError):
            numbers[character] = LABELS.index(decode_draws(chr(character))[0].label)
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """How each of N cases ended: ``outcome`` (N,), a number into `OUTCOMES`, or `NONE` where more draws are needed than
    were recorded (it is unsettled); ``node`` (N,), the place of the last node visited. By node and case: ``calls``, and
    ``ended``, a number into `ENDS`, `NONE` where the record was too short, or `NOT_VISITED`.
    """

    pipeline: PipelineConfig
    outcome: Codes
    node: Codes
    calls: Integers
    ended: Codes

    @property
    def settled(self) -> NDArray[np.bool_]:
        return np.asarray(self.outcome != NONE)

    @property
    def unsettled(self) -> int:
        return int((~self.settled).sum())

    @property
    def total_calls(self) -> Integers:
        return np.asarray(self.calls.sum(axis=0))

    def outcomes(self) -> list[Outcome | None]:
        """Each case's outcome, None where it is unsettled."""
        return [None if code == NONE else OUTCOMES[code] for code in self.outcome]


def replay(pipeline: PipelineConfig, record: Record, guards: Mapping[int, Guard] | None = None) -> Replay:
    """Run the pipeline on recorded draws, all cases at once, by the rules and routes of `screening.pipeline.engine`.

    Calls are those up to the first draw that left no hope, where a live run may have paid for the rest of its batch.
    What the text itself forbids is applied to the cases of ``guards`` (by their place) alone. A second look is not
    replayed. Nodes that the record does not know leave their cases unsettled.
    """
    nodes, cases = pipeline.nodes, record.cases
    at = np.zeros(cases, dtype=np.int64)  # the node that a case has reached, or len(nodes) + its outcome
    node = np.zeros(cases, dtype=np.int8)
    calls = np.zeros((len(nodes), cases), dtype=np.int64)
    ended = np.full((len(nodes), cases), NOT_VISITED, dtype=np.int8)
    for place, config in enumerate(nodes):  # routes lead to later nodes only
        rows = np.flatnonzero(at == place)
        drawn = record.node(config.name)
        label, end, taken = run(config.rule, drawn.draws)
        targets = np.where(end == NONE, NONE, _targets(pipeline, config)[label])
        of = drawn.of[rows]
        node[rows], calls[place, rows], ended[place, rows] = place, taken[of], end[of]
        at[rows] = targets[of]
    outcome = np.where(at == NONE, NONE, at - len(nodes)).astype(np.int8)
    for case, guard in (guards or {}).items():
        if guard.refuse_screening is not None:
            outcome[case], calls[:, case], ended[:, case] = _TO_A_PERSON, 0, NOT_VISITED
        elif guard.refuse_safe is not None and outcome[case] == OUTCOMES.index(Outcome.SAFE):
            outcome[case] = _TO_A_PERSON
    return Replay(pipeline=pipeline, outcome=outcome, node=node, calls=calls, ended=ended)


def _targets(pipeline: PipelineConfig, node: NodeConfig) -> Integers:
    """Where each label leads, and last where an abstention does, so that label -1 finds it."""
    places = [config.name for config in pipeline.nodes] + [outcome.value for outcome in OUTCOMES]
    labels: Iterable[Label | None] = (*LABELS, None)
    return np.array([places.index(node.target(label)) for label in labels])
