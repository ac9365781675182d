"""Sign-in, sessions with a clock that the tests turn, and what they are refused for."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from screening.review.actors import Actor, Role
from screening.review.policy import Forbidden
from screening.review.triage import Priority
from storage.audit_log import events
from storage.database import Database
from storage.review import claims, inbox
from storage.review.reviews import load_draft, save_draft
from storage.settings_store import SiteSettings, change
from storage.site import accounts
from storage.site.accounts import Ended, LastAdmin, SessionEnded, SignIn
from storage.site.audit_check import verify
from tests.storage.inbox_cases import fill, form, read, register, take
from tests.storage.people import ADMIN, ANN, BO, CY, MINUTE, NOW, person

SETTINGS = SiteSettings()
IDLE = timedelta(minutes=SETTINGS.idle_minutes)
BY = ADMIN.at(NOW)


def sign_in(subject: str = "idp|ann", at: datetime = NOW, mark: str = "") -> SignIn:
    return SignIn(subject=subject, display_name="Ann Example", issued_at=at, mark=mark)


def refused(db: Database, which: SignIn, now: datetime = NOW) -> Ended:
    with pytest.raises(SessionEnded) as caught:
        inbox.enter(db, which, now)
    return caught.value.why


def test_an_unknown_person_has_no_roles_but_the_first_admin_whom_the_site_names_while_there_is_none(
    db: Database,
) -> None:
    """Also somebody who was known before the site named them."""
    named = ["idp|one", "idp|two"]
    newcomer = inbox.enter(db, sign_in("idp|one"), NOW)
    assert (newcomer.name, newcomer.roles) == ("Ann Example", frozenset())
    assert inbox.enter(db, sign_in("idp|one"), NOW + MINUTE) == newcomer
    with pytest.raises(Forbidden):
        claims.claim_next(db, newcomer.at(NOW))
    assert inbox.enter(db, sign_in("idp|one"), NOW + MINUTE, named).roles == {Role.ADMIN}
    assert inbox.enter(db, sign_in("idp|two"), NOW, named).roles == frozenset()
    assert inbox.enter(db, sign_in("idp|one"), NOW + MINUTE).roles == {Role.ADMIN}


LONG, WHOLE = int(SETTINGS.idle_minutes), int(SETTINGS.absolute_minutes)


@pytest.mark.parametrize(
    ("pressed", "polled", "then", "ended"),
    [
        (range(0, 5 * LONG - 5, LONG - 1), (), 5 * LONG - 4, None),
        (range(0, 5 * LONG - 5, LONG - 1), (), 6 * LONG, Ended.IDLE),
        ((0,), range(1, LONG), LONG, None),
        ((0,), range(1, LONG), LONG + 1, Ended.IDLE),  # a page that only polls keeps nobody signed in
        (range(0, WHOLE + 1, LONG), (), WHOLE + 1, Ended.TOO_OLD),
        ((), (), LONG + 1, Ended.IDLE),  # an old cookie opens no session
        ((), (), 20 * 24 * 60, Ended.TOO_OLD),
    ],
)
def test_activity_keeps_a_session_for_so_long_and_idleness_ends_it_for_good(
    db: Database, pressed: Sequence[int], polled: Sequence[int], then: int, ended: Ended | None
) -> None:
    """All in minutes after the sign-in."""
    register(db, ANN)
    for minute in sorted({*pressed, *polled}):
        found = inbox.enter(db, sign_in(), NOW + minute * MINUTE, active=minute in pressed)
        assert found == Actor(id="ann", name="Ann", roles=ANN.roles)
    now = NOW + then * MINUTE
    if ended is None:
        assert inbox.enter(db, sign_in(), now, active=False).id == "ann"
        return
    for later in (now, now + MINUTE):
        assert refused(db, sign_in(), later) is ended, "loading the page again does not help"
    assert inbox.enter(db, sign_in(at=now), now).id == "ann"


def test_a_session_that_was_ended_is_refused_at_the_next_action_and_the_draft_kept(db: Database) -> None:
    register(db, ANN, ADMIN)
    tab, phone, later = sign_in(), sign_in(mark="phone"), sign_in(mark="later")
    ann = inbox.enter(db, tab, NOW)
    inbox.enter(db, phone, NOW)
    (case_id,) = fill(db, [Priority.P2])
    take(db, ann)
    save_draft(db, ann.at(NOW), case_id, {"label": "unsafe"})
    inbox.sign_out(db, tab, NOW)
    assert refused(db, tab) is Ended.SIGNED_OUT and inbox.enter(db, phone, NOW) == ann
    inbox.enter(db, later, NOW)
    assert accounts.revoke(db, BY, "ann") == 2
    assert {refused(db, one, NOW + MINUTE) for one in (phone, later)} == {Ended.SIGNED_OUT}
    assert load_draft(db, ann, case_id) == {"label": "unsafe"}
    again = sign_in(mark="again")
    accounts.set_roles(db, BY, "ann", frozenset({Role.SENIOR}))
    assert inbox.enter(db, again, NOW).roles == {Role.SENIOR}
    for active, why in ((False, Ended.INACTIVE), (True, Ended.SIGNED_OUT)):
        accounts.set_active(db, BY, "ann", active)
        assert refused(db, again) is why


@pytest.mark.parametrize(
    ("end", "free"),
    [
        (lambda db: inbox.sign_out(db, sign_in("idp|bo"), NOW), {"held", "aside"}),
        (lambda db: inbox.revoke(db, BY, "bo"), {"held", "aside"}),
        (lambda db: inbox.set_roles(db, BY, "bo", frozenset({Role.SENIOR})), set()),
        (lambda db: inbox.set_roles(db, BY, "bo", frozenset({Role.RESEARCHER})), {"held", "aside", "given"}),
        (lambda db: inbox.set_active(db, BY, "bo", False), {"held", "aside", "given"}),
    ],
    ids=["signs out", "is signed out", "a senior", "reads no more", "switched off"],
)
def test_what_is_free_at_once_of_what_was_in_somebodys_hands(
    db: Database, end: Callable[[Database], object], free: set[str]
) -> None:
    """Bo holds a case, has set one aside and was given one: no page of his need be open for them to go back."""
    register(db, ANN, BO, ADMIN)
    bo = inbox.enter(db, sign_in("idp|bo"), NOW)
    fill(db, [Priority.P0] * 3)
    aside, held, given = take(db, bo), take(db, bo), take(db, ANN)
    inbox.hold(db, bo.at(NOW), aside.case_id, aside.token, "asking the ward")
    inbox.hand_over(db, ANN.at(NOW), given.case_id, given.token, "bo", "yours")
    end(db)
    names = {held.case_id: "held", aside.case_id: "aside", given.case_id: "given"}
    found = [claims.claim_next(db, CY.at(NOW)) for _ in names]
    assert {names[one.case_id] for one in found if one is not None} == free


@pytest.mark.parametrize("aside", [False, True])
def test_who_is_no_senior_any_more_gives_back_third_reviews_alone(db: Database, aside: bool) -> None:
    both = person("sue", Role.REVIEWER, Role.SENIOR)
    register(db, ANN, BO, both, ADMIN)
    (disputed,) = fill(db, [Priority.P0])
    read(db, ANN, form("unsafe"), "a", ask=True)
    read(db, BO, form("safe"), "b")
    (first,) = fill(db, [Priority.P0])
    held = [claims.claim(db, both.at(NOW), case_id) for case_id in (disputed, first)]
    if aside:
        inbox.hold(db, both.at(NOW), disputed, held[0].token, "asking the ward")
    inbox.set_roles(db, BY, both.id, frozenset({Role.REVIEWER}))
    assert [one.case_id for one in claims.my_claims(db, both.at(NOW))] == [first]
    taken = claims.claim_next(db, person("sam", Role.SENIOR).at(NOW))
    assert taken is not None and taken.case_id == disputed


def test_an_old_page_takes_no_case_from_a_reviewer_who_is_signed_in_elsewhere(db: Database) -> None:
    """It asks when its machine awakes, or its server starts again: after the sign-in it carries has ended."""
    register(db, ANN, ADMIN)
    change(db, BY, SETTINGS.model_copy(update={"idle_minutes": 5}), 0)
    office, later = sign_in(mark="office"), NOW + 6 * MINUTE
    inbox.enter(db, office, NOW)
    ann = inbox.enter(db, sign_in(at=later, mark="ward"), later)
    fill(db, [Priority.P0])
    held = take(db, ann, later, lease=2 * IDLE)
    assert refused(db, office, later + MINUTE) is Ended.IDLE
    assert claims.my_claims(db, ann.at(later + MINUTE)) == (held,)
    now = later + 6 * MINUTE
    assert refused(db, office, now) is Ended.IDLE, "and the other one has been idle for as long"
    assert claims.my_claims(db, ann.at(now)) == ()


def test_the_last_admin_stays(db: Database) -> None:
    register(db, ADMIN, ANN)
    with pytest.raises(LastAdmin):
        accounts.set_roles(db, BY, ADMIN.id, frozenset({Role.REVIEWER}))
    with pytest.raises(LastAdmin):
        accounts.set_active(db, BY, ADMIN.id, False)
    with pytest.raises(KeyError):
        accounts.set_roles(db, BY, "nobody", frozenset())
    assert {account.id: account.active for account in accounts.list_accounts(db, ADMIN)} == {"ada": True, "ann": True}


def test_one_sign_in_in_many_tabs_is_one_session_whose_key_says_nothing(db: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        people = list(pool.map(lambda _: inbox.enter(db, sign_in("idp|new"), NOW), range(16)))
    assert len({who.id for who in people}) == 1
    assert [event.action for event in events(db, ADMIN)] == ["signed_in", "registered"]
    assert verify(db).ok
    others = (sign_in(), sign_in(mark="x"), sign_in("idp|bo"), sign_in(at=NOW + MINUTE))
    keys = {one.session_id for one in others}
    assert len(keys) == 4 and all(len(key) == 64 and "ann" not in key for key in keys)
