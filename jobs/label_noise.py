"""What the Labels page asks: which reference labels to read again, what to mix them with, and what the relabelled data
set then says. Each function takes the database first, so that it runs beside the server as well (`jobs.computing`).
"""

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.computing import Cache, tell
from jobs.evaluating import Ask, columns
from screening.labels import LABELS
from screening.research.replay import NodeRecord
from screening.statistics.label_noise import Counts, Ranking, ReadingOrder, SecondLook, reading_order
from screening.statistics.metrics import NONE, Columns, Integers, Metrics, evaluate_columns
from storage.database import Database
from storage.research.columns import RecordedColumns, accepted_references, case_names, outcomes_in, waiting_mask
from storage.research.listed import MOST_LISTED

MOST_SHOWN = 200

_orders: Cache[ReadingOrder] = Cache(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One place of the reading order, with the case's id and its name in the file."""

    case_id: str
    external_id: str
    look: SecondLook


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """The first `MOST_SHOWN` places that do not wait for a blind reading of whoever asks. ``labels`` are ranked in all,
    ``waiting`` of them wait, ``left_out`` cases cannot be ranked.
    """

    labels: int
    waiting: int
    left_out: int
    first: tuple[Line, ...]

    @property
    def free(self) -> int:
        """How many may be listed."""
        return self.labels - self.waiting


def rank_labels(db: Database, ask: Ask, ranking: Ranking) -> Ranked:
    """The batch's reference labels, the most contradicted first."""
    batch, order = order_labels(db, ask, ranking)
    free = _free(db, ask, batch, order)
    cases = order.cases[free[:MOST_SHOWN]]
    named = case_names(db, ask.actor, ask.batch_id, batch.rows[cases].tolist())
    lines = (
        Line(case_id=one.case_id, external_id=one.external_id, look=order.look(int(place)))
        for place in free[:MOST_SHOWN]
        if (one := named.get(int(batch.rows[order.cases[place]]))) is not None
    )
    return Ranked(
        labels=len(order.cases), waiting=len(order.cases) - len(free), left_out=order.left_out, first=tuple(lines)
    )


def choose_labels(db: Database, ask: Ask, ranking: Ranking, top: int, seed: str | None) -> tuple[str, ...]:
    """The first places and, with a seed, as many whose draws support their label: their cases' ids."""
    batch, order = order_labels(db, ask, ranking)
    free = _free(db, ask, batch, order)
    places = [*free[:top].tolist(), *(() if seed is None else agreements(order.evidence, free, top, seed))]
    rows = batch.rows[order.cases[places]].tolist()
    named = case_names(db, ask.actor, ask.batch_id, rows)
    return tuple(named[row].case_id for row in rows)


def agreements(evidence: NDArray[np.float64], free: Integers, top: int, seed: str) -> tuple[int, ...]:
    """As many places as the ``top`` first ones, at random among the ``free`` ones behind them whose draws support
    their label.

    Reading only what the model contradicts would flatter the model: 0.85 becomes 0.91 in a simulation.
    """
    rest = free[top:]
    supporting = rest[evidence[rest] < 0].tolist()
    return tuple(random.Random(seed).sample(supporting, min(len(free[:top]), len(supporting))))  # noqa: S311 (no secret)


def order_labels(db: Database, ask: Ask, ranking: Ranking) -> tuple[RecordedColumns, ReadingOrder]:
    """The batch and the order of all its labels, whoever reads them."""
    batch = columns(db, ask)

    def rank() -> ReadingOrder:
        tell("Ranking the labels")
        known = [node.name for node in batch.configuration.pipeline.nodes]
        nodes = sorted(batch.drawn.record.nodes.items(), key=lambda each: _place(known, each[0]))
        counts = {name: _counts(node) for name, node in nodes}
        return reading_order(batch.drawn.references, counts, ranking)

    return batch, _orders.of((*ask.draws_key, ranking), rank)


def _place(known: list[str], node: str) -> tuple[int, str]:
    """A node's place in the pipeline; nodes it does not have come last."""
    return (known.index(node) if node in known else len(known)), node


def _counts(node: NodeRecord) -> Counts:
    """How often each case was given each label."""
    of_sequence = np.stack([(node.draws == number).sum(axis=1) for number in range(len(LABELS))], axis=1)
    return of_sequence.astype(np.int32)[node.of]


def _free(db: Database, ask: Ask, batch: RecordedColumns, order: ReadingOrder) -> Integers:
    """The places that may be listed."""
    waits = waiting_mask(db, ask.actor, ask.batch_id, batch.rows)
    return np.flatnonzero(~waits[order.cases])


@dataclass(frozen=True, slots=True, kw_only=True)
class Relabelled:
    """A version of a batch's labels: the metrics against it, and how many labels clinicians gave, changed, and took
    away, each with its first `MOST_LISTED` cases.
    """

    name: str
    metrics: Metrics
    adjudicated: int = 0
    changed: int = 0
    withdrawn: int = 0
    adjudicated_cases: tuple[str, ...] = ()
    changed_cases: tuple[str, ...] = ()
    withdrawn_cases: tuple[str, ...] = ()


def measure_relabelled(db: Database, ask: Ask, version: int | None) -> tuple[Relabelled, Relabelled]:
    """The batch's own outcomes against the file's labels, and against those accepted as of a version, side by side."""
    batch = columns(db, ask)
    tell("Measuring against the accepted labels")
    original = batch.drawn.references
    outcomes = outcomes_in(db, ask.actor, ask.batch_id, batch.rows)
    after, read = accepted_references(db, ask.actor, ask.batch_id, batch, version)
    changed = read[(after[read] != NONE) & (after[read] != original[read])]
    withdrawn = read[after[read] == NONE]

    def ids(places: Integers) -> tuple[str, ...]:
        rows = batch.rows[places[:MOST_LISTED]].tolist()
        named = case_names(db, ask.actor, ask.batch_id, rows)
        return tuple(named[row].case_id for row in rows)

    return (
        Relabelled(
            name="the file's labels",
            metrics=evaluate_columns(Columns(references=original, outcomes=outcomes)),
        ),
        Relabelled(
            name="adjudicated where read",
            metrics=evaluate_columns(Columns(references=after, outcomes=outcomes)),
            adjudicated=len(read),
            changed=len(changed),
            withdrawn=len(withdrawn),
            adjudicated_cases=ids(read),
            changed_cases=ids(changed),
            withdrawn_cases=ids(withdrawn),
        ),
    )
