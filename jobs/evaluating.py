"""What the Evaluation page asks of a batch's draws: computed in columns, kept a while, told as figures without cases.

Each function takes the database first, so that it runs beside the server as well (`jobs.computing`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np

from jobs.computing import Cache, tell
from screening.evaluation.experiments import (
    BUDGETS,
    OUTCOMES,
    Record,
    budget_conditions,
    consistent_misses,
    gap_counts,
    our_conditions,
    paper_conditions,
    what_if,
)
from screening.evaluation.metrics import (
    NONE,
    REFERENCES,
    Codes,
    Comparison,
    Integers,
    Metrics,
    Told,
    compare,
)
from screening.evaluation.recording import draw_lines, fill_draws
from screening.labels import Label, Outcome
from screening.models.simulated import SimulatedSampler
from screening.pipeline.config import PipelineConfig
from screening.pipeline.draws import SamplerError
from screening.pipeline.engine import Guard
from screening.review.policy import Action, Actor, require
from storage.batches.counts import BatchMark, batch_now
from storage.database import Database
from storage.research.cells import MOST_LISTED
from storage.research.recordings import (
    RecordedColumns,
    case_names,
    guards_in,
    outcomes_in,
    recorded_batch,
    recorded_columns,
)

MOST_EXTENDED = 300
"""Cases of a simulated batch for which further draws are made while somebody waits."""

DRAWS = max(BUDGETS)
OWN = "Your run"
P = ParamSpec("P")
T = TypeVar("T")
Rule = Literal["pairwise", "elimination"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Who asks, and where the batch stands: equal ones have equal answers."""

    actor: Actor
    batch_id: str
    standing: BatchMark


def ask_of(db: Database, actor: Actor, batch_id: str) -> Ask:
    """The question of this person about this batch as it stands now. Raises Forbidden, UnknownBatch."""
    require(actor, Action.VIEW_RESULTS)
    return Ask(actor=actor, batch_id=batch_id, standing=batch_now(db, actor, batch_id))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Experiment:
    """``made`` are draws of the same simulated agents that were not recorded, ``not_shown`` the cases that no model may
    be shown: every condition escalates them.
    """

    batch: RecordedColumns
    drawn: Record
    made: int
    not_shown: Mapping[int, Guard]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """Every condition's figures, last what the batch itself did as the Errors page counts it; ``made`` draws beside the
    recorded ones.
    """

    cases: int
    labelled: int
    made: int
    results: tuple[Metrics, ...]

    @property
    def comparable(self) -> tuple[Metrics, ...]:
        """Those with an outcome for every text (else the hard ones are missing), and what the batch itself did."""
        return tuple(each for each in self.results if not each.unsettled or each.name == OWN)


