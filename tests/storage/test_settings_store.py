"""Settings are versions; the stop button works for everybody and by itself."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import ValidationError

from storage.audit_log import events
from storage.database import Database
from storage.leases import LEASE
from storage.policy import Forbidden
from storage.settings_store import SiteSettings, StaleSettings, change, current, history, start, stop, stopped
from storage.tiers import TARGETS, Tier
from tests.storage.inbox_cases import ADMIN, ANN, MINUTE, NOW, SENIOR


def test_a_new_site_runs_on_the_defaults(db: Database) -> None:
    found = current(db)
    assert (found.version, found.settings, stopped(db)) == (0, SiteSettings(), False)


def test_a_change_is_a_version_that_says_what_changed(db: Database) -> None:
    change(db, ADMIN, SiteSettings(lease_minutes=10), 0, NOW)
    change(db, ADMIN, SiteSettings(lease_minutes=10, help_text="Local help line"), 1, NOW + MINUTE)
    assert [(one.version, one.settings.lease_minutes, one.by) for one in history(db, ANN)] == [
        (2, 10, "ada"),
        (1, 10, "ada"),
    ]
    assert [event.details for event in events(db, ADMIN)] == [
        {"changed": ["help_text"]},
        {"changed": ["lease_minutes"]},
    ]
    with pytest.raises(StaleSettings):
        change(db, ADMIN, SiteSettings(), 1, NOW)
    with pytest.raises(Forbidden):
        change(db, SENIOR, SiteSettings(), 2, NOW)


def test_everybody_can_stop_and_not_everybody_can_start(db: Database) -> None:
    stop(db, ANN, NOW)
    assert stop(db, ANN, NOW).version == 1, "pressing it twice is once"
    assert stopped(db)
    change(db, ADMIN, SiteSettings(lease_minutes=5, stopped=False), 1, NOW)
    assert stopped(db), "a change of settings does not move the button"
    with pytest.raises(Forbidden):
        start(db, ANN, NOW)
    start(db, SENIOR, NOW)
    assert not stopped(db)
    assert current(db).settings.lease_minutes == 5
    assert [event.action for event in events(db, ADMIN)] == ["started", "settings_changed", "stopped"]


def test_many_hands_on_the_button_make_one_version(db: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: stop(db, ANN, NOW).version, range(16)))
    assert set(made) == {1}


@pytest.mark.parametrize(
    "wrong", [{"second_reading_rate": 1.5}, {"idle_minutes": 0}, {"target_minutes": (5, 15)}, {"x": 1}]
)
def test_what_makes_no_sense_is_refused(wrong: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValidationError):
        SiteSettings.model_validate(wrong)


def test_targets_and_lease_in_the_units_that_the_inbox_takes() -> None:
    settings = SiteSettings(target_minutes=(1, 2, 3, 4), lease_minutes=20)
    assert [settings.targets[tier] for tier in Tier] == [MINUTE, 2 * MINUTE, 3 * MINUTE, 4 * MINUTE]
    assert settings.lease == 20 * MINUTE
    assert SiteSettings().targets == TARGETS
    assert SiteSettings().lease == LEASE
