"""Files on offer: made for whoever asks by then, for one browser, in parts, never half a file for a whole one."""

import csv
import io
import re
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.testclient import TestClient
from streamlit.delta_generator import DeltaGenerator
from streamlit.testing.v1 import AppTest

from jobs import uploads
from pages.ui import context, http
from pages.ui.downloads import CSV, FILES_ROUTE, LINES_AT_ONCE, Offers, StreamedFile, offers
from pages.ui.http import SIGNED_IN_COOKIE
from screening.datasets.rows import RejectedRow
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER, Actor, Role
from screening.review.policy import Action, Forbidden
from storage.audit_log import events
from storage.batches.intake import add_rows
from storage.database import Database
from storage.site.accounts import Ended, SessionEnded, set_active, set_roles
from tests.pages.conftest import Opener, html_on, restart, script_at, sign_in
from tests.pages.researched import sample_rows, screened
from tests.pages.ui.served import serve
from tests.storage.batch_of import batch, decide, waiting
from tests.storage.inbox_cases import ADMIN, ANN, NOW, RESEARCHER, register


@pytest.fixture
def served() -> Iterator[str]:
    """A real server with the route."""
    with serve(Starlette(routes=[FILES_ROUTE])) as port:
        yield f"http://127.0.0.1:{port}"


def _client(**cookies: str) -> TestClient:
    return TestClient(Starlette(routes=[FILES_ROUTE]), cookies=cookies, raise_server_exceptions=False)


def _file(lines: Callable[[], Iterator[str]], name: str = "a.csv") -> StreamedFile:
    return StreamedFile(label="A", name=name, media_type=CSV, lines=lambda who: lines())


def _offer(file: StreamedFile, browser: str = "", who: Callable[[], Actor] = lambda: LOCAL_USER) -> str:
    return offers().take(browser, file, who)


def test_a_file_comes_whole_under_its_name_and_is_kept_by_no_cache() -> None:
    lines = [f"{number} é\ud83d\n" for number in range(3 * LINES_AT_ONCE + 1)]
    answer = _client().get(_offer(_file(lambda: iter(lines), 'b"é.csv')))
    assert answer.content.decode() == "".join(lines).replace("\ud83d", "?") and answer.status_code == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="b.csv"'
    assert answer.headers["cache-control"] == "no-store" and answer.headers["content-type"] == CSV


@pytest.mark.parametrize(("width", "count"), [(200, 1_000_000), (500_000, 400)])
def test_a_file_is_made_while_it_is_sent(served: str, width: int, count: int) -> None:
    made, line = 0, "x" * (width - 1) + "\n"

    def lines() -> Iterator[str]:
        nonlocal made
        for _ in range(count):
            made += 1
            yield line

    with urllib.request.urlopen(served + _offer(_file(lines))) as answer:
        assert answer.read(width) == line.encode()
        at_first = made
        rest = sum(len(part) for part in iter(lambda: answer.read(1 << 20), b""))
    assert rest == (count - 1) * width and made == count
    assert at_first < made / 4, "200 MB are not made before the first byte leaves, in short lines or in long ones"


def test_it_is_made_for_whoever_asks_by_then() -> None:
    people = iter([LOCAL_USER, replace(LOCAL_USER, id="later")])
    file = StreamedFile(label="A", name="a.csv", media_type=CSV, lines=lambda who: iter([who.id]))
    address = _offer(file, who=lambda: next(people))
    assert [_client().get(address).text for _ in range(2)] == ["local", "later"]


def test_only_the_browser_it_was_offered_to_has_it() -> None:
    address = _offer(_file(lambda: iter(["secret"])), "mine")
    assert _client(**{SIGNED_IN_COOKIE: "mine"}).get(address).text == "secret"
    for client in (_client(), _client(**{SIGNED_IN_COOKIE: "other"}), _client(other="mine")):
        refused = client.get(address)
        assert refused.status_code == 404 and "secret" not in refused.text
    assert _client().get("/_file/unknown").status_code == 404
    parts = {f"{SIGNED_IN_COOKIE}__1": "mi", f"{SIGNED_IN_COOKIE}__2": "ne"}
    assert _client(**parts).get(address).text == "secret", "a large cookie comes in parts"


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (SessionEnded(Ended.IDLE), 401),
        (Forbidden(LOCAL_USER, Action.EXPORT), 403),
        (FileNotFoundError("an upload"), 410),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_a_refusal_is_an_answer_also_from_inside_the_file(refusal: Exception, status: int, late: bool) -> None:
    def lines() -> Iterator[str]:
        raise refusal
        yield ""

    def at_once() -> Iterator[str]:
        raise refusal

    answer = _client().get(_offer(_file(lines if late else at_once)))
    assert answer.status_code == status and "Traceback" not in answer.text


def test_a_file_that_a_role_does_not_reach_is_in_the_audit_log(page_database: Database) -> None:
    def lines() -> Iterator[str]:
        raise Forbidden(ANN, Action.EXPORT)
        yield ""

    assert _client().get(_offer(_file(lines), who=lambda: ANN)).status_code == 403
    refused = [event for event in events(page_database, ADMIN) if event.action == "refused"]
    assert [(event.actor, event.details) for event in refused] == [(ANN.id, {"asked": "export"})]


def test_a_file_that_breaks_off_does_not_look_whole() -> None:
    def lines() -> Iterator[str]:
        yield from ["row\n"] * (2 * LINES_AT_ONCE)
        raise OSError("the database went away")

    with pytest.raises(OSError, match="went away"):
        TestClient(Starlette(routes=[FILES_ROUTE])).get(_offer(_file(lines)))


def test_the_oldest_offers_are_forgotten() -> None:
    few = Offers(2)
    file = _file(lambda: iter(()))
    first, second, third = (few.take("", file, lambda: LOCAL_USER).rpartition("/")[2] for _ in range(3))
    assert few.find(first, "") is None and few.find(second, "") and few.find(third, "")


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
