"""Settings are versions; the stop button works for everybody and by itself. So are a site's own pipelines: none is
overwritten, one is in force, and whoever was faster is heard.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import ValidationError
from sqlalchemy import insert

from screening.pipeline.config import PipelineConfig, UndecidableError, chain, preset
from screening.stopping.rules import PairwiseMixture
from storage import settings_store
from storage.audit_log import events
from storage.batches import configurations as pipelines
from storage.database import Database
from storage.schema import settings_versions
from storage.settings_store import AuditPlan, SiteSettings, audit_plan, change, current, is_stopped, start, stop
from tests.databases import write
from tests.storage.people import ADMIN, ANN, MINUTE, NOW, RESEARCHER, SENIOR


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
    assert pipelines.list_versions(db, ANN, "ours") == (second, first)
    assert first.note == "copied"
    found = [pipelines.get_version(db, *which) for which in (("ours",), ("ours", 1), ("theirs",))]
    assert found == [second, first, theirs]
    for which in (("theirs", 2), ("nobodys", 1), ("nobodys",)):
        with pytest.raises(pipelines.UnknownPipeline):
            pipelines.get_version(db, *which)
    for pipeline, based_on in ((_named(budget=30), 0), (_named(budget=30), 1), (_named("new"), 1)):
        with pytest.raises(pipelines.StalePipeline):
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