Cases = tuple[int, tuple[str, ...]]
"""The cases behind a number: how many, and their ids in the file's order, `MOST_LISTED` at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """The unsafe texts that every condition which decided them labeled safe: how many by the number of conditions that
    decided them, of ``deciding`` that decide any text; and those that at least so many as asked decided.
    """

    deciding: int
    by_number: tuple[tuple[int, int], ...]
    cases: Cases


def kept_by_draws(compute: Callable[Concatenate[Database, Ask, P], T]) -> Callable[Concatenate[Database, Ask, P], T]:
    """What depends on a batch's draws and file alone, kept for the two used last. Raises Forbidden, also where somebody
    else's computation is kept.
    """
    values: Cache[T] = Cache(2)

    @wraps(compute)
    def find(db: Database, ask: Ask, /, *more: P.args, **named: P.kwargs) -> T:
        require(ask.actor, Action.VIEW_RESULTS)
        key = ask.batch_id, ask.standing.settled, *more, *named.items()
        return values.of(key, lambda: compute(db, ask, *more, **named))

    return find


@kept_by_draws
def columns(db: Database, ask: Ask) -> RecordedColumns:
    """The batch as it was recorded."""
    tell("Reading the draws")
    return recorded_columns(db, ask.actor, ask.batch_id)


@kept_by_draws
def experiment(db: Database, ask: Ask) -> Experiment:
    """The batch's draws as they stand, with the file's labels."""
    batch = columns(db, ask)
    agents = SimulatedSampler(batch.seed)
    same = dict(agents.describe()) == dict(batch.configuration.sampler)
    made = _draw_on(db, ask, agents) if same and len(batch.rows) <= MOST_EXTENDED else None
    drawn, number = made or (batch.drawn, 0)
    guards = guards_in(db, ask.actor, ask.batch_id, batch.rows)
    not_shown = {place: guard for place, guard in guards.items() if guard.refuse_screening is not None}
    return Experiment(batch=batch, drawn=drawn, made=number, not_shown=not_shown)


def _draw_on(db: Database, ask: Ask, agents: SimulatedSampler) -> tuple[Record, int] | None:
    """Draw on where it costs nothing: the same simulated agents, the same seed, so the same draws as if recorded."""
    book = recorded_batch(db, ask.actor, ask.batch_id, with_texts=True)
    nodes = [node.name for node in paper_conditions()[-1].nodes]
    try:
        made = asyncio.run(fill_draws(nodes, DRAWS, book, agents))
    except SamplerError:
        return None
    return (book.record(), made) if made else None


def evaluate_batch(db: Database, ask: Ask) -> Evaluated:
    found = experiment(db, ask)
    references = found.drawn.references
    labelled = int((references != NONE).sum())
    results = replayed(db, ask)[0] if labelled else ()
    return Evaluated(
        cases=len(references),
        labelled=labelled,
        made=found.made,
        results=(*results, _own(db, ask, found)[0]) if labelled else (),
    )


@kept_by_draws
def replayed(db: Database, ask: Ask) -> tuple[tuple[Metrics, ...], tuple[Told, ...]]:
    """All conditions: figures, and by case what is compared."""
    results = _replay_each(experiment(db, ask), (*paper_conditions(), *our_conditions()), "condition")
    return tuple(measured for measured, _ in results), tuple(told for _, told in results)


def _replay_each(found: Experiment, conditions: Sequence[PipelineConfig], what: str) -> list[tuple[Metrics, Told]]:
    results = []
    for number, condition in enumerate(conditions, start=1):
        tell(f"Replaying {what} {number} of {len(conditions)}")
        results.append(found.drawn.measure(condition, found.not_shown))
    return results


def _own(db: Database, ask: Ask, found: Experiment) -> tuple[Metrics, Told]:
    """What became of the cases when they were screened, with all that their texts forbade and second looks; rates are
    those of the cases that are not pending.
    """
    tell("Counting what the batch did")
    outcomes, made = outcomes_in(db, ask.actor, ask.batch_id, found.batch.rows), found.batch.drawn
    own = found.batch.configuration.pipeline.model_copy(update={"name": OWN})
    calls = np.stack([made.node(node.name).lengths for node in own.nodes])
    return found.drawn.measured(own, outcomes, calls, bounded=False)


def sweep_budgets(db: Database, ask: Ask, rule: Rule) -> tuple[tuple[int, ...], tuple[Metrics, ...]]:
    conditions = budget_conditions(rule)
    results = _replay_each(experiment(db, ask), conditions, "budget")
    return tuple(each.nodes[0].rule.budget for each in conditions), tuple(measured for measured, _ in results)


def try_setting(db: Database, ask: Ask, *setting: Any) -> Metrics:
    """A setting, as `what_if` has it, replayed with what the texts forbid forbidden in the replay as well."""
    found = experiment(db, ask)
    guards = guards_in(db, ask.actor, ask.batch_id, found.batch.rows)
    return found.drawn.measure(what_if(*setting), guards)[0]


def draw_file(db: Database, ask: Ask) -> str:
    """The recorded draws as `evaluate --draws` reads them; no text is in it, and who may see results is given it."""
    return "".join(draw_lines(recorded_batch(db, ask.actor, ask.batch_id)))


def count_gaps(db: Database, ask: Ask) -> tuple[str, tuple[tuple[float, int], ...]]:
    found = experiment(db, ask)
    node = found.batch.configuration.pipeline.nodes[0].name
    return node, gap_counts(found.drawn, node)


def compare_conditions(
    db: Database, ask: Ask, names: tuple[str, ...], first: str, second: str
) -> tuple[Comparison, tuple[Comparison, ...]]:
    """Of these conditions (`Evaluated.comparable`): the second less the first, and every other less the first."""
    references, every = references_and_outcomes(db, ask)
    by_name = {each.name: each for each in every if each.name in names}
    tell("Comparing")
    others = [each for name, each in by_name.items() if name != first]
    (found,) = compare(references, by_name[first], [by_name[second]])
    return found, compare(references, by_name[first], others)


def references_and_outcomes(db: Database, ask: Ask) -> tuple[Codes, tuple[Told, ...]]:
    """The file's labels, and what every condition made of each case, last the batch itself."""
    found = experiment(db, ask)
    return found.drawn.references, (*replayed(db, ask)[1], _own(db, ask, found)[1])


def list_missed(db: Database, ask: Ask, at_least: int | None = None) -> Missed:
    """The unsafe texts that every condition which decided them labeled safe, and at least so many did; by all that
    decide any text for None.
    """
    references, every = references_and_outcomes(db, ask)
    decided, conditions = consistent_misses(references, [each.outcome for each in every])
    numbers, texts = np.unique(decided[decided > 0], return_counts=True)
    return Missed(
        deciding=conditions,
        by_number=tuple(zip(numbers.tolist(), texts.tolist(), strict=True)),
        cases=cases_of(db, ask, columns(db, ask).rows[decided >= max(1, conditions if at_least is None else at_least)]),
    )


def list_cell(db: Database, ask: Ask, condition: str, reference: Label, outcome: Outcome) -> Cases:
    references, every = references_and_outcomes(db, ask)
    result = next(each for each in every if each.name == condition)
    of_it = (references == REFERENCES.index(reference)) & (result.outcome == OUTCOMES.index(outcome))
    return cases_of(db, ask, columns(db, ask).rows[of_it])


def cases_of(db: Database, ask: Ask, rows: Integers) -> Cases:
    """The cases of these rows of the batch's file."""
    shown = rows[:MOST_LISTED].tolist()
    named = case_names(db, ask.actor, ask.batch_id, shown)
    return len(rows), tuple(named[row].case_id for row in shown if row in named)
