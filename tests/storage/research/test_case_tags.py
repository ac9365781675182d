"""Tags and remarks: kept once, counted, and nothing of what waits for a reading."""

import pytest

from screening.labels import Outcome
from screening.review.actors import LOCAL_USER
from screening.review.policy import Forbidden
from storage.database import Database
from storage.research.case_tags import TAG_LIMIT, add_remark, add_tag, remarks, remove_tag, tag_counts
from storage.research.cells import cell_choices, cell_page
from storage.research.listed import Cell
from tests.storage.batch_of import NOW, batch, decide, waiting
from tests.storage.inbox_cases import RESEARCHER, person

READER = person("rita")


def test_tags_are_kept_once_counted_filtered_by_and_taken_away(db: Database) -> None:
    batch_id = batch(db, ["a quiet day", "a long walk", "a cup of tea"])
    first, second, third = waiting(db)
    for case_id in (first, second, third):
        decide(db, case_id, Outcome.SAFE)
    for case_id, words in (
        (first, " Song  Lyrics"),
        (first, "song lyrics"),
        (second, "song lyrics"),
        (first, "sarcasm"),
    ):
        add_tag(db, RESEARCHER.at(NOW), case_id, words)
    assert dict(tag_counts(db, RESEARCHER, batch_id)) == {"song lyrics": 2, "sarcasm": 1}
    listed = cell_page(db, RESEARCHER.at(NOW), Cell(batch_id=batch_id, tag="song lyrics"))
    assert [case.tags for case in listed.cases] == [("sarcasm", "song lyrics"), ("song lyrics",)]
    assert cell_choices(db, RESEARCHER, Cell(batch_id=batch_id))["tag"] == ("sarcasm", "song lyrics")
    remove_tag(db, RESEARCHER.at(NOW), first, "song lyrics")
    assert dict(tag_counts(db, RESEARCHER, batch_id)) == {"sarcasm": 1, "song lyrics": 1}


def test_remarks_are_kept_in_order(db: Database) -> None:
    batch(db, ["a quiet day"])
    (case_id,) = waiting(db)
    decide(db, case_id, Outcome.SAFE)
    for words in ("reads like lyrics", " second "):
        add_remark(db, RESEARCHER.at(NOW), case_id, words)
    assert [one.remark for one in remarks(db, RESEARCHER, case_id)] == ["reads like lyrics", "second"]
    for wrong in ("", " ", "x" * 4_001):
        with pytest.raises(ValueError, match="a remark has"):
            add_remark(db, RESEARCHER.at(NOW), case_id, wrong)


@pytest.mark.parametrize("tag", ["", "  ", "x" * (TAG_LIMIT + 1), "a\u202eb"])
def test_what_is_no_tag_is_refused(db: Database, tag: str) -> None:
    with pytest.raises(ValueError, match="a tag has"):
        add_tag(db, RESEARCHER.at(NOW), "unknown", tag)


def test_a_case_is_noted_in_review_or_not_by_those_who_may_see_outcomes(db: Database) -> None:
    batch(db, ["a quiet day"])
    (case_id,) = waiting(db)
    decide(db, case_id, Outcome.HUMAN_REVIEW)
    add_tag(db, LOCAL_USER.at(NOW), case_id, "lyrics")
    add_remark(db, LOCAL_USER.at(NOW), case_id, "words")
    assert [one.remark for one in remarks(db, LOCAL_USER, case_id)] == ["words"]
    with pytest.raises(Forbidden):
        add_tag(db, READER.at(NOW), case_id, "lyrics")
    with pytest.raises(KeyError):
        add_tag(db, RESEARCHER.at(NOW), "nothing", "lyrics")
