"""Nodes, their rules and their routes as data: a site's SOP, validated before a single call is made.

The way a text takes ends where an agent goes wrong as well as where none does, so errors add up along a way: the bound
for the pipeline is the sum of the agents' δ on the longest path (union bound).
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from screening.labels import LABELS, OUTCOMES, Label, Outcome, Spoken
from screening.pipeline.draws import NodeAgent
from screening.stopping.certificates import CertifiedMixture
from screening.stopping.rules import (
    DEFAULT_CONTRACT,
    SAFE_ERRORS,
    Contract,
    MajorityVote,
    PairwiseMixture,
    StoppingRule,
    SuccessiveElimination,
    minimum_budget,
)
from screening.stopping.theory import operating_characteristics


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


_RULES = (CertifiedMixture, PairwiseMixture, SuccessiveElimination, MajorityVote)
RULES: dict[str, type[StoppingRule]] = {str(rule.model_fields["kind"].default): rule for rule in _RULES}
"""The rules that a node may have, by the kind that a file gives them."""


def read_rule(values: object) -> StoppingRule:
    """ValueError, with the field, for values that write down none."""
    if isinstance(values, StoppingRule):
        return values
    kind = values.get("kind") if isinstance(values, Mapping) else None
    if kind not in RULES:
        raise ValueError(f"kind must be one of {', '.join(RULES)}")
    return RULES[str(kind)].model_validate(values)


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,30}$")]
OF_THE_AGENT = ("prompt", "instructions", "role", "model", "temperature", "server", "protocol")


class NodeConfig(_Data):
    """One agent: who answers, its rule, and where each label leads (an outcome or another node). What is not said of it
    stays out of the record, so that it is the same pipeline as before the option existed.
    """

    name: Name
    title: Annotated[str, Field(min_length=1, max_length=60)]
    question: Annotated[str, Field(max_length=300)]
    rule: Annotated[SerializeAsAny[StoppingRule], BeforeValidator(read_rule)]
    routes: Mapping[Label, str]
    on_abstain: Literal["human_review", "next"] = "human_review"
    prompt: Name | None = None
    instructions: Annotated[str, Field(min_length=1, max_length=50_000)] | None = None
    role: Literal["worker", "risk", "legal"] | None = None
    model: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    server: Name | None = None
    protocol: Spoken | None = None

    @model_serializer(mode="wrap")
    def _serialize_node(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = serialize(self)
        return {key: value for key, value in written.items() if value is not None or key not in OF_THE_AGENT}

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if missing := set(Label) - set(self.routes):
            raise ValueError(f"node {self.name}: no route for {', '.join(sorted(missing))}")
        for label in (Label.UNSAFE, Label.ESCALATE):
            if self.routes[label] == Outcome.SAFE:
                raise ValueError(f"node {self.name}: {label} must not lead to the outcome safe")
        if self.prompt is not None and self.instructions is not None:
            raise ValueError(f"node {self.name}: give the name of a prompt or instructions of its own, not both")
        return self

    @property
    def agent(self) -> NodeAgent:
        return NodeAgent(**{name: getattr(self, name) for name in OF_THE_AGENT})

    def target(self, label: Label | None) -> str:
        """Where the way goes on after this label, or after an abstention (None)."""
        if label is not None:
            return self.routes[label]
        return self.routes[Label.ESCALATE] if self.on_abstain == "next" else Outcome.HUMAN_REVIEW.value


class PipelineConfig(_Data):
    """A directed acyclic graph of nodes; the first one is where every case enters."""

    name: Annotated[str, Field(min_length=1, max_length=60)]
    nodes: Annotated[tuple[NodeConfig, ...], Field(min_length=1, max_length=20)]

    @model_validator(mode="after")
    def _acyclic(self) -> Self:
        order = [node.name for node in self.nodes]
        for position, name in enumerate(order):
            if name in order[:position]:
                raise ValueError(f"node {name}: another node has this name")
            if name in OUTCOMES:
                raise ValueError(f"node {name}: this is the name of an outcome")
        for position, node in enumerate(self.nodes):
            for label, target in node.routes.items():
                if target in order[: position + 1]:
                    raise ValueError(f"node {node.name}: {label} leads back to {target!r}: a case could go in circles")
                if target not in OUTCOMES and target not in order:
                    unknown = f"{label} leads to {target!r}, which is neither an outcome nor a node"
                    raise ValueError(f"node {node.name}: {unknown}")
        return self

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        reached = {self.nodes[0].name} | {target for node in self.nodes for target in node.routes.values()}
        if idle := [node.name for node in self.nodes if node.name not in reached]:
            raise ValueError(f"node {idle[0]}: no route leads here")
        return self

    @model_validator(mode="after")
    def _unsafe_never_becomes_safe(self) -> Self:
        may_end_safe = {Outcome.SAFE.value}  # the outcome, and the nodes from which a case can still reach it
        for node in reversed(self.nodes):
            if (target := node.routes[Label.UNSAFE]) in may_end_safe:
                raise ValueError(f"node {node.name}: unsafe leads to {target!r}, from where a case could end safe")
            if {*node.routes.values(), node.target(None)} & may_end_safe:
                may_end_safe.add(node.name)
        return self

    def node(self, name: str) -> NodeConfig:
        return {node.name: node for node in self.nodes}[name]

    @property
    def version(self) -> str:
        """Two pipelines that differ anywhere differ here."""
        return version_of(self.model_dump(mode="json"))


def version_of(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


class UndecidableError(ValueError):
    """A node could never identify a label: which, and the smallest budget that could."""


def require_decidable(pipeline: PipelineConfig) -> PipelineConfig:
    for node in pipeline.nodes:
        rule = node.rule
        needed = {label: minimum_budget(rule, label) for label in LABELS}
        hardest = max(LABELS, key=needed.__getitem__)
        if needed[hardest] > rule.budget:
            never = min(needed.values()) > rule.budget
            cannot = "no label can ever be identified" if never else f"{hardest} can never be identified"
            raise UndecidableError(
                f"node {node.name}: with a budget of {rule.budget} calls {cannot} "
                f"at these error levels; the minimum is {needed[hardest]} calls"
            )
    return pipeline


_ROLES = (
    ("worker", "Worker", "First reading: does this text show a risk of self-harm?"),
    ("risk", "Risk", "Clinical second reading: what do the criteria say?"),
    ("legal", "Legal", "Compliance reading: may this stand without a human?"),
)


def chain(name: str, rule: StoppingRule, on_abstain: Literal["human_review", "next"]) -> PipelineConfig:
    """The paper's DAG: Worker → Risk → Legal, ``escalate`` leads on, the last one leads to a human."""
    following = [role[0] for role in _ROLES[1:]] + [Outcome.HUMAN_REVIEW.value]
    nodes = []
    for (role, title, question), target in zip(_ROLES, following, strict=True):
        routes = {Label.SAFE: "safe", Label.UNSAFE: "unsafe", Label.ESCALATE: target}
        nodes.append(
            NodeConfig(name=role, title=title, question=question, rule=rule, on_abstain=on_abstain, routes=routes)
        )
    return PipelineConfig(name=name, nodes=tuple(nodes))


