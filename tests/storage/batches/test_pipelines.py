"""A site's own pipelines: versions are never overwritten, one is in force, and whoever was faster is heard."""

import pytest

from screening.pipeline.config import PipelineConfig, UndecidableError, chain, preset
from screening.review.policy import Forbidden
from screening.stopping.rules import PairwiseMixture
from storage.audit_log import events
from storage.batches.configurations import (
    ReasonMissing,
    StalePipeline,
    UnknownPipeline,
    activate,
    active_version,
    get_version,
    keep_version,
    list_activations,
    list_versions,
)
from storage.database import Database
from tests.storage.inbox_cases import ADMIN, ANN, MINUTE, NOW, RESEARCHER


def _named(name: str = "ours", budget: int = 100) -> PipelineConfig:
    return preset("recommended", budget=budget).model_copy(update={"name": name})


def test_each_change_is_a_version_and_the_same_again_is_none(db: Database) -> None:
    first = keep_version(db, RESEARCHER.at(NOW), _named(), " copied ", 0)
    second = keep_version(db, RESEARCHER.at(NOW + MINUTE), _named(budget=50), "cheaper", 1)
    assert keep_version(db, RESEARCHER.at(NOW + 2 * MINUTE), _named(budget=50), "pressed twice", 1) == second
    assert list_versions(db, ANN, "ours") == (second, first)
    assert (first.note, second.title) == ("copied", "ours v2")
    assert get_version(db, "ours") == second and get_version(db, "ours", 1) == first


def test_the_version_in_force_is_chosen_with_a_reason_or_a_comparison(db: Database) -> None:
    keep_version(db, RESEARCHER.at(NOW), _named(), "", 0)
    keep_version(db, RESEARCHER.at(NOW), _named(budget=50), "", 1)
    assert active_version(db) is None
    with pytest.raises(ReasonMissing):
        activate(db, ADMIN.at(NOW), "ours", 1, "  ")
    with pytest.raises(UnknownPipeline):
        activate(db, ADMIN.at(NOW), "ours", 3, "why not")
    activate(db, ADMIN.at(NOW), "ours", 2, "half the price")
    again = activate(db, ADMIN.at(NOW + MINUTE), "ours", 2, "pressed twice")
    assert again.reason == "half the price" and active_version(db) == get_version(db, "ours", 2)
    activate(db, ADMIN.at(NOW + MINUTE), "ours", 1, "", {"escalation": 0.1})  # an old one is taken up again
    assert [(one.number, one.comparison) for one in list_activations(db, ANN)] == [(1, {"escalation": 0.1}), (2, None)]
    assert active_version(db) == get_version(db, "ours", 1)


def test_who_may_draft_and_who_may_put_in_force(db: Database) -> None:
    with pytest.raises(Forbidden):
        keep_version(db, ANN.at(NOW), _named(), "", 0)
    keep_version(db, RESEARCHER.at(NOW), _named(), "", 0)
    with pytest.raises(Forbidden):
        activate(db, RESEARCHER.at(NOW), "ours", 1, "mine")
    activate(db, ADMIN.at(NOW), "ours", 1, "tried")
    assert [event.action for event in events(db, ADMIN, limit=2)] == ["pipeline_activated", "pipeline_saved"]


def test_versions_and_what_is_in_force_belong_to_a_name(db: Database) -> None:
    ours = keep_version(db, RESEARCHER.at(NOW), _named(), "", 0)
    theirs = keep_version(db, RESEARCHER.at(NOW), _named("theirs", budget=60), "", 0)
    keep_version(db, RESEARCHER.at(NOW), _named(budget=50), "", 1)
    assert (ours.number, theirs.number) == (1, 1)
    assert get_version(db, "theirs") == theirs and get_version(db, "ours").number == 2
    assert [one.title for one in list_versions(db, ANN)] == ["ours v2", "ours v1", "theirs v1"]
    for name, known in (("theirs", 2), ("nobodys", 1)):
        with pytest.raises(UnknownPipeline):
            get_version(db, name, known)
        with pytest.raises(UnknownPipeline):
            activate(db, ADMIN.at(NOW), name, known, "why")
    with pytest.raises(UnknownPipeline):
        get_version(db, "nobodys")
    for name in ("ours", "theirs"):
        made = activate(db, ADMIN.at(NOW), name, 1, " cheaper ")
        assert (made.name, made.number, made.reason, made.comparison, made.by, made.at) == (
            name, 1, "cheaper", None, "ada", NOW,
        )  # fmt: skip
        found = active_version(db)
        assert found is not None and found.title == f"{name} v1", "the first of one is not the first of the other"
    assert list_activations(db, ANN)[0] == made


@pytest.mark.parametrize("based_on", [0, 2])
def test_a_version_that_rests_on_another_than_the_newest_is_refused(db: Database, based_on: int) -> None:
    keep_version(db, RESEARCHER.at(NOW), _named(), "", 0)
    with pytest.raises(StalePipeline):
        keep_version(db, RESEARCHER.at(NOW), _named(budget=50), "", based_on)
    with pytest.raises(StalePipeline):
        keep_version(db, RESEARCHER.at(NOW), _named("new"), "", 1)


def test_what_could_never_decide_is_no_version(db: Database) -> None:
    with pytest.raises(UndecidableError):
        keep_version(db, RESEARCHER.at(NOW), chain("ours", PairwiseMixture(budget=2), "next"), "", 0)
    assert list_versions(db, ANN) == ()
