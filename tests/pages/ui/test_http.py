"""What stands before Streamlit: headers, the deep link, the refusal to bind wider; and a real app that can reach
nothing but this machine.
"""

import base64
import hashlib
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import streamlit as st
from httpx import Headers
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from pages.ui.http import (
    NEXT_COOKIE,
    SIGN_IN_AGAIN,
    SIGNED_IN_COOKIE,
    Addresses,
    SecurityHeaders,
    UnsafeBind,
    content_policy,
    require_safe_bind,
    take_options,
)
from tests.free_port import free_port
from tests.jobs.processes import Workers, app_program, serves, wait_for, workers
from tests.pages.ui.served import signed

__all__ = ["workers"]


async def _answer(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("reached")


def _client(**cookies: str) -> TestClient:
    middleware = [
        Middleware(SecurityHeaders, policy="default-src 'none'"),
        Middleware(Addresses, pages=(), sign_in=True),
    ]
    site = Starlette(routes=[Route("/{path:path}", _answer)], middleware=middleware)
    return TestClient(site, follow_redirects=False, cookies=cookies)


SIGNED_IN = {SIGNED_IN_COOKIE: signed({})}


def test_the_policy_names_every_inline_script_of_the_installed_streamlit() -> None:
    index = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    script = index.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in content_policy(index)
    assert index.count("<script>") == content_policy(index).count("sha256-") == 1


def test_every_answer_carries_the_headers() -> None:
    headers = _client().get("/screen").headers
    assert headers["content-security-policy"] == "default-src 'none'"
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    assert _client().get("/media/results.csv").headers["cache-control"] == "no-store"


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
    with pytest.raises(UnsafeBind):
        require_safe_bind(address, sign_in=False)
    require_safe_bind(address, sign_in=True)
    for ours in ("127.0.0.1", "::1", "localhost"):
        require_safe_bind(ours, sign_in=False)


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


def test_options_of_the_environment_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "STREAMLIT_SECRETS_FILES": "/a.toml /b.toml",
        "STREAMLIT_SERVER_MAX_MESSAGE_SIZE": "17",
        "STREAMLIT_SERVER_ALLOWED_HOSTS": "clinic.example",
        "STREAMLIT_SERVER_HEADLESS": "false",
        "ANOTHER": "x",
    }
    try:
        take_options(given)
        names = ("secrets.files", "server.maxMessageSize", "server.allowedHosts", "server.headless")
        assert [st.get_option(name) for name in names] == [["/a.toml", "/b.toml"], 17, ["clinic.example"], False]
        with pytest.raises(ValidationError):
            take_options({"STREAMLIT_SERVER_MAX_MESSAGE_SIZE": "many"})
    finally:
        take_options({})


def test_behind_tls_cookies_go_over_tls_alone_and_a_site_may_have_browsers_keep_to_it() -> None:
    async def cookies(_request: Request) -> PlainTextResponse:
        answer = PlainTextResponse("reached")
        answer.set_cookie("one", "1", httponly=True)
        answer.set_cookie("two", "2; secure", secure=True)
        return answer

    def served(**how: Any) -> Headers:
        headers = Middleware(SecurityHeaders, policy="", **how)
        return TestClient(Starlette(routes=[Route("/", cookies)], middleware=[headers])).get("/").headers

    for how, secure, kept in (
        ({}, [0, 1], None),
        ({"tls": True}, [1, 1], None),
        ({"hsts_days": 365}, [1, 1], "max-age=31536000"),
    ):
        headers = served(**how)
        assert [each.lower().count("; secure") for each in headers.get_list("set-cookie")] == secure
        assert headers.get("strict-transport-security") == kept


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port of the app, started as `serve.py` starts it, behind a guard that refuses what goes outside and notes it
    in a file.
    """
    folder, port = tmp_path_factory.mktemp("guarded"), free_port()
    program = ("-m", "tests.guarded_program", str(folder / "tried"), "app", *app_program(port)[1:])
    started = Workers(folder)
    started.start(f"sqlite:///{folder / 'x.db'}", {"sampler": "simulated", "data_directory": folder / "data"}, program)
    wait_for(lambda: started.dead() or serves(port), 120)
    assert serves(port), started.log_of()
    yield port, folder / "tried"
    started.end()


def _connect(port: int, origin: str) -> ClientConnection:
    """A web socket as a browser on a page of this origin opens it."""
    address = f"ws://127.0.0.1:{port}/_stcore/stream"
    return connect(address, origin=Origin(origin), proxy=None, open_timeout=30, max_size=None)


@pytest.mark.timeout(240)
def test_fifty_foreign_handshakes_ask_nobody_outside_and_hold_nobody_up(guarded: tuple[int, Path]) -> None:
    port, tried = guarded
    for number in range(50):
        with pytest.raises(InvalidStatus, match="403"):
            _connect(port, f"http://elsewhere-{number}.example")
    begun = time.monotonic()
    assert serves(port) and time.monotonic() - begun < 3
    assert tried.read_text() == ""


@pytest.mark.timeout(240)
def test_a_page_is_shown_without_a_request_to_anybody_outside(guarded: tuple[int, Path]) -> None:
    port, tried = guarded
    run = BackMsg()
    run.rerun_script.query_string = ""
    with _connect(port, f"http://127.0.0.1:{port}") as page:
        page.send(BackMsg(clear_cache=True).SerializeToString())
        page.send(run.SerializeToString())
        while True:
            message = ForwardMsg.FromString(bytes(page.recv(timeout=60)))  # type: ignore[arg-type]
            if message.WhichOneof("type") == "script_finished":
                assert message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY
                break
    assert tried.read_text() == ""


def test_what_there_is_is_served_and_all_else_answered_404(guarded: tuple[int, Path]) -> None:
    port, _tried = guarded
    there = ["/", "/batches", "/batches?batch=0123", "/favicon.png", "/_stcore/health"]
    pages = ["/nonsense", "/batches/nonsense", "/index.html", "/static/nonsense.js", "/wp-login.php"]
    nothing = [*pages, "/_stcore/nonsense", "/_stcore/metrics", "/batches/_stcore/metrics", "/_stcore/metrics/"]
    found = {}
    for path in there + nothing:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                found[path] = answer.status
        except urllib.error.HTTPError as refused:
            found[path] = refused.code
    assert found == dict.fromkeys(there, 200) | dict.fromkeys(nothing, 404)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Head: " + b"x" * 300_000)
        assert b" 400 " in connection.recv(1000), "a head without end"
