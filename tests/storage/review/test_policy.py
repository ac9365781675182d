"""The table of role, action and ownership, and that the services ask it."""

from collections.abc import Callable
from itertools import product

import pytest

from screening.review.actors import LOCAL_USER, SYSTEM, Actor, Role
from screening.review.policy import Action, Forbidden, is_allowed, require
from screening.review.rating_form import RatingLabel
from storage import settings_store
from storage.database import Database
from storage.research import reading_table
from storage.research.relabelled import export_relabelled
from storage.review import adjudication, claims, drafts, evidence, follow_ups, inbox, queue, ratings, reports
from storage.site import accounts
from tests.storage.inbox_cases import NOW, fill, form

OWNERS = (None, "me", "somebody-else")


def me(*roles: Role) -> Actor:
    return Actor(id="me", name="Me", roles=frozenset(roles))


GRANTED = """
screen_text        reviewer:any senior:any researcher:any
create_batch       senior:any researcher:any
control_batch      reviewer:own senior:own researcher:own admin:any
view_batches       reviewer:any senior:any researcher:any admin:any
view_results       senior:any researcher:any
export             researcher:any
view_counts        reviewer:any senior:any researcher:any admin:any
browse_queue       senior:any admin:any
claim_next         reviewer:any senior:any
claim_named        reviewer:own senior:any
assign             senior:any
view_text          reviewer:own senior:any researcher:any
view_evidence      reviewer:own senior:any researcher:any
rate               reviewer:own senior:own
read_second        reviewer:others senior:others
acknowledge        senior:any researcher:any
request_review     senior:any researcher:any
view_ratings       reviewer:own senior:any researcher:any
adjudicate         senior:any
follow_up          reviewer:own senior:any
view_agreement     senior:any researcher:any admin:any
view_care          reviewer:own senior:own researcher:own admin:own
view_audit         senior:any admin:any
view_settings      reviewer:any senior:any researcher:any admin:any
change_settings    admin:any
draft_pipeline     researcher:any admin:any
activate_pipeline  admin:any
erase              senior:any admin:any
stop               reviewer:any senior:any researcher:any admin:any
start              senior:any admin:any
manage_accounts    admin:any
"""
"""Who may do what with a thing of theirs (own), of somebody else (others) or of anybody (any): written out once more,
so that a slip in the policy is a difference here.
"""


def test_each_role_may_do_exactly_what_is_written_here() -> None:
    granted = {
        action: dict(one.split(":") for one in roles) for action, *roles in map(str.split, GRANTED.split("\n")[1:-1])
    }
    assert set(granted) == {action.value for action in Action}
    reach = {"any": OWNERS, "own": ("me",), "others": ("somebody-else",), None: ()}
    for action, role, owner in product(Action, Role, OWNERS):
        expected = owner in reach[granted[action.value].get(role.value)]
        assert is_allowed(me(role), action, owner) is expected, (action, role, owner)
        if not expected:
            with pytest.raises(Forbidden):
                require(me(role), action, owner)


def test_nobody_without_a_role_may_do_anything_and_roles_add_up() -> None:
    for action in Action:
        assert not any(is_allowed(who, action, owner) for who in (me(), SYSTEM) for owner in (None, "me", "system"))
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
    "follow_ups": (Action.FOLLOW_UP, "me", lambda db, who, case: follow_ups.open_ones(db, who.at(NOW))),
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
