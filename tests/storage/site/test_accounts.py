"""Sign-in, sessions with a clock that the tests turn, and what they are refused for; the table of role, action and
ownership, and that the services ask it.
"""

import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest
from pydantic import ValidationError
from sqlalchemy import insert

from screening.evaluation.audit import AuditPlan
from screening.pipeline.config import PipelineConfig, UndecidableError, chain, preset
from screening.review.policy import LOCAL_USER, SYSTEM, Action, Actor, Forbidden, Role, is_allowed, require
from screening.review.review_form import ReviewLabel
from screening.review.triage import Priority
from screening.stopping.rules import PairwiseMixture
from storage import settings_store
from storage.audit_log import events, verify
from storage.batches import configurations as pipelines
from storage.database import Database, Stale
from storage.research.cells import Cell
from storage.review import claims, inbox
from storage.review.erasure import By, Selection
from storage.review.reviews import load_draft, save_draft
from storage.schema import case_notes, settings_versions
from storage.settings_store import SiteSettings, audit_plan, change, current, is_stopped, start, stop
from storage.site import accounts
from storage.site.accounts import Ended, LastAdmin, SessionEnded, SignIn
from tests.databases import write
from tests.storage.inbox_cases import fill, form, read, register, rows, take
from tests.storage.people import ADMIN, ANN, BO, CY, MINUTE, NOW, RESEARCHER, SENIOR, person

SETTINGS = SiteSettings()
IDLE = timedelta(minutes=SETTINGS.idle_minutes)
BY = ADMIN.at(NOW)


def sign_in(subject: str = "idp|ann", at: datetime = NOW, mark: str = "") -> SignIn:
    return SignIn(subject=subject, display_name="Ann Example", issued_at=at, mark=mark)


def refused(db: Database, which: SignIn, now: datetime = NOW) -> Ended:
    with pytest.raises(SessionEnded) as caught:
        accounts.enter(db, which, now)
    return caught.value.why


def test_an_unknown_person_has_no_roles_but_the_first_admin_whom_the_site_names_while_there_is_none(
    db: Database,
) -> None:
    """Also somebody who was known before the site named them."""
    named = ["idp|one", "idp|two"]
    newcomer = accounts.enter(db, sign_in("idp|one"), NOW)
    assert (newcomer.name, newcomer.roles) == ("Ann Example", frozenset())
    assert accounts.enter(db, sign_in("idp|one"), NOW + MINUTE) == newcomer
    with pytest.raises(Forbidden):
        claims.claim_next(db, newcomer.at(NOW))
    assert accounts.enter(db, sign_in("idp|one"), NOW + MINUTE, named).roles == {Role.ADMIN}
    assert accounts.enter(db, sign_in("idp|two"), NOW, named).roles == frozenset()
    assert accounts.enter(db, sign_in("idp|one"), NOW + MINUTE).roles == {Role.ADMIN}


