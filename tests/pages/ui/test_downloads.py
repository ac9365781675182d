"""What is on offer is made for whoever asks by then, and what leaves of a batch stands in the audit log."""

import csv
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.testclient import TestClient
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest

from jobs import uploads
from pages.ui import context, http
from pages.ui.downloads import FILES_ROUTE
from screening.datasets.rows import RejectedRow
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER, Role
from screening.review.policy import Forbidden
from storage.audit_log import events
from storage.batches.intake import add_rows
from storage.database import Database
from storage.site.accounts import set_active, set_roles
from tests.pages.conftest import Opener, html_on, restart, script_at, sign_in
from tests.pages.researched import sample_rows, screened
from tests.storage.batch_of import batch, decide, waiting
from tests.storage.inbox_cases import ADMIN, NOW, RESEARCHER, register

FORMS = ("CSV", "JSON lines", "Parquet", "Label Studio")
RESULTS = {f"Results ({kind})" for kind in FORMS} | {"Rejected rows"}
CORRECTED_LABELS = {f"Corrected labels ({kind})" for kind in (*FORMS, "data card")}
REPEATED = b"id,text\n1,I am fine\n1,I am fine\n"


@pytest.fixture
def signed_in(open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """Open a page as the researcher, who has signed in."""
    monkeypatch.setattr(context, "now", lambda: NOW)
    monkeypatch.setattr(http, "sign_in_configured", lambda: True)
    register(page_database, ADMIN, RESEARCHER)
    restart()

    def opened(name: str, **query: str) -> AppTest:
        page = sign_in(open_page(), RESEARCHER.id, NOW)
        for key, value in query.items():
            page.query_params[key] = value
        return page.switch_page(script_at(name)).run()

    return opened


def _links(page: AppTest) -> dict[str, str]:
    assert not page.exception, page.exception
    return {label: address for address, label in re.findall(r'href="(/_file/[^"]+)"[^>]*>⤓ ([^<]+)<', html_on(page))}


def _client() -> TestClient:
    return TestClient(Starlette(routes=[FILES_ROUTE]), raise_server_exceptions=False)


def _batch(db: Database) -> str:
    batch_id = batch(db, ["a private text", "and another"], closed=False)
    add_rows(db, batch_id, [RejectedRow(row=3, reason="empty", original_json='"a private row"')], NOW)
    for case_id in waiting(db):
        decide(db, case_id)
    return batch_id


def test_a_role_that_was_taken_away_takes_along_what_was_already_offered(
    signed_in: Callable[..., AppTest], page_database: Database
) -> None:
    links = _links(signed_in("batches", batch=_batch(page_database)))
    assert links.keys() == RESULTS | CORRECTED_LABELS

    def given() -> dict[str, int]:
        return {label: _client().get(address).status_code for label, address in links.items()}

    assert set(given().values()) == {200}
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset({Role.SENIOR}))
    assert given() == dict.fromkeys(RESULTS, 200) | dict.fromkeys(CORRECTED_LABELS, 403)
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset())
    answers = [_client().get(address) for address in links.values()]
    assert {answer.status_code for answer in answers} == {403}
    assert {answer.text for answer in answers} == {"Your role does not let you have this file."}
    set_active(page_database, ADMIN.at(NOW), RESEARCHER.id, False)
    assert set(given().values()) == {401}


def test_each_file_of_a_batch_that_leaves_is_logged_once_with_its_kind(
    open_page: Opener, page_database: Database
) -> None:
    batch_id = _batch(page_database)
    links = _links(open_page("batches", batch=batch_id))
    for number, (label, address) in enumerate(links.items(), start=1):
        assert _client().get(address).status_code == 200
        found = events(page_database, LOCAL_USER, action="exported", subject=batch_id)
        assert len(found) == number and found[0].actor == LOCAL_USER.id
        assert str(found[0].details["kind"]) == label.split()[0].lower()
    assert links.keys() == RESULTS | CORRECTED_LABELS


def test_files_hide_what_the_ai_made_of_a_case_in_review_by_the_switch(
    open_page: Opener, page_database: Database
) -> None:
    batch_id = batch(page_database, ["one", "two"], references="SU")
    for case_id, outcome in zip(waiting(page_database), (Outcome.HUMAN_REVIEW, Outcome.SAFE), strict=True):
        decide(page_database, case_id, outcome)
    page = open_page("batches", batch=batch_id)
    for hide, shown in ((True, ("in review", "", "", "")), (False, ("human_review", "worker", "exhausted", "6"))):
        page.toggle(key="hide_in_review").set_value(hide).run()
        text = _client().get(_links(page)["Results (CSV)"]).text.removeprefix("\ufeff")
        first, other = csv.DictReader(io.StringIO(text))
        assert (first["id"], first["reference"], first["hidden"]) == ("p1", "safe", str(hide))
        assert tuple(first[name] for name in ("outcome", "node", "reason", "calls")) == shown
        assert (other["outcome"], other["calls"], other["hidden"]) == ("safe", "6", "False")


@pytest.mark.parametrize("name", ["evaluation", "reliability", "audit"])
def test_a_button_that_makes_its_file_when_pressed_asks_the_role_again(
    signed_in: Callable[..., AppTest], page_database: Database, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    made: list[Callable[[], object]] = []

    def taken(*_: object, data: Any, **__: object) -> None:
        made.append(data)

    for place in (st, DeltaGenerator):
        monkeypatch.setattr(place, "download_button", taken)
    screened(page_database, sample_rows(every=60))
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset({Role.SENIOR}))  # who may see all three
    assert not signed_in(name).exception
    assert made and all(make() for make in made)
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset({Role.REVIEWER}))
    for make in made:
        with pytest.raises(Forbidden):
            make()


def test_rejected_rows_of_a_file_that_was_put_away_are_gone_and_say_so(
    open_page: Opener, page_database: Database
) -> None:
    folder = context.settings().data_directory / "uploads"
    kept = uploads.keep(folder, "texts.csv", io.BytesIO(REPEATED), LOCAL_USER.id)
    (address,) = _links(open_page("batches", upload=kept.token)).values()
    rows = list(csv.DictReader(io.StringIO(_client().get(address).text.removeprefix("\ufeff"))))
    assert [(row["row"], row["reason"]) for row in rows] == [("2", "duplicate")]
    uploads.discard(kept)
    answer = _client().get(address)
    assert (answer.status_code, answer.text) == (410, "This link has expired. Reload the page.")


def test_rejected_rows_of_a_file_are_for_whoever_may_begin_a_batch(
    signed_in: Callable[..., AppTest], page_database: Database
) -> None:
    folder = context.settings().data_directory / "uploads"
    kept = uploads.keep(folder, "texts.csv", io.BytesIO(REPEATED), RESEARCHER.id)
    (address,) = _links(signed_in("batches", upload=kept.token)).values()
    assert _client().get(address).status_code == 200
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset({Role.REVIEWER}))
    assert _client().get(address).status_code == 403
