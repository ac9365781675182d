"""Who acts, and who may do what: one table of role, action and ownership (policy.toml), which every service asks first.

Rules about the *state* of a case (a lock, blinded review first) are not here but where that state is read.
"""

import hmac
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final


class Role(StrEnum):
    REVIEWER = "reviewer"
    SENIOR = "senior"
    RESEARCHER = "researcher"
    ADMIN = "admin"


REVIEWERS = frozenset({Role.REVIEWER, Role.SENIOR})
"""Roles that review cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """One identified person, as every service is told who asks; ``id`` is the account's."""

    id: str
    name: str
    roles: frozenset[Role]

    def at(self, now: datetime) -> "Acting":
        """This person, acting at this moment: the value that services take as ``by``."""
        return Acting(self, now)


@dataclass(frozen=True, slots=True)
class Acting:
    """Who does something, and when: what every fact that is written down says of itself."""

    actor: Actor
    now: datetime

    @property
    def id(self) -> str:
        return self.actor.id


LOCAL_USER = Actor(id="local", name="Local user", roles=frozenset(Role))
"""The one user of an embedded installation without sign-in."""

SYSTEM = Actor(id="system", name="Second Look", roles=frozenset())
"""The worker and the command line's own steps: recorded as an actor, permitted nothing by role."""


def pseudonym(key: str, account_id: str) -> str:
    """A reviewer's name in exports under a site's key (HMAC-SHA256): the same for the same person, and it does not say
    who. Another key gives other names.

    >>> pseudonym("a", "ann") == pseudonym("a", "ann"), pseudonym("a", "ann") == pseudonym("b", "ann")
    (True, False)
    """
    return "reviewer-" + hmac.new(key.encode(), account_id.encode(), "sha256").hexdigest()[:12]


class Action(StrEnum):
    SCREEN_TEXT = "screen_text"
    CREATE_BATCH = "create_batch"
    CONTROL_BATCH = "control_batch"
    VIEW_BATCHES = "view_batches"
    VIEW_RESULTS = "view_results"
    EXPORT = "export"
    VIEW_COUNTS = "view_counts"
    BROWSE_QUEUE = "browse_queue"
    CLAIM_NEXT = "claim_next"
    CLAIM_NAMED = "claim_named"
    ASSIGN = "assign"
    VIEW_TEXT = "view_text"
    VIEW_EVIDENCE = "view_evidence"
    REVIEW = "review"
    SECOND_REVIEW = "second_review"
    ACKNOWLEDGE = "acknowledge"
    REQUEST_REVIEW = "request_review"
    VIEW_REVIEWS = "view_reviews"
    ADJUDICATE = "adjudicate"
    FOLLOW_UP = "follow_up"
    VIEW_AGREEMENT = "view_agreement"
    VIEW_CARE = "view_care"
    VIEW_AUDIT = "view_audit"
    VIEW_SETTINGS = "view_settings"
    CHANGE_SETTINGS = "change_settings"
    ERASE = "erase"
    DRAFT_PIPELINE = "draft_pipeline"
    ACTIVATE_PIPELINE = "activate_pipeline"
    STOP = "stop"
    START = "start"
    MANAGE_ACCOUNTS = "manage_accounts"


class Scope(StrEnum):
    """Whose things a grant reaches."""

    ANY = "any"
    OWN = "own"
    OTHERS = "others"


def _granted() -> Mapping[Action, Mapping[Role, Scope]]:
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    granted = {Action(name): {Role(role): Scope(scope) for role, scope in row.items()} for name, row in table.items()}
    return {action: granted[action] for action in Action}


POLICY: Final = MappingProxyType(_granted())


class Forbidden(Exception):
    """This person may not do this; the message names the action and never the case."""

    def __init__(self, actor: Actor, action: Action) -> None:
        super().__init__(f"{actor.name} may not {action.value.replace('_', ' ')}")
        self.action = action


def is_allowed(actor: Actor, action: Action, owner: str | None = None) -> bool:
    """Whether any of the actor's roles grants the action on a thing of this owner (None: nobody's).

    >>> ann = Actor(id="ann", name="Ann", roles=frozenset({Role.REVIEWER}))
    >>> [is_allowed(ann, Action.REVIEW, owner=owner) for owner in ("ann", "bo", None)]
    [True, False, False]
    """
    scopes = {scope for role, scope in POLICY[action].items() if role in actor.roles}
    return (
        Scope.ANY in scopes
        or (Scope.OWN in scopes and owner == actor.id)
        or (Scope.OTHERS in scopes and owner is not None and owner != actor.id)
    )


def require(actor: Actor, action: Action, owner: str | None = None) -> None:
    if not is_allowed(actor, action, owner):
        raise Forbidden(actor, action)
