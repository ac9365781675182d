"""People who read cases and who do not, and the moment at which tests begin."""

from datetime import UTC, datetime, timedelta

from screening.review.policy import Actor, Role

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def person(name: str, *roles: Role) -> Actor:
    """Somebody of that name; a reviewer where nothing else is said."""
    return Actor(id=name, name=name.title(), roles=frozenset(roles or (Role.REVIEWER,)))


ANN, BO, CY = person("ann"), person("bo"), person("cy")
SENIOR = person("sue", Role.SENIOR)
RESEARCHER = person("rae", Role.RESEARCHER)
ADMIN = person("ada", Role.ADMIN)
HELEN = person("helen", Role.SENIOR)
PEOPLE = {who.id: who for who in (ANN, BO, CY, SENIOR, HELEN)}
"""Who reads cases."""


def later(minutes: float) -> datetime:
    """So long after all that was made by hand."""
    return NOW + minutes * MINUTE
