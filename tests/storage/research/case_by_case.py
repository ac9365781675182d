"""What clinicians accepted, read the slow way: the oracle of `storage.visibility` and `storage.research.recordings`."""

from collections.abc import Mapping

from sqlalchemy import select

from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.database import Database
from storage.schema import adjudications, cases
from storage.visibility import is_accepted, order_given


def adjudicated_labels(db: Database, actor: Actor, batch_id: str, version: int | None = None) -> Mapping[str, str]:
    """Each case's accepted label as of the first ``version`` adjudications of the batch, or of
    all. Version 0 is the file as it came.
    """
    require(actor, Action.VIEW_RESULTS)
    query = (
        select(adjudications.c.case_id, adjudications.c.label, is_accepted(cases.c.id).label("accepted"))
        .join(cases, cases.c.id == adjudications.c.case_id)
        .where(cases.c.batch_id == batch_id)
        .order_by(*order_given())
    )
    rows = db.rows(query)
    return {row.case_id: row.label for row in rows[:version] if row.accepted}
