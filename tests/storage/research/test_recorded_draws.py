"""A batch's draws come back as they were recorded, and labels as of any version."""

import pytest

from screening.evaluation.conditions import our_conditions
from screening.evaluation.experiments import run_book
from screening.labels import Label, Outcome
from screening.review.actors import LOCAL_USER, Role
from screening.review.policy import Forbidden
from screening.review.rating_form import RatingLabel
from storage.batches.batch_state import UnknownBatch
from storage.database import Database
from storage.identifiers import new_id
from storage.research.recorded_draws import recorded_batch, recording_state
from storage.review.adjudication import amend
from storage.review.ratings import submit_rating
from storage.review.worklist import request_second_looks
from tests.storage.batch_of import LATER, batch, commit, commit_run, run, screening, waiting
from tests.storage.inbox_cases import form, person, take
from tests.storage.research.case_by_case import adjudicated_labels


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


def settle(db: Database, label: Label = Label.SAFE) -> tuple[str, str]:
    """A batch of one case, decided; the batch's id and the case's."""
    batch_id = batch(db, ["one"], references="S")
    case_id = waiting(db)[0]
    made = run("S" * 11 if label is Label.SAFE else "U" * 6, label)
    commit_run(db, case_id, 0, made)
    commit(db, case_id, screening(Outcome(label.value), made))
    return batch_id, case_id


def test_a_second_look_is_an_ordinary_entry_and_opens_once(db: Database) -> None:
    _, case_id = settle(db)
    first, again = (request_second_looks(db, LOCAL_USER.at(LATER), [case_id]) for _ in range(2))
    assert (first.opened, first.there_before, first.undecided) == (1, 0, 0)
    assert (again.opened, again.there_before, again.undecided) == (0, 1, 0)
    claim = take(db, LOCAL_USER, LATER)
    assert claim.case_id == case_id
    assert claim.why in ("unsettled", "person_needed")  # the reasons of every audit sample


def test_a_pending_case_and_a_reviewer_s_request_are_refused(db: Database) -> None:
    batch(db, ["one"])
    case_id = waiting(db)[0]
    sent = request_second_looks(db, LOCAL_USER.at(LATER), [case_id])
    assert (sent.opened, sent.there_before, sent.undecided) == (0, 0, 1)
    with pytest.raises(Forbidden):
        request_second_looks(db, person("ann", Role.REVIEWER).at(LATER), [case_id])
    with pytest.raises(ValueError, match="at most"):
        request_second_looks(db, LOCAL_USER.at(LATER), ["x"] * 501)


def test_labels_are_those_of_the_version_asked_for(db: Database) -> None:
    batch_id, case_id = settle(db)
    request_second_looks(db, LOCAL_USER.at(LATER), [case_id])
    claim = take(db, LOCAL_USER, LATER)
    submit_rating(db, LOCAL_USER.at(LATER), case_id, claim.token, form("unsafe"), new_id(LATER))
    amend(db, LOCAL_USER.at(LATER.replace(hour=23)), case_id, RatingLabel.SAFE, "read again", 1)
    assert adjudicated_labels(db, LOCAL_USER, batch_id, 0) == {}
    assert adjudicated_labels(db, LOCAL_USER, batch_id, 1) == {case_id: "unsafe"}
    assert adjudicated_labels(db, LOCAL_USER, batch_id) == {case_id: "safe"}


def test_an_unknown_batch_is_said_and_a_reviewer_may_not_look(db: Database) -> None:
    with pytest.raises(UnknownBatch):
        recorded_batch(db, LOCAL_USER, "nothing")
    with pytest.raises(Forbidden):
        recorded_batch(db, person("ann"), "nothing")
