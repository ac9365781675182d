"""What stands before Streamlit: headers, the deep link, the refusal to bind wider; the guard of web sockets and files;
a real app that can reach nothing but this machine; and the gate, with a clock that the tests turn.
"""

import asyncio
import socket
import urllib.error
import urllib.request
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import streamlit as st
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from streamlit import config
from streamlit.config_option import ConfigOption
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.testing.v1 import AppTest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from pages.ui import auth, http
from pages.ui.http import NEXT_COOKIE, REFUSED, SIGN_IN_AGAIN, SIGNED_IN_COOKIE, own_page
from screening.review.policy import LOCAL_USER, Role
from storage.database import Database
from storage.site.accounts import Ended, revoke, set_active, set_roles
from tests.jobs.processes import Workers, app_program, serves, wait_for, workers
from tests.pages.conftest import Opener, refusals
from tests.pages.ui.conftest import Clock, claims_of, signed
from tests.processes import free_port
from tests.storage.inbox_cases import fill
from tests.storage.people import ADMIN, ANN, MINUTE, NOW, RESEARCHER

__all__ = ["workers"]
HOST = "127.0.0.1:8501"
HERE = f"http://{HOST}"


async def _answer(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("reached")


def _client(**cookies: str) -> TestClient:
    guard = Middleware(http.Addresses, pages=(), sign_in=True)
    site = Starlette(routes=[Route("/{path:path}", _answer)], middleware=[guard])
    return TestClient(site, follow_redirects=False, cookies=cookies)


SIGNED_IN = {SIGNED_IN_COOKIE: signed({})}


def test_a_deep_link_survives_the_sign_in_once() -> None:
    client = _client()
    for path in ("/favicon.png", "/errors/_stcore/host-config", "/static/js/index.js", "/_file/token"):
        client.get(path)
    client.get("/manifest", headers={"Sec-Fetch-Dest": "manifest"})
    assert NEXT_COOKIE not in client.cookies, "what a page fetches by itself is none"
    arrived = client.get("/inbox?case=0123abc")
    assert NEXT_COOKIE in client.cookies and "HttpOnly" in arrived.headers["set-cookie"]
    client.cookies.update(SIGNED_IN)
    back = client.get("/")
    assert (back.status_code, back.headers["location"]) == (303, "/inbox?case=0123abc")
    assert client.get("/").text == "reached"


def test_signing_in_again_forgets_the_cookie_and_goes_back_to_the_page() -> None:
    back = _client(**SIGNED_IN).get(f"{SIGN_IN_AGAIN}?next={quote('/inbox?case=0123abc', safe='')}")
    assert (back.status_code, back.headers["location"]) == (303, "/inbox?case=0123abc")
    assert f'{SIGNED_IN_COOKIE}=""' in back.headers["set-cookie"]


@pytest.mark.parametrize("target", ["https://away.example", "//away.example", "/\\away.example", "/a\r\nb"])
def test_the_deep_link_never_leads_elsewhere(target: str) -> None:
    away = quote(target, safe="")
    assert _client(**SIGNED_IN, **{NEXT_COOKIE: away}).get("/").text == "reached"
    assert _client(**SIGNED_IN).get(f"{SIGN_IN_AGAIN}?next={away}").headers["location"] == "/"


@pytest.mark.parametrize("address", [None, "", "0.0.0.0", "::", "192.0.2.7", "clinic.example"])
def test_a_wider_bind_is_refused_without_sign_in(address: str | None) -> None:
    with pytest.raises(http.UnsafeBind):
        http.require_safe_bind(address, sign_in=False)
    http.require_safe_bind(address, sign_in=True)
    for ours in ("127.0.0.1", "::1", "localhost"):
        http.require_safe_bind(ours, sign_in=False)


@pytest.mark.parametrize(
    ("address", "secrets", "why"),
    [("0.0.0.0", "", "only serves 127.0.0.1"), ("127.0.0.1", "[auth\nbroken", "secrets file cannot be read")],
)
def test_the_server_does_not_start_open(workers: Workers, tmp_path: Path, address: str, secrets: str, why: str) -> None:
    """Every interface without sign-in, or a secrets file that cannot be read: no server."""
    (tmp_path / "secrets.toml").write_text(secrets)
    options = {"STREAMLIT_SERVER_ADDRESS": address}
    if secrets:
        options["STREAMLIT_SECRETS_FILES"] = str(tmp_path / "secrets.toml")
    workers.start(f"sqlite:///{tmp_path / 'x.db'}", options, app_program(free_port()))
    wait_for(workers.dead, 60)
    assert workers.alive[0].returncode != 0 and why in workers.log_of()


def test_options_of_the_environment_are_taken() -> None:
    given = {"SECRETS_FILES": "/a.toml /b.toml", "SERVER_MAX_MESSAGE_SIZE": "17", "SERVER_HEADLESS": "false"}
    try:
        http.take_options({f"STREAMLIT_{name}": said for name, said in given.items()} | {"ANOTHER": "x"})
        names = ("secrets.files", "server.maxMessageSize", "server.headless")
        assert [st.get_option(name) for name in names] == [["/a.toml", "/b.toml"], 17, False]
        with pytest.raises(ValidationError):
            http.take_options({"STREAMLIT_SERVER_MAX_MESSAGE_SIZE": "many"})
    finally:
        http.take_options({})


@pytest.mark.parametrize(
    ("how", "secure", "kept"),
    [({}, [0, 1], None), ({"tls": True}, [1, 1], None), ({"hsts_days": 365}, [1, 1], "max-age=31536000")],
)
def test_every_answer_carries_the_headers(how: dict[str, Any], secure: list[int], kept: str | None) -> None:
    """Behind TLS cookies go over TLS alone, and a site may have browsers keep to it."""

    async def cookies(_request: Request) -> PlainTextResponse:
        answer = PlainTextResponse("reached")
        answer.set_cookie("one", "1", httponly=True)
        answer.set_cookie("two", "2; secure", secure=True)
        return answer

    guard = Middleware(http.SecurityHeaders, **how)
    headers = TestClient(Starlette(routes=[Route("/media/a", cookies)], middleware=[guard])).get("/media/a").headers
    assert [each.lower().count("; secure") for each in headers.get_list("set-cookie")] == secure
    assert (headers.get("strict-transport-security"), headers["x-content-type-options"]) == (kept, "nosniff")
    assert (headers["content-security-policy"], headers["x-frame-options"]) == (http.content_policy(), "DENY")
    assert headers["cache-control"] == "no-store"


@pytest.fixture(autouse=True)
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
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
    ("host", "origins", "ours"),
    [
        (HOST, [HERE], True),
        ("localhost:8501", ["http://localhost:8501"], True),
        ("LOCALHOST:8501", ["http://localhost:8501"], True),
        ("127.0.0.1", ["https://127.0.0.1"], True),  # behind TLS at its usual port
        ("127.0.0.1:443", ["https://127.0.0.1"], True),
        (HOST, ["http://127.0.0.1:8502", "http://127.0.0.1", "http://localhost:8501", "http://127.0.0.1:99999"], False),
        (HOST, [f"{ELSEWHERE}:8501", f"{HERE}.away.example", f"{HERE}@away.example", f"{ELSEWHERE}/{HOST}"], False),
        (HOST, [f"{HERE}/", f"http://away@{HOST}", "null", "file://", "chrome-extension://abcdef", ""], False),
        ("elsewhere.example:8501", [f"{ELSEWHERE}:8501"], False),  # a name that leads here is not ours by that
    ],
)
def test_a_page_of_this_host_and_port_is_let_in_and_no_other(host: str, origins: list[str], ours: bool) -> None:
    for origin in origins:
        assert own_page(_handshake(("host", host), ("origin", origin))) is ours, origin


