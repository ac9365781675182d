"""What comes in: rows in = accepted + rejected, whatever happens on the way, and every text comes back exactly; a text
that somebody waits for, watched by one clock for all machines. Runs and outcomes: kept once, never a `safe` without its
grounds; and what is read of a batch: progress, one result a row in small pages, its ways, what it cost, and files that
leave with a line in the audit log.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, replace
from datetime import UTC, datetime, timedelta, timezone
from statistics import fmean, stdev
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import func, select, update

from screening.datasets.rows import NewCase, RejectedRow
from screening.labels import Label, Outcome
from screening.pipeline.config import chain_bound, preset, promises
from screening.pipeline.draws import LabelDistribution
from screening.pipeline.engine import Reason
from screening.review.policy import LOCAL_USER, SYSTEM, Forbidden
from screening.review.triage import Priority, Why, audit_placement
from screening.text.received import receive
from storage.audit_log import events
from storage.batches import counts, single_texts
from storage.batches.batch_state import BatchState, UnknownBatch
from storage.batches.batches import progress
from storage.batches.configurations import save_configuration
from storage.batches.counts import PENDING, Kind, Totals
from storage.batches.intake import add_rows, close_intake, last_row, read_rejected, takes_rows
from storage.batches.pending import pending_cases as take
from storage.batches.pending import record_error
from storage.batches.results import (
    Ways,
    cost_by_node,
    count_ways,
    daily_costs,
    export_rejected,
    export_results,
    recent_spending,
)
from storage.batches.screenings import UnsafeCommit, committed_runs, give_back, start_case
from storage.database import Database
from storage.research.corrected_labels import export_corrected_labels
from storage.review.follow_ups import request_second_looks
from storage.schema.engine import case_errors, live_runs, node_runs, screenings
from storage.schema.intake import batches, cases, pending_cases
from storage.schema.review import inbox_entries
from storage.settings_store import SiteSettings, change
from tests.databases import statements, write
from tests.storage import batch_of
from tests.storage.batch_of import (
    CONFIGURATION,
    LATER,
    NOW,
    batch,
    commit,
    commit_run,
    decide,
    hand_in,
    results,
    run,
    screening,
    waiting,
)
from tests.storage.people import RESEARCHER, SENIOR

PLAIN, HIDDEN = "a plain text of some words", "I am ti\u200bred of it all"
IMMINENT = "I will kill myself tonight, the pills are ready"
TO_A_HUMAN = screening(Outcome.HUMAN_REVIEW, reason=Reason.REPEATED_FAILURE, node=None)


def _only(db: Database, text: str = PLAIN, reply: str | None = None, **options: Any) -> str:
    """A batch of this one text, with a reply or not."""
    row = NewCase(row=1, external_id="a", text=receive(text), reply=receive(reply) if reply else None)
    add_rows(db, batch(db, closed=False, **options), [row], NOW)
    return waiting(db)[0]


def test_of_many_commits_at_once_exactly_one_wins(db: Database) -> None:
    case_id, workers = _only(db, audit_rate=1.0), 6
    together = Barrier(workers)

    def work(_: int) -> tuple[bool, bool]:
        made = run("SSSSSS")
        together.wait()
        return commit_run(db, case_id, 0, made), commit(db, case_id, screening(Outcome.SAFE, made))

    with ThreadPoolExecutor(workers) as pool:
        ended = list(pool.map(work, range(workers)))
    assert sorted(ended) == [(True, False)] * (workers - 1) + [(True, True)]
    assert not commit(db, case_id, TO_A_HUMAN)
    for table in (node_runs, screenings, inbox_entries):
        assert db.value(select(func.count()).select_from(table)) == 1
    assert db.values(select(screenings.c.outcome)) == ["safe"]


def test_safe_needs_a_last_node_that_identified_safe(db: Database) -> None:
    """A node before it may have passed the text on; one after it would have to say safe itself."""
    case_id = _only(db)
    abstained, unsafe = run("SSSSSS", None), run("SSSSSS", Label.UNSAFE)
    passed_on, safe = run("EEEEEE", Label.ESCALATE), run("SSSSSS", node="risk")
    for position, made in enumerate((passed_on, safe)):
        commit_run(db, case_id, position, made)
    for runs in ((), (abstained,), (unsafe,), (safe, passed_on)):
        with pytest.raises(UnsafeCommit):
            commit(db, case_id, screening(Outcome.SAFE, *runs))
    assert waiting(db) == [case_id]
    assert commit(db, case_id, screening(Outcome.SAFE, passed_on, safe, node="risk"))


@pytest.mark.parametrize("part", ["text", "reply"])
@pytest.mark.parametrize("hostile", ["x" * 100_001, "die\u200bd \u202e here", "\ufffd lost", "1234", IMMINENT])
def test_safe_is_refused_where_text_or_reply_forbids_it(db: Database, hostile: str, part: str) -> None:
    case_id = _only(db, **{"text": PLAIN, "reply": PLAIN} | {part: hostile})
    made = run("SSSSSS")
    commit_run(db, case_id, 0, made)
    with pytest.raises(UnsafeCommit):
        commit(db, case_id, screening(Outcome.SAFE, made))
    assert commit(db, case_id, screening(Outcome.HUMAN_REVIEW, made, reason=Reason.UNREADABLE))
    entry = db.row(select(inbox_entries))
    assert ((entry.priority, entry.why) == (Priority.P0, Why.LIKELY_URGENT)) is (hostile == IMMINENT)


def test_the_inbox_keeps_the_times_that_the_site_has_set(db: Database) -> None:
    settings = SiteSettings(target_minutes=(1, 2, 3, 4))
    change(db, LOCAL_USER.at(NOW), settings, based_on=0)
    decide(db, _only(db), Outcome.HUMAN_REVIEW)
    entry = db.row(select(inbox_entries))
    assert (entry.due_at - entry.entered_at).total_seconds() == 60 * settings.target_minutes[entry.priority]


@pytest.mark.parametrize("outcome", [Outcome.SAFE, Outcome.UNSAFE])
def test_audited_decisions_are_in_the_inbox_and_unaudited_ones_are_not(db: Database, outcome: Outcome) -> None:
    for rate in (0.0, 1.0):
        audited = _only(db, audit_rate=rate)
        decide(db, audited, outcome)
    entry = db.row(select(inbox_entries))
    assert entry.case_id == audited
    assert (Priority(entry.priority), Why(entry.why)) == astuple(audit_placement(audited, 0.1, []))


def test_a_case_whose_outcome_never_fits_its_runs_is_not_tried_for_ever(db: Database) -> None:
    case_id, made = _only(db), run("SU?E!S", None)
    commit_run(db, case_id, 0, made)
    (kept,) = committed_runs(db, case_id)
    assert (kept.codes, kept.verdict, kept.usage) == (made.codes, made.verdict, made.usage)
    assert [draw.raw for draw in kept.draws] == [draw.raw for draw in made.draws]
    for start in (1, 2, 3):
        assert batch_of.record_start(db, case_id) == start
        assert not commit(db, case_id, screening(Outcome.SAFE, run("SSSSSS")))
    assert commit(db, case_id, TO_A_HUMAN)


def test_what_a_case_that_is_given_back_waits_for_a_retry_with_stays_its_last_error(db: Database) -> None:
    batch(db, [PLAIN], kind="interactive")
    case_id = waiting(db)[0]
    case = start_case(db, case_id, "worker")
    assert case is not None
    single_texts.withdraw(db, case_id, LATER)
    give_back(db, case, LATER, calls=3)
    kept = db.rows(select(case_errors.c.kind, case_errors.c.calls).order_by(case_errors.c.id))
    assert kept == [("unwatched", 0), ("unwatched", 3)] and waiting(db) == []


TEXTS = [f"text number {number}" for number in range(5)]


def test_each_row_has_one_result_in_the_files_order(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.batches.results.PAGE", 2)
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
    with db.write() as conn:
        for row in range(1, 6):
            for more in (Totals(last_completed_at=NOW), Totals(calls=1)):
                counts.add(conn, batch_id, row, {Kind(outcome=PENDING, reference=None): 0}, more)
    assert progress(db, batch_id).finished_at == LATER, "committed later, completed before, or no outcome"


def test_files_are_logged_before_the_first_row(db: Database) -> None:
    """What the program writes is the program's."""
    batch_id = batch(db, ["one", "two"], closed=False)
    add_rows(db, batch_id, [RejectedRow(row=3, reason="empty")], NOW)
    rows, others = export_results(db, SENIOR.at(LATER), batch_id), export_rejected(db, RESEARCHER.at(LATER), batch_id)
    export_results(db, SYSTEM.at(LATER), batch_id)
    logged = [(one.actor, one.subject, one.details["kind"]) for one in events(db, LOCAL_USER, action="exported")]
    assert logged == [
        (who, batch_id, kind) for who, kind in (("system", "results"), ("rae", "rejected"), ("sue", "results"))
    ]
    assert list(rows) == list(results(db, SENIOR.at(NOW), batch_id))
    assert list(others) == list(read_rejected(db, RESEARCHER, batch_id))


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
    taken = {("worker", Label.SAFE): 1, ("worker", Label.ESCALATE): 2, ("worker", None): 1, ("risk", Label.UNSAFE): 1}
    ways = Ways(asked={"worker": 4, "risk": 1}, taken=taken, kept_back={Reason.UNREADABLE: 1})
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
    days = [(day, one.calls, one.cost_usd, one.unpriced_calls) for day, one in found.items()]
    assert days == [(NOW.date(), 22, 0.25, 11), ((NOW - timedelta(days=2)).date(), 11, 0.5, 0)]
    (worker,) = cost_by_node(db, LOCAL_USER, batch_id)
    assert (worker.texts, worker.calls, worker.cost_usd) == (4, 44, None), "part of it is not known"
    late = NOW.replace(hour=23, minute=30)  # a day is one of the viewer
    assert commit_run(db, waiting(db)[0], 1, run("S" * 11), 0.25, late)
    for hours, day in ((0, late), (1, late + timedelta(days=1)), (-5, late)):
        found = daily_costs(db, LOCAL_USER.at(late + timedelta(hours=1)), zone=timezone(timedelta(hours=hours)))
        assert max(found) == day.date()


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


