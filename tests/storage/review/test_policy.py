"""The table of role, action and ownership, and that the services ask it."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from screening.review.actors import LOCAL_USER, SYSTEM, Acting, Actor, Role
from screening.review.policy import Action, Forbidden, is_allowed, require
from screening.review.review_form import ReviewLabel
from storage import settings_store
from storage.batches.results import results
from storage.database import Database
from storage.research import review_table
from storage.research.cells import confusions, control_cases
from storage.research.corrected_labels import export_corrected_labels
from storage.research.listed import Cell
from storage.research.recordings import outcomes_in, recorded_batch, recorded_columns
from storage.research.reliability import audit_sample
from storage.review import adjudication, claims, evidence, follow_ups, inbox, queue, reports, reviews, worklist
from storage.review.erasure import By, Selection, erase
from storage.site import accounts
from tests.storage.inbox_cases import NOW, fill, form

OWNERS = (None, "me", "somebody-else")
SAFE, SETTINGS, NONE = ReviewLabel.SAFE, settings_store.SiteSettings(), "no such batch"
CELL = Cell(batch_id=NONE, outcome="safe")


def me(*roles: Role) -> Actor:
    return Actor(id="me", name="Me", roles=frozenset(roles))


GRANTED = (Path(__file__).parent / "granted.txt").read_text(encoding="utf-8").splitlines()[2:]


def test_each_role_may_do_exactly_what_is_written_here() -> None:
    granted = {action: dict(one.split(":") for one in roles) for action, *roles in map(str.split, GRANTED)}
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


Call = Callable[[Database, Acting, str], object]
SERVICES: dict[str, tuple[Action, str | None, Call]] = {
    # the action a service asks for, whose thing it is here (a free, unread case), the call
    "claim_next": (Action.CLAIM_NEXT, None, lambda db, by, case: claims.claim_next(db, by)),
    "open_next": (Action.CLAIM_NEXT, None, lambda db, by, case: evidence.open_next(db, by)),
    "claim": (Action.CLAIM_NAMED, None, lambda db, by, case: claims.claim(db, by, case)),
    "my_claims": (Action.CLAIM_NEXT, None, lambda db, by, case: claims.my_claims(db, by)),
    "control_cases": (
        Action.REQUEST_REVIEW,
        None,
        lambda db, by, case: control_cases(db, by.actor, CELL, [case], 1, ""),
    ),
    "queue": (Action.BROWSE_QUEUE, None, lambda db, by, case: queue.queue(db, by)),
    "assign": (Action.ASSIGN, None, lambda db, by, case: inbox.assign(db, by, [case], "nobody")),
    "follow_ups": (Action.FOLLOW_UP, "me", lambda db, by, case: follow_ups.open_ones(db, by)),
    "counts": (Action.VIEW_COUNTS, None, lambda db, by, case: queue.counts(db, by)),
    "reveal_text": (Action.VIEW_TEXT, None, lambda db, by, case: evidence.reveal_text(db, by, case)),
    "reveal_evidence": (Action.VIEW_EVIDENCE, None, lambda db, by, case: evidence.reveal_evidence(db, by, case)),
    "submit_review": (Action.RATE, "me", lambda db, by, case: reviews.submit_review(db, by, case, "", form(), "a")),
    "revise": (Action.RATE, None, lambda db, by, case: reviews.revise(db, by, case, form(), "why", "0" * 32)),
    "reveal_reviews": (Action.VIEW_REVIEWS, None, lambda db, by, case: reviews.reveal_reviews(db, by, case)),
    "save_draft": (Action.RATE, "me", lambda db, by, case: reviews.save_draft(db, by, case, {})),
    "adjudicate": (Action.ADJUDICATE, None, lambda db, by, case: adjudication.adjudicate(db, by, case, SAFE, "why")),
    "amend": (Action.ADJUDICATE, None, lambda db, by, case: adjudication.amend(db, by, case, SAFE, "why", 1)),
    "disagreements": (Action.ADJUDICATE, None, lambda db, by, case: adjudication.disagreements(db, by.actor)),
    "reveal_versions": (Action.VIEW_REVIEWS, None, lambda db, by, case: adjudication.reveal_versions(db, by, case)),
    "review_table": (Action.VIEW_AGREEMENT, None, lambda db, by, case: review_table.review_table(db, by.actor, "k")),
    "switches": (Action.VIEW_AGREEMENT, None, lambda db, by, case: review_table.switches(db, by.actor, "key")),
    "export_corrected_labels": (Action.EXPORT, None, lambda db, by, case: export_corrected_labels(db, by, NONE, "key")),
    "results": (Action.VIEW_RESULTS, None, lambda db, by, case: next(results(db, by, NONE))),
    "confusions": (Action.VIEW_RESULTS, None, lambda db, by, case: confusions(db, by.actor, NONE)),
    "recorded_columns": (Action.VIEW_RESULTS, None, lambda db, by, case: recorded_columns(db, by.actor, NONE)),
    "outcomes_in": (Action.VIEW_RESULTS, None, lambda db, by, case: outcomes_in(db, by.actor, NONE, np.arange(0))),
    "recorded_batch": (Action.VIEW_RESULTS, None, lambda db, by, case: recorded_batch(db, by.actor, NONE)),
    "audit_sample": (Action.VIEW_RESULTS, None, lambda db, by, case: audit_sample(db, by.actor, NONE)),
    "second_looks": (Action.REQUEST_REVIEW, None, lambda db, by, case: worklist.request_second_looks(db, by, [case])),
    "worklist": (Action.ACKNOWLEDGE, None, lambda db, by, case: worklist.worklist(db, by.actor, NONE)),
    "acknowledge": (Action.ACKNOWLEDGE, None, lambda db, by, case: worklist.acknowledge(db, by, [case])),
    "erase": (Action.ERASE, None, lambda db, by, case: erase(db, by, Selection(by=By.CASE, value="none"), "why")),
    "exposure": (Action.VIEW_CARE, "me", lambda db, by, case: reports.exposure(db, by, NOW)),
    "change": (Action.CHANGE_SETTINGS, None, lambda db, by, case: settings_store.change(db, by, SETTINGS, 0)),
    "stop": (Action.STOP, None, lambda db, by, case: settings_store.stop(db, by)),
    "start": (Action.START, None, lambda db, by, case: settings_store.start(db, by)),
    "history": (Action.VIEW_SETTINGS, None, lambda db, by, case: settings_store.history(db, by.actor)),
    "list_accounts": (Action.MANAGE_ACCOUNTS, None, lambda db, by, case: accounts.list_accounts(db, by.actor)),
    "revoke": (Action.MANAGE_ACCOUNTS, None, lambda db, by, case: accounts.revoke(db, by, "nobody")),
    "set_roles": (Action.MANAGE_ACCOUNTS, None, lambda db, by, case: accounts.set_roles(db, by, "none", frozenset())),
}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_refuses_exactly_whom_the_table_refuses(db: Database, name: str) -> None:
    action, owner, call = SERVICES[name]
    (case_id,) = fill(db)
    for who in [me(), *(me(role) for role in Role)]:
        refused = False
        try:
            call(db, who.at(NOW), case_id)
        except Forbidden:
            refused = True
        except Exception as past:  # what stops it behind the policy is another test's business
            assert past
        assert refused is not is_allowed(who, action, owner), f"{name} as {sorted(who.roles)}"
