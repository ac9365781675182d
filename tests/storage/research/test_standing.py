"""What research pages keep is kept only while nothing that it follows from has changed."""

from screening.labels import Outcome
from screening.review.actors import LOCAL_USER
from screening.review.rating_form import RatingLabel
from storage.database import Database
from storage.identifiers import new_id
from storage.research.standing import batch_now, configuration_now
from storage.review.adjudication import amend
from storage.review.erasure import By, Selection, erase
from storage.review.ratings import submit_rating
from storage.review.worklist import request_second_looks
from tests.storage.batch_of import CONFIGURATION, LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import ANN, form, register, take


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
    submit_rating(db, ANN.at(LATER), claim.case_id, claim.token, form("unsafe"), new_id(LATER))
    assert changed() == (True, True)
    amend(db, LOCAL_USER.at(NOW), claim.case_id, RatingLabel.SAFE, "looked again, by a clock that was set back", 1)
    assert changed() == (True, True)
    request_second_looks(db, LOCAL_USER.at(LATER), [first])
    assert changed() == (True, True)
    erase(db, LOCAL_USER.at(LATER), Selection(by=By.CASE, value=second), "asked for")
    assert changed() == (True, True), "what is shown of it may hold its id and what people wrote"
