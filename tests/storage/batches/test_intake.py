"""What comes in: rows in = accepted + rejected, whatever happens on the way, and every text comes back exactly; and a
text that somebody waits for, handed in once, watched by one clock for all machines, let go of when nobody does.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from sqlalchemy import func, select, update

from screening.datasets.rows import NewCase, RejectedRow
from screening.labels import Label
from screening.pipeline.draws import LabelDistribution
from screening.review.actors import LOCAL_USER, SYSTEM
from screening.review.policy import Forbidden
from screening.text.received import receive
from storage.batches import single_texts
from storage.batches.batch_state import UnknownBatch
from storage.batches.batches import NewBatch, progress
from storage.batches.configurations import save_configuration
from storage.batches.intake import IntakeClosed, add_rows, close_intake, last_row, read_rejected, takes_rows
from storage.batches.pending import pending_cases as take
from storage.database import Database
from storage.schema import audit_events, batches, cases, live_runs, pending_cases
from tests.databases import write
from tests.storage.batch_of import CONFIGURATION, LATER, NOW, batch, commit_run, run, waiting
from tests.storage.people import SENIOR

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


def _case(row: int, text: str = "a plain text of some words") -> NewCase:
    return NewCase(row=row, external_id=f"id-{row}", text=receive(text))


def _empty(row: int) -> RejectedRow:
    return RejectedRow(row=row, reason="empty")


def _open(db: Database) -> str:
    return batch(db, closed=False)


@pytest.mark.parametrize("crash_at", [1, 5, 6, 10])
def test_after_a_crash_the_same_rows_again_make_the_same_batch(db: Database, crash_at: int) -> None:
    def rows(crash_at: int | None) -> Iterator[NewCase | RejectedRow]:
        for row in range(1, 11):
            if row == crash_at:
                raise OSError("the disk went away")
            yield _empty(row) if row % 3 == 0 else _case(row)

    batch_id = _open(db)
    with pytest.raises(OSError, match="disk"):
        add_rows(db, batch_id, rows(crash_at), NOW, chunk=2)
    add_rows(db, batch_id, rows(None), LATER, chunk=3)
    found = progress(db, batch_id)
    assert (found.accepted, found.rejected) == (7, 3)
    assert len(waiting(db)) == len(set(waiting(db))) == 7


def test_two_that_add_the_same_rows_at_once_add_each_once_and_close_once(db: Database) -> None:
    def take_in(chunk: int) -> str:
        try:
            add_rows(db, batch_id, rows, NOW, chunk=chunk)
            close_intake(db, SYSTEM.at(NOW), batch_id)
        except IntakeClosed:
            return "closed by the other"
        return "through"

    batch_id = _open(db)
    rows = [_empty(row) if row % 7 == 0 else _case(row) for row in range(1, 106)]
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(take_in, (3, 4)))
    assert "through" in ends and set(ends) <= {"through", "closed by the other"}
    found = progress(db, batch_id)
    assert (found.accepted, found.rejected, len(waiting(db))) == (90, 15, 90)
    assert (last_row(db, batch_id), takes_rows(db, batch_id)) == (105, False)
    assert db.values(select(audit_events.c.action)).count("intake_closed") == 1


def test_every_text_comes_back_exactly_and_names_from_outside_cannot_break_the_driver(db: Database) -> None:
    rows = [
        NewCase(row=row, external_id=text[:20], text=receive(text), reply=receive(text[::-1]), group=text[:9])
        for row, text in enumerate(HOSTILE, start=1)
    ]
    refused = RejectedRow(
        row=len(rows) + 1, reason="columns", detail="cell \x00 \ud800", external_id="\udfff", original_json="[]"
    )
    batch_id = _open(db)
    add_rows(db, batch_id, [*rows, refused], NOW)
    for text, row in zip(HOSTILE, db.rows(select(cases).order_by(cases.c.row)), strict=True):
        kept = [(row.text, row.text_original_json), (row.reply, row.reply_original_json)]
        assert ["".join(json.loads(original)) if original else stored for stored, original in kept] == [
            text,
            text[::-1],
        ]
        assert "\x00" not in row.external_id
        row.external_id.encode()  # raises for a surrogate
    assert next(read_rejected(db, LOCAL_USER, batch_id)).detail == "cell \ufffd \ufffd"


def test_rows_out_of_order_are_refused_and_nobody_fills_or_closes_what_is_not_theirs(db: Database) -> None:
    batch_id = _open(db)
    with pytest.raises(ValueError, match="row 2 comes after row 2"):
        add_rows(db, batch_id, [_case(2), _case(2)], NOW)
    assert progress(db, batch_id).rows_in == 0
    with pytest.raises(Forbidden):
        close_intake(db, SENIOR.at(NOW), batch_id)
    with pytest.raises(UnknownBatch):
        add_rows(db, "0" * 32, [_case(1)], NOW)
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
    for tell in ("handed in", "watched", "drawn"):
        case_id = _told(db, tell, app)
        assert single_texts.find_unwatched(db, worker, AFTER) == [], tell
        _age(db, case_id)
        assert single_texts.find_unwatched(db, worker, AFTER) == [case_id], tell
        single_texts.withdraw(db, case_id, worker)


def _told(db: Database, tell: str, now: datetime) -> str:
    """A single text whose watching was last told of in this way, by a machine where it is ``now``."""
    case_id = _single(db)
    if tell != "handed in":
        write(db, live_runs.delete())
    if tell == "watched":
        single_texts.record_viewer(db, case_id, now)
    if tell == "drawn":
        single_texts.update_live(db, case_id, "worker", "main", "EE", now)
    return case_id


def test_the_live_view_shows_the_draws_so_far_to_whoever_submitted_it(db: Database) -> None:
    case_id = _single(db)
    for node, codes, now in (("worker", "EE", NOW), ("worker", "EEE?", NOW), ("risk", "S", LATER)):
        single_texts.update_live(db, case_id, node, "main", codes, now)
    assert single_texts.look(db, LOCAL_USER, case_id).draws == {"worker/main": "EEE?", "risk/main": "S"}
    with pytest.raises(Forbidden):  # whatever their roles: they may have to read it blind
        single_texts.look(db, SENIOR, case_id)


def test_a_call_that_told_too_little_of_its_probabilities_counts_beside_the_draws(db: Database) -> None:
    case_id = _single(db)
    unknown = LabelDistribution(labels=dict.fromkeys(Label, 0.0), unknown=1.0)
    assert commit_run(db, case_id, 0, replace(run("EEEEEE", Label.ESCALATE), distribution=unknown))
    assert single_texts.look(db, LOCAL_USER, case_id).calls == 7


def hand_in(db: Database, key: str | None) -> str:
    version = save_configuration(db, CONFIGURATION, NOW)
    new = NewBatch(name="one", configuration_version=version, seed=1, kind="interactive", submission=key)
    case = NewCase(row=1, external_id="text", text=receive("Some words to screen."))
    return single_texts.submit(db, LOCAL_USER.at(NOW), case, new)


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