Preset = Literal["certified", "recommended", "paper"]


def preset(name: Preset, *, delta: float | None = None, budget: int = 100) -> PipelineConfig:
    """Pooled draws, whose abstentions go to a human, or `paper` (Algorithm 1, δ = 0.05, abstentions go on to the next
    node). A given ``delta`` is symmetric. Raises UndecidableError.

    `certified` is `pooled_rule`. `recommended` is Ville's rule as sites used it before there were certificates: it
    holds safe where the mode is escalate to 0.025 only, and a configuration keeps its rule until somebody changes it.
    """
    if name == "paper":
        algorithm = SuccessiveElimination(budget=budget, delta=0.05 if delta is None else delta)
        return require_decidable(chain(name, algorithm, "next"))
    if name == "certified":
        return require_decidable(chain(name, pooled_rule(delta, budget), "human_review"))
    ville = PairwiseMixture(budget=budget) if delta is None else PairwiseMixture.symmetric(delta, budget)
    return require_decidable(chain(name, ville, "human_review"))


def pooled_rule(delta: float | None, budget: int) -> CertifiedMixture | PairwiseMixture:
    """Certified where a certificate covers the budget, else Ville's levels; ``delta`` None is the default contract."""
    contract = DEFAULT_CONTRACT if delta is None else Contract(any_wrong=delta)
    if certified := CertifiedMixture.for_contract(contract, budget):
        return certified
    if delta is not None:
        return PairwiseMixture.symmetric(delta, budget)
    return PairwiseMixture(budget=budget, errors=SAFE_ERRORS)


