"""A case that is set aside or handed over is kept for one reader, and is said to be."""

from screening.review.triage import Tier
from storage.database import Database
from storage.review import claims, inbox
from storage.review.standing import Place, Standing, standing
from tests.storage.inbox_cases import ANN, BO, NOW, fill, register


def test_a_case_that_is_set_aside_or_handed_over_is_one_readers_until_then(db: Database) -> None:
    register(db, ANN, BO)
    fill(db, [Tier.P2, Tier.P2])
    aside, over = claims.claim_next(db, ANN.at(NOW)), claims.claim_next(db, ANN.at(NOW))
    assert aside is not None and over is not None
    until = inbox.hold(db, ANN.at(NOW), aside.case_id, aside.token, "call the ward")
    assert inbox.hand_over(db, ANN.at(NOW), over.case_id, over.token, BO.id, "your patient") == until
    kept = Standing(place=Place.KEPT, until=until)
    assert standing(db, ANN.at(NOW), aside.case_id, aside.token) == standing(db, BO.at(NOW), over.case_id, None) == kept
    assert standing(db, BO.at(NOW), aside.case_id, None).place is Place.TAKEN
    assert standing(db, ANN.at(NOW), over.case_id, over.token).place is Place.TAKEN
    assert standing(db, ANN.at(until), aside.case_id, aside.token).place is Place.FREE
