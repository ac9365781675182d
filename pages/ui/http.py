"""What stands before Streamlit: headers on every answer, which addresses there are, where a sign-in leads back to."""

import asyncio
import base64
import hashlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import streamlit as st
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from pydantic import TypeAdapter
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import config
from streamlit.auth_util import get_cookie_with_chunks
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.web.bootstrap import load_config_options
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from jobs.process import is_loopback

SIGNED_IN_COOKIE = "_streamlit_user"
NEXT_COOKIE = "second_look_next"
SIGN_IN_AGAIN = "/sign-in-again"
"""Address that forgets the sign-in cookie; its ``next`` says where the person was."""
NEXT_LIFETIME_S = 600
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
FILES = "/_file"
LIVE = "/_live/inbox"
_NOT_A_PAGE = (
    FILES, LIVE, "/_stcore", "/static", "/media", "/component", "/oauth2callback", "/auth", "/app/static", "/healthz",
    "/readyz", "/metrics",
)  # fmt: skip


class UnsafeBind(Exception):
    """The server would answer other machines, and nobody would have to sign in."""


class UnreadableSecrets(Exception):
    """A secrets file is there and cannot be read, so nobody can tell whether people must sign in."""


def take_options(environment: Mapping[str, str]) -> None:
    """Take Streamlit's options from the environment, which its own command does and an app started by uvicorn does not:
    without this a secrets file that is named there were not read, and nobody had to sign in. ValidationError.
    """
    given = {
        name: said.split() if option.multiple else TypeAdapter(option.type).validate_python(said)
        for name, option in config.get_config_options().items()
        if (said := environment.get(option.env_var)) is not None
    }
    load_config_options(given)


def sign_in_configured() -> bool:
    """Whether people sign in at their institution (an [auth] section in the secrets file). UnreadableSecrets."""
    if st.secrets.load_if_toml_exists():
        return "auth" in st.secrets
    if any(Path(path).exists() for path in st.get_option("secrets.files")):
        raise UnreadableSecrets("the secrets file cannot be read: fix it, or remove it to run without sign-in")
    return False


def is_served_over_tls() -> bool:
    """Whether people reach this site over TLS: here, or where the address says that it ends in front."""
    if st.get_option("server.sslCertFile"):
        return True
    return sign_in_configured() and str(st.secrets["auth"].get("redirect_uri", "")).startswith("https://")


def require_safe_bind(address: str | None, *, sign_in: bool) -> None:
    """Returns when the address is this machine's own or people must sign in; raises `UnsafeBind` otherwise.

    >>> require_safe_bind("127.0.0.1", sign_in=False)
    """
    if not sign_in and not is_loopback(address or ""):  # None binds everything
        raise UnsafeBind(
            f"server.address is {address or 'every interface'}: without sign-in ([auth] in .streamlit/secrets.toml) "
            "Second Look only serves 127.0.0.1"
        )


def content_policy() -> str:
    """The Content-Security-Policy under which Streamlit's index.html runs, its inline scripts named by their hash."""
    index_html = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    digests = (hashlib.sha256(script.encode()).digest() for script in _INLINE_SCRIPT.findall(index_html))
    scripts = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
        "manifest-src 'self'; frame-src 'none'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'; "
        "object-src 'none'"
    )


class SecurityHeaders:
    """Adds the headers that keep a page to itself; downloads are never kept by a cache."""

    def __init__(self, app: ASGIApp, *, tls: bool = False, hsts_days: int = 0) -> None:
        self._app = app
        self._tls = tls or hsts_days > 0
        self._headers = {
            "Content-Security-Policy": content_policy(),
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        }
        if hsts_days:
            self._headers["Strict-Transport-Security"] = f"max-age={hsts_days * 86_400}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        kept = dict(self._headers)
        if scope["path"].startswith("/media"):
            kept["Cache-Control"] = "no-store"

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(kept)
                if self._tls:
                    message["headers"] = [_secure(name, value) for name, value in message["headers"]]
            await send(message)

        await self._app(scope, receive, with_headers)


