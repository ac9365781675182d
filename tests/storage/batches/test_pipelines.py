"""A site's own pipelines: versions are never overwritten, one is in force, and whoever was faster is heard."""

import pytest

from screening.pipeline.config import PipelineConfig, UndecidableError, chain, preset
from screening.review.policy import Forbidden
from screening.stopping.rules import PairwiseMixture
from storage.audit_log import events
from storage.batches import configurations as pipelines
from storage.database import Database
from tests.storage.people import ADMIN, ANN, MINUTE, NOW, RESEARCHER


def _named(name: str = "ours", budget: int = 100) -> PipelineConfig:
    return preset("recommended", budget=budget).model_copy(update={"name": name})


def _keep(db: Database, pipeline: PipelineConfig, based_on: int, note: str = "") -> pipelines.PipelineVersion:
    return pipelines.keep_version(db, RESEARCHER.at(NOW), pipeline, note, based_on)


def test_each_change_is_a_version_and_the_same_again_is_none(db: Database) -> None:
    first, second = _keep(db, _named(), 0, " copied "), _keep(db, _named(budget=50), 1, "cheaper")
    assert _keep(db, _named(budget=50), 1, "pressed twice") == second
    assert pipelines.list_versions(db, ANN, "ours") == (second, first)
    assert (first.note, second.title) == ("copied", "ours v2")
    assert pipelines.get_version(db, "ours") == second and pipelines.get_version(db, "ours", 1) == first
    for pipeline, based_on in ((_named(budget=30), 0), (_named(budget=30), 1), (_named("new"), 1)):
        with pytest.raises(pipelines.StalePipeline):
            _keep(db, pipeline, based_on)
    with pytest.raises(UndecidableError):
        _keep(db, chain("theirs", PairwiseMixture(budget=2), "next"), 0)
    with pytest.raises(Forbidden):
        pipelines.keep_version(db, ANN.at(NOW), _named("anns"), "", 0)
    assert pipelines.list_versions(db, ANN) == (second, first)


def test_the_version_in_force_is_chosen_with_a_reason_or_a_comparison_by_an_administrator(db: Database) -> None:
    _keep(db, _named(), 0)
    _keep(db, _named(budget=50), 1)
    assert pipelines.active_version(db) is None
    with pytest.raises(pipelines.ReasonMissing):
        pipelines.activate(db, ADMIN.at(NOW), "ours", 1, "  ")
    with pytest.raises(pipelines.UnknownPipeline):
        pipelines.activate(db, ADMIN.at(NOW), "ours", 3, "why not")
    with pytest.raises(Forbidden):
        pipelines.activate(db, RESEARCHER.at(NOW), "ours", 1, "mine")
    pipelines.activate(db, ADMIN.at(NOW), "ours", 2, "half the price")
    again = pipelines.activate(db, ADMIN.at(NOW + MINUTE), "ours", 2, "pressed twice")
    assert again.reason == "half the price" and pipelines.active_version(db) == pipelines.get_version(db, "ours", 2)
    pipelines.activate(db, ADMIN.at(NOW + MINUTE), "ours", 1, "", {"escalation": 0.1})  # an old one is taken up again
    activations = [(one.number, one.comparison) for one in pipelines.list_activations(db, ANN)]
    assert activations == [(1, {"escalation": 0.1}), (2, None)]
    assert pipelines.active_version(db) == pipelines.get_version(db, "ours", 1)
    told = [(event.action, event.subject, event.actor) for event in events(db, ADMIN, limit=3)]
    assert told == [("pipeline_activated", f"ours/{number}", "ada") for number in (1, 2)] + [
        ("pipeline_saved", "ours/2", "rae")
    ]


def test_versions_and_what_is_in_force_belong_to_a_name(db: Database) -> None:
    ours, theirs = _keep(db, _named(), 0), _keep(db, _named("theirs", budget=60), 0)
    newer = _keep(db, _named(budget=50), 1)
    assert (ours.number, theirs.number) == (1, 1)
    assert (pipelines.get_version(db, "theirs"), pipelines.get_version(db, "ours")) == (theirs, newer)
    assert [one.title for one in pipelines.list_versions(db, ANN)] == ["ours v2", "ours v1", "theirs v1"]
    for name, unknown in (("theirs", 2), ("nobodys", 1)):
        with pytest.raises(pipelines.UnknownPipeline):
            pipelines.get_version(db, name, unknown)
        with pytest.raises(pipelines.UnknownPipeline):
            pipelines.activate(db, ADMIN.at(NOW), name, unknown, "why")
    with pytest.raises(pipelines.UnknownPipeline):
        pipelines.get_version(db, "nobodys")
    for name in ("ours", "theirs"):
        made = pipelines.activate(db, ADMIN.at(NOW), name, 1, " cheaper ")
        told = (made.name, made.number, made.reason, made.comparison, made.by, made.at)
        assert told == (name, 1, "cheaper", None, "ada", NOW)
        found = pipelines.active_version(db)
        assert found is not None and found.title == f"{name} v1", "the first of one is not the first of the other"
    assert pipelines.list_activations(db, ANN)[0] == made
