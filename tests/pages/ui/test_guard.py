"""The guard before Streamlit: pages of this host, messages of a page, files of those alone who may send them."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit import config
from streamlit.config_option import ConfigOption
from streamlit.proto.BackMsg_pb2 import BackMsg

from pages.ui import auth, http
from pages.ui.auth import BUSY, Guard
from pages.ui.http import REFUSED, SIGNED_IN_COOKIE, own_page
from screening.review.actors import Role
from storage.audit_log import events
from storage.database import Database
from storage.site.accounts import set_active, set_roles
from tests.pages.ui.conftest import Clock
from tests.pages.ui.served import claims_of, signed
from tests.storage.inbox_cases import ADMIN, ANN, NOW, RESEARCHER

HOST = "127.0.0.1:8501"
HERE = f"http://{HOST}"


@pytest.fixture(autouse=True)
def _own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hosts of `.streamlit/config.toml`, which is read once a process, from wherever that was started."""
    _set(monkeypatch, "server.allowedHosts", "127.0.0.1", "localhost")


def _set(monkeypatch: pytest.MonkeyPatch, name: str, *values: str) -> None:
    option = ConfigOption(name, description="", default_val=list(values), type_=str, multiple=True)
    option.set_value(list(values), "test")
    monkeypatch.setitem(config.get_config_options(), name, option)


