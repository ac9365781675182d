"""The desk: blind first, drafts, leases, refusals, and what is said when nothing waits."""

from datetime import UTC, datetime, timedelta
from time import time
from typing import Any

import pytest
from sqlalchemy import func, select, update

from pages.ui.words import last_midnight
from screening.labels import Label
from screening.review.actors import LOCAL_USER
from screening.review.review_form import TextMark
from screening.review.triage import Placement, Priority, Why
from storage import audit_log, clock, settings_store
from storage.batches.entries import settle
from storage.database import Database
from storage.review import claims, reviews
from storage.review.adjudication import has_asked
from storage.review.erasure import erase_rows
from storage.review.queue import counts
from storage.review.reports import exposure
from storage.review.reviews import load_draft
from storage.schema import ERASED, cases, unblindings
from storage.schema import reviews as reviews_table
from storage.settings_store import SiteSettings
from tests.databases import write
from tests.pages.review.desk import GIVEN, OpenDesk
from tests.storage.inbox_cases import fill, form, put, register, take
from tests.storage.people import BO, CY

TEXT = "canary text number 1"


def _now() -> datetime:
    return datetime.now(UTC)


def _count(db: Database, table: Any) -> int:
    return db.value(select(func.count()).select_from(table))


def _mine(db: Database, case_id: str) -> reviews.Review:
    mine = reviews.my_review(db, LOCAL_USER, case_id)
    assert mine is not None
    return mine


def _give_to_bo(db: Database, case_id: str) -> None:
    """As another reviewer's claim after expiry does."""
    put(db, case_id, assignee="bo", lease_token="other", assigned_until=_now() + timedelta(minutes=5))


@pytest.fixture
def case_id(page_database: Database) -> str:
    return fill(page_database)[0]


@pytest.fixture
def page(case_id: str) -> OpenDesk:
    return OpenDesk().take_next()


@pytest.mark.parametrize(
    ("outcome", "why", "engine"),
    [("human_review", "Awaiting review", "Escalated"), ("safe", "Labeled by the AI", "Labeled safe")],
)
def test_nothing_of_the_engine_before_the_reveal(page_database: Database, outcome: str, why: str, engine: str) -> None:
    fill(page_database, outcome=outcome)
    page = OpenDesk().take_next()
    assert (page["case"]["text"], page["case"]["why"]) == (TEXT, "Awaiting review")
    assert "exhausted" not in str(page.told) and engine not in str(page.told)
    page.ask("save", form=GIVEN)
    assert (page["stage"], page["read"]["revealed"]) == ("read", False)
    assert engine not in str(page.told) and _count(page_database, unblindings) == 0
    page.ask("reveal")
    assert engine in page["read"]["engine"] and page["case"]["why"] == why and _count(page_database, unblindings) == 1


def test_drafts_and_what_was_asked_for_outlive_reloads(page_database: Database, case_id: str, page: OpenDesk) -> None:
    """And refusals; the note for the next reviewer goes with the case. Others are not told who asked for what."""
    filled = {"label": "insufficient_information", "certainty": 2, "note": "so far", "leaving": "ask", "rev": 7}
    assert page.ask("draft", form=filled).answer["ok"] and page.ask("second")["case"]["asked"]
    page = OpenDesk(case=case_id)  # a session that knows nothing, as after a reload
    assert load_draft(page_database, LOCAL_USER, case_id) == page["draft"] == filled
    assert page["case"]["text"] == TEXT and page["case"]["asked"] and not has_asked(page_database, BO, case_id)
    page.ask("hold", note="ask").ask("take", case=case_id)
    assert page["case"]["asked"] and page["draft"]["note"] == "so far" and not page["draft"].get("leaving")
    for missing in ("certainty", "disposition"):
        given = {name: value for name, value in GIVEN.items() if name != missing}
        page.ask("draft", form=given | {"note": "as she wrote"}).ask("save", form=given)
        assert not page.answer["ok"] and page["stage"] == "reviewing" and page["draft"]["note"] == "as she wrote"
    assert _count(page_database, reviews_table) == 0
    assert page.save(leaving="typed and not sent")["stage"] == "read", "it is no field of a review"


def test_marks_are_kept_in_the_text_as_received_and_come_with_the_reveal(page_database: Database, case_id: str) -> None:
    register(page_database, BO, CY)
    write(page_database, update(cases).values(text="one \u202etwo three"))
    claim = take(page_database, BO, _now())
    marked = form("insufficient_information").model_copy(update={"marks": (TextMark(start=5, end=8),)})
    reviews.submit_review(page_database, BO.at(_now()), case_id, claim.token, marked, clock.new_id(_now()))
    page = OpenDesk().take_next()
    shown = {"part": "text", "start": 12, "end": 15}
    assert page["case"]["text"] == "one ⟨U+202E⟩two three" and "'end': 15" not in str(page.told)
    page.save(marks=[shown], read_to_end=False)
    mine = _mine(page_database, case_id)
    assert mine.form.marks == (TextMark(start=5, end=8),) and mine.form.read_to_end is False
    [other] = page["read"]["others"]
    assert page["read"]["form"]["marks"] == other["marks"] == [shown] and "bo" not in other["who"].lower()


