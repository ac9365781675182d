"""What stands before Streamlit: headers, the upload guard, the deep link, and the refusal to bind wider."""

import base64
import hashlib
import os
import re
import socket
import subprocess
import sys
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
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

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
from tests.pages.ui.conftest import ROOT, Guarded


async def _answer(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("reached")


def _client(*, sign_in: bool) -> TestClient:
    middleware = [
        Middleware(SecurityHeaders, policy="default-src 'none'"),
        Middleware(Addresses, pages=(), sign_in=sign_in),
    ]
    routes = [Route("/{path:path}", _answer)]
    return TestClient(Starlette(routes=routes, middleware=middleware), follow_redirects=False)


def _signed_cookie() -> str:
    return create_signed_value(get_cookie_secret(), SIGNED_IN_COOKIE, "{}").decode()


def test_the_policy_names_every_inline_script_of_the_installed_streamlit() -> None:
    index = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    script = index.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in content_policy(index)
    assert index.count("<script>") == content_policy(index).count("sha256-") == 1


def test_every_answer_carries_the_headers() -> None:
    headers = _client(sign_in=False).get("/screen").headers
    assert headers["content-security-policy"] == "default-src 'none'"
    assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
    assert _client(sign_in=False).get("/media/results.csv").headers["cache-control"] == "no-store"


def test_a_deep_link_survives_the_sign_in_once() -> None:
    client = _client(sign_in=True)
    arrived = client.get("/inbox?case=0123abc")
    assert NEXT_COOKIE in client.cookies and "HttpOnly" in arrived.headers["set-cookie"]
    client.cookies.set(SIGNED_IN_COOKIE, _signed_cookie())
    back = client.get("/")
    assert (back.status_code, back.headers["location"]) == (303, "/inbox?case=0123abc")
    assert client.get("/").text == "reached"


@pytest.mark.parametrize("path", ["/favicon.png", "/errors/_stcore/host-config", "/static/js/index.js", "/_file/token"])
def test_what_a_page_fetches_by_itself_is_no_deep_link(path: str) -> None:
    client = _client(sign_in=True)
    client.get(path)
    client.get("/manifest", headers={"Sec-Fetch-Dest": "manifest"})
    assert NEXT_COOKIE not in client.cookies


def test_signing_in_again_forgets_the_cookie_and_goes_back_to_the_page() -> None:
    client = _client(sign_in=True)
    client.cookies.set(SIGNED_IN_COOKIE, _signed_cookie())
    back = client.get(f"{SIGN_IN_AGAIN}?next={quote('/inbox?case=0123abc', safe='')}")
    assert (back.status_code, back.headers["location"]) == (303, "/inbox?case=0123abc")
    assert f'{SIGNED_IN_COOKIE}=""' in back.headers["set-cookie"]
    elsewhere = client.get(f"{SIGN_IN_AGAIN}?next=https%3A%2F%2Felsewhere.example")
    assert elsewhere.headers["location"] == "/"


@pytest.mark.parametrize(
    "target", ["https://elsewhere.example", "//elsewhere.example", "/\\elsewhere.example", "/a\r\nb"]
)
def test_the_deep_link_never_leads_elsewhere(target: str) -> None:
    client = _client(sign_in=True)
    client.cookies.set(SIGNED_IN_COOKIE, _signed_cookie())
    client.cookies.set(NEXT_COOKIE, quote(target, safe=""))
    assert client.get("/").text == "reached"


@pytest.mark.parametrize("address", [None, "", "0.0.0.0", "::", "192.0.2.7", "clinic.example"])
def test_a_wider_bind_is_refused_without_sign_in(address: str | None) -> None:
    with pytest.raises(UnsafeBind):
        require_safe_bind(address, sign_in=False)
    require_safe_bind(address, sign_in=True)


@pytest.mark.parametrize(
    ("setting", "secrets"), [("0.0.0.0", None), ("127.0.0.1", "[auth\nbroken")]
)  # fmt: skip
def test_the_server_does_not_start_open(setting: str, secrets: str | None, tmp_path: Path) -> None:
    """Every interface without sign-in, or a secrets file that cannot be read: no server."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAMLIT_")}
    environment |= {"STREAMLIT_SERVER_ADDRESS": setting, "DATABASE_URL": f"sqlite:///{tmp_path / 'x.db'}"}
    if secrets is not None:
        (tmp_path / "secrets.toml").write_text(secrets)
        environment["STREAMLIT_SECRETS_FILES"] = str(tmp_path / "secrets.toml")
    port = str(free_port())
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "app.py"), "--port", port],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output = process.communicate(timeout=60)[0].decode()
    except subprocess.TimeoutExpired:
        process.kill()
        output = process.communicate()[0].decode()
        pytest.fail(f"the server went on running:\n{output}")
    assert process.returncode != 0
    assert re.search("only serves 127.0.0.1|secrets file cannot be read", output)


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


def test_a_head_without_end_is_refused(guarded: Guarded) -> None:
    host, _, port = guarded.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Head: " + b"x" * 300_000)
        assert b" 400 " in connection.recv(1000)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_no_sign_in(address: str) -> None:
    require_safe_bind(address, sign_in=False)


def test_behind_tls_cookies_go_over_tls_alone_and_a_site_may_have_browsers_keep_to_it() -> None:
    async def cookies(_request: Request) -> PlainTextResponse:
        answer = PlainTextResponse("reached")
        answer.set_cookie("one", "1", httponly=True)
        answer.set_cookie("two", "2; secure", secure=True)
        return answer

    def served(**how: Any) -> Headers:
        headers = Middleware(SecurityHeaders, policy="", **how)
        return TestClient(Starlette(routes=[Route("/", cookies)], middleware=[headers])).get("/").headers

    plain, tls, hsts = served(), served(tls=True), served(hsts_days=365)
    assert [each.lower().count("; secure") for each in plain.get_list("set-cookie")] == [0, 1]
    for behind in (tls, hsts):
        assert [each.lower().count("; secure") for each in behind.get_list("set-cookie")] == [1, 1]
    assert "strict-transport-security" not in plain and "strict-transport-security" not in tls
    assert hsts["strict-transport-security"] == "max-age=31536000"


@pytest.mark.parametrize("path", ["/", "/batches", "/batches?batch=0123", "/favicon.png", "/_stcore/health"])
def test_what_there_is_is_served(guarded: Guarded, path: str) -> None:
    assert guarded.status(path) == 200


@pytest.mark.parametrize(
    "path",
    ["/nonsense", "/batches/nonsense", "/index.html", "/static/nonsense.js", "/_stcore/nonsense", "/_stcore/metrics",
     "/batches/_stcore/metrics", "/_stcore/metrics/", "/wp-login.php"],
)  # fmt: skip
def test_what_there_is_not_is_answered_404(guarded: Guarded, path: str) -> None:
    assert guarded.status(path) == 404