def _handshake(*headers: tuple[str, str]) -> Scope:
    return {"type": "websocket", "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers]}


OURS = ("host", HOST), ("origin", HERE)
ELSEWHERE = "http://elsewhere.example"


@pytest.mark.parametrize(
    ("host", "origin", "ours"),
    [
        (HOST, HERE, True),
        ("localhost:8501", "http://localhost:8501", True),
        ("127.0.0.1", "https://127.0.0.1", True),  # behind TLS at its usual port
        ("127.0.0.1:443", "https://127.0.0.1", True),
        ("LOCALHOST:8501", "http://localhost:8501", True),
        (HOST, "http://127.0.0.1:8502", False),
        (HOST, "http://127.0.0.1", False),
        (HOST, "http://localhost:8501", False),
        (HOST, f"{ELSEWHERE}:8501", False),
        (HOST, f"{HERE}.elsewhere.example", False),
        (HOST, f"{HERE}@elsewhere.example", False),
        (HOST, f"{ELSEWHERE}/127.0.0.1:8501", False),
        (HOST, f"{HERE}/", False),
        (HOST, "http://127.0.0.1:99999", False),
        (HOST, "null", False),
        (HOST, "file://", False),
        (HOST, "chrome-extension://abcdef", False),
        (HOST, "", False),
        ("elsewhere.example:8501", f"{ELSEWHERE}:8501", False),  # a name that leads here is not ours by that
    ],
)
def test_a_page_of_this_host_and_port_is_let_in_and_no_other(host: str, origin: str, ours: bool) -> None:
    assert own_page(_handshake(("host", host), ("origin", origin))) is ours


def test_a_handshake_says_one_origin_and_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    host, origin = OURS
    for said in ((host,), (origin,), (*OURS, ("origin", ELSEWHERE)), (*OURS, ("host", "elsewhere.example"))):
        assert not own_page(_handshake(*said)), said
    behind = host, ("origin", "https://clinic.example")
    assert not own_page(_handshake(*behind))
    _set(monkeypatch, "server.corsAllowedOrigins", "https://clinic.example")
    assert own_page(_handshake(*behind)), "a site may name the address that its proxy is reached at"


async def _echo(socket: WebSocket) -> None:
    await socket.accept()
    with suppress(WebSocketDisconnect):
        while True:
            await socket.send_bytes(await socket.receive_bytes())


def test_messages_of_developers_do_not_reach_the_server() -> None:
    """Each kind there is, sent before one of a page: only those of a page come back."""
    kinds = ("clear_cache", "set_run_on_save", "load_git_info", "debug_shutdown_runtime", "debug_disconnect_websocket")
    page = BackMsg(stop_script=True).SerializeToString()
    app = Starlette(routes=[WebSocketRoute("/_stcore/stream", _echo)], middleware=[Middleware(Guard, sign_in=False)])
    client = TestClient(app, base_url=HERE)
    with client.websocket_connect(f"ws://{HOST}/_stcore/stream", headers={"origin": HERE}) as socket:
        for message in (BackMsg(), *(BackMsg(**{kind: True}) for kind in kinds)):
            socket.send_bytes(message.SerializeToString())
            socket.send_bytes(page)
            assert socket.receive_bytes() == page


async def _heard(messages: list[bytes], *, sign_in: bool = True) -> list[object]:
    """What reaches the server of these messages by somebody without a sign-in, and then of silence; how it ended."""
    coming, heard, sent = iter(messages), list[object](), list[object]()

    async def receive() -> Message:
        if (content := next(coming, None)) is None:
            await asyncio.sleep(60)
        return {"type": "websocket.receive", "bytes": content}

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (message := await receive())["type"] == "websocket.receive":
            heard.append(len(message["bytes"]))
        heard.append(message["code"])

    async def send(message: Message) -> None:
        sent.append(message["code"])

    with suppress(TimeoutError):
        async with asyncio.timeout(0.5):
            await Guard(app, sign_in=sign_in)(_handshake(*OURS), receive, send)
    return heard + sent


async def test_who_has_not_signed_in_sends_little_and_stays_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (BackMsg(rerun_script={"query_string": "x" * size}).SerializeToString() for size in (9, 99_000))
    assert await _heard([large, small], sign_in=False) == [len(large), len(small)], "where nobody signs in"
    assert await _heard([small, large, small]) == [len(small), REFUSED]
    monkeypatch.setattr(http, "STRANGERS_STAY_S", 0.05)
    assert await _heard([small]) == [len(small), REFUSED]
    monkeypatch.setattr(auth, "MOST_STRANGERS", 0)
    assert await _heard([small]) == [BUSY]


UPLOAD = "/_stcore/upload_file/session/file"


async def _taken(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"taken: {len(await request.body())}")


def _client(*, sign_in: bool = True, **cookies: str) -> TestClient:
    guard = Middleware(Guard, sign_in=sign_in)
    app = Starlette(routes=[Route(UPLOAD, _taken, methods=["PUT", "GET", "DELETE"])], middleware=[guard])
    return TestClient(app, base_url=HERE, headers={"origin": HERE}, cookies=cookies)


def _send(cookie: str) -> int:
    return _client(**{SIGNED_IN_COOKIE: cookie}).put(UPLOAD, content=b"x").status_code


@pytest.fixture
def sent(clock: Clock) -> Callable[[str], int]:
    """The answer's status when this person's browser sends a file."""
    return lambda who: _send(signed(claims_of(who)))


def test_whoever_may_create_batches_sends_files_and_nobody_else(
    sent: Callable[[str], int], page_database: Database
) -> None:
    assert [_send(cookie) for cookie in ("", "forged", signed({}))] == [401] * 3  # the last is signed for nobody
    assert [sent(RESEARCHER.id), sent(ANN.id), sent(ADMIN.id), sent("a newcomer")] == [200, 403, 403, 403]
    refused = [event for event in events(page_database, ADMIN) if event.action == "refused"]
    assert {ANN.id, ADMIN.id} < {event.actor for event in refused} and len(refused) == 3
    assert all(event.details == {"asked": "create_batch"} for event in refused)


def test_what_is_taken_from_somebody_counts_at_once(
    sent: Callable[[str], int], page_database: Database, clock: Clock
) -> None:
    by, who = ADMIN.at(NOW), RESEARCHER.id
    assert sent(ANN.id) == 403
    for change, status in (
        (lambda: set_roles(page_database, by, who, frozenset({Role.REVIEWER})), 403),
        (lambda: set_roles(page_database, by, who, frozenset({Role.RESEARCHER})), 200),
        (lambda: set_active(page_database, by, who, False), 401),
        (lambda: set_active(page_database, by, who, True), 200),
    ):
        change()
        assert sent(who) == status
    clock.now += timedelta(minutes=31)
    assert sent(ANN.id) == 401, "idle"


def test_a_file_comes_from_a_page_of_this_host() -> None:
    client = _client(sign_in=False)
    assert client.put(UPLOAD, content=b"abc").text == "taken: 3"
    for origin in (ELSEWHERE, "http://127.0.0.1:3000", "null"):
        assert client.put(UPLOAD, content=b"abc", headers={"origin": origin}).status_code == 403
    del client.headers["origin"]
    assert client.put(UPLOAD, content=b"abc").status_code == 403