def _secure(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """A cookie that only goes back over TLS: neither Streamlit nor this program sees that TLS ends in front of them."""
    if name.lower() != b"set-cookie" or b"secure" in (part.strip().lower() for part in value.split(b";")[1:]):
        return name, value
    return name, value + b"; Secure"


_HTML_OF_THEIR_OWN = ("/component/", "/media/")
"""Where a page in HTML is no answer to an unknown address: components, and files made for a download."""


class Addresses:
    """Answers 404 where there is no page: Streamlit would answer with its page, and a health check there be always
    green. Streamlit's own metrics are given to nobody: they tell who is here and what they keep. With ``sign_in`` the
    address somebody came for is kept in a short cookie until the sign-in has returned them to `/`.
    """

    def __init__(self, app: ASGIApp, *, pages: Collection[str], sign_in: bool) -> None:
        self._app = app
        self._pages = frozenset(("", *(f"/{page}" for page in pages)))
        self._sign_in = sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._sign_in and _is_page(scope):
            if (led := _led_on(scope)) is not None:
                await led(scope, receive, send)
                return
            query = scope.get("query_string", b"").decode("latin-1")
            wanted = str(scope["path"]) + (f"?{query}" if query else "")
            if wanted != "/" and not has_session_cookie(scope):
                send = _setting_cookie(wanted, send)
        path = scope["path"].rstrip("/")
        if path.endswith("/_stcore/metrics"):
            await _nothing_here(scope, receive, send)
        else:
            await (self._app if path in self._pages else self._unless_page)(scope, receive, send)

    async def _unless_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The answer, where it is not the page that Streamlit gives for whatever it does not know."""
        page = False

        async def check_and_send(message: Message) -> None:
            nonlocal page
            if message["type"] == "http.response.start" and message["status"] in (200, 206, 304):
                kind = MutableHeaders(scope=message).get("content-type", "")
                page = kind.startswith("text/html") and not scope["path"].startswith(_HTML_OF_THEIR_OWN)
                if page:
                    await _nothing_here(scope, receive, send)
            if not page:
                await send(message)

        await self._app(scope, receive, check_and_send)


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("There is no such page.", status_code=404)(scope, receive, send)


def _led_on(scope: Scope) -> RedirectResponse | None:
    """From where the cookie is forgotten back to the page, and after a sign-in to where they wanted to go."""
    target, forgotten = None, [NEXT_COOKIE]
    if scope["path"] == SIGN_IN_AGAIN:
        wanted = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("next", [""])[0]
        target = _safe(quote(wanted, safe="")) or "/"
        forgotten = [
            name for name in HTTPConnection(scope).cookies if name.startswith(SIGNED_IN_COOKIE)
        ]  # a large one is several
    elif scope["path"] == "/" and has_session_cookie(scope):
        target = _safe(HTTPConnection(scope).cookies.get(NEXT_COOKIE))
    if target is None:
        return None
    response = RedirectResponse(target, status_code=303)
    for name in forgotten:
        response.delete_cookie(name)
    return response


def has_session_cookie(scope: Scope) -> bool:
    """Whether the request carries a sign-in cookie with a good signature (Streamlit's own, valid 30 days)."""
    return signed_in_claims(scope) is not None


def signed_in_claims(scope: Scope) -> bytes | None:
    """What the institution said at the sign-in, as JSON, when the signature of each cookie is good."""
    cookies, secret = HTTPConnection(scope).cookies, get_cookie_secret()

    def part(name: str) -> bytes | None:
        value = cookies.get(name)
        return decode_signed_value(secret, name, value.encode("latin-1", "replace")) if value else None

    return get_cookie_with_chunks(part, SIGNED_IN_COOKIE)


def _is_page(scope: Scope) -> bool:
    """Whether somebody went there: not what a page fetches by itself, such as its icon or its health check."""
    path: str = scope["path"]
    fetched = any(dest != "document" for dest in Headers(scope=scope).getlist("sec-fetch-dest"))
    inner = path.startswith(_NOT_A_PAGE) or "/_stcore" in path or "." in path.rpartition("/")[2]
    return scope["method"] == "GET" and not fetched and not inner


def _safe(cookie: str | None) -> str | None:
    target = unquote(cookie) if cookie else ""
    local = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return quote(target, safe="/?&=%-_.~+") if local and target != "/" else None


def _setting_cookie(target: str, send: Send) -> Send:
    cookie = f"{NEXT_COOKIE}={quote(target, safe='')}; Max-Age={NEXT_LIFETIME_S}; Path=/; HttpOnly; SameSite=Lax"

    async def with_cookie(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).append("Set-Cookie", cookie)
        await send(message)

    return with_cookie


PAGE_MESSAGES = frozenset(
    {"rerun_script", "stop_script", "app_heartbeat", "file_urls_request", "backend_operation_request"}
)
"""The messages a page sends in normal use. Others are for developers: one empties the caches of all users."""

REFUSED = 1008
"""Close code of RFC 6455: against the rules of this server."""

LARGEST_OF_STRANGERS = 64_000
STRANGERS_STAY_S = 300.0

_PORTS = {"http": 80, "https": 443}


def of_this_site(scope: Scope) -> bool:
    """Whether a request of the review app comes from a page of this site: where it changes something as `own_page` has
    it; a question for a host that is served, of no other site's page, whose Origin a browser need not say.
    """
    headers = Headers(scope=scope)
    if scope["method"] != "GET" or headers.getlist("origin"):
        return own_page(scope)
    hosts, sites = headers.getlist("host"), headers.getlist("sec-fetch-site")
    return len(hosts) == 1 and is_host_allowed(hosts[0]) and sites in ([], ["same-origin"])


def own_page(scope: Scope) -> bool:
    """Whether a handshake or an upload comes from a page of this very host and port, or of an Origin that the site
    names in server.corsAllowedOrigins, for a proxy that does not pass the Host on.

    A browser always says its Origin with these: a request without one, with two, or from a page without one is not.
    """
    origins, hosts = (Headers(scope=scope).getlist(name) for name in ("origin", "host"))
    if len(origins) != 1 or len(hosts) != 1 or not is_host_allowed(hosts[0]):
        return False
    here, there = _place(f"//{hosts[0]}", origins[0].partition(":")[0]), _place(origins[0])
    return there is not None and (there == here or origins[0] in st.get_option("server.corsAllowedOrigins"))


def _place(address: str, scheme: str | None = None) -> tuple[str, int] | None:
    """Host and port; None where the address is not that of a web page."""
    try:
        parts = urlsplit(address)
        default = _PORTS.get(scheme or parts.scheme)
        if default is None or not parts.hostname or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
            return None
        return parts.hostname.rstrip("."), parts.port or default
    except ValueError:
        return None


def of_pages(receive: Receive) -> Receive:
    """The messages without those that no page sends; Streamlit ends a connection that sends anything else."""

    async def receive_known() -> Message:
        while True:
            message = await receive()
            if message["type"] != "websocket.receive" or message.get("bytes") is None:
                return message
            try:
                kind = BackMsg.FromString(message["bytes"]).WhichOneof("type")
            except DecodeError:
                return message
            if kind in PAGE_MESSAGES:
                return message

    return receive_known


def until(seconds: float, receive: Receive, ended: Message) -> Receive:
    """The messages until the time is over, and then ``ended``, as if the browser had left."""
    end = asyncio.get_running_loop().time() + seconds

    async def receive_in_time() -> Message:
        try:
            async with asyncio.timeout_at(end):
                return await receive()
        except TimeoutError:
            return ended

    return receive_in_time


def of_strangers(receive: Receive) -> Receive:
    """The messages until one is too large or the time is over."""
    ended = {"type": "websocket.disconnect", "code": REFUSED}
    in_time = until(STRANGERS_STAY_S, receive, ended)

    async def receive_small() -> Message:
        message = await in_time()
        return ended if len(message.get("bytes") or b"") > LARGEST_OF_STRANGERS else message

    return receive_small