def test_a_handshake_says_one_origin_and_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    host, origin = OURS
    for said in ((host,), (origin,), (*OURS, ("origin", ELSEWHERE)), (*OURS, ("host", "elsewhere.example"))):
        assert not own_page(_handshake(*said)), said
    behind = host, ("origin", "https://clinic.example")
    assert not own_page(_handshake(*behind))
    _set(monkeypatch, "server.corsAllowedOrigins", "https://clinic.example")
    assert own_page(_handshake(*behind)), "a site may name the address that its proxy is reached at"


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
            await auth.Guard(app, sign_in=sign_in)(_handshake(*OURS), receive, send)
    return heard + sent


async def test_messages_of_developers_do_not_reach_the_server() -> None:
    kinds = ("clear_cache", "set_run_on_save", "load_git_info", "debug_shutdown_runtime", "debug_disconnect_websocket")
    page = BackMsg(rerun_script={"query_string": "of a page"}).SerializeToString()
    sent = [message.SerializeToString() for message in (BackMsg(), *(BackMsg(**{kind: True}) for kind in kinds))]
    assert await _heard([*sent, page], sign_in=False) == [len(page)]


async def test_who_has_not_signed_in_sends_little_and_stays_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (BackMsg(rerun_script={"query_string": "x" * size}).SerializeToString() for size in (9, 99_000))
    assert await _heard([large, small], sign_in=False) == [len(large), len(small)], "where nobody signs in"
    assert await _heard([small, large, small]) == [len(small), REFUSED]
    monkeypatch.setattr(http, "STRANGERS_STAY_S", 0.05)
    assert await _heard([small]) == [len(small), REFUSED]
    monkeypatch.setattr(auth, "MOST_STRANGERS", 0)
    assert await _heard([small]) == [auth.BUSY]


