"""What is read of a batch: progress, one result a row in small pages, its ways, what it cost, and files that leave with
a line in the audit log.
"""

from dataclasses import replace
from datetime import timedelta, timezone
from statistics import fmean, stdev

import pytest
from sqlalchemy import update

from screening.datasets.rows import RejectedRow
from screening.labels import Label, Outcome
from screening.pipeline.config import chain_bound, preset, promises
from screening.pipeline.draws import LabelDistribution
from screening.pipeline.engine import Reason
from screening.review.actors import LOCAL_USER, SYSTEM, Actor
from screening.review.policy import Forbidden
from storage.audit_log import events
from storage.batches import results as results_module
from storage.batches.batch_state import BatchState
from storage.batches.batches import list_batches, progress
from storage.batches.configurations import save_configuration
from storage.batches.costs import cost_by_node, daily_costs, recent_spending
from storage.batches.intake import add_rows, read_rejected
from storage.batches.pending import record_error
from storage.batches.results import Ways, count_ways, export_rejected, export_results, results
from storage.database import Database
from storage.research.cells import add_remark, add_tag
from storage.research.corrected_labels import export_corrected_labels
from storage.review.worklist import request_second_looks
from storage.schema import batches, screenings
from tests.databases import write
from tests.storage.batch_of import CONFIGURATION, LATER, NOW, batch, commit, commit_run, decide, run, screening, waiting
from tests.storage.inbox_cases import ADMIN, ANN, RESEARCHER, SENIOR
from tests.storage.statements import statements

TEXTS = [f"text number {number}" for number in range(5)]


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
    decide(db, waiting(db)[0])
    done = progress(db, batch_id)
    assert (done.state, done.finished_at, done.seconds_left) == (BatchState.FINISHED, LATER, None)


def test_batches_are_listed_newest_first_without_single_texts(db: Database) -> None:
    made = {batch(db, TEXTS), batch(db, TEXTS[:2])}
    batch(db, TEXTS[:1], kind="interactive")
    listed = [one.id for one in list_batches(db, ANN)]
    assert listed == sorted(made, reverse=True)
    assert len(list_batches(db, ANN, kind=None)) == 3
    assert len(list_batches(db, ANN, limit=1, offset=1)) == 1


@pytest.mark.parametrize("who", [SENIOR, RESEARCHER])
def test_files_are_logged_before_the_first_row_and_refused_at_once_to_others(db: Database, who: Actor) -> None:
    def logged() -> list[tuple[str, str | None, object]]:
        found = [one for one in events(db, LOCAL_USER) if one.action == "exported"]
        return [(one.actor, one.subject, one.details["kind"]) for one in found]

    batch_id = batch(db, ["one", "two"], closed=False)
    add_rows(db, batch_id, [RejectedRow(row=3, reason="empty")], NOW)
    for other in (ANN, ADMIN):
        for export in (export_results, export_rejected):
            with pytest.raises(Forbidden):
                export(db, other.at(LATER), batch_id)
    assert logged() == []
    rows = export_results(db, who.at(LATER), batch_id)
    assert logged() == [(who.id, batch_id, "results")]
    others = export_rejected(db, who.at(LATER), batch_id)
    assert logged() == [(who.id, batch_id, "rejected"), (who.id, batch_id, "results")]
    assert list(rows) == list(results(db, who.at(NOW), batch_id))
    assert list(others) == list(read_rejected(db, who, batch_id))
    assert len(list(export_results(db, SYSTEM.at(LATER), batch_id))) == 2
    assert logged()[0] == ("system", batch_id, "results"), "what the program writes is the program's"


def test_tags_and_remarks_leave_with_the_rows_and_not_with_those_that_wait(db: Database) -> None:
    batch_id = batch(db, ["one", "two"])
    first, second = waiting(db)
    decide(db, first)
    for case_id, tag in ((first, "lyrics"), (first, "a, b"), (second, "sarcasm")):
        add_tag(db, RESEARCHER.at(NOW), case_id, tag)
    add_remark(db, RESEARCHER.at(NOW), first, "from a song")
    decide(db, second, Outcome.HUMAN_REVIEW)  # and now it waits for a review
    noted = [(row.tags, row.remarks) for row in export_results(db, RESEARCHER.at(NOW), batch_id, hide=True)]
    assert noted == [(("a, b", "lyrics"), ("from a song",)), ((), ())]


