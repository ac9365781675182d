"""How a message leaves: signed to a server of the site's own, or through a service of mail, chat, pagers or SMS.

A webhook is https, without redirects, to addresses that were looked at first. Its receiver checks
``X-Second-Look-Signature``: HMAC-SHA256, with the secret shown when the recipient was added, over
``<timestamp>.<body>``. A timestamp older than `REPLAY_WINDOW_S` is a replay; ``Idempotency-Key`` stays the same over
all tries of one message, so that a repetition can be told.

A service is reached by apprise in a process of its own, which looks at every address it connects to, after all look-ups
and redirects, and is ended when it takes long: whatever a service's library does, the app and the worker neither wait
for it nor lend it their network.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

LONGEST_BODY = 4_096
TIMEOUT_S = 5.0
REPLAY_WINDOW_S = 300


class NotSent(Exception):
    """The other side did not take it; the message says why, without the address."""


def target_of(address: str, *, private: bool) -> SplitResult:
    """The parts of a webhook's address. ValueError for one that is not https (http too where ``private`` addresses are
    allowed), or that holds what would be sent elsewhere or to nobody: a name, a password, a fragment, spaces.
    """
    parts = urlsplit(address.strip())
    if parts.scheme != "https" and not (private and parts.scheme == "http"):
        raise ValueError("a webhook's address begins with https://")
    if not parts.hostname or parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("give host and path, without a name, password or fragment")
    if not (path := parts.path + parts.query).isascii() or not (path.isprintable() and " " not in path):
        raise ValueError("the path has characters that an address cannot have")
    return parts


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """HMAC-SHA256 of ``<timestamp>.<body>``, in hexadecimal after the scheme's version, which the receiver computes as
    well to compare. The timestamp is in it so that a kept message cannot be sent again later as new.

    >>> signature("key", 1, b"{}")[:16]
    'v1=1ba6b8171186e'
    """
    return "v1=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


def post(
    address: str, secret: str | None, message_id: str, told: Mapping[str, Any], timestamp: int, *, private: bool
) -> None:
    """Send it once. NotSent for whatever is no answer from 200 to 299, ValueError for a body too long."""
    body = json.dumps(dict(told), sort_keys=True).encode()
    if len(body) > LONGEST_BODY:
        raise ValueError("a message has at most 4 kB")
    headers = {"Content-Type": "application/json", "Idempotency-Key": message_id, "User-Agent": "second-look"}
    if secret is not None:
        headers["X-Second-Look-Timestamp"] = str(timestamp)
        headers["X-Second-Look-Signature"] = signature(secret, timestamp, body)
    status = _exchange(target_of(address, private=private), body, headers, private=private)
    if not 200 <= status < 300:
        raise NotSent(f"answered {status}" + (": redirects are not followed" if 300 <= status < 400 else ""))


def permitted_address(host: str, port: int, *, private: bool) -> str:
    """An address of the host, to be connected to as it is: looked up once, so that no second look-up leads elsewhere.
    NotSent where there is none within `TIMEOUT_S`, or any is not public and ``private`` ones are not allowed.
    """
    pool = ThreadPoolExecutor(1, "lookup")
    try:
        asked = pool.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = [str(address[4][0]) for address in asked.result(TIMEOUT_S)]
    except (OSError, UnicodeError, TookTooLong):
        raise NotSent("the host's name has no address") from None
    finally:
        pool.shutdown(wait=False)
    if not private and not all(map(is_public, found)):
        raise NotSent("the address is private, loopback or reserved")
    return found[0]


def is_public(address: str) -> bool:
    """Whether anybody on the internet has this address; what cannot be read is not public, nor is what a translator or
    tunnel may lead elsewhere.

    >>> [is_public(one) for one in ("8.8.8.8", "127.0.0.1", "10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "::1")]
    [True, False, False, False, False, False]
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        inside = parsed.ipv4_mapped or parsed.sixtofour or (parsed.teredo[1] if parsed.teredo else None)
        if inside is not None:
            return is_public(str(inside))
        if parsed.is_site_local:
            return False
    return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved


def _exchange(target: SplitResult, body: bytes, headers: Mapping[str, str], *, private: bool) -> int:
    """The status of the answer, all of it within the time limit, looking up and connecting too, however it drips. Asked
    at the address that was looked at; the certificate must be the host's.
    """
    import aiohttp  # only processes that have something to tell wait for it
    from yarl import URL

    begun, host, port = time.monotonic(), str(target.hostname), target.port or (443 if target.scheme == "https" else 80)
    address = permitted_address(host, port, private=private)
    limit = aiohttp.ClientTimeout(total=max(0.1, TIMEOUT_S - (time.monotonic() - begun)))
    there = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    url = URL(target._replace(netloc=there).geturl(), encoded=True)
    named = {**headers, "Host": target.netloc.encode("idna").decode()}  # ValueError for a name that no server can have

    async def ask() -> int:
        async with (
            aiohttp.ClientSession(timeout=limit, headers=named) as session,
            session.post(url, data=body, allow_redirects=False, server_hostname=host) as answer,
        ):
            return answer.status

    try:
        return asyncio.run(ask())
    except TimeoutError:
        raise NotSent("took too long") from None
    except aiohttp.ClientSSLError:
        raise NotSent("the connection could not be encrypted, or the certificate is not the host's") from None
    except (aiohttp.ClientError, OSError, ValueError) as failed:
        raise NotSent(f"no answer ({type(failed.__cause__ or failed).__name__})") from None


PROGRAM = Path(__file__).parent.parent
START_S = 20.0
"""The libraries take a while to load on a busy machine; the sending itself has `TIMEOUT_S`."""
SERVICES = frozenset(
    {
        "mailtos", "azure", "o365", "ses", "sendgrid", "mailgun", "postmark", "brevo", "mailersend",
        "workflow", "workflows", "slack", "gchat", "webex", "wxteams", "mmosts", "rockets", "zulip", "matrixs",
        "pagerduty", "opsgenie", "splunk", "victorops", "squadcast", "ilert", "xmatters", "signl4", "betterstack",
        "incidentio", "goalerts", "pover", "ntfys", "signals", "threema",
        "twilio", "vonage", "nexmo", "msgbird", "clicksend", "plivo", "sinch", "sns", "infobip", "46elks", "bulksms",
        "clickatell", "seven", "kaleyra", "telnyx", "d7sms", "cm",
    }
)  # fmt: skip
"""Kinds of services that may be named: encrypted ones that carry a short message to people."""
INSIDE = frozenset({"mailto"})
"""Kinds that do not encrypt, for a server in the building where private addresses are allowed."""


def describe(address: str, *, private: bool) -> str:
    """The address without its passwords and tokens, for the page. ValueError where it is none of a known service."""
    kind = urlsplit(address.strip()).scheme.lower()
    if kind not in (SERVICES | INSIDE if private else SERVICES):
        raise ValueError(
            "this kind of service is not known here, or sends in the clear: an address begins with mailtos://, "
            "workflows://, slack://, pagerduty://, twilio:// or another kind of docs/notifications.md"
        )
    ended = _in_a_process({"address": address.strip(), "private": private})
    if ended.returncode != 0:
        raise ValueError("the address is not complete")
    return ended.stdout.decode("utf-8", "replace").partition("?")[0].strip()


def send(address: str, title: str, body: str, *, private: bool) -> None:
    """Send the message once, within `TIMEOUT_S`. Raises NotSent, and ValueError for a message too long."""
    if len(title.encode()) + len(body.encode()) > LONGEST_BODY:
        raise ValueError("a message has at most 4 kB")
    given = {"address": address, "title": title, "body": body, "private": private, "within": TIMEOUT_S}
    ended = _in_a_process(given)
    if ended.returncode != 0:
        raise NotSent(_WHY.get(ended.returncode, "the service did not take it"))


def _in_a_process(given: Mapping[str, object]) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "jobs.channels"]
    content = json.dumps(dict(given)).encode()  # on the standard input: arguments are seen by everybody
    try:
        return subprocess.run(  # noqa: S603 - our own module
            command, input=content, capture_output=True, timeout=START_S + TIMEOUT_S, check=False, cwd=PROGRAM
        )
    except subprocess.TimeoutExpired:
        raise NotSent("took too long") from None


REFUSED, SLOW = 3, 4
_WHY = {REFUSED: "an address that is not public", SLOW: "took too long"}


class _Guard:
    """Stops every connection of this process to an address that is not public."""

    def __init__(self) -> None:
        self.refused = False

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            address = arguments[1]
            name_server = event != "socket.connect" and isinstance(address, tuple) and address[1:2] == (53,)
            if isinstance(address, tuple) and not is_public(str(address[0])) and not name_server:
                self.refused = True
                raise OSError("not a public address")


def _child() -> int:
    """Send what stands on standard input, or describe the address where there is nothing to send."""
    from apprise import Apprise, AppriseAsset, NotifyFormat

    given = json.loads(sys.stdin.read())
    guard = _Guard()
    if not given["private"]:
        sys.addaudithook(guard)
    asset = AppriseAsset(
        http_redirects=False, async_mode=False, pgp_autogen=False, pem_autogen=False, storage_mode="memory",
        service_timeout=TIMEOUT_S, app_id="Second Look", app_desc="Second Look", app_url="",
    )  # fmt: skip
    sender = Apprise(asset=asset)
    if not sender.add(given["address"]):
        return 2
    if "body" not in given:
        sys.stdout.write(str(sender[0].url(privacy=True)))  # type: ignore[no-untyped-call]
        return 0
    limit = threading.Timer(given["within"], os._exit, [SLOW])  # however slowly the other side drips
    limit.daemon = True
    limit.start()
    sent = sender.notify(title=given["title"], body=given["body"], body_format=NotifyFormat.TEXT)
    return 0 if sent else REFUSED if guard.refused else 1


if __name__ == "__main__":
    sys.exit(_child())
