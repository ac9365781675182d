"""The desk under AppTest: what is refused is said in true words, and nothing is shown or kept that is out of date."""

import re
from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from screening.review.triage import Tier
from storage.database import Database
from storage.review.adjudication import has_asked
from storage.schema import unblindings
from tests.pages.conftest import Opener
from tests.pages.review.desk import answer, ask, asked, desk, give_to_bo, save, send, take_next
from tests.storage.inbox_cases import BO, fill


@pytest.fixture
def case_id(page_database: Database) -> Iterator[str]:
    """One P2 case that waits."""
    yield fill(page_database)[0]


def _revealed(db: Database) -> int:
    return db.value(select(func.count()).select_from(unblindings))


@pytest.mark.parametrize("after", ["next", "previous", "undo", "finish"])
def test_what_was_asked_after_a_save_that_is_refused_is_refused_in_its_words(
    open_page: Opener, page_database: Database, case_id: str, after: str
) -> None:
    page = take_next(open_page("inbox"))
    other = fill(page_database)
    give_to_bo(page_database, case_id)
    saving = asked(page, "save", form={"label": "unsafe", "certainty": 4})
    page = send(page, saving, asked(page, after, case=None))
    said = "This case is assigned to another reviewer now. What you filled in is kept as a draft."
    assert list(desk(page)["answers"].values()) == [{"ok": False, "words": said}] * 2
    assert desk(page)["stage"] == "over" and desk(page)["words"] == said and other
    again = send(page, saving, asked(page, after, case=None))  # its answer had not arrived
    assert answer(again) == {"ok": False, "words": said} and desk(again)["case"]["id"] == case_id


def test_evidence_at_once_after_the_lease_is_refused_and_said(open_page: Opener, page_database: Database) -> None:
    [urgent] = fill(page_database, [Tier.P0])
    page = take_next(open_page("inbox"))
    give_to_bo(page_database, urgent)
    page = ask(page, "at_once")
    assert answer(page) == {"ok": False, "words": "This case is assigned to another reviewer now."}
    assert desk(page)["stage"] == "over" and _revealed(page_database) == 0


def test_a_reading_taken_back_in_another_page_is_not_revealed_in_the_first(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    first = ask(take_next(open_page("inbox")), "save", form={"label": "safe", "certainty": 5})
    last = desk(first)["last"]
    ask(open_page("inbox", case=case_id), "undo", case=case_id, rating=last["rating"])
    first = ask(first, "reveal")
    assert answer(first)["ok"] and desk(first)["stage"] == "reading" and desk(first)["draft"]["label"] == "safe"
    assert _revealed(page_database) == 0


def test_what_does_not_fit_together_is_said_of_a_read_case_only_while_its_reading_is_changed(
    open_page: Opener, case_id: str
) -> None:
    page = save(take_next(open_page("inbox")))
    doubtful = {"label": "safe", "certainty": 4, "disposition": "contact_now", "rev": 2}
    page = ask(page, "draft", form=doubtful | {"revision": True})
    assert desk(page)["points"] == ["The label is safe, but the disposition is contact now."]
    page = ask(page, "draft", form=doubtful)  # of a page that had not heard of the save
    assert desk(page)["points"] == []
    page = ask(ask(page, "draft", form=doubtful | {"revision": True}), "revise", form=doubtful, note="second thoughts")
    assert desk(page)["draft"] == {"marks": []} and desk(page)["points"] == []


def test_a_case_set_aside_is_said_to_be_kept_for_its_reader(open_page: Opener, case_id: str) -> None:
    first = take_next(open_page("inbox"))
    stale = ask(open_page("inbox", case=case_id), "look")
    held = asked(first, "hold", note="ask the ward")
    ask(first, "hold", note="ask the ward")
    again = send(first, held)  # a second press
    assert re.fullmatch(r"This case is kept for you until \d\d:\d\d UTC\.", answer(again)["words"])
    stale = ask(stale, "look")
    assert desk(stale)["words"].startswith("This case is kept for you until") and desk(stale)["may_take"]
    assert desk(ask(stale, "take"))["stage"] == "reading"


def test_a_second_opinion_stays_asked_for_after_a_reload_and_is_not_told_to_others(
    open_page: Opener, page_database: Database, case_id: str
) -> None:
    page = take_next(open_page("inbox"))
    assert not desk(page)["case"]["asked"]
    page = ask(page, "second")
    assert desk(page)["case"]["asked"] and desk(open_page("inbox", case=case_id))["case"]["asked"]
    ask(page, "hold", note="ask the ward")
    assert desk(ask(open_page("inbox", case=case_id), "take", case=case_id))["case"]["asked"]
    assert not has_asked(page_database, BO, case_id)
