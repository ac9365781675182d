"""Settings are versions; the stop button works for everybody and by itself."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import ValidationError
from sqlalchemy import insert

from screening.review.policy import Forbidden
from screening.review.triage import TARGETS, Priority
from storage import settings_store
from storage.audit_log import events
from storage.database import Database
from storage.review.claims import LEASE
from storage.schema import settings_versions
from storage.settings_store import AuditPlan, SiteSettings, audit_plan, change, current, is_stopped, start, stop
from tests.databases import write
from tests.storage.people import ADMIN, ANN, MINUTE, NOW, SENIOR


def test_a_change_is_a_version_that_says_what_changed(db: Database) -> None:
    found = current(db)
    assert (found.version, found.settings, is_stopped(db)) == (0, SiteSettings(), False)
    change(db, ADMIN.at(NOW), SiteSettings(lease_minutes=10), 0)
    change(db, ADMIN.at(NOW + MINUTE), SiteSettings(lease_minutes=10, help_text="Local help line"), 1)
    versions = [(one.version, one.settings.lease_minutes, one.by) for one in settings_store.history(db, ANN)]
    assert versions == [(2, 10, "ada"), (1, 10, "ada")]
    assert [event.details["changed"] for event in events(db, ADMIN)] == [["help_text"], ["lease_minutes"]]
    with pytest.raises(settings_store.StaleSettings):
        change(db, ADMIN.at(NOW), SiteSettings(), 1)
    change(db, ADMIN.at(NOW), SiteSettings(break_wording="  Ein Glas Wasser?\nAlles bleibt, wie es ist. "), 2)
    assert current(db).settings.break_wording == "Ein Glas Wasser?\nAlles bleibt, wie es ist."


def test_everybody_can_stop_and_not_everybody_can_start(db: Database) -> None:
    with ThreadPoolExecutor(8) as pool:  # many hands on the button make one version
        assert set(pool.map(lambda _: stop(db, ANN.at(NOW)).version, range(16))) == {1}
    assert is_stopped(db)
    change(db, ADMIN.at(NOW), SiteSettings(lease_minutes=5, stopped=False), 1)
    assert is_stopped(db), "a change of settings does not move the button"
    with pytest.raises(Forbidden):
        start(db, ANN.at(NOW))
    start(db, SENIOR.at(NOW))
    assert not is_stopped(db)
    assert current(db).settings.lease_minutes == 5
    assert [event.action for event in events(db, ADMIN)] == ["started", "settings_changed", "stopped"]


def test_what_makes_no_sense_is_refused() -> None:
    wrong: dict[str, tuple[object, ...]] = {
        "second_review_rate": (1.5,),
        "idle_minutes": (0,),
        "target_minutes": ((5, 15),),
        "x": (1,),
        "audit_at_most": (0, 0.0004, 0.0125, 0.6, float("nan")),
        "audit_confidence": (0.4, 1, 0.9999),
        "audit_allowed_misses": (-1, 101, 0.5),
        "break_wording": ("", " ", "x" * 301, "a\x00b", "\ud800", 5),
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValidationError):
                SiteSettings.model_validate({name: value})


def test_targets_and_lease_in_the_units_that_the_inbox_takes() -> None:
    settings = SiteSettings(target_minutes=(1, 2, 3, 4), lease_minutes=20)
    assert [settings.targets[priority] for priority in Priority] == [MINUTE, 2 * MINUTE, 3 * MINUTE, 4 * MINUTE]
    assert settings.lease == 20 * MINUTE
    assert SiteSettings().targets == TARGETS
    assert SiteSettings().lease == LEASE


def test_settings_kept_before_the_plan_was_one_still_load(db: Database) -> None:
    old = {"stopped": False, "lease_minutes": 9, "help_text": "Call the ward."}
    write(db, insert(settings_versions).values(version=1, body=old, by="ada", at=NOW))
    found = current(db).settings
    assert (found.lease_minutes, found.break_wording) == (9, settings_store.BREAK_WORDING)
    assert audit_plan(db) == AuditPlan(at_most=0.05, confidence=0.95, allowed_misses=0, since=None, changes=0)


def test_the_plan_knows_when_it_was_last_changed_and_how_often(db: Database) -> None:
    two_allowed = SiteSettings(audit_allowed_misses=2)
    change(db, ADMIN.at(NOW), two_allowed, 0)
    change(db, ADMIN.at(NOW + MINUTE), two_allowed.model_copy(update={"lease_minutes": 9}), 1)
    stop(db, ANN.at(NOW + 2 * MINUTE))
    assert audit_plan(db) == AuditPlan(at_most=0.05, confidence=0.95, allowed_misses=2, since=NOW, changes=1)
    change(db, ADMIN.at(NOW + 3 * MINUTE), SiteSettings(lease_minutes=9), 3)
    assert (audit_plan(db).since, audit_plan(db).changes) == (NOW + 3 * MINUTE, 2), "back to the default is a change"
    assert events(db, ADMIN)[0].details == {"changed": ["audit_allowed_misses"]}
