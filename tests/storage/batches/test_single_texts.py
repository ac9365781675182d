"""A text that somebody waits for: handed in once, watched by one clock for all machines, let go of when nobody does."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from sqlalchemy import func, select, update

from screening.datasets.rows import NewCase
from screening.labels import Label
from screening.pipeline.draws import LabelDistribution
from screening.review.actors import LOCAL_USER
from screening.review.policy import Forbidden
from screening.text.received import receive
from storage.batches import single_texts
from storage.batches.batches import NewBatch
from storage.batches.configurations import save_configuration
from storage.batches.pending import pending_cases as take
from storage.database import Database
from storage.schema import batches, cases, live_runs, pending_cases
from tests.databases import write
from tests.storage.batch_of import CONFIGURATION, LATER, NOW, batch, commit_run, run, waiting
from tests.storage.inbox_cases import SENIOR

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