def test_a_review_taken_back_is_replaced_blind(page_database: Database, case_id: str, page: OpenDesk) -> None:
    """In another page, too."""
    page.ask("save", form={"label": "safe", "certainty": 5, "note": "why"})
    OpenDesk(case=case_id).ask("undo", case=case_id, review=page["last"]["review"])
    page.ask("reveal")
    assert page.answer["ok"] and page["stage"] == "reviewing" and page["draft"]["note"] == "why"
    assert _count(page_database, unblindings) == 0
    page.save("unsafe")
    mine = _mine(page_database, case_id)
    assert (mine.version, mine.blind, mine.form.label) == (1, True, "unsafe")


def test_after_the_reveal_a_review_is_revised_with_a_reason(page_database: Database) -> None:
    """What does not fit together is said only while it is changed; the case before it is another case."""
    first, second = fill(page_database, [Priority.P1, Priority.P2])
    page = OpenDesk().take_next().save().take_next().save()
    assert not page.ask("undo", case=second, review=page["last"]["review"]).answer["ok"] and page["stage"] == "read"
    doubtful = {"label": "safe", "certainty": 4, "disposition": "contact_now", "rev": 2}
    assert len(page.ask("draft", form=doubtful | {"revision": True})["points"]) == 1
    assert page.ask("draft", form=doubtful)["points"] == [], "of a page that had not heard of the save"
    assert not page.ask("revise", form=doubtful).answer["ok"]
    page.ask("revise", form=doubtful, note="second thoughts")
    assert page["last"] is None and page["draft"] == {"marks": []} and page["points"] == []
    assert (page["case"]["id"], page["read"]["version"], page["read"]["blind"]) == (second, 2, False)
    assert page.ask("previous", case=None)["case"]["id"] == first


def test_a_case_may_become_urgent_or_be_erased_while_it_is_open(
    page_database: Database, case_id: str, page: OpenDesk
) -> None:
    """The list beside it says so; nobody may take five minutes for four hours."""
    assert "P2" in page["case"]["priority_words"]
    with page_database.write() as conn:
        placed = Placement(priority=Priority.P0, why=Why.LIKELY_URGENT)
        settle(conn, case_id, placed, Label.UNSAFE, _now(), SiteSettings(), research_order=False)
    page.look()
    assert "P0" in page["case"]["priority_words"] and page["case"]["needs_note"] and page["said"]
    assert page["case"]["due"] < 1000 * (_now() + timedelta(minutes=6)).timestamp()
    assert TEXT in str(page.save().told)
    with page_database.write() as conn:
        erase_rows(conn, [case_id], None, _now())
    page.look()
    assert TEXT not in str(page.told) and (page["stage"], page["case"]["text"]) == ("read", ERASED)
    seen = len(audit_log.events(page_database, LOCAL_USER))
    assert page.look()["case"]["text"] == ERASED
    assert len(audit_log.events(page_database, LOCAL_USER)) == seen, "it is read anew once"


def test_a_p0_case_may_be_opened_at_once_and_is_then_not_blind(page_database: Database) -> None:
    [urgent] = fill(page_database, [Priority.P0])
    page = OpenDesk().take_next().ask("at_once")
    assert page["case"]["evidence"]
    assert page.save()["read"]["blind"] is False and _mine(page_database, urgent).blind is False


def test_a_case_that_is_not_in_hand_shows_nothing_of_itself(page_database: Database, case_id: str) -> None:
    claims.claim_next(page_database, BO.at(_now()))
    page = OpenDesk(case=case_id)
    assert page["stage"] == "named" and TEXT not in str(page.told)
    assert not page.ask("take", case=case_id).answer["ok"] and TEXT not in str(page.told)
    [other] = fill(page_database)
    assert page.take_next()["case"]["id"] == other, "no dead end"


def test_two_windows_of_one_person_get_two_cases_and_one_that_was_left_its_own(page_database: Database) -> None:
    fill(page_database, [Priority.P2] * 3)
    windows = [OpenDesk().ask_list().take_next() for _ in range(2)]
    first, second = (window["case"]["id"] for window in windows)
    assert first != second
    windows[0].ask_list(left="1")
    assert OpenDesk().ask_list().take_next()["case"]["id"] == first, "after a reload it goes on"


def test_covered_texts_are_neither_loaded_nor_counted(page_database: Database, case_id: str) -> None:
    page = OpenDesk(cover="1").take_next()
    for action, opened in (("alive", 0), ("uncover", 1)):
        assert (TEXT in str(page.ask(action).told)) is bool(opened)
        assert exposure(page_database, LOCAL_USER.at(_now()), last_midnight(_now())).texts == opened