def test_each_settled_case_ends_on_one_way_in_review_or_not(db: Database) -> None:
    batch_id = batch(db, TEXTS)
    safe, passed_on, given_up, refused, failed = waiting(db)
    decide(db, safe)
    worker, risk = run("EEEEEE", Label.ESCALATE), run("UUUUUU", Label.UNSAFE, "risk")
    for position, made in enumerate((worker, risk)):
        commit_run(db, passed_on, position, made)
    commit(db, passed_on, screening(Outcome.UNSAFE, worker, risk, node="risk"))
    decide(db, given_up, Outcome.HUMAN_REVIEW)
    commit(db, refused, screening(Outcome.HUMAN_REVIEW, reason=Reason.UNREADABLE, node=None))
    commit_run(db, failed, 0, worker)
    record_error(db, failed, "server_error", "no answer", NOW)
    ways = Ways(
        asked={"worker": 4, "risk": 1},
        taken={
            ("worker", Label.SAFE): 1,
            ("worker", Label.ESCALATE): 2,
            ("worker", None): 1,
            ("risk", Label.UNSAFE): 1,
        },
        kept_back=1,
    )
    assert count_ways(db, LOCAL_USER, batch_id, CONFIGURATION.pipeline) == ways
    request_second_looks(db, LOCAL_USER.at(NOW), [safe])
    assert count_ways(db, LOCAL_USER, batch_id, CONFIGURATION.pipeline) == ways


def test_pages_of_long_texts_join_without_loss(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"{number:05} " * 20 for number in range(12)]  # 120 characters each
    monkeypatch.setattr("storage.batches.intake.CHARACTERS", 300)
    batch_id = batch(db, words, closed=False)
    add_rows(db, batch_id, [RejectedRow(row=row, reason="empty", detail="x" * 200) for row in range(13, 20)], NOW)
    assert [row.text for row in export_corrected_labels(db, LOCAL_USER.at(NOW), batch_id, "key")] == words
    with statements() as sent:
        assert [row.row for row in read_rejected(db, LOCAL_USER, batch_id)] == list(range(13, 20))
    assert sum("rejected_rows" in statement for statement, _ in sent) == 5, "two at a time are in memory"


def test_each_day_has_its_calls_and_what_is_known_of_their_cost(db: Database) -> None:
    batch_id = batch(db, TEXTS[:4])
    first, *more = waiting(db)
    assert commit_run(db, first, 0, run("S" * 11), 0.25)
    (worker,) = cost_by_node(db, LOCAL_USER, batch_id)
    assert (worker.node, worker.texts, worker.calls, worker.cost_usd) == ("worker", 1, 11, 0.25)
    for case_id, cost, days_ago in zip(more, (None, 0.5, 9.0), (0, 2, 40), strict=True):
        assert commit_run(db, case_id, 0, run("S" * 11), cost, NOW - timedelta(days=days_ago))
    found = daily_costs(db, LOCAL_USER.at(NOW))
    assert [(day, one.calls, one.cost_usd, one.unpriced_calls) for day, one in found.items()] == [
        (NOW.date(), 22, 0.25, 11),
        ((NOW - timedelta(days=2)).date(), 11, 0.5, 0),
    ]
    (worker,) = cost_by_node(db, LOCAL_USER, batch_id)
    assert (worker.texts, worker.calls, worker.cost_usd) == (4, 44, None), "part of it is not known"


def test_a_day_is_one_of_the_viewer(db: Database) -> None:
    batch(db, ["a plain text of words"])
    late = NOW.replace(hour=23, minute=30)
    assert commit_run(db, waiting(db)[0], 0, run("S" * 11), 0.25, late)
    for hours, day in ((0, late), (1, late + timedelta(days=1)), (-5, late)):
        found = daily_costs(db, LOCAL_USER.at(late + timedelta(hours=1)), zone=timezone(timedelta(hours=hours)))
        assert list(found) == [day.date()]


def test_the_mean_and_the_spread_are_those_of_the_settled_texts_that_agents_were_asked_about(db: Database) -> None:
    """What is expected of the next file is reckoned for the texts of it that are asked about."""
    ours = preset("recommended").version
    assert recent_spending(db, LOCAL_USER, ours) is None
    batch(db, TEXTS)
    *drawn, refused = waiting(db)
    for case_id, calls in zip(drawn, (6, 6, 11, 40), strict=True):
        made = run("S" * calls)
        commit_run(db, case_id, 0, made, 0.5)
        commit(db, case_id, screening(Outcome.SAFE, made))
    commit(db, refused, screening(Outcome.HUMAN_REVIEW, reason=Reason.UNREADABLE, node=None))
    found = recent_spending(db, LOCAL_USER, ours)
    assert found is not None and (found.batches, found.texts, found.usd_a_call) == (1, 4, pytest.approx(2 / 63))
    assert found.calls == fmean((6, 6, 11, 40)) and found.spread == pytest.approx(stdev((6, 6, 11, 40)))
    assert recent_spending(db, LOCAL_USER, preset("paper").version) is None
    write(db, update(screenings).values(calls=0))
    assert recent_spending(db, LOCAL_USER, ours) is None
