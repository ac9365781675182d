"""Which open cases somebody may yet read: of one batch, none that is closed or that they have read."""

import pytest
from sqlalchemy import select, update

from screening.review.actors import Actor
from screening.review.triage import Tier
from storage.blindness import is_open_to, open_to
from storage.database import Database
from storage.schema import inbox_entries
from tests.storage.inbox_cases import ANN, BO, NOW, fill, form, read, register


def yet_to_read(db: Database, who: Actor, case_id: str, **asked: bool) -> set[str]:
    """The cases of this one's batch that are open to them."""
    entry = select(inbox_entries.c.batch_id).where(inbox_entries.c.case_id == case_id)
    found = open_to(who, db.value(entry), **asked)
    return set(db.values(select(found.subquery().c.id)))


@pytest.mark.parametrize("asked", [{"ended": True}, {"ended": False}, {}], ids=str)
def test_what_is_closed_read_by_them_or_of_another_batch_is_not_open_to_them(
    db: Database, asked: dict[str, bool]
) -> None:
    register(db, ANN, BO)
    second, closed, unscreened, fresh = fill(db, [Tier.P1, Tier.P2, Tier.P2, Tier.P2])
    (other,) = fill(db)
    read(db, ANN, form("unsafe", 4), "a", ask=True)
    with db.write() as conn:
        entry = update(inbox_entries)
        conn.execute(entry.where(inbox_entries.c.case_id == closed).values(closed_at=NOW))
        conn.execute(entry.where(inbox_entries.c.case_id == unscreened).values(kind=None))
    waiting = {fresh} if asked.get("ended") else {fresh, unscreened}
    assert yet_to_read(db, ANN, second, **asked) == waiting
    assert yet_to_read(db, BO, second, **asked) == waiting | {second}
    assert yet_to_read(db, ANN, other, **asked) == {other}
    everywhere = select(inbox_entries.c.case_id).where(is_open_to(ANN))
    assert set(db.values(everywhere)) == {fresh, unscreened, other}