UPLOAD = "/_stcore/upload_file/session/file"


async def _taken(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"taken: {len(await request.body())}")


def _uploader(*, sign_in: bool = True, **cookies: str) -> TestClient:
    guard = Middleware(auth.Guard, sign_in=sign_in)
    app = Starlette(routes=[Route(UPLOAD, _taken, methods=["PUT", "GET", "DELETE"])], middleware=[guard])
    return TestClient(app, base_url=HERE, headers={"origin": HERE}, cookies=cookies)


def test_whoever_may_create_batches_sends_files_and_a_role_taken_away_counts_at_once(
    page_database: Database, clock: Clock
) -> None:
    def send(cookie: str) -> int:
        return _uploader(**{SIGNED_IN_COOKIE: cookie}).put(UPLOAD, content=b"x").status_code

    by, who = ADMIN.at(NOW), RESEARCHER.id
    assert [send(cookie) for cookie in ("", "forged", signed({}))] == [401] * 3  # the last is signed for nobody
    assert [send(signed(claims_of(one))) for one in (who, ANN.id, ADMIN.id, "a newcomer")] == [200, 403, 403, 403]
    refused = refusals(page_database)
    assert {ANN.id, ADMIN.id} < {actor for actor, _, _ in refused} and len(refused) == 3
    assert {duty for _, _, duty in refused} == {"create_batch"}
    for change, status in (
        (lambda: set_roles(page_database, by, who, frozenset({Role.REVIEWER})), 403),
        (lambda: set_roles(page_database, by, who, frozenset({Role.RESEARCHER})), 200),
        (lambda: set_active(page_database, by, who, False), 401),
        (lambda: set_active(page_database, by, who, True), 200),
    ):
        change()
        assert send(signed(claims_of(who))) == status
    clock.now += timedelta(minutes=31)
    assert send(signed(claims_of(who))) == 401, "idle"


def test_a_file_comes_from_a_page_of_this_host() -> None:
    client = _uploader(sign_in=False)
    assert client.put(UPLOAD, content=b"abc").text == "taken: 3"
    for origin in (ELSEWHERE, "http://127.0.0.1:3000", "null"):
        assert client.put(UPLOAD, content=b"abc", headers={"origin": origin}).status_code == 403
    del client.headers["origin"]
    assert client.put(UPLOAD, content=b"abc").status_code == 403


def _connect(port: int, origin: str) -> ClientConnection:
    """A web socket as a browser on a page of this origin opens it."""
    address = f"ws://127.0.0.1:{port}/_stcore/stream"
    return connect(address, origin=Origin(origin), proxy=None, open_timeout=30, max_size=None)


def _status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