HOSTILE = [
    "nul \x00 inside",
    "half a pair \ud83d",
    "two halves in the wrong order \udc00\ud800",
    "a real pair as two \ud83d\ude00 code points",
    "\u202eoverride and zero\u200bwidth",
    "emoji 👩‍👩‍👧 and ﷽",
    "NA",
    "'; DROP TABLE cases; --",
    "x" * 120_000,
    "",
]


def test_every_text_comes_back_exactly_and_names_from_outside_cannot_break_the_driver(db: Database) -> None:
    rows = [
        NewCase(row=row, external_id=text[:20], text=receive(text), reply=receive(text[::-1]), group=text[:9])
        for row, text in enumerate(HOSTILE, start=1)
    ]
    refused = RejectedRow(
        row=len(rows) + 1, reason="columns", detail="cell \x00 \ud800", external_id="\udfff", original_json="[]"
    )
    batch_id = batch(db, closed=False)
    add_rows(db, batch_id, [*rows, refused], NOW)
    for text, row in zip(HOSTILE, db.rows(select(cases).order_by(cases.c.row)), strict=True):
        kept = [(row.text, row.text_original_json), (row.reply, row.reply_original_json)]
        found = ["".join(json.loads(original)) if original else stored for stored, original in kept]
        assert found == [text, text[::-1]]
        assert "\x00" not in row.external_id
        row.external_id.encode()  # raises for a surrogate
    assert next(read_rejected(db, LOCAL_USER, batch_id)).detail == "cell \ufffd \ufffd"


