"""Files on offer: made for whoever asks by then, for one browser, in parts, never half a file for a whole one."""

import csv
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.testclient import TestClient
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest

from jobs import intake
from pages.ui import context
from pages.ui.downloads import CSV, FILES_ROUTE, LINES_AT_ONCE, StreamedFile, _begin, offer_file
from pages.ui.http import SIGNED_IN_COOKIE
from screening.datasets.rows import RejectedRow
from screening.review.policy import LOCAL_USER, Acting, Action, Actor, Forbidden, Role
from storage.audit_log import events
from storage.batches.intake import add_rows
from storage.database import Database
from storage.site.accounts import Ended, SessionEnded, set_active, set_roles
from tests.pages.conftest import Opener, html_on, refusals
from tests.pages.researched import sample_rows, screened
from tests.storage.batch_of import batch, decide, waiting
from tests.storage.people import ADMIN, ANN, NOW, RESEARCHER

SITE = Starlette(routes=[FILES_ROUTE])


def _get(address: str, **cookies: str) -> Any:
    return TestClient(SITE, cookies=cookies).get(address)


def _rows(address: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(_get(address).text.removeprefix("\ufeff"))))


def _offer(
    lines: Callable[[Acting], Iterator[str]],
    browser: str = "",
    who: Callable[[], Actor] = lambda: LOCAL_USER,
    name: str = "a.csv",
) -> str:
    return offer_file(browser, StreamedFile("A", name, CSV, lines), who)


def test_a_file_comes_whole_under_its_name_and_is_kept_by_no_cache() -> None:
    lines = [f"{number} é\ud83d\n" for number in range(3 * LINES_AT_ONCE + 1)]
    answer = _get(_offer(lambda _: iter(lines), name='b"é.csv'))
    assert answer.content.decode() == "".join(lines).replace("\ud83d", "?") and answer.status_code == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="b.csv"'
    assert answer.headers["cache-control"] == "no-store" and answer.headers["content-type"] == CSV


@pytest.mark.parametrize("width", [200, 200_000])
def test_a_file_is_made_while_it_is_sent(width: int) -> None:
    """In short lines or in long ones: nothing is made before it is asked for, but for the first part."""
    made = 0

    def lines(_by: Acting) -> Iterator[str]:
        nonlocal made
        for _ in range(10 * LINES_AT_ONCE):
            made += 1
            yield "x" * width

    parts = _begin(StreamedFile("A", "a", CSV, lines), lambda: LOCAL_USER)
    assert len(next(parts)) == made * width and 0 < made <= LINES_AT_ONCE
    assert sum(map(len, parts)) == (made - min(LINES_AT_ONCE, 1_000_000 // width)) * width


def test_only_the_browser_it_was_offered_to_has_it() -> None:
    address = _offer(lambda _: iter(["secret"]), "mine")
    for cookies in ({SIGNED_IN_COOKIE: "mine"}, {f"{SIGNED_IN_COOKIE}__1": "mi", f"{SIGNED_IN_COOKIE}__2": "ne"}):
        assert _get(address, **cookies).text == "secret", "a large cookie comes in parts"
    for cookies in ({}, {SIGNED_IN_COOKIE: "other"}, {"other": "mine"}):
        refused = _get(address, **cookies)
        assert refused.status_code == 404 and "secret" not in refused.text
    assert _get("/_file/unknown").status_code == 404


@pytest.mark.parametrize(
    ("refusal", "status"),
    [(SessionEnded(Ended.IDLE), 401), (Forbidden(ANN, Action.EXPORT), 403), (FileNotFoundError("an upload"), 410)],
)
@pytest.mark.parametrize("late", [False, True])
def test_a_refusal_is_an_answer(page_database: Database, refusal: Exception, status: int, late: bool) -> None:
    def inside(_by: Acting) -> Iterator[str]:
        raise refusal
        yield ""

    def at_once(_by: Acting) -> Iterator[str]:
        raise refusal

    assert _get(_offer(inside if late else at_once, who=lambda: ANN)).status_code == status
    assert refusals(page_database) == ([(ANN.id, None, "export")] if status == 403 else [])


def test_a_file_that_breaks_off_does_not_look_whole() -> None:
    def lines(_by: Acting) -> Iterator[str]:
        yield from ["row\n"] * (2 * LINES_AT_ONCE)
        raise OSError("the database went away")

    with pytest.raises(OSError, match="went away"):
        _get(_offer(lines))


FORMS = ("CSV", "JSON lines", "Parquet", "Label Studio")
RESULTS = {f"Results ({kind})" for kind in FORMS} | {"Rejected rows"}
CORRECTED_LABELS = {f"Corrected labels ({kind})" for kind in (*FORMS, "data card")}


def _links(page: AppTest) -> dict[str, str]:
    assert not page.exception, page.exception
    return {label: address for address, label in re.findall(r'href="(/_file/[^"]+)"[^>]*>⤓ ([^<]+)<', html_on(page))}


def test_each_file_is_logged_and_asks_the_role_again(visit: Opener, page_database: Database) -> None:
    batch_id = batch(page_database, ["a private text", "and another"], closed=False)
    add_rows(page_database, batch_id, [RejectedRow(row=3, reason="empty", original_json='"a private row"')], NOW)
    for case_id in waiting(page_database):
        decide(page_database, case_id)
    links = _links(visit(RESEARCHER.id, "batches", batch=batch_id))
    assert links.keys() == RESULTS | CORRECTED_LABELS

    def given() -> dict[str, int]:
        return {label: _get(address).status_code for label, address in links.items()}

    assert set(given().values()) == {200}
    found = events(page_database, LOCAL_USER, action="exported", subject=batch_id)
    assert [str(event.details["kind"]) for event in reversed(found)] == [one.split()[0].lower() for one in links]
    assert {event.actor for event in found} == {RESEARCHER.id}
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset({Role.SENIOR}))
    assert given() == dict.fromkeys(RESULTS, 200) | dict.fromkeys(CORRECTED_LABELS, 403)
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset())
    assert set(given().values()) == {403} and "private" not in "".join(_get(one).text for one in links.values())
    set_active(page_database, ADMIN.at(NOW), RESEARCHER.id, False)
    assert set(given().values()) == {401}


@pytest.mark.parametrize("name", ["evaluation", "reliability", "audit"])
def test_a_button_asks_the_role_again(
    visit: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    made: list[Callable[[], object]] = []
    for place in (st, DeltaGenerator):
        monkeypatch.setattr(place, "download_button", lambda *_, data, **__: made.append(data))
    screened(page_database, sample_rows(every=60))
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset({Role.SENIOR}))  # who may see all three
    visit(RESEARCHER.id, name)
    assert made and all(make() for make in made)
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset({Role.REVIEWER}))
    for make in made:
        with pytest.raises(Forbidden):
            make()


def test_rejected_rows_of_an_upload(visit: Opener, page_database: Database) -> None:
    folder, content = context.settings().data_directory / "uploads", b"id,text\n1,I am fine\n1,I am fine\n"
    kept = intake.keep(folder, "texts.csv", io.BytesIO(content), RESEARCHER.id)
    (address,) = _links(visit(RESEARCHER.id, "batches", upload=kept.token)).values()
    assert [(row["row"], row["reason"]) for row in _rows(address)] == [("2", "duplicate")]
    intake.discard(kept)
    assert _get(address).status_code == 410
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset({Role.REVIEWER}))
    assert _get(address).status_code == 403
