"""A pipeline while it is being edited: values that need not be right yet, and what is to be said of them. Pure."""

import difflib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from screening.labels import OUTCOMES, Label
from screening.pipeline.config import NodeConfig, PipelineConfig, longest, promise
from screening.pipeline.cost import estimate, usage_per_call
from screening.pipeline.draws import Usage
from screening.pipeline.files import PipelineRefused, PromptSet, check, write_pipeline
from screening.stopping.rules import StoppingRule, minimum_budget

Draft = dict[str, Any]
TYPICAL_CHARACTERS = 600
"""Length of the text for which a price is told, when there is no file yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that holds of a draft, or does not."""

    holds: bool
    words: str


def draft_of(pipeline: PipelineConfig) -> Draft:
    """The values of a pipeline, to be edited."""
    return pipeline.model_dump(mode="json")


def node_names(draft: Draft) -> list[str]:
    """The names of the agents, in order."""
    return [str(node["name"]) for node in draft["nodes"]]


def targets_after(draft: Draft, name: str) -> list[str]:
    """Where a label of this agent may lead: an outcome, or an agent that comes later."""
    names = node_names(draft)
    return [*sorted(OUTCOMES), *names[names.index(name) + 1 :]]


def insert_after(draft: Draft, name: str, new: str, title: str) -> Draft:
    """A new agent after this one: what led from it to a later agent now leads to the new one, which leads on there.

    ValueError for a name that is taken.
    """
    names = node_names(draft)
    if new in names or new in OUTCOMES:
        raise ValueError(f"there is already something called {new!r}")
    changed = deepcopy(draft)
    position = names.index(name)
    before = changed["nodes"][position]
    onward = before["routes"][Label.ESCALATE.value]
    made = {key: value for key, value in deepcopy(before).items() if key in ("rule", "on_abstain")}
    made |= {"name": new, "title": title, "question": "", "instructions": f"# {title}\n\nWhat this agent judges.\n"}
    made["routes"] = {"safe": "safe", "unsafe": "unsafe", "escalate": onward}
    before["routes"] = {label: new if target == onward and target not in OUTCOMES else target
                        for label, target in before["routes"].items()}  # fmt: skip
    before["routes"][Label.ESCALATE.value] = new
    changed["nodes"].insert(position + 1, made)
    return changed


def remove(draft: Draft, name: str) -> Draft:
    """Without this agent: what led to it leads where its escalate led."""
    changed = deepcopy(draft)
    gone = changed["nodes"].pop(node_names(draft).index(name))
    onward = gone["routes"][Label.ESCALATE.value]
    for node in changed["nodes"]:
        node["routes"] = {label: onward if target == name else target for label, target in node["routes"].items()}
    return changed


def with_node(draft: Draft, name: str, values: Mapping[str, Any]) -> Draft:
    """With these values of one agent; None takes a value out."""
    changed = deepcopy(draft)
    node = changed["nodes"][node_names(draft).index(name)]
    node.update(values)
    for key in [key for key, value in node.items() if value is None]:
        del node[key]
    return changed


def judge_draft(draft: Draft) -> tuple[PipelineConfig | None, str]:
    """The pipeline that the draft describes, or None and the sentence that says what is wrong."""
    try:
        return check(draft), ""
    except PipelineRefused as refused:
        return None, str(refused)


def checks(pipeline: PipelineConfig) -> tuple[Check, ...]:
    """What is true of every pipeline that may be saved, and what it can and cannot decide."""
    found = [Check(holds=True, words="No circles, every agent is reached, and nothing leads from unsafe to safe.")]
    for node in pipeline.nodes:
        rule = node.rule
        found.append(Check(holds=True, words=f"{node.title}: a clear answer takes {_least_calls(rule)}."))
        found += [Check(holds=holds, words=f"{node.title}: {words}.") for holds, words in promises(rule)]
    return tuple(found)


def _least_calls(rule: StoppingRule) -> str:
    fewest, for_safe = minimum_budget(rule), minimum_budget(rule, Label.SAFE)
    return f"{fewest} calls" if for_safe == fewest else f"{fewest} calls, {for_safe} for safe"


def promises(rule: StoppingRule) -> tuple[tuple[bool, str], ...]:
    """What a rule promises, in words, and whether it can say safe at all within its budget.

    >>> from screening.stopping.rules import PairwiseMixture
    >>> promises(PairwiseMixture(budget=9))[1]
    (False, 'safe can never be said within 9 calls; it takes 11')
    """
    promised = (rule.contract is not None, promise(rule))
    needed = minimum_budget(rule, Label.SAFE)
    never = ((False, f"safe can never be said within {rule.budget} calls; it takes {needed}"),)
    return (promised, *(never if needed > rule.budget else ()))


def price_at_worst(pipeline: PipelineConfig, prompts: PromptSet, model: str) -> float | None:
    """Dollars for a thousand typical texts at list price when every budget is spent, each looked at
    twice; None where no price is known.
    """
    prices = [
        estimate(node.model or model, 1000 * node.rule.budget, _a_call(prompts, node)).usd
        if node.server is None
        else None
        for node in pipeline.nodes
    ]
    known = {node.name: float(price) for node, price in zip(pipeline.nodes, prices, strict=True) if price is not None}
    return longest(pipeline, known, flagged=True) if len(known) == len(prices) else None


def _a_call(prompts: PromptSet, node: NodeConfig) -> Usage:
    return usage_per_call(prompts, (node,), TYPICAL_CHARACTERS)


def differences(before: PipelineConfig, after: PipelineConfig) -> Sequence[str]:
    """The lines that differ between two pipelines, as a unified difference of their files; empty for none."""
    old, new = write_pipeline(before).splitlines(), write_pipeline(after).splitlines()
    return list(difflib.unified_diff(old, new, before.name, after.name, lineterm="", n=2))[2:]
