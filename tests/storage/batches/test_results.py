"""What is read of a batch: progress, one result a row, the confusion matrix and its cases."""

from dataclasses import replace

import pytest
from sqlalchemy import update

from screening.labels import Label, Outcome
from screening.pipeline.config import chain_bound, promises
from screening.pipeline.draws import LabelDistribution
from screening.review.actors import LOCAL_USER, SYSTEM, Actor, Role
from storage.batches import results as results_module
from storage.batches.batch_state import BatchState
from storage.batches.batches import list_batches, progress
from storage.batches.configurations import save_configuration
from storage.batches.counts import IN_REVIEW
from storage.batches.pending import record_error
from storage.batches.results import Result, results
from storage.database import Database
from storage.schema import batches
from tests.databases import write
from tests.storage.batch_of import CONFIGURATION, LATER, NOW, batch, commit_run, decide, run, waiting
from tests.storage.inbox_cases import ANN, BO, RESEARCHER, SENIOR, form, person, read, register

TEXTS = [f"text number {number}" for number in range(5)]
REVIEWER = Actor(id="rev", name="Rev", roles=frozenset({Role.REVIEWER}))


def test_each_row_has_one_result_in_the_files_order(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_module, "PAGE", 2)
    batch_id = batch(db, TEXTS, references="SU-SU")
    first, second, third, fourth, _fifth = waiting(db)
    decide(db, second, Outcome.UNSAFE)
    decide(db, third, Outcome.HUMAN_REVIEW)
    commit_run(db, fourth, 0, run("EEEEEE", Label.ESCALATE))
    record_error(db, fourth, "rate_limited", "too many requests", NOW)
    record_error(db, first, "timeout", "slow", NOW)
    record_error(db, first, "refused", "no", NOW)
    found = list(results(db, SYSTEM.at(NOW), batch_id))
    assert [(one.row, one.external_id) for one in found] == [(row, f"p{row}") for row in range(1, 6)]
    assert [one.outcome for one in found] == ["pending", "unsafe", "human_review", "pending", "pending"]
    assert [one.calls for one in found] == [0, 6, 6, 6, 0]
    assert [one.error for one in found] == ["refused", None, None, "rate_limited", None]
    assert [one.reason for one in found] == [None, "identified", "exhausted", None, None]
    assert [one.reference for one in found] == ["safe", "unsafe", None, "safe", "unsafe"]


def test_no_bound_is_given_where_the_server_of_an_agent_has_read_off_a_text(db: Database) -> None:
    worker, *others = CONFIGURATION.pipeline.nodes
    elsewhere = (worker.model_copy(update={"server": "ward"}), *others)
    pipeline = CONFIGURATION.pipeline.model_copy(update={"nodes": elsewhere})
    version = save_configuration(db, replace(CONFIGURATION, pipeline=pipeline), NOW)
    batch_id = batch(db, TEXTS[:2])
    write(db, update(batches).values(configuration=version))
    drawn, read_off = waiting(db)
    commit_run(db, drawn, 0, run("SSSSSS"))
    assert {(one.pipeline_delta, one.contract) for one in results(db, SYSTEM.at(NOW), batch_id)} == {
        (chain_bound(pipeline), promises(pipeline))
    }
    distribution = LabelDistribution(labels={Label.SAFE: 0.8, Label.UNSAFE: 0.1, Label.ESCALATE: 0.1}, unknown=0.0)
    commit_run(db, read_off, 0, replace(run(""), distribution=distribution))
    assert {(one.pipeline_delta, one.contract) for one in results(db, SYSTEM.at(NOW), batch_id)} == {(None, None)}


def _said(found: Result) -> tuple[object, ...]:
    return found.outcome, found.node, found.reason, found.calls, found.cost_usd, found.delta, found.error


