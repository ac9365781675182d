"""The table of role, action and ownership, and that the services ask it."""

from collections.abc import Callable
from itertools import product

import pytest

from screening.review.actors import LOCAL_USER, SYSTEM, Actor, Role
from screening.review.policy import POLICY, Action, Forbidden, Scope, is_allowed, require
from screening.review.rating_form import RatingLabel
from storage import settings_store
from storage.database import Database
from storage.research import reading_table
from storage.research.relabelled import export_relabelled
from storage.review import adjudication, claims, drafts, evidence, inbox, queue, ratings, reports
from storage.site import accounts
from tests.storage.inbox_cases import NOW, fill, form

OWNERS = (None, "me", "somebody-else")


def me(*roles: Role) -> Actor:
    return Actor(id="me", name="Me", roles=frozenset(roles))


@pytest.mark.parametrize(("role", "action", "owner"), list(product(Role, Action, OWNERS)))
def test_a_role_may_do_exactly_what_the_table_grants(role: Role, action: Action, owner: str | None) -> None:
    reach = {Scope.ANY: OWNERS, Scope.OWN: ("me",), Scope.OTHERS: ("somebody-else",), None: ()}
    expected = owner in reach[POLICY[action].get(role)]
    assert is_allowed(me(role), action, owner) is expected
    if not expected:
        with pytest.raises(Forbidden):
            require(me(role), action, owner)


@pytest.mark.parametrize("action", Action)
def test_every_action_is_in_the_table_and_nobody_without_a_role_may_do_it(action: Action) -> None:
    assert POLICY[action]
    assert not any(is_allowed(who, action, owner) for who in (me(), SYSTEM) for owner in (None, "me", "system"))


@pytest.mark.parametrize("action", Action)
def test_roles_add_up_and_never_take_away(action: Action) -> None:
    for owner in OWNERS:
        assert is_allowed(me(*Role), action, owner) is any(is_allowed(me(role), action, owner) for role in Role)


def test_what_matters_most_in_the_table() -> None:
    assert {role for role in Role if is_allowed(me(role), Action.ADJUDICATE)} == {Role.SENIOR}
    assert {role for role in Role if is_allowed(me(role), Action.CHANGE_SETTINGS)} == {Role.ADMIN}
    assert {role for role in Role if is_allowed(me(role), Action.EXPORT)} == {Role.RESEARCHER}
    assert not is_allowed(me(*Role), Action.READ_SECOND, "me"), "nobody reads a case twice"
    assert not is_allowed(me(*Role), Action.RATE, "somebody-else"), "nobody rates under another's lease"
    assert not is_allowed(me(Role.ADMIN), Action.VIEW_TEXT, "me"), "running the site is no reason to read texts"
    assert LOCAL_USER.roles == frozenset(Role)


Call = Callable[[Database, Actor, str], object]
SERVICES: dict[str, tuple[Action, str | None, Call]] = {
    # the action a service asks for, whose thing it is here (a free, unread case), the call
    "claim_next": (Action.CLAIM_NEXT, None, lambda db, who, case: claims.claim_next(db, who.at(NOW))),
    "open_next": (
        Action.CLAIM_NEXT,
        None,
        lambda db, who, case: evidence.open_next(db, who.at(NOW)),
    ),
    "claim": (Action.CLAIM_NAMED, None, lambda db, who, case: claims.claim(db, who.at(NOW), case)),
    "my_claims": (Action.CLAIM_NEXT, None, lambda db, who, case: claims.my_claims(db, who.at(NOW))),
    "queue": (Action.BROWSE_QUEUE, None, lambda db, who, case: queue.queue(db, who.at(NOW))),
    "assign": (Action.ASSIGN, None, lambda db, who, case: inbox.assign(db, who.at(NOW), [case], "nobody")),
    "counts": (Action.VIEW_COUNTS, None, lambda db, who, case: queue.counts(db, who.at(NOW))),
    "reveal_text": (Action.VIEW_TEXT, None, lambda db, who, case: evidence.reveal_text(db, who.at(NOW), case)),
    "reveal_evidence": (
        Action.VIEW_EVIDENCE,
        None,
        lambda db, who, case: evidence.reveal_evidence(db, who.at(NOW), case),
    ),
    "submit_rating": (
        Action.RATE,
        "me",
        lambda db, who, case: ratings.submit_rating(db, who.at(NOW), case, "no token", form(), "0" * 32),
    ),
    "revise": (Action.RATE, None, lambda db, who, case: ratings.revise(db, who.at(NOW), case, form(), "why", "0" * 32)),
    "reveal_ratings": (Action.VIEW_RATINGS, None, lambda db, who, case: ratings.reveal_ratings(db, who.at(NOW), case)),
    "save_draft": (Action.RATE, "me", lambda db, who, case: drafts.save_draft(db, who.at(NOW), case, {})),
    "adjudicate": (
        Action.ADJUDICATE,
        None,
        lambda db, who, case: adjudication.adjudicate(db, who.at(NOW), case, RatingLabel.SAFE, "why"),
    ),
    "amend": (
        Action.ADJUDICATE,
        None,
        lambda db, who, case: adjudication.amend(db, who.at(NOW), case, RatingLabel.SAFE, "why", 1),
    ),
    "disagreements": (Action.ADJUDICATE, None, lambda db, who, case: adjudication.disagreements(db, who)),
    "reveal_versions": (
        Action.VIEW_RATINGS,
        None,
        lambda db, who, case: adjudication.reveal_versions(db, who.at(NOW), case),
    ),
    "reading_table": (Action.VIEW_AGREEMENT, None, lambda db, who, case: reading_table.reading_table(db, who, "key")),
    "switches": (Action.VIEW_AGREEMENT, None, lambda db, who, case: reading_table.switches(db, who, "key")),
    "export_relabelled": (
        Action.EXPORT,
        None,
        lambda db, who, case: export_relabelled(db, who.at(NOW), "no such batch", "key"),
    ),
    "exposure": (Action.VIEW_CARE, "me", lambda db, who, case: reports.exposure(db, who.at(NOW), NOW)),
    "change": (
        Action.CHANGE_SETTINGS,
        None,
        lambda db, who, case: settings_store.change(db, who.at(NOW), settings_store.SiteSettings(), 0),
    ),
    "stop": (Action.STOP, None, lambda db, who, case: settings_store.stop(db, who.at(NOW))),
    "start": (Action.START, None, lambda db, who, case: settings_store.start(db, who.at(NOW))),
    "history": (Action.VIEW_SETTINGS, None, lambda db, who, case: settings_store.history(db, who)),
    "list_accounts": (Action.MANAGE_ACCOUNTS, None, lambda db, who, case: accounts.list_accounts(db, who)),
    "revoke": (Action.MANAGE_ACCOUNTS, None, lambda db, who, case: accounts.revoke(db, who.at(NOW), "nobody")),
    "set_roles": (
        Action.MANAGE_ACCOUNTS,
        None,
        lambda db, who, case: accounts.set_roles(db, who.at(NOW), "nobody", frozenset()),
    ),
}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_refuses_exactly_whom_the_table_refuses(sqlite_url: str, name: str) -> None:
    action, owner, call = SERVICES[name]
    database = Database(sqlite_url)
    (case_id,) = fill(database)
    for who in [me(), *(me(role) for role in Role)]:
        try:
            call(database, who, case_id)
            refused = False
        except Forbidden:
            refused = True
        except Exception:
            refused = False  # it got past the policy; what stops it then is another test's business
        assert refused is not is_allowed(who, action, owner), f"{name} as {sorted(who.roles)}"
    database.close()