@pytest.mark.timeout(240)
def test_the_app_serves_what_there_is_and_asks_nobody_outside(workers: Workers, tmp_path: Path) -> None:
    """As `serve.py` starts it, behind a guard that refuses what goes outside and notes it in a file."""
    port, tried = free_port(), tmp_path / "tried"
    program = ("-m", "tests.socket_guard", str(tried), "app", *app_program(port)[1:])
    options = {"sampler": "simulated", "data_directory": tmp_path / "data"}
    workers.start(f"sqlite:///{tmp_path / 'x.db'}", options, program)
    wait_for(lambda: workers.dead() or serves(port), 120)
    there = ["/", "/batches", "/batches?batch=0123", "/favicon.png", "/_stcore/health"]
    pages = ["/nonsense", "/batches/nonsense", "/index.html", "/static/nonsense.js", "/wp-login.php"]
    nothing = [*pages, "/_stcore/nonsense", "/_stcore/metrics", "/batches/_stcore/metrics", "/_stcore/metrics/"]
    found = {path: _status(port, path) for path in there + nothing}
    assert found == dict.fromkeys(there, 200) | dict.fromkeys(nothing, 404)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Head: " + b"x" * 300_000)
        assert b" 400 " in connection.recv(1000), "a head without end"
    for number in range(50):
        with pytest.raises(InvalidStatus, match="403"):
            _connect(port, f"http://elsewhere-{number}.example")
    run = BackMsg()
    run.rerun_script.query_string = ""
    with _connect(port, f"http://127.0.0.1:{port}") as page:
        page.send(BackMsg(clear_cache=True).SerializeToString())
        page.send(run.SerializeToString())
        messages = (ForwardMsg.FromString(bytes(page.recv(timeout=60))) for _ in range(10_000))  # type: ignore[arg-type]
        ended = next(one.script_finished for one in messages if one.WhichOneof("type") == "script_finished")
    assert ended == ForwardMsg.FINISHED_SUCCESSFULLY and tried.read_text() == ""