def test_rows_out_of_order_are_refused_and_nobody_fills_or_closes_what_is_not_theirs(db: Database) -> None:
    batch_id, second = batch(db, closed=False), NewCase(row=2, external_id="b", text=receive(PLAIN))
    with pytest.raises(ValueError, match="row 2 comes after row 2"):
        add_rows(db, batch_id, [second, second], NOW)
    assert progress(db, batch_id).rows_in == 0
    with pytest.raises(Forbidden):
        close_intake(db, SENIOR.at(NOW), batch_id)
    with pytest.raises(UnknownBatch):
        add_rows(db, "0" * 32, [second], NOW)
    assert not takes_rows(db, "0" * 32) and last_row(db, "0" * 32) == 0


AFTER = timedelta(seconds=10)


def _single(db: Database) -> str:
    """A single text, alone in the database."""
    batch(db, ["a text"], kind="interactive")
    (case_id,) = waiting(db)
    return case_id


def _age(db: Database, case_id: str, by: timedelta = AFTER * 2) -> None:
    """As if it had last been watched so much earlier."""
    with db.write() as conn:
        seen = conn.execute(select(live_runs.c.viewer_seen_at).where(live_runs.c.case_id == case_id)).scalar_one()
        conn.execute(update(live_runs).where(live_runs.c.case_id == case_id).values(viewer_seen_at=seen - by))


