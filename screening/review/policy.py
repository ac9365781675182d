"""Who may do what: one table of role, action and ownership. Every service asks it first.

The table grants; what it does not name is refused. Who owns a thing depends on the action and is said beside it.
Rules about the *state* of a case (a lock, blinded review first) are not here but where that state is read.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from screening.review.actors import Actor, Role


class Action(StrEnum):
    SCREEN_TEXT = "screen_text"
    CREATE_BATCH = "create_batch"
    CONTROL_BATCH = "control_batch"  # pause, resume, cancel, retry; owner: who created the batch
    VIEW_BATCHES = "view_batches"  # lists, progress, diagrams and costs: numbers, no text, no outcome of a case
    VIEW_RESULTS = "view_results"  # outcomes per case, rejected rows, confusion matrix
    EXPORT = "export"  # results and corrected labels with text
    VIEW_COUNTS = "view_counts"  # how many cases are pending
    BROWSE_QUEUE = "browse_queue"  # which cases are pending, and with whom
    CLAIM_NEXT = "claim_next"
    CLAIM_NAMED = "claim_named"  # a chosen case; owner: whom it was transferred to, or who held it last
    ASSIGN = "assign"  # give open cases to a colleague
    VIEW_TEXT = "view_text"  # owner: who holds the case or has rated it
    VIEW_EVIDENCE = "view_evidence"  # owner: who holds the case or has rated it
    RATE = "rate"  # owner: who holds the lease, or whose review is revised
    READ_SECOND = "read_second"  # owner: who gave the first review
    ACKNOWLEDGE = "acknowledge"  # sign off what the AI labeled unsafe on a batch's list
    REQUEST_REVIEW = "request_review"  # put decided cases into the queue for a re-review
    VIEW_REVIEWS = "view_reviews"  # owner: whose review it is
    ADJUDICATE = "adjudicate"
    FOLLOW_UP = "follow_up"  # see to what a review asked for; owner: whoever reviewed the case or is to see to it
    VIEW_AGREEMENT = "view_agreement"
    VIEW_CARE = "view_care"  # exposure counts; owner: whose exposure it is
    VIEW_AUDIT = "view_audit"
    VIEW_SETTINGS = "view_settings"
    CHANGE_SETTINGS = "change_settings"
    ERASE = "erase"  # what people wrote, for good
    DRAFT_PIPELINE = "draft_pipeline"  # write a version of a pipeline; nothing is screened with it
    ACTIVATE_PIPELINE = "activate_pipeline"
    STOP = "stop"  # the stop button: everybody who signs in may press it
    START = "start"  # release the stop button
    MANAGE_ACCOUNTS = "manage_accounts"


class Scope(StrEnum):
    """Whose things a grant reaches."""

    ANY = "any"
    OWN = "own"
    OTHERS = "others"  # a second review is never by the first reviewer


_R, _S, _E, _A = Role.REVIEWER, Role.SENIOR, Role.RESEARCHER, Role.ADMIN
_ANY, _OWN, _OTHERS = Scope.ANY, Scope.OWN, Scope.OTHERS

POLICY: Final[Mapping[Action, Mapping[Role, Scope]]] = MappingProxyType(
    {
        Action.SCREEN_TEXT: {_R: _ANY, _S: _ANY, _E: _ANY},
        Action.CREATE_BATCH: {_S: _ANY, _E: _ANY},
        Action.CONTROL_BATCH: {_R: _OWN, _S: _OWN, _E: _OWN, _A: _ANY},
        Action.VIEW_BATCHES: {_R: _ANY, _S: _ANY, _E: _ANY, _A: _ANY},
        Action.VIEW_RESULTS: {_S: _ANY, _E: _ANY},
        Action.EXPORT: {_E: _ANY},
        Action.VIEW_COUNTS: {_R: _ANY, _S: _ANY, _E: _ANY, _A: _ANY},
        Action.BROWSE_QUEUE: {_S: _ANY, _A: _ANY},
        Action.CLAIM_NEXT: {_R: _ANY, _S: _ANY},
        Action.CLAIM_NAMED: {_R: _OWN, _S: _ANY},
        Action.ASSIGN: {_S: _ANY},
        Action.VIEW_TEXT: {_R: _OWN, _S: _ANY, _E: _ANY},
        Action.VIEW_EVIDENCE: {_R: _OWN, _S: _ANY, _E: _ANY},
        Action.RATE: {_R: _OWN, _S: _OWN},
        Action.READ_SECOND: {_R: _OTHERS, _S: _OTHERS},
        Action.ACKNOWLEDGE: {_S: _ANY, _E: _ANY},
        Action.REQUEST_REVIEW: {_S: _ANY, _E: _ANY},
        Action.VIEW_REVIEWS: {_R: _OWN, _S: _ANY, _E: _ANY},
        Action.ADJUDICATE: {_S: _ANY},
        Action.FOLLOW_UP: {_R: _OWN, _S: _ANY},
        Action.VIEW_AGREEMENT: {_S: _ANY, _E: _ANY, _A: _ANY},
        Action.VIEW_CARE: {_R: _OWN, _S: _OWN, _E: _OWN, _A: _OWN},
        Action.VIEW_AUDIT: {_S: _ANY, _A: _ANY},
        Action.VIEW_SETTINGS: {_R: _ANY, _S: _ANY, _E: _ANY, _A: _ANY},
        Action.CHANGE_SETTINGS: {_A: _ANY},
        Action.DRAFT_PIPELINE: {_E: _ANY, _A: _ANY},
        Action.ACTIVATE_PIPELINE: {_A: _ANY},
        Action.ERASE: {_S: _ANY, _A: _ANY},
        Action.STOP: {_R: _ANY, _S: _ANY, _E: _ANY, _A: _ANY},
        Action.START: {_S: _ANY, _A: _ANY},
        Action.MANAGE_ACCOUNTS: {_A: _ANY},
    }
)


class Forbidden(Exception):
    """This person may not do this; the message names the action and never the case."""

    def __init__(self, actor: Actor, action: Action) -> None:
        super().__init__(f"{actor.name} may not {action.value.replace('_', ' ')}")
        self.action = action


def is_allowed(actor: Actor, action: Action, owner: str | None = None) -> bool:
    """Whether any of the actor's roles grants the action on a thing of this owner (None: nobody's).

    >>> from screening.review.actors import Actor, Role
    >>> ann = Actor(id="ann", name="Ann", roles=frozenset({Role.REVIEWER}))
    >>> [is_allowed(ann, Action.RATE, owner=owner) for owner in ("ann", "bo", None)]
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