@pytest.fixture
def of_ann(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The same where a page is Ann's, outside of its script."""
    monkeypatch.setattr("streamlit.user_info._get_user_info", lambda: {"is_logged_in": True, **claims_of(ANN.id)})
    return clock


def test_a_sign_in_is_known_by_issuer_subject_and_moment_and_its_way_back_stays_here() -> None:
    claims = {"iss": "https://idp.example", "sub": "0", "iat": 1_790_000_000, "name": "Ann Example", "nonce": "n1"}
    found, again, other = (auth.sign_in_of(claims | more) for more in ({}, {}, {"nonce": "n2"}))
    assert (found.subject, found.display_name) == ("https://idp.example|0", "Ann Example")
    assert found.session_id == again.session_id != other.session_id
    assert len(auth.sign_in_of(claims | {"sub": "x" * 400}).subject) < 100
    for missing in ("iss", "sub", "iat"):
        with pytest.raises(auth.Unidentified):
            auth.sign_in_of({name: value for name, value in claims.items() if name != missing})
    back = auth.again_html("https://site.example/inbox", {"case": "01", "x": '"'})
    assert 'href="/sign-in-again?next=%2Finbox%3Fcase%3D01%26x%3D%2522"' in back


def _said(page: AppTest) -> str:
    shown = [*page.title, *page.markdown, *page.warning, *page.info, *page.error]
    return " ".join(element.value for element in shown)


def test_nobody_passes_unknown(visit: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor who has no role, nor whom the institution does not name; nor once the secrets file is gone."""
    page = visit("new", claims={"name": "![x](http://outside.example)"})
    assert page.code[0].value == "idp|new" and not page.text_area and not page.session_state["actor"].roles
    assert "outside.example" not in _said(page), "a name is markup in a message"
    page = visit("someone", claims={"iat": None})
    assert "does not say who you are" in _said(page) and not page.text_area
    page = visit(None)
    assert [button.label for button in page.button] == ["Sign in"] and not page.text_area
    monkeypatch.setattr(http, "sign_in_configured", lambda: False)
    assert [button.label for button in page.run().button] == ["Sign in"] and not page.text_area


def test_an_idle_or_revoked_session_is_refused(visit: Opener, clock: Clock, page_database: Database) -> None:
    page = visit(RESEARCHER.id)
    assert page.session_state["actor"] == RESEARCHER, "who has signed in works as themselves"
    clock.now += 29 * MINUTE
    assert page.run().text_area
    clock.now += 31 * MINUTE
    page.text_area(key="raw").set_value("typed").run()
    assert not page.text_area and auth.WHY[Ended.IDLE] in _said(page) and "actor" not in page.session_state
    clock.now += MINUTE
    assert not page.run().text_area, "loading the page again does not help"
    page = visit(ANN.id)
    revoke(page_database, LOCAL_USER.at(clock.now), ANN.id)
    assert not page.run().text_area and auth.WHY[Ended.SIGNED_OUT] in _said(page)


def test_a_role_taken_away_ends_what_polls(
    of_ann: Clock, page_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fragment runs without the shell: it sees for itself that the person it began with is not the same any more."""
    ticks: list[str] = []

    def rerun(*, scope: str) -> None:
        ticks.append(scope)
        raise InterruptedError

    monkeypatch.setattr(st, "session_state", {"actor": ANN})
    monkeypatch.setattr(st, "rerun", rerun)
    tick = auth.poll_session(lambda: ticks.append("tick"))
    tick()
    set_roles(page_database, ADMIN.at(of_ann.now), ANN.id, frozenset({Role.ADMIN}))
    with pytest.raises(InterruptedError):
        tick()
    assert ticks == ["tick", "app"]


@pytest.mark.parametrize("address", auth.FORGETTING)
def test_no_address_signs_somebody_out(page_database: Database, clock: Clock, address: str) -> None:
    """Another site can lead a browser there: only a session that has ended on the server is forgotten."""

    async def forget(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("forgotten")

    site = Starlette(routes=[Route(address, forget)], middleware=[Middleware(auth.Guard, sign_in=True)])
    client = TestClient(site)
    assert client.get(address).text == "forgotten", "nobody is signed in"
    client.cookies.set(SIGNED_IN_COOKIE, signed(claims_of(ANN.id)))
    assert client.get(address).status_code == 405
    revoke(page_database, LOCAL_USER.at(clock.now), ANN.id)
    clock.now += 31 * MINUTE
    assert client.get(address).text == "forgotten"


def test_signing_out_is_a_post_from_a_page_of_this_site(clock: Clock) -> None:
    cookie = signed(claims_of(ANN.id))
    site = Starlette(routes=[auth.SIGN_OUT_ROUTE])
    client = TestClient(site, base_url=HERE, cookies={SIGNED_IN_COOKIE: cookie})
    carried = {"type": "http", "headers": [(b"cookie", f"{SIGNED_IN_COOKIE}={cookie}".encode())]}
    assert client.get(auth.SIGN_OUT).status_code == 405
    elsewhere = {"origin": "null", "sec-fetch-site": "cross-site"}
    for origin in ({}, elsewhere, {"origin": "http://elsewhere.example"}, {"origin": "http://127.0.0.1:8502"}):
        assert client.post(auth.SIGN_OUT, headers=origin).status_code == 403 and auth.session_is_valid(carried)
    ours = client.post(auth.SIGN_OUT, headers={"origin": "null", "sec-fetch-site": "same-origin"})
    assert (ours.status_code, ours.headers["refresh"]) == (200, "0; url=/auth/logout")
    assert not auth.session_is_valid(carried), "ended on the server, whatever the browser keeps"


def test_what_was_refused_is_in_the_audit_log_once(visit: Opener, page_database: Database) -> None:
    """A page beyond one's role, a case in other hands, and a text that somebody else handed in, which is not shown."""
    [case_id] = fill(page_database, entered=False)
    [theirs] = fill(page_database, kind="interactive")
    visit(ANN.id, "errors").run()
    visit(ANN.id, "case", case=case_id).run()
    page = visit(ANN.id, "screen", case=theirs).run()
    assert not page.exception and "case" not in page.query_params
    kept = [(ANN.id, None, "view_results"), (ANN.id, case_id, "view_evidence"), (ANN.id, theirs, "view_evidence")]
    assert sorted(refusals(page_database), key=str) == sorted(kept, key=str)
