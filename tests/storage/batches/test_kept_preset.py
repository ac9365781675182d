"""An upgrade changes no site's rule: what it started with stays until somebody chooses."""

from datetime import timedelta

import pytest

from screening.engine.pipeline import Preset, preset
from screening.settings import Settings
from storage.batches.configurations import Configuration, save_configuration
from storage.batches.kept_preset import with_kept_preset
from storage.database import Database
from tests.storage.inbox_cases import NOW


def _screened_with(db: Database, name: Preset, later: int = 0) -> None:
    configuration = Configuration(pipeline=preset(name), sampler={"sampler": "simulated"})
    save_configuration(db, configuration, NOW + timedelta(days=later))


def test_a_new_site_starts_certified(db: Database) -> None:
    assert with_kept_preset(Settings(), db).preset == "certified"
    _screened_with(db, "certified")
    _screened_with(db, "recommended", later=1)  # tried on one batch
    assert with_kept_preset(Settings(), db).preset == "certified"


def test_a_site_from_before_keeps_its_rule_until_one_is_set(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    _screened_with(db, "recommended")
    _screened_with(db, "certified", later=1)
    assert with_kept_preset(Settings(), db).preset == "recommended"
    monkeypatch.setenv("SECOND_LOOK_PRESET", "certified")
    assert with_kept_preset(Settings(), db).preset == "certified"
