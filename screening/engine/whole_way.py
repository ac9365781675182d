"""What a whole pipeline may do: bounds for any texts, and exact values for given mixes of answers.

The way a text takes ends where an agent goes wrong as well as where none does, so errors add up along a way: the bound
for the pipeline is the sum of the agents' δ on the longest way (union bound). At given label mixes the probabilities
are exact: each agent's ends by dynamic programming, its mass sent on along its routes; Algorithm 1 is simulated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from screening.engine.pipeline import PipelineConfig
from screening.labels import LABELS, OUTCOMES, Label, Outcome
from screening.stopping.operating_characteristics import OperatingCharacteristics, operating_characteristics
from screening.stopping.rules import StoppingRule

Mix = Sequence[float]
"""How probable each label is in one answer of an agent, in the order of `LABELS`."""

LARGEST_BUDGET = 300
"""Most calls of an agent for which values are computed: about a second, and growing as the cube."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeWay:
    """What becomes of a text at given mixes. ``ends`` holds the probability of each outcome; ``wrong`` that some agent
    on the way names a label that is not its mode; ``calls`` is the mean number of calls. ``simulated`` is the number
    of runs of an agent's rule that they rest on, None where they are exact.
    """

    ends: Mapping[str, float]
    wrong: float
    calls: float
    simulated: int | None


def longest(pipeline: PipelineConfig, weight: Mapping[str, float], *, flagged: bool = False) -> float:
    """The largest sum of the agents' weights over a way from the first agent to an outcome. The agent that calls a
    ``flagged`` text safe is asked a second time.
    """
    total: dict[str, float] = dict.fromkeys(OUTCOMES, 0.0)
    for node in reversed(pipeline.nodes):
        onward = max(total[target] for target in {*node.routes.values(), node.target(None)})
        again = weight[node.name] if flagged and node.routes[Label.SAFE] == Outcome.SAFE else 0.0
        total[node.name] = weight[node.name] + max(onward, again)
    return total[pipeline.nodes[0].name]


def most_calls(pipeline: PipelineConfig, *, flagged: bool = False, read_off: bool = False) -> int:
    """Calls of the dearest way through the pipeline, every budget spent; of a ``flagged`` text with its second look.
    Where probabilities are ``read_off``, each agent may be asked for them once before it is asked for answers.
    """
    budgets = {node.name: float(node.rule.budget + read_off) for node in pipeline.nodes}
    return int(longest(pipeline, budgets, flagged=flagged))


def chain_bound(pipeline: PipelineConfig) -> float | None:
    """Bound on naming, anywhere on the way of a text, a label that is not the agent's mode, whatever the texts; None
    where an agent has no guarantee.
    """
    deltas = {node.name: node.rule.error_bound for node in pipeline.nodes}
    known = {name: delta for name, delta in deltas.items() if delta is not None}
    return min(1.0, longest(pipeline, known)) if len(known) == len(deltas) else None


def promise(rule: StoppingRule) -> str:
    """Which contract a rule keeps, in words, and what that rests on.

    >>> from screening.stopping.rules import MajorityVote
    >>> promise(MajorityVote(n=3))
    'a majority vote has no error bound'
    """
    return f"{rule.title} has no error bound" if rule.contract is None else f"{rule.title}: {rule.contract.words()}"


def promises(pipeline: PipelineConfig) -> str:
    """The contract of each agent, those that are alike once."""
    return " | ".join(dict.fromkeys(promise(node.rule) for node in pipeline.nodes))


def whole_way(pipeline: PipelineConfig, mixes: Mapping[str, Mix]) -> WholeWay | None:
    """What becomes of a text for which each agent answers by its mix; None where an agent may make
    more calls than `LARGEST_BUDGET`.

    Agents answer independently of each other, given the text. Raises KeyError for an agent without a mix, and
    ValueError unless a mix is K probabilities that add up to 1.
    """
    if any(node.rule.budget > LARGEST_BUDGET for node in pipeline.nodes):
        return None
    reached = {pipeline.nodes[0].name: (1.0, 0.0)}  # probability of coming here, and of that after a wrong label
    ends = dict.fromkeys(sorted(OUTCOMES), 0.0)
    calls = wrong = 0.0
    simulated: int | None = None
    for node in pipeline.nodes:
        here, misled = reached[node.name]  # some route leads to every agent, from one before it
        found = _characteristics(node.rule, tuple(mixes[node.name]))
        calls += here * found.mean_calls
        simulated = simulated or found.simulated
        for label, share, is_mode in _ends_of(node.rule, found):
            target = node.target(label)
            mass, after_wrong = here * share, (misled if is_mode else here) * share
            if target in ends:
                ends[target] += mass
                wrong += after_wrong
            else:
                before = reached.get(target, (0.0, 0.0))
                reached[target] = (before[0] + mass, before[1] + after_wrong)
    return WholeWay(ends=ends, wrong=wrong, calls=calls, simulated=simulated)


def _ends_of(rule: StoppingRule, found: OperatingCharacteristics) -> list[tuple[Label | None, float, bool]]:
    """Each end of an agent: its label (None: abstained), its probability, and whether it is no error."""
    top = max(found.probabilities)
    named: list[tuple[Label | None, float, bool]] = [
        (label, share, chance == top)
        for label, share, chance in zip(LABELS, found.identified, found.probabilities, strict=True)
    ]
    return [*named, (rule.fallback, found.abstained, True)]


@lru_cache(maxsize=256)
def _characteristics(rule: StoppingRule, mix: tuple[float, ...]) -> OperatingCharacteristics:
    return operating_characteristics(rule, mix)
