"""Mail, chat, pagers and SMS through apprise, in a process of its own that can only reach public addresses.

The process looks at every address it connects to, after all look-ups and redirects, and is ended when it takes long:
whatever a service's library does, the app and the worker neither wait for it nor lend it their network.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from jobs.notifications_webhook import LONGEST_BODY, NotSent, is_public

PROGRAM = Path(__file__).parent.parent
TIMEOUT_S = 5.0
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
    command = [sys.executable, "-m", "jobs.notifications_service"]
    content = json.dumps(dict(given)).encode()  # on the standard input: arguments are seen by everybody
    try:
        return subprocess.run(  # noqa: S603 - our own module
            command, input=content, capture_output=True, timeout=START_S + TIMEOUT_S, check=False, cwd=PROGRAM
        )
    except subprocess.TimeoutExpired:
        raise NotSent("took too long") from None


REFUSED, SLOW = 3, 4
_WHY = {REFUSED: "an address that is not public", SLOW: "took too long"}


class _Refused(OSError):
    """The library wanted to connect to an address that is not allowed."""


class _Guard:
    """Stops every connection of this process to an address that is not public."""

    def __init__(self) -> None:
        self.refused = False

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            address = arguments[1]
            if isinstance(address, tuple) and not is_public(str(address[0])) and not _name_server(event, address):
                self.refused = True
                raise _Refused("not a public address")


def _name_server(event: str, address: tuple[object, ...]) -> bool:
    return event != "socket.connect" and address[1:2] == (53,)


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
