"""The table of role, action and ownership, and that the services ask it."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest

from screening.review.actors import LOCAL_USER, SYSTEM, Actor, Role
from screening.review.policy import Action, Forbidden, is_allowed, require
from screening.review.review_form import ReviewLabel
from storage.database import Database
from storage.research.listed import Cell
from storage.review.erasure import By, Selection
from storage.settings_store import SiteSettings
from tests.storage.inbox_cases import fill, form
from tests.storage.people import NOW

OWNERS = (None, "me", "somebody-else")


def me(*roles: Role) -> Actor:
    return Actor(id="me", name="Me", roles=frozenset(roles))


def table(name: str) -> list[list[str]]:
    """The words of each line of the file beside this one, without its two lines of explanation."""
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines[2:]]


def test_each_role_may_do_exactly_what_is_written_here() -> None:
    granted = {action: dict(one.split(":") for one in roles) for action, *roles in table("granted.txt")}
    assert set(granted) == {action.value for action in Action}
    reach = {"any": OWNERS, "own": ("me",), "others": ("somebody-else",), None: ()}
    for action, role, owner in product(Action, Role, OWNERS):
        expected = owner in reach[granted[action.value].get(role.value)]
        assert is_allowed(me(role), action, owner) is expected, (action, role, owner)
        if not expected:
            with pytest.raises(Forbidden):
                require(me(role), action, owner)


def test_nobody_without_a_role_may_do_anything_and_roles_add_up() -> None:
    assert LOCAL_USER.roles == frozenset(Role)
    for action in Action:
        assert not any(is_allowed(who, action, owner) for who in (me(), SYSTEM) for owner in (None, "me", "system"))
        for owner in OWNERS:
            assert is_allowed(me(*Role), action, owner) is any(is_allowed(me(role), action, owner) for role in Role)


@pytest.mark.parametrize(("asked", "whose", "name", "given"), [(*one[:3], one[3:]) for one in table("services.txt")])
def test_a_service_refuses_exactly_whom_the_table_refuses(
    db: Database, asked: str, whose: str, name: str, given: list[str]
) -> None:
    (case_id,) = fill(db)
    same: dict[str, object] = {
        "case": case_id,
        "cases": [case_id],
        "now": NOW,
        "number": 1,
        "roles": frozenset(),
        "rows": np.arange(0),
        "form": form(),
        "fields": {},
        "safe": ReviewLabel.SAFE,
        "settings": SiteSettings(),
        "cell": Cell(batch_id="none", outcome="safe"),
        "which": Selection(by=By.CASE, value="none"),
    }
    service = resolve_name(name)
    for who in [me(), *(me(role) for role in Role)]:
        values = {**same, "by": who.at(NOW), "actor": who}
        try:
            found = service(db, *(values.get(one, one) for one in given))  # what is no such word is an id or a reason
            if isinstance(found, Iterator):
                next(found)
            refused = False
        except Forbidden:
            refused = True
        except Exception:
            refused = False  # it got past the policy; what stops it then is another test's business
        assert refused is not is_allowed(who, Action(asked), None if whose == "-" else whose), sorted(who.roles)
