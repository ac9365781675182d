"""What is read of a batch: progress, one result a row in small pages, its ways, and files that leave with a line in the
audit log.
"""

import tracemalloc
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from screening.datasets.rows import RejectedRow
from screening.labels import Label, Outcome
from screening.pipeline.config import chain_bound, promises
from screening.pipeline.draws import LabelDistribution
from screening.pipeline.engine import Reason
from screening.review.actors import LOCAL_USER, SYSTEM, Actor, Role
from screening.review.policy import Forbidden
from storage.audit_log import events
from storage.batches import results as results_module
from storage.batches.batch_state import BatchState
from storage.batches.batches import find_batch, list_batches, progress
from storage.batches.configurations import load_configuration, save_configuration
from storage.batches.intake import add_rows, read_rejected
from storage.batches.pending import record_error
from storage.batches.results import Ways, count_ways, export_rejected, export_results, results
from storage.database import Database
from storage.research.cells import add_remark, add_tag
from storage.research.corrected_labels import export_corrected_labels
from storage.review.worklist import request_second_looks
from storage.schema import batches, screenings
from tests.databases import write
from tests.jobs.running import screened
from tests.storage.batch_of import CONFIGURATION, LATER, NOW, batch, commit_run, decide, run, waiting
from tests.storage.inbox_cases import ADMIN, ANN, RESEARCHER, SENIOR

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


def test_batches_are_listed_newest_first_without_single_texts(db: Database) -> None:
    made = {batch(db, TEXTS), batch(db, TEXTS[:2])}
    batch(db, TEXTS[:1], kind="interactive")
    listed = list_batches(db, REVIEWER)
    assert {one.id for one in listed} == made
    assert sorted((one.id for one in listed), reverse=True) == [one.id for one in listed]
    assert len(list_batches(db, REVIEWER, kind=None)) == 3
    assert len(list_batches(db, REVIEWER, limit=1, offset=1)) == 1


def _exports(db: Database) -> list[tuple[str, str | None, object]]:
    return [(one.actor, one.subject, one.details["kind"]) for one in events(db, LOCAL_USER) if one.action == "exported"]


def _batch(db: Database) -> str:
    batch_id = batch(db, ["one", "two"], closed=False)
    add_rows(db, batch_id, [RejectedRow(row=3, reason="empty")], NOW)
    return batch_id


@pytest.mark.parametrize("who", [SENIOR, RESEARCHER])
def test_they_are_logged_before_the_first_row(db: Database, who: Actor) -> None:
    batch_id = _batch(db)
    rows = export_results(db, who.at(LATER), batch_id)
    assert _exports(db) == [(who.id, batch_id, "results")]
    others = export_rejected(db, who.at(LATER), batch_id)
    assert _exports(db) == [(who.id, batch_id, "rejected"), (who.id, batch_id, "results")]
    assert list(rows) == list(results(db, who.at(NOW), batch_id))
    assert list(others) == list(read_rejected(db, who, batch_id))
    assert len(list(export_results(db, SYSTEM.at(LATER), batch_id))) == 2
    assert _exports(db)[0] == ("system", batch_id, "results"), "what the program writes is the program's"


def test_whoever_may_not_have_them_is_refused_at_once_and_nothing_has_left(db: Database) -> None:
    batch_id = _batch(db)
    for who in (ANN, ADMIN):
        for export in (export_results, export_rejected):
            with pytest.raises(Forbidden):
                export(db, who.at(LATER), batch_id)
    assert not _exports(db)


def test_tags_and_remarks_leave_with_the_rows_and_not_with_those_that_wait(db: Database) -> None:
    batch_id = batch(db, ["one", "two"])
    first, second = waiting(db)
    decide(db, first)
    add_tag(db, RESEARCHER.at(NOW), first, "lyrics")
    add_tag(db, RESEARCHER.at(NOW), first, "a, b")
    add_remark(db, RESEARCHER.at(NOW), first, "from a song")
    add_tag(db, RESEARCHER.at(NOW), second, "sarcasm")
    decide(db, second, Outcome.HUMAN_REVIEW)  # and now it waits for a review
    noted = [(row.tags, row.remarks) for row in export_results(db, RESEARCHER.at(NOW), batch_id, hide=True)]
    assert noted == [(("a, b", "lyrics"), ("from a song",)), ((), ())]


def _ways(db: Database, batch_id: str) -> Ways:
    one = find_batch(db, LOCAL_USER, batch_id, now=NOW)
    return count_ways(db, LOCAL_USER, batch_id, load_configuration(db, one.configuration_version).pipeline)


async def test_each_settled_case_ends_on_one_way_in_review_or_not(db: Database) -> None:
    batch_id = await screened(db, 24)
    found = _ways(db, batch_id)
    rows = db.rows(select(screenings))
    safe = [row.case_id for row in rows if row.outcome == Outcome.SAFE]
    assert sum(count for (_, label), count in found.taken.items() if label is Label.SAFE) == len(safe) > 0
    assert found.asked["worker"] == len(rows)
    assert found.kept_back == sum(row.reason not in {*map(str, Reason)} & {
        "identified", "escalated", "exhausted", "futility"} for row in rows)  # fmt: skip
    request_second_looks(db, LOCAL_USER.at(NOW), safe[:1])
    assert _ways(db, batch_id) == found


WORDS = [f"{number:05} " * 20 for number in range(12)]  # 120 characters each


def test_pages_join_without_loss(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.batches.intake.CHARACTERS", 300)
    batch_id = batch(db, WORDS, closed=False)
    add_rows(db, batch_id, [RejectedRow(row=row, reason="empty", detail="x" * 200) for row in range(13, 20)], NOW)
    assert [row.text for row in export_corrected_labels(db, LOCAL_USER.at(NOW), batch_id, "key")] == WORDS
    assert [row.row for row in read_rejected(db, LOCAL_USER, batch_id)] == list(range(13, 20))


def test_long_texts_are_not_in_memory_all_at_once(db: Database) -> None:
    batch_id, mega = batch(db, closed=False), 1_000_000
    for first in range(1, 61, 10):
        long = [RejectedRow(row=row, reason="empty", original_json="x" * mega) for row in range(first, first + 10)]
        add_rows(db, batch_id, long, NOW)
        del long
    tracemalloc.start()
    try:
        read = sum(len(row.original_json or "") for row in read_rejected(db, LOCAL_USER, batch_id))
        assert read == 60 * mega and tracemalloc.get_traced_memory()[1] < 40 * mega
    finally:
        tracemalloc.stop()
