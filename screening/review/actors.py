"""Who acts: a person with roles, or the program itself; and who a reviewer is in exports."""

import hmac
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
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
