"""A signed message to a server of the site's own: https, no redirect, to addresses that were looked at first.

The receiver checks ``X-Second-Look-Signature``: HMAC-SHA256, with the secret shown when the recipient was added, over
``<timestamp>.<body>``. A timestamp older than `REPLAY_WINDOW_S` is a replay; ``Idempotency-Key`` stays the same over
all tries of one message, so that a repetition can be told.
"""

import hashlib
import hmac
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

LONGEST_BODY = 4_096
TIMEOUT_S = 5.0
REPLAY_WINDOW_S = 300


class NotSent(Exception):
    """The other side did not take it; the message says why, without the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An address taken apart: where to, which port, which path, and whether the connection is encrypted."""

    host: str
    port: int
    path: str
    encrypted: bool


def target_of(address: str, *, private: bool) -> Target:
    """The address of a webhook. ValueError where it is none: https only; http to this or a private network where
    ``private`` addresses are allowed.
    """
    parts = urlsplit(address.strip())
    if parts.scheme != "https" and not (private and parts.scheme == "http"):
        raise ValueError("a webhook's address begins with https://")
    if not parts.hostname or parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("give host and path, without a name, password or fragment")
    encrypted = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.isascii() or not path.isprintable() or " " in path:
        raise ValueError("the path has characters that an address cannot have")
    return Target(host=parts.hostname, port=parts.port or (443 if encrypted else 80), path=path, encrypted=encrypted)


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """The signature of a message, which its receiver computes as well to compare.

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
    """An address of this host, to connect to as it is: looked up once, so that no second look-up can lead elsewhere.

    NotSent where any of the host's addresses is not public and ``private`` ones are not allowed.
    """
    found = _look_up(host, port)
    if not private and not all(is_public(address) for address in found):
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


def _look_up(host: str, port: int) -> list[str]:
    pool = ThreadPoolExecutor(1, "lookup")
    try:
        asked = pool.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        return [str(found[4][0]) for found in asked.result(TIMEOUT_S)]
    except (OSError, UnicodeError, TookTooLong):
        raise NotSent("the host's name has no address") from None
    finally:
        pool.shutdown(wait=False)


class _Fixed(HTTPConnection):
    """A connection to an address that was looked at, under the host's name."""

    def __init__(self, target: Target, address: str, within_s: float) -> None:
        super().__init__(target.host, target.port, timeout=within_s)
        self._address = address
        self._encrypted = target.encrypted
        self.cut = False

    def connect(self) -> None:
        """Connect to the address itself; the certificate must be the host's. It can be cut off at every moment."""
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self._encrypted:
            self.sock = ssl.create_default_context().wrap_socket(
                self.sock, server_hostname=self.host, do_handshake_on_connect=False
            )
            if not self.cut:
                self.sock.do_handshake()
        if self.cut:
            raise TimeoutError

    @property
    def default_port(self) -> int:  # type: ignore[override]
        """The port that is left out of the Host header."""
        return HTTPSConnection.default_port if self._encrypted else HTTPConnection.default_port


def _exchange(target: Target, body: bytes, headers: Mapping[str, str], *, private: bool) -> int:
    """The status of the answer; its content is not read. All of it within the time limit, looking up, connecting and
    encrypting too, however slowly it drips.
    """
    begun = time.monotonic()
    address = permitted_address(target.host, target.port, private=private)
    left_s = max(0.1, TIMEOUT_S - (time.monotonic() - begun))
    connection = _Fixed(target, address, left_s)
    limit = threading.Timer(left_s, _cut, [connection])
    limit.daemon = True
    limit.start()
    try:
        connection.request("POST", target.path, body=body, headers=dict(headers))
        status = connection.getresponse().status
        if connection.cut:
            raise NotSent("took too long")
        return status
    except ssl.SSLError:
        if connection.cut:
            raise NotSent("took too long") from None
        raise NotSent("the connection could not be encrypted, or the certificate is not the host's") from None
    except (OSError, HTTPException, ValueError, AttributeError) as failed:
        raise NotSent(f"no answer ({type(failed).__name__})") from None
    finally:
        limit.cancel()
        connection.close()


def _cut(connection: _Fixed) -> None:
    connection.cut = True
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)
