"""The ledger of a batch's labels, on both databases: from what to what, and outcomes as this person may count them."""

from screening.review.rating_form import RatingLabel
from screening.review.triage import Tier
from storage.database import Database
from storage.research.ledger import ledger
from storage.research.relabelled import export_relabelled
from storage.review.adjudication import amend
from tests.storage.inbox_cases import ANN, MINUTE, NOW, RESEARCHER, SENIOR, fill, form, read, register
from tests.storage.research.test_relabelled import batch_of


def test_each_entry_says_from_what_to_what_and_a_version_holds_the_first_ones(db: Database) -> None:
    register(db, ANN)
    (case_id,) = fill(db, [Tier.P2])
    read(db, ANN, form("unsafe"), "a")
    amend(db, SENIOR.at(NOW + MINUTE), case_id, RatingLabel.SAFE, "read again", 1)
    found = ledger(db, RESEARCHER.at(NOW), batch_of(db, case_id), "key")
    assert [(one.number, one.before, one.label, one.reason, one.changes) for one in found.entries] == [
        (1, "safe", "unsafe", None, True),
        (2, "unsafe", "safe", "read again", True),
    ]
    assert "sue" not in {one.by for one in found.entries} and found.hidden == 0
    assert len(ledger(db, RESEARCHER.at(NOW), batch_of(db, case_id), "key", as_of=1).entries) == 1
    newest = ledger(db, RESEARCHER.at(NOW), batch_of(db, case_id), "key", most=1)
    assert [one.number for one in newest.entries] == [2] and newest.earlier == 1


def test_a_label_that_a_clock_set_back_dates_before_the_one_it_replaces_is_the_later_one_everywhere(
    db: Database,
) -> None:
    register(db, ANN)
    (case_id,) = fill(db, [Tier.P2])
    read(db, ANN, form("safe", 5), "a")
    amend(db, SENIOR.at(NOW - 60 * MINUTE), case_id, RatingLabel.UNSAFE, "read again", 1)
    of = batch_of(db, case_id)
    assert [one.label for one in ledger(db, RESEARCHER.at(NOW), of, "key").entries] == ["safe", "unsafe"]
    (row,) = export_relabelled(db, RESEARCHER.at(NOW), of, "key")
    assert (row.adjudicated_label, row.final_label) == ("unsafe", "unsafe")
    (before,) = export_relabelled(db, RESEARCHER.at(NOW), of, "key", as_of=1)
    assert (before.adjudicated_label, len(before.ratings)) == ("safe", 1)
