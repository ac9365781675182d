"""Files of a batch that leave stand in the audit log, whether or not they are read to their end."""

import pytest

from screening.datasets.rows import RejectedRow
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER, SYSTEM, Actor
from screening.review.policy import Forbidden
from storage.audit_log import events
from storage.batches.intake import add_rows, read_rejected
from storage.batches.results import export_rejected, export_results, results
from storage.database import Database
from storage.research.case_tags import add_remark, add_tag
from tests.storage.batch_of import LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import ADMIN, ANN, RESEARCHER, SENIOR


def _exports(db: Database) -> list[tuple[str, str | None, object]]:
    return [(one.actor, one.subject, one.details["kind"]) for one in events(db, LOCAL_USER) if one.action == "exported"]


def _batch(db: Database) -> str:
    batch_id = batch(db, ["one", "two"], closed=False)
    add_rows(db, batch_id, [RejectedRow(row=3, reason="empty")], NOW)
    return batch_id


@pytest.mark.parametrize("who", [SENIOR, RESEARCHER])
def test_they_are_logged_before_the_first_row(db: Database, who: Actor) -> None:
    batch_id = _batch(db)
    rows = export_results(db, who.at(LATER), batch_id)
    assert _exports(db) == [(who.id, batch_id, "results")]
    others = export_rejected(db, who.at(LATER), batch_id)
    assert _exports(db) == [(who.id, batch_id, "rejected"), (who.id, batch_id, "results")]
    assert list(rows) == list(results(db, who.at(NOW), batch_id)) and list(others) == list(
        read_rejected(db, who, batch_id)
    )


def test_whoever_may_not_have_them_is_refused_at_once_and_nothing_has_left(db: Database) -> None:
    batch_id = _batch(db)
    for who in (ANN, ADMIN):
        for export in (export_results, export_rejected):
            with pytest.raises(Forbidden):
                export(db, who.at(LATER), batch_id)
    assert not _exports(db)


def test_what_the_program_writes_is_logged_as_the_programs(db: Database) -> None:
    batch_id = _batch(db)
    assert len(list(export_results(db, SYSTEM.at(LATER), batch_id))) == 2
    assert _exports(db) == [("system", batch_id, "results")]


def test_tags_and_remarks_leave_with_the_rows_and_not_with_those_that_wait(db: Database) -> None:
    batch_id = batch(db, ["one", "two"])
    first, second = waiting(db)
    decide(db, first)
    add_tag(db, RESEARCHER.at(NOW), first, "lyrics")
    add_tag(db, RESEARCHER.at(NOW), first, "a, b")
    add_remark(db, RESEARCHER.at(NOW), first, "from a song")
    add_tag(db, RESEARCHER.at(NOW), second, "sarcasm")
    decide(db, second, Outcome.HUMAN_REVIEW)  # and now it waits for a reading
    noted = [(row.tags, row.remarks) for row in export_results(db, RESEARCHER.at(NOW), batch_id, hide=True)]
    assert noted == [(("a, b", "lyrics"), ("from a song",)), ((), ())]
