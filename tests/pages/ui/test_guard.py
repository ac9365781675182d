"""The guard before Streamlit: pages of this host, messages of a page, files of those alone who may send them."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit import config
from streamlit.config_option import ConfigOption
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection

from pages.ui import auth, context, http
from pages.ui.auth import BUSY, Guard
from pages.ui.http import REFUSED, SIGNED_IN_COOKIE, own_page
from screening.review.actors import Role
from storage.audit_log import events
from storage.database import Database
from storage.site.accounts import revoke, set_active, set_roles
from tests.pages.ui.conftest import Guarded
from tests.storage.inbox_cases import ADMIN, ANN, NOW, RESEARCHER, register

HOST = "127.0.0.1:8501"


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


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        (HOST, f"http://{HOST}"),
        ("localhost:8501", "http://localhost:8501"),
        ("127.0.0.1", "https://127.0.0.1"),  # behind TLS at its usual port
        ("127.0.0.1:443", "https://127.0.0.1"),
        ("LOCALHOST:8501", "http://localhost:8501"),
    ],
)
def test_a_page_of_this_host_and_port_is_let_in(host: str, origin: str) -> None:
    assert own_page(_handshake(("host", host), ("origin", origin)))


@pytest.mark.parametrize(
    "origin",
    [
        "http://127.0.0.1:8502",
        "http://127.0.0.1",
        "http://localhost:8501",
        "http://elsewhere.example:8501",
        "http://127.0.0.1:8501.elsewhere.example",
        "http://127.0.0.1:8501@elsewhere.example",
        "http://elsewhere.example/127.0.0.1:8501",
        "http://127.0.0.1:8501/",
        "http://127.0.0.1:99999",
        "null",
        "file://",
        "chrome-extension://abcdef",
        "",
    ],
)
def test_every_other_origin_is_foreign(origin: str) -> None:
    assert not own_page(_handshake(("host", HOST), ("origin", origin)))


def test_a_handshake_says_one_origin_and_one_host_and_the_host_is_one_of_ours() -> None:
    ours = ("origin", f"http://{HOST}")
    assert not own_page(_handshake(("host", HOST)))
    assert not own_page(_handshake(("host", HOST), ours, ("origin", "http://elsewhere.example")))
    assert not own_page(_handshake(("host", HOST), ("host", "elsewhere.example"), ours))
    assert not own_page(_handshake(ours))
    rebound = ("host", "elsewhere.example:8501"), ("origin", "http://elsewhere.example:8501")
    assert not own_page(_handshake(*rebound)), "a name that leads here is not ours by that"


def test_a_site_may_name_the_address_that_its_proxy_is_reached_at(monkeypatch: pytest.MonkeyPatch) -> None:
    behind = ("host", HOST), ("origin", "https://clinic.example")
    assert not own_page(_handshake(*behind))
    _set(monkeypatch, "server.corsAllowedOrigins", "https://clinic.example")
    assert own_page(_handshake(*behind))


async def _echo(socket: WebSocket) -> None:
    await socket.accept()
    with suppress(WebSocketDisconnect):
        while True:
            await socket.send_bytes(await socket.receive_bytes())


def _guarded() -> TestClient:
    app = Starlette(routes=[WebSocketRoute("/_stcore/stream", _echo)], middleware=[Middleware(Guard, sign_in=False)])
    return TestClient(app, base_url=f"http://{HOST}")


def test_messages_of_developers_do_not_reach_the_server() -> None:
    """Each kind there is, sent before one of a page: only those of a page come back."""
    kinds = {
        "clear_cache": BackMsg(clear_cache=True),
        "set_run_on_save": BackMsg(set_run_on_save=True),
        "load_git_info": BackMsg(load_git_info=True),
        "debug_shutdown_runtime": BackMsg(debug_shutdown_runtime=True),
        "debug_disconnect_websocket": BackMsg(debug_disconnect_websocket=True),
        "nothing": BackMsg(),
    }
    page = BackMsg(stop_script=True).SerializeToString()
    with _guarded().websocket_connect(f"ws://{HOST}/_stcore/stream", headers={"origin": f"http://{HOST}"}) as socket:
        for message in kinds.values():
            socket.send_bytes(message.SerializeToString())
            socket.send_bytes(page)
            assert socket.receive_bytes() == page


def test_a_foreign_page_does_not_get_as_far_as_the_server() -> None:
    with (
        pytest.raises(WebSocketDisconnect) as refused,
        _guarded().websocket_connect(f"ws://{HOST}/_stcore/stream", headers={"origin": "http://elsewhere.example"}),
    ):
        pass
    assert refused.value.code == REFUSED


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

    scope = _handshake(("host", HOST), ("origin", f"http://{HOST}"))
    with suppress(TimeoutError):
        async with asyncio.timeout(0.5):
            await Guard(app, sign_in=sign_in)(scope, receive, send)
    return heard + sent


async def test_who_has_not_signed_in_sends_little_and_stays_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (BackMsg(rerun_script={"query_string": "x" * size}).SerializeToString() for size in (9, 99_000))
    assert await _heard([large, small], sign_in=False) == [len(large), len(small)], "where nobody signs in"
    assert await _heard([small, large, small]) == [len(small), REFUSED]
    monkeypatch.setattr(http, "STRANGERS_STAY_S", 0.05)
    assert await _heard([small]) == [len(small), REFUSED]
    monkeypatch.setattr(auth, "MOST_STRANGERS", 0)
    assert await _heard([small]) == [BUSY]


def _shown(socket: ClientConnection) -> bool:
    """Whether the page comes: everything that is sent until its script has ended."""
    while True:
        message = ForwardMsg.FromString(bytes(socket.recv(timeout=60)))  # type: ignore[arg-type]
        if message.WhichOneof("type") == "script_finished":
            return message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY


@pytest.mark.timeout(240)
def test_fifty_foreign_handshakes_ask_nobody_outside_and_hold_nobody_up(guarded: Guarded) -> None:
    usual = sorted(guarded.health() for _ in range(5))[2]
    for number in range(50):
        with pytest.raises(InvalidStatus, match="403"):
            guarded.connect(f"http://elsewhere-{number}.example")
    assert guarded.health() < usual + 2
    assert guarded.tried.read_text() == ""


@pytest.mark.timeout(240)
def test_a_page_is_shown_without_a_request_to_anybody_outside(guarded: Guarded) -> None:
    with guarded.connect(f"http://{guarded.address}") as socket:
        socket.send(BackMsg(clear_cache=True).SerializeToString())
        run = BackMsg()
        run.rerun_script.query_string = ""
        socket.send(run.SerializeToString())
        assert _shown(socket)
    assert guarded.tried.read_text() == ""


UPLOAD = "/_stcore/upload_file/session/file"
HERE = f"http://{HOST}"


async def _taken(request: Request) -> PlainTextResponse:
    try:
        return PlainTextResponse(f"taken: {len(await request.body())}")
    except ClientDisconnect:
        return PlainTextResponse("cut off", status_code=400)


def _client(*, sign_in: bool) -> TestClient:
    guard = Middleware(Guard, sign_in=sign_in)
    app = Starlette(routes=[Route(UPLOAD, _taken, methods=["PUT", "GET", "DELETE"])], middleware=[guard])
    return TestClient(app, base_url=HERE, headers={"origin": HERE})


def _signed(claims: object) -> str:
    return create_signed_value(get_cookie_secret(), SIGNED_IN_COOKIE, json.dumps(claims)).decode()


@pytest.fixture
def sent(page_database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """The answer's status when this person's browser sends a file; they signed in at noon, and it is noon."""
    register(page_database, ADMIN, ANN, RESEARCHER)
    monkeypatch.setattr(context, "now", lambda: NOW)

    def of(subject: str) -> int:
        client = _client(sign_in=True)
        client.cookies.set(SIGNED_IN_COOKIE, _signed({"iss": "idp", "sub": subject, "iat": NOW.timestamp()}))
        return client.put(UPLOAD, content=b"x").status_code

    return of


def test_nobody_sends_a_file_before_signing_in() -> None:
    client = _client(sign_in=True)
    assert client.put(UPLOAD, content=b"x").status_code == 401
    client.cookies.set(SIGNED_IN_COOKIE, "forged")
    assert client.put(UPLOAD, content=b"x").status_code == 401
    client.cookies.set(SIGNED_IN_COOKIE, _signed({}))
    assert client.put(UPLOAD, content=b"x").status_code == 401, "a good signature under nobody's name"


def test_whoever_may_create_batches_sends_files_and_nobody_else(
    sent: Callable[[str], int], page_database: Database
) -> None:
    assert [sent(RESEARCHER.id), sent(ANN.id), sent(ADMIN.id), sent("a newcomer")] == [200, 403, 403, 403]
    refused = [event for event in events(page_database, ADMIN) if event.action == "refused"]
    assert {ANN.id, ADMIN.id} < {event.actor for event in refused} and len(refused) == 3
    assert all(event.details == {"asked": "create_batch"} for event in refused)


def test_a_role_taken_away_an_account_switched_off_and_a_session_ended_count_at_once(
    sent: Callable[[str], int], page_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset({Role.REVIEWER}))
    assert sent(RESEARCHER.id) == 403
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset({Role.RESEARCHER}))
    assert sent(RESEARCHER.id) == 200
    set_active(page_database, ADMIN.at(NOW), RESEARCHER.id, False)
    assert sent(RESEARCHER.id) == 401
    set_active(page_database, ADMIN.at(NOW), RESEARCHER.id, True)
    monkeypatch.setattr(context, "now", lambda: NOW + timedelta(minutes=31))
    assert sent(RESEARCHER.id) == 401, "idle"
    revoke(page_database, ADMIN.at(NOW), RESEARCHER.id)
    assert sent(RESEARCHER.id) == 401


def test_a_file_comes_from_a_page_of_this_host() -> None:
    client = _client(sign_in=False)
    assert client.put(UPLOAD, content=b"abc").text == "taken: 3"
    for origin in ("http://elsewhere.example", "http://127.0.0.1:3000", "null"):
        assert client.put(UPLOAD, content=b"abc", headers={"origin": origin}).status_code == 403
    del client.headers["origin"]
    assert client.put(UPLOAD, content=b"abc").status_code == 403
