"""A batch's draws come back as they were recorded, and labels as of any version."""

from screening.evaluation.conditions import our_conditions
from screening.evaluation.experiments import run_book
from screening.labels import Label, Outcome
from screening.review.actors import LOCAL_USER
from storage.database import Database
from storage.research.recorded_draws import recorded_batch, recording_state
from tests.storage.batch_of import batch, commit, commit_run, run, screening, waiting


def test_draws_tokens_and_references_come_back_in_file_order(db: Database) -> None:
    batch_id = batch(db, ["one", "two", "three"], references="SU-")
    first, second, _ = waiting(db)
    made = run("SSU?SS", None), run("SSSSSSSSSSS", Label.SAFE, node="risk", tokens=10)
    for position, node_run in enumerate(made):
        commit_run(db, second, position, node_run)
    commit(db, second, screening(Outcome.SAFE, *made, node="risk"))
    commit_run(db, first, 0, run("UU", None))
    found = recorded_batch(db, LOCAL_USER, batch_id)
    assert [item.id for item in found.items] == ["p1", "p2", "p3"]
    assert [item.reference for item in found.items] == [Label.SAFE, Label.UNSAFE, None]
    assert found.book.of(1, "worker").codes == "SSU?SS" and found.book.of(1, "risk").codes == "S" * 11
    assert found.book.of(1, "risk").tokens == 11 * 12  # 10 in and 2 out a draw
    assert found.book.of(0, "worker").codes == "UU" and found.pending == 2
    assert all(item.text.text == "" for item in found.items)
    assert recorded_batch(db, LOCAL_USER, batch_id, with_texts=True).items[0].text.text == "one"


def test_what_was_recorded_is_what_a_replay_concludes(db: Database) -> None:
    batch_id = batch(db, ["one"], references="S")
    made = run("S" * 11)
    commit_run(db, waiting(db)[0], 0, made)
    found = recorded_batch(db, LOCAL_USER, batch_id)
    outcomes = {result.name: result.outcomes for result in run_book(found.items, our_conditions(), found.book)}
    assert outcomes["recommended"] == [Outcome.SAFE]


def test_the_state_changes_with_every_run_and_outcome(db: Database) -> None:
    batch_id = batch(db, ["one"], references="S")
    seen = [recording_state(db, LOCAL_USER, batch_id)]
    made = run("S" * 11)
    commit_run(db, waiting(db)[0], 0, made)
    seen.append(recording_state(db, LOCAL_USER, batch_id))
    commit(db, waiting(db)[0], screening(Outcome.SAFE, made))
    seen.append(recording_state(db, LOCAL_USER, batch_id))
    assert len(set(seen)) == 3
