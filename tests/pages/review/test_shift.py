"""The shift page, and follow-ups at the top of the inbox."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from screening.review.actors import LOCAL_USER
from screening.review.review_form import Disposition
from screening.review.triage import Priority
from storage.database import Database
from storage.review.follow_ups import open_follow_up, open_ones
from storage.schema import cases, follow_ups
from tests.databases import write
from tests.pages.conftest import Opener
from tests.pages.review.desk import unfold
from tests.storage.inbox_cases import ANN, MINUTE, NOW, fill


def test_the_shift_page_shows_every_priority(open_page: Opener, page_database: Database) -> None:
    page = open_page("shift")
    assert not page.exception
    assert list(page.table[0].value["Priority"]) == [priority.name for priority in Priority]
    page.selectbox(key="shift_length").set_value("Chosen times").run()
    assert not page.exception


def test_a_period_that_is_not_over_is_counted_as_far_as_it_has_passed(
    open_page: Opener, page_database: Database
) -> None:
    now = datetime.now(UTC)
    fill(page_database, [Priority.P2], entered_at=[now - timedelta(minutes=10)])  # due in almost four hours
    page = open_page("shift")
    page.selectbox(key="shift_length").set_value("Chosen times").run()
    page.date_input(key="shift_from_day").set_value((now - timedelta(days=2)).date())
    page.number_input(key="shift_hours").set_value(24 * 14).run()
    assert not page.exception
    row = _row(page, "P2")
    assert row[:3] == ["1", "0", "0"] and row[5] == "–" and row[8:] == ["1", "0"], "nothing is late yet"
    assert any("is still to come" in each.value for each in page.text)
    page.date_input(key="shift_from_day").set_value((now + timedelta(days=3)).date()).run()
    assert not page.exception and [each.value for each in page.info] == ["This period has not begun."]


def _row(page: AppTest, priority: str) -> list[str]:
    """The cells of this priority."""
    table = page.table[0].value
    return list(table[table["Priority"] == priority].iloc[0])[1:]


def test_follow_ups_that_are_not_overdue_are_drawn_once_they_are_unfolded(
    open_page: Opener, page_database: Database
) -> None:
    now = datetime.now(UTC)
    for case_id in fill(page_database, [Priority.P2, Priority.P2], entered=False):
        with page_database.write() as conn:
            open_follow_up(conn, LOCAL_USER.at(now), case_id, Disposition.CONTACT_NOW)
    page = open_page("inbox")
    panel = _follow_ups(page)
    assert (panel.label, panel.proto.expanded, len(page.text_input)) == ("2 follow-ups open", False, 0)
    unfold(page, "follow-up")
    assert [each.label for each in page.text_input] == ["Note", "Note"]
    page.text_input[0].set_value("called")
    page.button(key=f"follow_up_done_{(page.text_input[0].key or '').rpartition('_')[2]}").click().run()
    panel = _follow_ups(page)  # under its new heading still unfolded
    assert (panel.label, panel.proto.expanded, len(page.text_input)) == ("1 follow-up open", True, 1)


def _follow_ups(page: AppTest) -> Any:
    [found] = [each for each in page.expander if "follow-up" in each.label]
    return found


def test_what_is_left_with_nobody_is_offered_to_whoever_reads_the_inbox(
    open_page: Opener, page_database: Database
) -> None:
    (case_id,) = fill(page_database)  # it waits: nobody else is told which case it is
    name = "päivä " * 5 + "17"
    write(page_database, update(cases).where(cases.c.id == case_id).values(external_id=name))
    with page_database.write() as conn:
        open_follow_up(conn, ANN.at(NOW), case_id, Disposition.CONTACT_NOW)
    page = open_page("inbox")
    assert any("1 follow-up with nobody, 1 overdue" in text.value for text in page.text) and not page.text_input
    page.button(key="follow_ups_take_over").click().run()
    assert not page.exception
    said = [text.value for text in page.text]
    assert name in said, "as the desk calls it"
    assert any(text.startswith("Assigned to you · open since 2026-11-20") for text in said)
    assert [one.case_id for one in open_ones(page_database, LOCAL_USER.at(NOW)).shown] == [case_id]


def test_a_follow_up_stays_on_the_inbox_until_it_is_closed(open_page: Opener, page_database: Database) -> None:
    (case_id,) = fill(page_database, entered=False)
    with page_database.write() as conn:
        open_follow_up(conn, LOCAL_USER.at(NOW), case_id, Disposition.CONTACT_NOW)
        conn.execute(follow_ups.update().values(note="ring the **sister** first"))
    page = open_page("inbox")
    assert not page.exception
    assert "Noted before: ring the **sister** first" in [text.value for text in page.text]
    (one,) = open_ones(page_database, LOCAL_USER.at(NOW + 90 * MINUTE)).shown
    assert any("1 follow-up open, 1 overdue" in expander.label for expander in page.expander)
    page.button(key=f"follow_up_done_{one.id}").click().run()
    assert any("Say in a note" in error.value for error in page.error)
    page.text_input(key=f"follow_up_note_{one.id}").set_value("called, is with family")
    page.button(key=f"follow_up_done_{one.id}").click().run()
    assert open_ones(page_database, LOCAL_USER.at(NOW)).shown == []
    assert not any("follow-up" in expander.label for expander in page.expander)
    said = [text.value for text in open_page("case", case=case_id).text]
    assert any(each.startswith("Contact now · completed by you") for each in said)
    assert "ring the **sister** first\ncalled, is with family" in said