def test_nothing_is_watched_for_ever(db: Database) -> None:
    batch(db, ["in a file"])
    batch(db, ["a", "b"], kind="interactive")
    gone, watched = take(db, 2, interactive=True)
    for case_id in (gone, watched):
        _age(db, case_id)
    single_texts.watch(db, LOCAL_USER.at(NOW), watched)
    assert single_texts.find_unwatched(db, NOW, AFTER) == [gone]
    single_texts.withdraw(db, gone, NOW)
    assert single_texts.find_unwatched(db, NOW, AFTER) == []
    assert take(db, 10, interactive=True) == [watched]
    assert gone in db.values(select(pending_cases.c.case_id))
    single_texts.stop(db, LOCAL_USER.at(NOW), watched)
    assert single_texts.find_unwatched(db, NOW, AFTER) == [watched], "it is let go of at once"


@pytest.mark.parametrize("ahead", [timedelta(hours=-1), timedelta(hours=1)])
def test_machines_need_not_agree_on_the_time_to_know_what_is_watched(postgresql_db: Database, ahead: timedelta) -> None:
    db, true = postgresql_db, datetime.now(UTC)
    app, worker = true + ahead, true - ahead
    tells: dict[str, Callable[[str], object]] = {
        "handed in": lambda case_id: None,
        "watched": lambda case_id: single_texts.record_viewer(db, case_id, app),
        "drawn": lambda case_id: single_texts.update_live(db, case_id, "worker", "main", "EE", app),
    }
    for how, tell in tells.items():
        case_id = _single(db)
        if how != "handed in":
            write(db, live_runs.delete())
        tell(case_id)
        assert single_texts.find_unwatched(db, worker, AFTER) == [], how
        _age(db, case_id)
        assert single_texts.find_unwatched(db, worker, AFTER) == [case_id], how
        single_texts.withdraw(db, case_id, worker)


def test_the_live_view_shows_the_draws_so_far_to_whoever_submitted_it(db: Database) -> None:
    case_id = _single(db)
    for node, codes, now in (("worker", "EE", NOW), ("worker", "EEE?", NOW), ("risk", "S", LATER)):
        single_texts.update_live(db, case_id, node, "main", codes, now)
    assert single_texts.find_unwatched(db, LATER + AFTER, AFTER) == [case_id], "who draws does not watch"
    single_texts.watch(db, LOCAL_USER.at(LATER), case_id)
    assert single_texts.look(db, LOCAL_USER, case_id).draws == {"worker/main": "EEE?", "risk/main": "S"}
    with pytest.raises(Forbidden):  # whatever their roles: they may have to read it blind
        single_texts.look(db, SENIOR, case_id)

    # a call that told too little of its probabilities counts beside the draws
    unknown = LabelDistribution(labels=dict.fromkeys(Label, 0.0), unknown=1.0)
    assert commit_run(db, case_id, 0, replace(run("EEEEEE", Label.ESCALATE), distribution=unknown))
    assert single_texts.look(db, LOCAL_USER, case_id).calls == 8


def test_a_text_handed_in_twice_under_one_key_is_one_case_also_at_the_same_moment(db: Database) -> None:
    def counts() -> list[int]:
        return [db.value(select(func.count()).select_from(one)) for one in (batches, cases, pending_cases)]

    def press(_: int) -> str:
        together.wait()
        return hand_in(db, "press 1")

    together = Barrier(4)
    save_configuration(db, CONFIGURATION, NOW)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(press, range(4)))
    assert found == {hand_in(db, "press 1")} and counts() == [1, 1, 1]
    assert hand_in(db, "press 2") != hand_in(db, None)
    assert counts() == [3, 3, 3]
