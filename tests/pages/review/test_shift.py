"""The shift page, and follow-ups at the top of the inbox."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from screening.review.actors import LOCAL_USER, Actor
from screening.review.review_form import Disposition
from screening.review.triage import Priority
from storage.database import Database
from storage.review.follow_ups import open_follow_up, open_ones
from storage.schema import cases, follow_ups
from tests.databases import write
from tests.pages.conftest import Opener
from tests.storage.inbox_cases import fill
from tests.storage.people import ANN, MINUTE, NOW


def _open(db: Database, case_id: str, now: datetime = NOW, who: Actor = LOCAL_USER) -> None:
    with db.write() as conn:
        open_follow_up(conn, who.at(now), case_id, Disposition.CONTACT_NOW)


def _follow_ups(page: AppTest) -> Any:
    assert not page.exception
    [found] = [each for each in page.expander if "follow-up" in each.label]
    return found


def _texts(page: AppTest) -> list[str]:
    assert not page.exception
    return [text.value for text in page.text]


def test_a_shift_is_counted_as_far_as_it_has_passed(open_page: Opener, page_database: Database) -> None:
    now = datetime.now(UTC)
    fill(page_database, [Priority.P2], entered_at=[now - timedelta(minutes=10)])  # due in almost four hours
    page = open_page("shift")
    assert list(page.table[0].value["Priority"]) == [priority.name for priority in Priority]
    page.selectbox(key="shift_length").set_value("Chosen times").run()
    page.date_input(key="shift_from_day").set_value((now - timedelta(days=2)).date())
    page.number_input(key="shift_hours").set_value(24 * 14).run()
    row = list(page.table[0].value.iloc[Priority.P2])[1:]
    assert row[:3] == ["1", "0", "0"] and row[5] == "–" and row[8:] == ["1", "0"], "nothing is late yet"
    assert any("is still to come" in each for each in _texts(page))
    page.date_input(key="shift_from_day").set_value((now + timedelta(days=3)).date()).run()
    assert not page.exception and len(page.info) == 1 and not page.table


def test_what_is_left_with_nobody_is_taken_over(open_page: Opener, page_database: Database) -> None:
    (case_id,) = fill(page_database)  # it waits: nobody else is told which case it is
    name = "päivä " * 5 + "17"
    write(page_database, update(cases).where(cases.c.id == case_id).values(external_id=name))
    _open(page_database, case_id, who=ANN)
    page = open_page("inbox")
    assert any("1 follow-up with nobody, 1 overdue" in said for said in _texts(page)) and not page.text_input
    page.button(key="follow_ups_take_over").click().run()
    assert name in _texts(page), "as the desk calls it"
    assert [one.case_id for one in open_ones(page_database, LOCAL_USER.at(NOW)).shown] == [case_id]


def test_a_follow_up_stays_on_the_inbox_until_it_is_closed(open_page: Opener, page_database: Database) -> None:
    (case_id,) = fill(page_database, entered=False)
    _open(page_database, case_id)
    write(page_database, update(follow_ups).values(note="ring the **sister** first"))
    page = open_page("inbox")
    assert "Noted before: ring the **sister** first" in _texts(page)
    (one,) = open_ones(page_database, LOCAL_USER.at(NOW + 90 * MINUTE)).shown
    assert "1 overdue" in _follow_ups(page).label
    page.button(key=f"follow_up_done_{one.id}").click().run()
    assert page.error and _follow_ups(page), "a note says what was done"
    page.text_input(key=f"follow_up_note_{one.id}").set_value("called, is with family")
    page.button(key=f"follow_up_done_{one.id}").click().run()
    assert open_ones(page_database, LOCAL_USER.at(NOW)).shown == []
    assert not any("follow-up" in expander.label for expander in page.expander)
    said = _texts(open_page("case", case=case_id))
    assert any(each.startswith("Contact now · completed by you") for each in said)
    assert "ring the **sister** first\ncalled, is with family" in said
