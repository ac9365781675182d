"""The simulated agents' knowledge, read and checked from lexicon.toml."""

import hashlib
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

ROLES = ("worker", "risk", "legal")
_FILE = Path(__file__).with_name("lexicon.toml")

Probabilities = tuple[float, float, float]
"""P(safe), P(unsafe), P(escalate): the order of `LABELS`."""


def _split(value: object) -> object:
    return frozenset(value.split()) if isinstance(value, str) else value


WordSet = Annotated[frozenset[str], BeforeValidator(_split)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Kind(_Frozen):
    """A kind of evidence and the label distribution it gives each role's node."""

    name: str
    worker: Probabilities
    risk: Probabilities
    legal: Probabilities

    def of(self, role: str) -> Probabilities:
        """The distribution of one role; KeyError for a role that is not one of `ROLES`."""
        return {"worker": self.worker, "risk": self.risk, "legal": self.legal}[role]


class Replies(_Frozen):
    """Patterns that are read in a reply only."""

    supporting: tuple[str, ...]
    refusing: tuple[str, ...]
    approving: tuple[str, ...]


class Context(_Frozen):
    """Words that weaken a clear statement when they stand in the same sentence."""

    negation: frozenset[str]
    condition: frozenset[str]
    history: tuple[str, ...]
    reported: tuple[str, ...]
    fiction: frozenset[str]


class Words(_Frozen):
    """Sets of single words, and figures of speech in which they mean nothing."""

    distress: WordSet
    mention: WordSet
    idioms: tuple[str, ...]


class Lexicon(_Frozen):
    """Everything the scorer knows; `kinds` runs from the mildest evidence to the gravest."""

    kinds: tuple[Kind, ...] = Field(min_length=2)
    macros: dict[str, str]
    statements: dict[str, tuple[str, ...]]
    replies: Replies
    context: Context
    words: Words
    expand: dict[str, str]
    digest: str = ""

    @model_validator(mode="after")
    def _graver_evidence_is_never_read_as_milder(self) -> Self:
        for role in ROLES:
            rows = [kind.of(role) for kind in self.kinds]
            if any(abs(sum(row) - 1) > 1e-9 or min(row) < 0 for row in rows):
                raise ValueError(f"{role}: not a probability distribution")
            if any(milder[0] < graver[0] or milder[1] > graver[1] for milder, graver in pairwise(rows)):
                raise ValueError(f"{role}: safe must never rise and unsafe never fall from kind to kind")
        return self


def load_lexicon(path: Path = _FILE) -> Lexicon:
    """The lexicon of a file, with the file's BLAKE2 hash as its version.

    Raises pydantic's ValidationError where a table is missing, a distribution does not sum to 1 or the
    kinds are not ordered by gravity.
    """
    content = path.read_bytes()
    digest = hashlib.blake2b(content, digest_size=8).hexdigest()
    return Lexicon.model_validate(tomllib.loads(content.decode()) | {"digest": digest})