def test_a_break_is_offered_between_cases_and_loses_nothing(page_database: Database) -> None:
    first, _second = fill(page_database, [Priority.P2, Priority.P3])
    words = "{texts} read. **Tea** <img src=x onerror=alert(1)>?"
    few = SiteSettings(break_after_texts=1, break_wording=words)
    settings_store.change(page_database, LOCAL_USER.at(_now()), few, settings_store.current(page_database).version)
    page = OpenDesk().take_next()
    assert page["rest"] == "", "never in the midst of a case"
    assert page.save()["rest"] == words.format(texts=1) and page.ask("go_on")["rest"] == "", "put off"
    assert page.ask("take_break")["stage"] == "idle"
    assert claims.my_claims(page_database, LOCAL_USER.at(_now())) == ()
    assert _mine(page_database, first) and counts(page_database, LOCAL_USER.at(_now())).free == 1


@pytest.mark.parametrize(
    ("disposition", "alone", "closed"),
    [("none", "safe", True), ("contact_now", "unsafe", False), ("none", "insufficient_information", False)],
)
def test_it_is_closed_only_where_nothing_is_open(page: OpenDesk, disposition: str, alone: str, closed: bool) -> None:
    """A follow-up, or a second review that nobody is there to give, is told with whom it is and until when."""
    read = page.save(alone, disposition=disposition)["read"]
    assert ("closed" in read["becomes"].lower()) is closed and len(read["follow_ups"]) == (not closed)
    assert all("for you" in one["words"] and one["due"] > 1_000 * time() for one in read["follow_ups"])


def test_what_is_no_action_is_answered_and_left_alone(page: OpenDesk) -> None:
    for nonsense in ({"kind": "delete"}, {"kind": "skip", "id_": "x"}, {"kind": "skip", "case": "' or 1=1"}):
        page.send(page.asked("skip") | nonsense)
        assert page.answer["ok"] is False and page["stage"] == "reviewing"
    assert not page.ask("draft", case="0" * 32, form={"note": "x"}).answer["ok"]


@pytest.mark.parametrize("after", ["next", "previous", "undo", "finish"])
def test_what_follows_a_refused_save_is_refused(page_database: Database, page: OpenDesk, after: str) -> None:
    case_id = page["case"]["id"]
    fill(page_database)
    _give_to_bo(page_database, case_id)
    saving = page.asked("save", form={"label": "unsafe", "certainty": 4})
    for _ in range(2):  # the second time as if its answer had not arrived
        page.send(saving, page.asked(after, case=None))
        first, second = page.answers.values()
        assert first == second and not first["ok"] and page["stage"] == "over" and page["words"] == first["words"]
        assert page["case"]["id"] == case_id


def test_an_answer_that_was_lost_is_told_again_and_the_action_done_once(page_database: Database) -> None:
    first, second = fill(page_database, [Priority.P1, Priority.P2])
    page = OpenDesk().take_next()
    sent = page.asked("save", form=GIVEN), page.asked("next", case=None)
    before = dict(page.address)
    for _ in range(2):
        page.address = before.copy()  # the browser has not heard of it
        page.send(*sent)
        assert [each["ok"] for each in page.answers.values()] == [True, True]
        assert page["case"]["id"] == second and page["last"]["case"] == first
    after_restart = OpenDesk(case=first).send(sent[0])
    assert after_restart.answer["ok"] and after_restart["stage"] == "read"
    assert _mine(page_database, first).id == sent[0]["id"] and _count(page_database, reviews_table) == 1


@pytest.mark.parametrize("kind", ["save", "second", "at_once", "skip", "hold", "draft"])
def test_a_case_that_went_to_a_colleague_is_let_alone(page_database: Database, kind: str) -> None:
    """And what was typed is kept."""
    (case_id,) = fill(page_database, [Priority.P0])
    page = OpenDesk().take_next().ask("draft", form={"label": "unsafe", "certainty": 4, "rev": 1})
    _give_to_bo(page_database, case_id)
    typed = {"form": {"label": "unsafe", "certainty": 4, "note": "typed last", "rev": 2}}
    page.ask(kind, **(typed if kind in ("save", "draft") else {}))
    assert page.answer["ok"] is (kind == "draft")
    assert page["stage"] == "over" and not page["may_take"] and TEXT not in str(page.told)
    assert _count(page_database, unblindings) == _count(page_database, reviews_table) == 0
    kept = load_draft(page_database, LOCAL_USER, case_id) or {}
    assert kept.get("note") == ("typed last" if kind in ("save", "draft") else None)
    assert not page.ask("take", case=case_id).answer["ok"] and TEXT not in str(page.told)
