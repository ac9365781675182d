"""The next case with its text is what claiming it, opening it and asking for its notes were one after the other."""

import pytest
from sqlalchemy import select

from screening.review.policy import Forbidden
from screening.review.triage import Tier
from storage.database import Database
from storage.review import claims, inbox
from storage.review.evidence import reveal_text
from storage.review.notes import notes
from storage.review.opening import claim_and_reveal_next
from storage.schema import audit_events
from tests.storage.inbox_cases import ADMIN, ANN, BO, MINUTE, NOW, fill
from tests.storage.statements import statements


def _logged(db: Database) -> list[tuple[str, str, str]]:
    query = select(audit_events.c.actor, audit_events.c.action, audit_events.c.subject).order_by(audit_events.c.seq)
    return [(row.actor, row.action, row.subject) for row in db.rows(query)]


def test_it_is_claim_text_and_notes_in_one_transaction(db: Database) -> None:
    first, second = fill(db, [Tier.P0, Tier.P1])
    claims.claim_next(db, ANN.at(NOW), token=lambda: "t")
    inbox.ask_second_opinion(db, ANN.at(NOW), first, "t", "safe, I think")  # a note that could give a reading away
    inbox.skip(db, ANN.at(NOW), first, "t", "ann was called away")
    before = len(_logged(db))
    with statements() as sent:
        opened = claim_and_reveal_next(db, BO.at(NOW))
    assert opened is not None
    assert opened.claim.case_id == opened.text.case_id == first
    assert [(one.kind, one.note) for one in opened.left] == [("skip", "ann was called away")]
    assert _logged(db)[before:] == [("bo", "claimed", first), ("bo", "text_viewed", first)]
    assert sum(one.startswith("BEGIN") for one, _ in sent) == (db.kind == "sqlite"), "one transaction"
    assert claims.my_claims(db, BO.at(NOW)) == (opened.claim,)
    assert opened.text == reveal_text(db, BO.at(NOW), first, opened.claim.token)
    assert opened.left == notes(db, BO.at(NOW), first, opened.claim.token)
    other = claim_and_reveal_next(db, ANN.at(NOW), tiers=[Tier.P1])
    assert other is not None and other.claim.case_id == second
    assert claim_and_reveal_next(db, ANN.at(NOW + MINUTE)) is None


def test_who_may_read_nothing_is_given_nothing(db: Database) -> None:
    fill(db)
    with pytest.raises(Forbidden):
        claim_and_reveal_next(db, ADMIN.at(NOW))
    assert _logged(db) == []
