"""A batch as an experiment: its draws, further ones where the agents are simulated, and its reference labels."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import streamlit as st

from screening.engine.draws import SamplerError, ScreenedText
from screening.engine.pipeline import (
    NodeConfig,
    PairwiseMixtureConfig,
    PipelineConfig,
    RuleConfig,
    SuccessiveEliminationConfig,
    chain,
)
from screening.labels import Label, Outcome
from screening.research.conditions import BUDGETS, Condition, our_conditions, paper_conditions
from screening.research.experiments import ConditionResult, PerDraw, as_it_ran, run_conditions
from screening.research.recording import DrawBook, Item, fill_draws
from screening.research.replay import Record
from screening.review.actors import Actor
from screening.samplers.simulated import SimulatedSampler
from storage.database import Database
from storage.research.confusion import Labels
from storage.research.recorded_draws import (
    RecordedBatch,
    RecordingState,
    adjudicated_labels,
    recorded_batch,
    recording_state,
)

MOST_EXTENDED = 300
"""Cases of a simulated batch for which further draws are made while somebody waits."""

DRAWS = max(BUDGETS)
OWN = "this batch, as it ran"
NO_TEXT = ScreenedText(text="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A batch's draws ready for replay. ``made`` are draws of the same simulated agents that were not recorded;
    ``recorded`` is the record without them.
    """

    batch: RecordedBatch
    record: Record
    recorded: Record
    tokens: PerDraw
    costs: PerDraw
    made: int

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The paper's ten and ours."""
        return (*paper_conditions(), *our_conditions())

    def run(
        self, items: Sequence[Item], conditions: Sequence[Condition], *, guarded: bool = False
    ) -> tuple[ConditionResult, ...]:
        """These conditions on the draws, against the references of ``items``; ``guarded`` with what texts forbid."""
        guards = self.batch.guards if guarded else None
        return run_conditions(items, conditions, self.record, self.tokens, self.costs, guards)

    def as_it_ran(self, items: Sequence[Item], outcomes: Sequence[Outcome | None]) -> ConditionResult:
        """What the batch itself did, as the Errors page counts it."""
        own = Condition(name=OWN, pipeline=self.batch.configuration.pipeline)
        return as_it_ran(items, own, outcomes, self.recorded, self.tokens, self.costs)


def load(db: Database, person: Actor, batch_id: str) -> Experiment:
    """The experiment as the batch stands now; read again only when its draws have changed. Raises Forbidden."""
    return _load(db, person, batch_id, recording_state(db, person, batch_id))


@st.cache_resource(max_entries=4, show_spinner="Reading the draws…")
def _load(_db: Database, _person: Actor, batch_id: str, state: RecordingState) -> Experiment:
    simulated = recorded_batch(_db, _person, batch_id, with_texts=True)
    book = simulated.book
    recorded = _record(book)
    made = _draw_on(simulated)
    return Experiment(
        batch=replace(simulated, items=tuple(replace(item, text=NO_TEXT) for item in simulated.items)),
        record=_record(book) if made else recorded,
        recorded=recorded,
        tokens={} if made else {node: book.tokens_per_draw(node) for node in book.names},
        costs={} if made else {node: book.cost_per_draw(node) for node in book.names},
        made=made,
    )


def _record(book: DrawBook) -> Record:
    return book.record() if book.names else Record(cases=book.cases, nodes={})


def _draw_on(batch: RecordedBatch) -> int:
    """Draw on where it costs nothing: the same simulated agents, the same seed, so the same draws as if recorded."""
    sampler = SimulatedSampler(batch.seed)
    if dict(sampler.describe()) != dict(batch.configuration.sampler) or len(batch.items) > MOST_EXTENDED:
        return 0
    nodes = [node.name for node in paper_conditions()[-1].pipeline.nodes]
    try:
        return asyncio.run(fill_draws(batch.items, nodes, DRAWS, batch.book, sampler))
    except SamplerError:
        return 0


def labelled_items(db: Database, person: Actor, experiment: Experiment, labels: Labels) -> tuple[Item, ...]:
    """The items with the file's references, or with what clinicians accepted in their place.

    A text found to hold too little information then has no reference.
    """
    batch = experiment.batch
    if labels == "original":
        return batch.items
    accepted = adjudicated_labels(db, person, batch.batch_id)
    return tuple(
        replace(item, reference=_reference(accepted[case_id])) if case_id in accepted else item
        for case_id, item in zip(batch.case_ids, batch.items, strict=True)
    )


def _reference(label: str) -> Label | None:
    return Label(label) if label in (Label.SAFE.value, Label.UNSAFE.value) else None


def budget_conditions(rule: Literal["pairwise", "elimination"]) -> tuple[tuple[int, Condition], ...]:
    """The sweep of one rule: budgets with the condition that has them, at the paper's δ."""
    rules: list[RuleConfig]
    if rule == "pairwise":
        budgets: tuple[int, ...] = (6, 10, 15, 25, 50, 75, 100, 124, 150)
        rules = [PairwiseMixtureConfig.symmetric(0.05, budget) for budget in budgets]
    else:
        budgets = (10, 25, 50, 72, 75, 87, 100, 124, 150)
        rules = [SuccessiveEliminationConfig(budget=budget, curtail=False) for budget in budgets]
    return tuple(
        (budget, Condition(name=f"B={budget}", pipeline=chain(f"sweep-{budget}", config, "next")))
        for budget, config in zip(budgets, rules, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A setting to try: error levels, budget, where abstentions go, and whether a second agent confirms safe."""

    safe_given_unsafe: float
    other_errors: float
    budget: int
    abstentions_go_on: bool
    confirm_safe: bool

    def pipeline(self) -> PipelineConfig:
        """The pipeline with this setting."""
        rule = PairwiseMixtureConfig(
            budget=self.budget, default_error=self.other_errors, errors={"safe|unsafe": self.safe_given_unsafe}
        )
        chained = chain("what-if", rule, "next" if self.abstentions_go_on else "human_review")
        if not self.confirm_safe:
            return chained
        first, second, *rest = chained.nodes
        return PipelineConfig(name="what-if", nodes=(_safe_goes_to(first, second.name), second, *rest))


def _safe_goes_to(node: NodeConfig, target: str) -> NodeConfig:
    return node.model_copy(update={"routes": {**node.routes, Label.SAFE: target}})
