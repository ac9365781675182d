"""The forms of the settings page: what each saves, what each refuses in words and leaves as it was, and its secrets."""

from collections.abc import Mapping
from datetime import time, timedelta
from typing import Any

import pytest
from sqlalchemy import select
from streamlit.testing.v1 import AppTest

from screening.review.actors import LOCAL_USER
from storage.audit_log import append
from storage.database import Database
from storage.review import erasure
from storage.review.erasure import By, Selection
from storage.review.evidence import reveal_text
from storage.schema import ERASED, audit_events, notifications, programs
from storage.settings_store import current
from storage.site.accounts import Scope, UnknownToken, list_programs, program_of
from storage.site.recipients import Kind, list_recipients
from tests.pages.conftest import Opener, press
from tests.storage.batch_of import batch, decide, waiting
from tests.storage.inbox_cases import NOW

VERSION = "Save as a new version"
PROGRAM_NAME, WEBHOOK = "new_program-Name", "new_program-Webhook (https), notified of final labels"
"""Inputs without a key: their form and their label."""


def submit(page: AppTest, button: str, values: Mapping[str, Any]) -> AppTest:
    """Fill these in, by key or by form and label, and press."""
    kinds = (page.number_input, page.text_input, page.text_area, page.selectbox, page.checkbox, page.time_input)
    inputs = [one for kind in kinds for one in kind]
    for name, value in values.items():
        (one,) = (each for each in inputs if name in (each.key, f"{each.form_id}-{each.label}"))
        one.set_value(value)
    return press(page, button)


def recipient(target: str, kind: Kind = Kind.WEBHOOK, **more: Any) -> dict[str, Any]:
    return {"notify_name": "Ward *one*", "notify_kind": kind, "notify_target": target, **more}


@pytest.mark.parametrize(
    ("button", "filled", "stored"),
    [
        (VERSION, {"lease_minutes": 20.0, "break_wording": "Tea?"}, {"lease_minutes": 20, "break_wording": "Tea?"}),
        (VERSION, {"audit_urgent_share": 0.123, "second_review_rate": 0.0125},
         {"audit_urgent_share": 0.123, "second_review_rate": 0.0125}),
        ("Save times", {"erasure_by_two": True, "keep_texts_days": 90},
         {"erasure_by_two": True, "keep_texts_days": 90}),
        ("Save", {"P1_notify_minutes": 7.0, "public_address": "https://a.example/", "time_zone": "Europe/Berlin"},
         {"notify_minutes": (1, 7, 15, 60), "public_address": "https://a.example", "time_zone": "Europe/Berlin"}),
    ],
)  # fmt: skip
def test_what_a_form_saves_is_what_was_filled_in(
    open_page: Opener, page_database: Database, button: str, filled: dict[str, Any], stored: dict[str, Any]
) -> None:
    submit(open_page("settings"), button, {f"{name}_v0": value for name, value in filled.items()})
    found = current(page_database)
    assert {name: getattr(found.settings, name) for name in stored} == stored and found.version == 1


@pytest.mark.parametrize(
    ("button", "filled", "said"),
    [
        ("Save", {"time_zone_v0": "Nowhere/Town"}, "time zone"),
        ("Add", recipient("http://hooks.example.org/x"), "begins with https"),
        ("Add", recipient("json://127.0.0.1/x", Kind.SERVICE), "not known here"),
        ("Add", recipient("mailtos://", Kind.SERVICE), "not complete"),
        ("Add", recipient("https://hooks.example.org/x", notify_quiet_from=time(22)), "Give both times"),
        ("Create token", {PROGRAM_NAME: " ", WEBHOOK: ""}, ""),
        ("Create token", {PROGRAM_NAME: "Intake", WEBHOOK: "http://example.org/x"}, ""),
        ("Create token", {PROGRAM_NAME: "Intake", WEBHOOK: "no address"}, ""),
    ],
)  # fmt: skip
def test_what_a_form_refuses_is_said_and_nothing_is_kept(
    open_page: Opener, page_database: Database, button: str, filled: dict[str, Any], said: str
) -> None:
    page = submit(open_page("settings"), button, filled)
    assert any(said in one.value for one in page.error)
    assert (list_recipients(page_database, LOCAL_USER), list_programs(page_database, LOCAL_USER)) == ((), ())
    assert current(page_database).version == 0