Mix = Sequence[float]
"""How probable each label is in one answer of an agent, in the order of `LABELS`."""

LARGEST_BUDGET = 300
"""Most calls of an agent for which values are computed: about a second, and growing as the cube."""


def longest(pipeline: PipelineConfig, weight: Mapping[str, float], *, flagged: bool = False) -> float:
    """The largest sum of weights over a way to an outcome. The agent that calls a ``flagged`` text safe is
    asked twice.
    """
    total: dict[str, float] = dict.fromkeys(OUTCOMES, 0.0)
    for node in reversed(pipeline.nodes):
        onward = max(total[target] for target in {*node.routes.values(), node.target(None)})
        again = weight[node.name] if flagged and node.routes[Label.SAFE] == Outcome.SAFE else 0.0
        total[node.name] = weight[node.name] + max(onward, again)
    return total[pipeline.nodes[0].name]


def most_calls(pipeline: PipelineConfig, *, flagged: bool = False, read_off: bool = False) -> int:
    """Calls of the dearest way, every budget spent; of a ``flagged`` text with its second look. Where probabilities are
    ``read_off``, each agent may be asked for them once before it is asked for answers.
    """
    budgets = {node.name: float(node.rule.budget + read_off) for node in pipeline.nodes}
    return int(longest(pipeline, budgets, flagged=flagged))


def chain_bound(pipeline: PipelineConfig) -> float | None:
    """Bound on naming, anywhere on the way of a text, a label that is not the agent's mode, whatever the texts; None
    where an agent has no guarantee.
    """
    deltas = {node.name: node.rule.error_bound for node in pipeline.nodes}
    known = {name: delta for name, delta in deltas.items() if delta is not None}
    return min(1.0, round(longest(pipeline, known), 10)) if len(known) == len(deltas) else None


def promise(rule: StoppingRule) -> str:
    """Which contract a rule keeps.

    >>> promise(MajorityVote(n=3))
    'a majority vote has no error bound'
    """
    return f"{rule.title} has no error bound" if rule.contract is None else f"{rule.title}: {rule.contract.words()}"


def promises(pipeline: PipelineConfig) -> str:
    """The contract of each agent, those that are alike once."""
    return " | ".join(dict.fromkeys(promise(node.rule) for node in pipeline.nodes))


def mean_calls(pipeline: PipelineConfig, mix: Mix) -> float | None:
    """Mean calls for a text that every agent answers by this mix, independently; None where an agent may make more than
    `LARGEST_BUDGET`. ValueError unless the mix is K probabilities that add up to 1.
    """
    if any(node.rule.budget > LARGEST_BUDGET for node in pipeline.nodes):
        return None
    reached = defaultdict(float, {pipeline.nodes[0].name: 1.0})
    calls = 0.0
    for node in pipeline.nodes:  # routes lead to later nodes only
        here, found = reached[node.name], _characteristics(node.rule, tuple(mix))
        calls += here * found.mean_calls
        ends = zip((*LABELS, node.rule.fallback), (*found.identified, found.abstained), strict=True)
        for label, share in ends:
            reached[node.target(label)] += here * share
    return calls


_characteristics = lru_cache(maxsize=256)(operating_characteristics)
