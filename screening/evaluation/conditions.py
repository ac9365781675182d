"""The conditions of the paper's experiment, and ours, as pipelines."""

import re
from dataclasses import dataclass
from typing import Literal

from screening.labels import Label, Outcome
from screening.pipeline.config import NodeConfig, PipelineConfig, chain, pooled_rule
from screening.stopping.rules import MajorityVote, PairwiseMixture, StoppingRule, SuccessiveElimination

VOTES = (1, 3, 5)
BUDGETS = (10, 50, 75, 100, 124, 150)
PAPER_DELTA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A pipeline under the name that the results table gives it. It may be one that can never decide."""

    name: str
    pipeline: PipelineConfig


def single_agent() -> PipelineConfig:
    """One draw at Worker and no routing: an answer of ``escalate`` goes to a human (paper, section 4)."""
    worker = chain("single-agent", MajorityVote(budget=1), "human_review").nodes[0]
    routes = {**worker.routes, Label.ESCALATE: Outcome.HUMAN_REVIEW.value}
    return PipelineConfig(name="single-agent", nodes=(worker.model_copy(update={"routes": routes}),))


def paper_conditions(*, curtail: bool = False) -> tuple[Condition, ...]:
    """The paper's ten: single agent, majority vote of 1, 3, 5, Algorithm 1 with six budgets; abstentions go on.

    One difference to the loop as printed: there a round is begun while a budget is left, here only if it can pay for
    all labels that are left, so that B is never exceeded (B=10 makes 9 calls a node, and not 12).

    Without ``curtail`` each node pays its whole budget before it abstains, as in the paper; with it the outcomes
    are the same and the calls fewer.

    >>> [condition.name for condition in paper_conditions()][:5]
    ['single-agent', 'MV n=1', 'MV n=3', 'MV n=5', 'B=10']
    """
    votes = [_chain(f"MV n={n}", MajorityVote(budget=n)) for n in VOTES]
    adaptive = [
        _chain(f"B={budget}", SuccessiveElimination(delta=PAPER_DELTA, budget=budget, curtail=curtail))
        for budget in BUDGETS
    ]
    return (Condition(name="single-agent", pipeline=single_agent()), *votes, *adaptive)


def named_condition(name: str) -> Condition:
    """A condition of the paper's kinds with another number: ``B=60``, ``B=60 early``, ``MV n=7``. ValueError otherwise.

    >>> named_condition("B=60 early").pipeline.nodes[0].on_abstain
    'human_review'
    """
    found = re.fullmatch(r"(B|MV n)=([1-9]\d{0,4})( early)?", name)
    if found is None or (found[1] == "MV n" and found[3]):
        known = ", ".join(each.name for each in (*paper_conditions(), *our_conditions()))
        raise ValueError(f"no condition {name}; there are {known}, and any B=60, 'B=60 early' and MV n=7")
    if found[1] == "MV n":
        return _chain(name, MajorityVote(budget=int(found[2])))
    rule = SuccessiveElimination(delta=PAPER_DELTA, budget=int(found[2]), curtail=False)
    return _chain(name, rule, "human_review" if found[3] else "next")


def our_conditions(*, budget: int = 100) -> tuple[Condition, ...]:
    """Pooled draws, at Ville's levels and certified: with symmetric errors at the paper's δ, and with the defaults."""
    symmetric = PairwiseMixture.symmetric(PAPER_DELTA, budget)
    return (
        _chain(f"pairwise δ={PAPER_DELTA}", symmetric),
        _chain(f"certified δ={PAPER_DELTA}", pooled_rule(PAPER_DELTA, budget)),
        _chain("recommended", PairwiseMixture(budget=budget), "human_review"),
        _chain("certified", pooled_rule(None, budget), "human_review"),
    )


def _chain(name: str, rule: StoppingRule, on_abstain: Literal["human_review", "next"] = "next") -> Condition:
    return Condition(name=name, pipeline=chain(name, rule, on_abstain))


def budget_conditions(rule: Literal["pairwise", "elimination"]) -> tuple[tuple[int, Condition], ...]:
    """The sweep of one rule: budgets with the condition that has them, at the paper's δ."""
    rules: list[StoppingRule]
    if rule == "pairwise":
        budgets: tuple[int, ...] = (6, 10, 15, 25, 50, 75, 100, 124, 150)
        rules = [PairwiseMixture.symmetric(PAPER_DELTA, budget) for budget in budgets]
    else:
        budgets = (10, 25, 50, 72, 75, 87, 100, 124, 150)
        rules = [SuccessiveElimination(budget=budget, curtail=False) for budget in budgets]
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
        rule = PairwiseMixture(
            budget=self.budget,
            default_error=self.other_errors,
            errors=(((Label.SAFE, Label.UNSAFE), self.safe_given_unsafe),),
        )
        chained = chain("what-if", rule, "next" if self.abstentions_go_on else "human_review")
        if not self.confirm_safe:
            return chained
        first, second, *rest = chained.nodes
        return PipelineConfig(name="what-if", nodes=(_safe_goes_to(first, second.name), second, *rest))


def _safe_goes_to(node: NodeConfig, target: str) -> NodeConfig:
    return node.model_copy(update={"routes": {**node.routes, Label.SAFE: target}})
