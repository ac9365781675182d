"""A case's file and its notes: under the same blind-first check as its evidence, on both kinds of database."""

import pytest
from sqlalchemy import insert, update

from screening.review.actors import Actor
from screening.review.policy import Forbidden
from storage.database import Database
from storage.identifiers import new_id
from storage.review import claims, ratings
from storage.review.evidence import Part, reveal_case_file
from storage.schema import case_errors, cases
from storage.visibility import NotYetRated
from tests.storage.inbox_cases import ANN, NOW, RESEARCHER, SENIOR, fill, form, take


def _read(db: Database, case_id: str, reader: Actor = ANN) -> None:
    claim = take(db, reader)
    assert claim.case_id == case_id
    ratings.submit_rating(db, reader.at(NOW), case_id, claim.token, form(), new_id(NOW))


def test_the_file_of_an_open_case_is_not_served_before_the_rating(db: Database) -> None:
    [case_id] = fill(db)
    for reader in (SENIOR, RESEARCHER):
        with pytest.raises(NotYetRated):
            reveal_case_file(db, reader.at(NOW), case_id)
    with pytest.raises(Forbidden):
        reveal_case_file(db, ANN.at(NOW), case_id)
    with pytest.raises(KeyError):
        reveal_case_file(db, SENIOR.at(NOW), "0" * 32)
    assert claims.claim_next(db, ANN.at(NOW)) is not None
    with pytest.raises(NotYetRated):
        reveal_case_file(db, ANN.at(NOW), case_id)


def test_the_file_says_where_a_case_came_from_and_what_failed(db: Database) -> None:
    [case_id] = fill(db)
    _read(db, case_id)
    with db.write() as conn:
        conn.execute(update(cases).values(flags={"text": ["obfuscated"], "reply": []}, model_text="as read", reply="r"))
        error = {"kind": "timeout", "message": "no answer", "calls": 2, "at": NOW}
        conn.execute(insert(case_errors).values(case_id=case_id, **error))
    file = reveal_case_file(db, ANN.at(NOW), case_id)
    assert (file.batch_name, file.row, file.parts["text"].model_text) == ("posts.csv", 1, "as read")
    assert file.parts["reply"] == Part(text="r", model_text="r")
    assert file.flags == {"text": ("obfuscated",), "reply": ()}
    assert [(each.kind, each.calls) for each in file.errors] == [("timeout", 2)]
    assert file.entry is not None and file.entry.closed_at == NOW and not file.waits_for_retry