def test_a_webhook_is_added_once_its_secret_shown_once_and_a_test_waits(
    open_page: Opener, page_database: Database
) -> None:
    hook = recipient("https://hooks.example.org/token-123")
    page = submit(open_page("settings"), "Add", hook)
    shown = [one.value for one in page.code]
    (made,) = list_recipients(page_database, LOCAL_USER)
    assert len(shown[0]) == 64 and made.shown == "hooks.example.org"
    page = press(page, "Send a test")
    assert "The test is on its way." in [one.value for one in page.success] and not page.code
    texts = " ".join(one.value for one in page.text)
    assert "hooks.example.org" in texts and "token-123" not in texts
    assert page_database.values(select(notifications.c.event)) == ["test"]
    logged = " ".join(page_database.values(select(audit_events.c.details)))
    assert "token-123" not in logged and "Ward" not in logged
    page = submit(page, "Add", hook)
    assert any("there already" in one.value for one in page.error)
    page = press(page, "Switch off")
    assert [one.active for one in list_recipients(page_database, LOCAL_USER)] == [False]
    press(page, "Remove")
    assert list_recipients(page_database, LOCAL_USER) == ()


def test_a_program_s_token_is_shown_once_works_and_is_revoked(open_page: Opener, page_database: Database) -> None:
    page = submit(open_page("settings"), "Create token", {PROGRAM_NAME: "<b>Intake</b>", WEBHOOK: ""})
    (token,) = (one.value for one in page.code if one.value.startswith("sl_"))
    made = program_of(page_database, token)
    assert (made.name, made.scopes, made.per_minute) == ("<b>Intake</b>", {Scope.SUBMIT, Scope.OUTCOMES}, 600)
    assert token not in str(page_database.rows(select(programs)) + page_database.rows(select(audit_events)))
    page.run()
    assert not [one for one in page.code if one.value.startswith("sl_")]
    page.button(key=f"revoke_program_{made.id}").click().run()
    assert not page.exception
    with pytest.raises(UnknownToken):
        program_of(page_database, token)


def _case(db: Database) -> str:
    batch(db, ["one text"])
    (case_id,) = waiting(db)
    decide(db, case_id)
    return case_id


def test_a_case_is_looked_for_and_then_erased_and_backups_that_may_still_hold_it_are_named(
    open_page: Opener, page_database: Database
) -> None:
    case_id, taken = _case(page_database), NOW + timedelta(days=1)
    with page_database.write() as conn:
        append(conn, LOCAL_USER.at(taken), "backup_begun", None, {})
    named = f"Backups that may still hold it, 1 in all: {taken:%Y-%m-%d %H:%M} UTC."
    page = submit(open_page("settings"), "Show how many", {"erase_value": case_id, "erase_reason": "letter of today"})
    assert f"1 case would be erased. {named}" in [one.value for one in page.info]
    page = submit(page, "Show how many", {"erase_value": f"not {case_id}"})
    assert [one.value for one in page.info if "or all of it is erased already" in one.value]
    page = submit(page, "Erase", {"erase_value": case_id})
    assert any("Look at the number" in one.value for one in page.error)
    assert reveal_text(page_database, LOCAL_USER.at(NOW), case_id).text == "one text"
    page = submit(page, "Erase", {"erase_sure_0": True})
    assert f"1 case erased. {named}" in [one.value for one in page.success]
    assert reveal_text(page_database, LOCAL_USER.at(NOW), case_id).text == ERASED


def test_with_two_people_the_request_waits_and_nobody_confirms_their_own(
    open_page: Opener, page_database: Database
) -> None:
    case_id = _case(page_database)
    submit(open_page("settings"), "Save times", {"erasure_by_two_v0": True})
    asked = erasure.erase(page_database, LOCAL_USER.at(NOW), Selection(by=By.CASE, value=case_id), "letter")
    page = open_page("settings")
    assert page.button(key=f"confirm_{asked.waits_for}").disabled
    page = press(page, "Preview expired data")
    assert any("Nothing has expired" in one.value for one in page.info)
    page.button(key=f"withdraw_{asked.waits_for}").click().run()
    assert erasure.open_requests(page_database, LOCAL_USER) == []
