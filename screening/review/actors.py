"""Who acts: a person with roles, or the program itself."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    """What a person is at this site; one person may be several."""

    REVIEWER = "reviewer"
    SENIOR = "senior"
    RESEARCHER = "researcher"
    ADMIN = "admin"


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
        """The account's id."""
        return self.actor.id


LOCAL_USER = Actor(id="local", name="Local user", roles=frozenset(Role))
"""The one user of an embedded installation without sign-in."""

SYSTEM = Actor(id="system", name="Second Look", roles=frozenset())
"""The worker and the command line's own steps: recorded as an actor, permitted nothing by role."""