def test_what_is_in_review_is_hidden_from_who_asks_for_it(db: Database) -> None:
    batch_id = batch(db, TEXTS[:3], audit_rate=1.0, references="SUS")
    for case_id, outcome in zip(waiting(db), Outcome, strict=True):
        decide(db, case_id, outcome)
    nothing = (IN_REVIEW, None, None, None, None, None, None)
    asked = ((LOCAL_USER, None), (RESEARCHER, None), (SENIOR, None), (SENIOR, False), (RESEARCHER, True))
    for (who, hide), hidden in zip(asked, (False, False, True, False, True), strict=True):
        found = list(results(db, who.at(NOW), batch_id, hide=hide))
        assert all(one.in_review for one in found) and {one.hidden for one in found} == {hidden}
        assert {_said(one) for one in found} == {nothing} if hidden else [one.outcome for one in found] == [*Outcome]
        assert [(one.row, one.external_id, one.reference) for one in found] == [
            (1, "p1", "safe"), (2, "p2", "unsafe"), (3, "p3", "safe"),
        ]  # fmt: skip


def test_a_case_is_shown_to_its_reader_and_to_all_once_it_is_closed(db: Database) -> None:
    """Read once and sent to a second reader: only the first reader sees the engine's view; closed, everybody does."""
    first_reader = person("ann", Role.REVIEWER, Role.SENIOR)
    register(db, ANN, BO)
    batch_id = batch(db, TEXTS[:1])
    decide(db, waiting(db)[0], Outcome.HUMAN_REVIEW)
    read(db, first_reader, form("unsafe", 4), "a", LATER, ask=True)
    seen = {
        who.id: [one.outcome for one in results(db, who.at(NOW), batch_id)]
        for who in (first_reader, SENIOR, RESEARCHER)
    }
    assert seen == {"ann": ["human_review"], "sue": [IN_REVIEW], "rae": ["human_review"]}
    read(db, BO, form("unsafe", 4), "b", LATER)
    assert [(one.outcome, one.calls, one.hidden) for one in results(db, SENIOR.at(NOW), batch_id)] == [
        ("human_review", 6, False)
    ]


def test_progress_accounts_for_every_row(db: Database) -> None:
    batch_id = batch(db, TEXTS)
    for case_id, outcome in zip(waiting(db), [*Outcome, Outcome.SAFE], strict=False):
        decide(db, case_id, outcome)
    found = progress(db, batch_id)
    assert (found.rows_in, found.accepted, found.rejected) == (5, 5, 0)
    assert (found.safe, found.unsafe, found.human_review, found.pending, found.failed) == (2, 1, 1, 1, 0)
    assert (found.calls, found.cost_usd, found.state) == (24, pytest.approx(0.04), BatchState.RUNNING)
    assert found.rate == pytest.approx(4 / 30), "four outcomes in the 30 seconds since the batch began"
    assert found.seconds_left == pytest.approx(7.5)
    assert found.finished_at is None
    decide(db, waiting(db)[0])
    done = progress(db, batch_id)
    assert (done.state, done.finished_at, done.seconds_left) == (BatchState.FINISHED, LATER, None)


def test_an_empty_batch_is_finished_once_its_intake_is_closed(db: Database) -> None:
    found = progress(db, batch(db))
    assert (found.state, found.rows_in, found.rate, found.cost_usd) == (BatchState.FINISHED, 0, None, 0.0)
    assert progress(db, batch(db, closed=False)).state is BatchState.TAKING_IN


def test_batches_are_listed_newest_first_without_single_texts(db: Database) -> None:
    made = {batch(db, TEXTS), batch(db, TEXTS[:2])}
    batch(db, TEXTS[:1], kind="interactive")
    listed = list_batches(db, REVIEWER)
    assert {one.id for one in listed} == made
    assert sorted((one.id for one in listed), reverse=True) == [one.id for one in listed]
    assert len(list_batches(db, REVIEWER, kind=None)) == 3
    assert len(list_batches(db, REVIEWER, limit=1, offset=1)) == 1
