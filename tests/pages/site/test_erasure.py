"""Settings, Erasure: how many first, then for good; times with a dry run."""

from datetime import timedelta

from screening.review.actors import LOCAL_USER
from storage.audit_log import append
from storage.database import Database
from storage.review import erasure
from storage.review.erasure import By, Selection
from storage.review.evidence import reveal_text
from storage.schema import ERASED
from storage.settings_store import current
from tests.pages.conftest import Opener, press
from tests.storage.batch_of import batch, decide, waiting
from tests.storage.inbox_cases import NOW


def _case(db: Database) -> str:
    batch(db, ["one text"])
    (case_id,) = waiting(db)
    decide(db, case_id)
    return case_id


def test_a_case_is_looked_for_and_then_erased(open_page: Opener, page_database: Database) -> None:
    case_id = _case(page_database)
    page = open_page("settings")
    page.text_input(key="erase_value").set_value(case_id)
    page.text_input(key="erase_reason").set_value("letter of today")
    page = press(page, "Show how many")
    assert any("1 case would be erased. No backup" in one.value for one in page.info)
    page.text_input(key="erase_value").set_value(f"not {case_id}")
    page = press(page, "Show how many")
    assert [one.value for one in page.info if "or all of it is erased already" in one.value]
    page.text_input(key="erase_value").set_value(case_id)
    page = press(page, "Erase")
    assert any("Look at the number" in one.value for one in page.error)
    assert reveal_text(page_database, LOCAL_USER.at(NOW), case_id).text == "one text"
    page.checkbox(key="erase_sure_0").set_value(True)
    page = press(page, "Erase")
    assert any("1 case erased." in one.value for one in page.success)
    assert reveal_text(page_database, LOCAL_USER.at(NOW), case_id).text == ERASED


def test_backups_that_may_still_hold_it_are_named_on_the_page(open_page: Opener, page_database: Database) -> None:
    case_id, taken = _case(page_database), NOW + timedelta(days=1)
    with page_database.write() as conn:
        append(conn, LOCAL_USER.at(taken), "backup_begun", None, {})
    page = open_page("settings")
    page.text_input(key="erase_value").set_value(case_id)
    page = press(page, "Show how many")
    named = f"Backups that may still hold it, 1 in all: {taken:%Y-%m-%d %H:%M} UTC."
    assert f"1 case would be erased. {named}" in [one.value for one in page.info]
    page.text_input(key="erase_reason").set_value("letter")
    page.checkbox(key="erase_sure_0").set_value(True)
    page = press(page, "Erase")
    assert f"1 case erased. {named}" in [one.value for one in page.success]


def test_with_two_people_the_request_waits_and_nobody_confirms_their_own(
    open_page: Opener, page_database: Database
) -> None:
    case_id = _case(page_database)
    page = open_page("settings")
    page.checkbox(key="erasure_by_two_v0").set_value(True)
    page.number_input(key="keep_texts_days_v0").set_value(90)
    page = press(page, "Save times")
    found = current(page_database).settings
    assert (found.erasure_by_two, found.keep_texts_days) == (True, 90)
    asked = erasure.erase(page_database, LOCAL_USER.at(NOW), Selection(by=By.CASE, value=case_id), "letter")
    page = open_page("settings")
    assert page.button(key=f"confirm_{asked.waits_for}").disabled
    page = press(page, "Preview expired data")
    assert any("Nothing has expired" in one.value for one in page.info) and not page.exception
    page.button(key=f"withdraw_{asked.waits_for}").click().run()
    assert erasure.open_requests(page_database, LOCAL_USER) == ()
