"""Other texts of the same author or group: the nearest of the file, without outcomes, for whoever may read the case."""

import dataclasses

import pytest
from sqlalchemy import select, update

from screening.review.policy import Forbidden
from screening.review.triage import Tier
from storage.database import Database
from storage.first_looks import first_look
from storage.review import claims
from storage.review.same_group import EACH_WAY, count_near, reveal_near_texts
from storage.schema import audit_events, cases
from tests.storage.inbox_cases import ADMIN, ANN, BO, MINUTE, NOW, SENIOR, fill
from tests.storage.statements import plan, statements


def _grouped(db: Database, groups: str) -> list[str]:
    """One case a letter, of the group with that letter; a dash for none."""
    ids = fill(db, [Tier.P2] * len(groups))
    with db.write() as conn:
        for case_id, group in zip(ids, groups, strict=True):
            named = None if group == "-" else group
            conn.execute(update(cases).where(cases.c.id == case_id).values(group_name=named, text=f"text {case_id}"))
    return ids


def test_the_nearest_of_the_group_are_shown_in_the_order_of_the_file(db: Database) -> None:
    ids = _grouped(db, "aaaaabaaaa-b")
    other = _grouped(db, "a")  # another file's group of the same name is another group
    claim = claims.claim(db, SENIOR.at(NOW), ids[4])
    near = reveal_near_texts(db, SENIOR.at(NOW), ids[4], claim.token)
    assert [each.case_id for each in near.before] == ids[1:4]
    assert [each.case_id for each in near.after] == ids[6:9]
    assert near.before[0].text == f"text {ids[1]}" and other[0] not in {each.case_id for each in near.after}
    assert count_near(db, SENIOR.at(NOW), ids[4]) == 2 * EACH_WAY
    assert count_near(db, SENIOR.at(NOW), ids[10]) == 0, "none without a group"
    assert count_near(db, SENIOR.at(NOW), other[0]) == 0
    fields = {field.name for field in dataclasses.fields(near.before[0])}
    assert fields == {"case_id", "external_id", "text", "reply", "thread"}, "what was written, and nothing else"


def test_a_reader_sees_them_while_the_case_is_theirs_and_nobody_else_does(db: Database) -> None:
    ids = _grouped(db, "aa")
    claim = claims.claim_next(db, ANN.at(NOW))
    assert claim is not None and claim.case_id == ids[0]
    assert [each.case_id for each in reveal_near_texts(db, ANN.at(NOW), ids[0], claim.token).after] == [ids[1]]
    for who, token, now in ((ANN, None, NOW), (BO, claim.token, NOW), (ADMIN, claim.token, NOW)):
        with pytest.raises(Forbidden):
            reveal_near_texts(db, who.at(now), ids[0], token)
    with pytest.raises(Forbidden):
        count_near(db, ANN.at(NOW + 20 * MINUTE), ids[0], claim.token)
    with pytest.raises(KeyError):
        reveal_near_texts(db, SENIOR.at(NOW), "0" * 32)


def test_each_text_is_in_the_audit_log_and_is_no_look_at_its_own_case(db: Database) -> None:
    ids = _grouped(db, "aa")
    claim = claims.claim_next(db, ANN.at(NOW))
    assert claim is not None
    reveal_near_texts(db, ANN.at(NOW), ids[0], claim.token)
    with db.read() as conn:
        (row,) = conn.execute(select(audit_events).where(audit_events.c.action == "near_text_viewed")).all()
        assert conn.execute(select(first_look(cases.c.id)).where(cases.c.id == ids[1])).scalar() is None
    assert (row.subject, row.actor) == (ids[1], ANN.id) and ids[0] in row.details


def test_they_are_found_by_an_index(db: Database) -> None:
    ids = _grouped(db, "aab")
    with statements() as sent:
        count_near(db, SENIOR.at(NOW), ids[0])
    for statement, values in [each for each in sent if "group_name =" in each[0]]:
        assert "ix_cases_group" in plan(db, statement, values)