TABLES = tomllib.loads((Path(__file__).parent / "accounts.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("pressing", "polling", "then", "ended"), TABLES["sessions"])
def test_activity_keeps_a_session_for_so_long_and_idleness_ends_it_for_good(
    db: Database, pressing: list[int], polling: list[int], then: int, ended: str
) -> None:
    pressed, polled = (range(*span) if span else range(0) for span in (pressing, polling))
    register(db, ANN)
    for minute in sorted({*pressed, *polled}):
        found = accounts.enter(db, sign_in(), NOW + minute * MINUTE, active=minute in pressed)
        assert found == Actor(id="ann", name="Ann", roles=ANN.roles)
    now = NOW + then * MINUTE
    if not ended:
        assert accounts.enter(db, sign_in(), now, active=False).id == "ann"
        return
    for later in (now, now + MINUTE):
        assert refused(db, sign_in(), later) == ended, "loading the page again does not help"
    assert accounts.enter(db, sign_in(at=now), now).id == "ann"


def test_a_session_that_was_ended_is_refused_at_the_next_action_and_the_draft_kept(db: Database) -> None:
    register(db, ANN, ADMIN)
    tab, phone, later = sign_in(), sign_in(mark="phone"), sign_in(mark="later")
    ann = accounts.enter(db, tab, NOW)
    accounts.enter(db, phone, NOW)
    (case_id,) = fill(db, [Priority.P2])
    take(db, ann)
    save_draft(db, ann.at(NOW), case_id, {"label": "unsafe"})
    accounts.sign_out(db, tab, NOW)
    assert refused(db, tab) is Ended.SIGNED_OUT and accounts.enter(db, phone, NOW) == ann
    accounts.enter(db, later, NOW)
    accounts.revoke(db, BY, "ann")
    assert {refused(db, one, NOW + MINUTE) for one in (phone, later)} == {Ended.SIGNED_OUT}
    assert load_draft(db, ann, case_id) == {"label": "unsafe"}
    again = sign_in(mark="again")
    accounts.set_roles(db, BY, "ann", frozenset({Role.SENIOR}))
    assert accounts.enter(db, again, NOW).roles == {Role.SENIOR}
    for active, why in ((False, Ended.INACTIVE), (True, Ended.SIGNED_OUT)):
        accounts.set_active(db, BY, "ann", active)
        assert refused(db, again) is why


@pytest.mark.parametrize(
    ("end", "free"),
    [
        (lambda db: accounts.sign_out(db, sign_in("idp|bo"), NOW), {"held", "aside"}),
        (lambda db: accounts.revoke(db, BY, "bo"), {"held", "aside"}),
        (lambda db: accounts.set_roles(db, BY, "bo", frozenset({Role.SENIOR})), set()),
        (lambda db: accounts.set_roles(db, BY, "bo", frozenset({Role.RESEARCHER})), {"held", "aside", "given"}),
        (lambda db: accounts.set_active(db, BY, "bo", False), {"held", "aside", "given"}),
    ],
    ids=["signs out", "is signed out", "a senior", "reads no more", "switched off"],
)
def test_what_is_free_at_once_of_what_was_in_somebodys_hands(
    db: Database, end: Callable[[Database], object], free: set[str]
) -> None:
    """Bo holds a case, has set one aside and was given one: no page of his need be open for them to go back."""
    register(db, ANN, BO, ADMIN)
    bo = accounts.enter(db, sign_in("idp|bo"), NOW)
    fill(db, [Priority.P0] * 3)
    aside, held, given = take(db, bo), take(db, bo), take(db, ANN)
    inbox.hold(db, bo.at(NOW), aside.case_id, aside.token, "asking the ward")
    inbox.hand_over(db, ANN.at(NOW), given.case_id, given.token, "bo", "yours")
    end(db)
    names = {held.case_id: "held", aside.case_id: "aside", given.case_id: "given"}
    left = [one.case_id for one in rows(db, case_notes) if one.kind == "release"]
    assert left == [held.case_id] * ("held" in free), "a P0 case goes back with a note"
    found = [claims.claim_next(db, CY.at(NOW)) for _ in names]
    assert {names[one.case_id] for one in found if one is not None} == free


def test_who_is_no_senior_any_more_gives_back_third_reviews_alone(db: Database) -> None:
    """One that they hold, and one that they have put on hold."""
    both = person("sue", Role.REVIEWER, Role.SENIOR)
    register(db, ANN, BO, both, ADMIN)
    disputed = fill(db, [Priority.P0] * 2)
    for who, label, letter in ((ANN, "unsafe", "a"), (BO, "safe", "b")):
        for number in range(2):
            read(db, who, form(label), letter if number else letter.upper(), ask=who is ANN)
    (first,) = fill(db, [Priority.P0])
    held = [claims.claim(db, both.at(NOW), case_id) for case_id in (*disputed, first)]
    inbox.hold(db, both.at(NOW), disputed[0], held[0].token, "asking the ward")
    accounts.set_roles(db, BY, both.id, frozenset({Role.REVIEWER}))
    assert [one.case_id for one in claims.my_claims(db, both.at(NOW))] == [first]
    taken = [take(db, person(name, Role.SENIOR)).case_id for name in ("sam", "sid")]
    assert sorted(taken) == sorted(disputed)


def test_an_old_page_takes_no_case_from_a_reviewer_who_is_signed_in_elsewhere(db: Database) -> None:
    """It asks when its machine awakes, or its server starts again: after the sign-in it carries has ended."""
    register(db, ANN, ADMIN)
    change(db, BY, SETTINGS.model_copy(update={"idle_minutes": 5}), 0)
    office, later = sign_in(mark="office"), NOW + 6 * MINUTE
    accounts.enter(db, office, NOW)
    ann = accounts.enter(db, sign_in(at=later, mark="ward"), later)
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
        people = list(pool.map(lambda _: accounts.enter(db, sign_in("idp|new"), NOW), range(16)))
    assert len({who.id for who in people}) == 1
    assert [event.action for event in events(db, ADMIN)] == ["signed_in", "registered"]
    assert verify(db).ok
    others = (sign_in(), sign_in(mark="x"), sign_in("idp|bo"), sign_in(at=NOW + MINUTE))
    keys = {one.session_id for one in others}
    assert len(keys) == 4 and all(len(key) == 64 and "ann" not in key for key in keys)


OWNERS = (None, "me", "somebody-else")


def me(*roles: Role) -> Actor:
    return Actor(id="me", name="Me", roles=frozenset(roles))


def table(name: str) -> list[list[str]]:
    """The words of each line of the file beside this one, without its two lines of explanation."""
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines[2:]]


def test_each_role_may_do_exactly_what_is_written_here_nobody_without_one_anything_and_they_add_up() -> None:
    granted = {action: dict(one.split(":") for one in roles) for action, *roles in table("granted.txt")}
    assert set(granted) == {action.value for action in Action}
    reach = {"any": OWNERS, "own": ("me",), "others": ("somebody-else",), None: ()}
    for action, role, owner in product(Action, Role, OWNERS):
        expected = owner in reach[granted[action.value].get(role.value)]
        assert is_allowed(me(role), action, owner) is expected, (action, role, owner)
        if not expected:
            with pytest.raises(Forbidden):
                require(me(role), action, owner)
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


def test_a_change_is_a_version_that_says_what_changed_and_what_makes_no_sense_is_refused(db: Database) -> None:
    for name, value in [(name, value) for name, values in TABLES["refused"].items() for value in values]:
        with pytest.raises(ValidationError):
            SiteSettings.model_validate({name: value})
    found = current(db)
    assert (found.version, found.settings, is_stopped(db)) == (0, SiteSettings(), False)
    change(db, ADMIN.at(NOW), SiteSettings(lease_minutes=10), 0)
    change(db, ADMIN.at(NOW + MINUTE), SiteSettings(lease_minutes=10, help_text="Local help line"), 1)
    versions = [(one.version, one.settings.lease_minutes, one.by) for one in settings_store.history(db, ANN)]
    assert versions == [(2, 10, "ada"), (1, 10, "ada")]
    assert [event.details["changed"] for event in events(db, ADMIN)] == [["help_text"], ["lease_minutes"]]
    with pytest.raises(Stale):
        change(db, ADMIN.at(NOW), SiteSettings(), 1)
    change(db, ADMIN.at(NOW), SiteSettings(break_wording="  Ein Glas Wasser?\nAlles bleibt, wie es ist. "), 2)
    assert current(db).settings.break_wording == "Ein Glas Wasser?\nAlles bleibt, wie es ist."


def test_everybody_can_stop_and_not_everybody_can_start(db: Database) -> None:
    with ThreadPoolExecutor(8) as pool:  # many hands on the button make one version
        assert set(pool.map(lambda _: stop(db, ANN.at(NOW)).version, range(16))) == {1}
    assert is_stopped(db)
    change(db, ADMIN.at(NOW), SiteSettings(lease_minutes=5, stopped=False), 1)
    assert is_stopped(db), "a change of settings does not move the button"
    start(db, SENIOR.at(NOW))
    assert not is_stopped(db) and current(db).settings.lease_minutes == 5
    assert [event.action for event in events(db, ADMIN)] == ["started", "settings_changed", "stopped"]


def test_settings_kept_before_the_plan_was_one_load_and_it_knows_when_it_was_last_changed(db: Database) -> None:
    old = {"stopped": False, "lease_minutes": 9, "help_text": "Call the ward."}
    write(db, insert(settings_versions).values(version=1, body=old, by="ada", at=NOW))
    found = current(db).settings
    assert (found.lease_minutes, found.break_wording) == (9, settings_store.BREAK_WORDING)
    assert audit_plan(db) == AuditPlan(at_most=0.05, confidence=0.95, allowed_misses=0, since=None, changes=0)
    two_allowed = found.model_copy(update={"audit_allowed_misses": 2})
    change(db, ADMIN.at(NOW), two_allowed, 1)
    change(db, ADMIN.at(NOW + MINUTE), two_allowed.model_copy(update={"lease_minutes": 8}), 2)
    stop(db, ANN.at(NOW + 2 * MINUTE))
    assert audit_plan(db) == AuditPlan(at_most=0.05, confidence=0.95, allowed_misses=2, since=NOW, changes=1)
    change(db, ADMIN.at(NOW + 3 * MINUTE), found.model_copy(update={"lease_minutes": 8}), 4)
    assert (audit_plan(db).since, audit_plan(db).changes) == (NOW + 3 * MINUTE, 2), "back to the default is a change"
    assert events(db, ADMIN)[0].details == {"changed": ["audit_allowed_misses"]}


def _named(name: str = "ours", budget: int = 100) -> PipelineConfig:
    return preset("recommended", budget=budget).model_copy(update={"name": name})


def _keep(db: Database, pipeline: PipelineConfig, based_on: int, note: str = "") -> pipelines.PipelineVersion:
    return pipelines.keep_version(db, RESEARCHER.at(NOW), pipeline, note, based_on)


def test_each_change_is_a_version_of_its_name_and_the_same_again_is_none(db: Database) -> None:
    first, second = _keep(db, _named(), 0, " copied "), _keep(db, _named(budget=50), 1, "cheaper")
    assert _keep(db, _named(budget=50), 1, "pressed twice") == second
    theirs = _keep(db, _named("theirs", budget=60), 0)
    assert pipelines.list_versions(db, ANN, "ours") == (second, first) and first.note == "copied"
    found = [pipelines.get_version(db, *which) for which in (("ours",), ("ours", 1), ("theirs",))]
    assert found == [second, first, theirs]
    for which in (("theirs", 2), ("nobodys", 1), ("nobodys",)):
        with pytest.raises(pipelines.UnknownPipeline):
            pipelines.get_version(db, *which)
    for pipeline, based_on in ((_named(budget=30), 0), (_named(budget=30), 1), (_named("new"), 1)):
        with pytest.raises(Stale):
            _keep(db, pipeline, based_on)
    with pytest.raises(UndecidableError):
        _keep(db, chain("new", PairwiseMixture(budget=2), "next"), 0)
    assert [one.title for one in pipelines.list_versions(db, ANN)] == ["ours v2", "ours v1", "theirs v1"]


def test_the_version_in_force_belongs_to_a_name_and_is_chosen_for_a_reason_by_an_administrator(db: Database) -> None:
    """Or with a comparison. An old one may be taken up again."""
    for pipeline, based_on in ((_named(), 0), (_named(budget=50), 1), (_named("theirs", budget=60), 0)):
        _keep(db, pipeline, based_on)
    assert pipelines.active_version(db) is None
    for which in (("ours", 1, "  "), ("ours", 3, "why not"), ("theirs", 2, "why not")):
        with pytest.raises((pipelines.ReasonMissing, pipelines.UnknownPipeline)):
            pipelines.activate(db, ADMIN.at(NOW), *which)
    chosen: list[tuple[str, int, str, dict[str, float] | None]] = [
        ("ours", 2, "half the price", None),
        ("theirs", 1, "cheaper", None),
        ("ours", 1, "", {"escalation": 0.1}),
    ]
    for name, number, reason, comparison in chosen:
        made = pipelines.activate(db, ADMIN.at(NOW), name, number, f" {reason} ", comparison)
        told = (made.name, made.number, made.reason, made.comparison, made.by, made.at)
        assert told == (name, number, reason, comparison, "ada", NOW)
        assert pipelines.activate(db, ADMIN.at(NOW + MINUTE), name, number, "pressed twice") == made
        assert pipelines.active_version(db) == pipelines.get_version(db, name, number)
    listed = [(one.name, one.number, one.reason, one.comparison) for one in pipelines.list_activations(db, ANN)]
    assert listed == chosen[::-1]
    logged = [(event.subject, event.actor) for event in events(db, ADMIN, action="pipeline_activated")]
    assert logged == [(f"{name}/{number}", "ada") for name, number, *_ in chosen[::-1]]
