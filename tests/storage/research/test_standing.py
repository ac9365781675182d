"""What research pages keep is kept only while nothing that it follows from has changed."""

from screening.labels import Outcome
from screening.review.actors import LOCAL_USER
from screening.review.review_form import ReviewLabel
from storage.clock import new_id
from storage.database import Database
from storage.research.corrected_labels import export_corrected_labels
from storage.research.standing import batch_now, configuration_now
from storage.review.adjudication import amend
from storage.review.erasure import By, Selection, erase
from storage.review.reviews import submit_review, take_back
from storage.review.worklist import request_second_looks
from tests.storage.batch_of import CONFIGURATION, LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import ANN, form, register, take


def _accepted(db: Database, batch_id: str) -> str | None:
    """The label of the only case that people may have reviewed, as the relabelled data set has it."""
    return list(export_corrected_labels(db, LOCAL_USER.at(LATER), batch_id, "key"))[1].adjudicated_label


def test_it_changes_with_every_fact_that_a_figure_follows_from_and_with_nothing_else(db: Database) -> None:
    batch_id = batch(db, ["one", "two"])
    first, second = waiting(db)
    batch(db, ["three"])
    (third,) = set(waiting(db)) - {first, second}
    register(db, ANN)
    seen = [(batch_now(db, LOCAL_USER, batch_id), configuration_now(db, CONFIGURATION.version))]

    def changed() -> tuple[bool, bool]:
        seen.append((batch_now(db, LOCAL_USER, batch_id), configuration_now(db, CONFIGURATION.version)))
        (before, was), (now, is_now) = seen[-2:]
        return now != before, is_now != was

    assert changed() == (False, False)
    decide(db, third, Outcome.SAFE)
    assert changed() == (False, True), "another batch of the same configuration"
    decide(db, first, Outcome.SAFE)
    assert changed() == (True, True)
    decide(db, second, Outcome.HUMAN_REVIEW)
    assert changed() == (True, True)
    claim = take(db, ANN, LATER)
    assert changed() == (False, False)
    given = new_id(LATER)
    submit_review(db, ANN.at(LATER), claim.case_id, claim.token, form("safe", 5), given)
    assert changed() == (True, True) and _accepted(db, batch_id) == "safe"
    again = take_back(db, ANN.at(LATER), claim.case_id, given)
    assert changed() == (True, True) and _accepted(db, batch_id) is None
    submit_review(db, ANN.at(LATER), claim.case_id, again.token, form("unsafe"), new_id(LATER))
    assert changed() == (True, True) and _accepted(db, batch_id) == "unsafe"
    amend(db, LOCAL_USER.at(NOW), claim.case_id, ReviewLabel.SAFE, "looked again, by a clock that was set back", 1)
    assert changed() == (True, True)
    request_second_looks(db, LOCAL_USER.at(LATER), [first])
    assert changed() == (True, True)
    erase(db, LOCAL_USER.at(LATER), Selection(by=By.CASE, value=second), "asked for")
    assert changed() == (True, True), "what is shown of it may hold its id and what people wrote"
