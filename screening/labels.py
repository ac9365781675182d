"""The closed sets that all else speaks of: labels of a node, outcomes of a case, how a model's server is spoken to."""

from enum import StrEnum
from typing import Literal


class Label(StrEnum):
    """One of the K = 3 labels a node may give (paper, section 3: the action space 𝒜).

    The order of definition is the order of the arms, and so the order in which they are pulled.
    """

    SAFE = "safe"
    UNSAFE = "unsafe"
    ESCALATE = "escalate"


LABELS: tuple[Label, ...] = tuple(Label)


class Outcome(StrEnum):
    """Where a case's way through the pipeline ended. A case without an outcome is pending."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    HUMAN_REVIEW = "human_review"


OUTCOMES: frozenset[str] = frozenset(outcome.value for outcome in Outcome)
"""The names of the outcomes, to tell them from the names of nodes."""

Spoken = Literal["messages", "chat", "logprobs"]
"""How a model server is spoken to: the Messages API, chat completions, or those with log probabilities."""
