"""Files on offer: for one browser, while the session counts, in parts, and never half a file for a whole one."""

import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pages.ui.downloads import CSV, FILES_ROUTE, LINES_AT_ONCE, Offer, Offers, StreamedFile, offers
from pages.ui.http import SIGNED_IN_COOKIE
from screening.review.actors import LOCAL_USER, Actor
from screening.review.policy import Action, Forbidden
from storage.audit_log import events
from storage.database import Database
from storage.site.accounts import Ended, SessionEnded
from tests.pages.ui.served import serve
from tests.storage.inbox_cases import ADMIN, ANN


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
    return offers().take(Offer(file=file, browser=browser, who=who))


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


def test_a_cookie_in_several_parts_is_one() -> None:
    address = _offer(_file(lambda: iter(["all"])), "onetwo")
    assert _client(**{f"{SIGNED_IN_COOKIE}__1": "one", f"{SIGNED_IN_COOKIE}__2": "two"}).get(address).text == "all"


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
    first, second, third = (
        few.take(Offer(file=file, browser="", who=lambda: LOCAL_USER)).rpartition("/")[2] for _ in range(3)
    )
    assert few.find(first, "") is None and few.find(second, "") and few.find(third, "")
