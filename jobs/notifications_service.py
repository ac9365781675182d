"""Mail, chat, pagers and SMS through apprise, in a process of its own that can only reach public addresses.

The process looks at every address it connects to, after all look-ups and redirects, and is ended when it takes long:
whatever a service's library does, the app and the worker neither wait for it nor lend it their network.
"""

import json
import subprocess
import sys
from urllib.parse import urlsplit

from jobs.notifications_webhook import NotSent, is_public

TIMEOUT_S = 5.0
START_S = 10.0
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


def service_of(address: str, *, private: bool) -> str:
    """Which kind of service the address names. ValueError where it is none of those that may be."""
    kind = urlsplit(address.strip()).scheme.lower()
    if kind not in (SERVICES | INSIDE if private else SERVICES):
        raise ValueError("this kind of service is not known here; docs/notifications.md has the list")
    from apprise import Apprise

    if Apprise.instantiate(address.strip()) is None:
        raise ValueError("the address is not complete")
    return kind


def shown_of(address: str) -> str:
    """The address without its passwords and tokens, for the page."""
    from apprise import Apprise

    made = Apprise.instantiate(address.strip())
    return "" if made is None else str(made.url(privacy=True)).partition("?")[0]  # type: ignore[no-untyped-call]


def send(address: str, title: str, body: str, *, private: bool) -> None:
    """Send it once. Raises NotSent."""
    given = json.dumps({"address": address, "title": title, "body": body, "private": private})
    try:
        ended = subprocess.run(  # our own module; the address stands on its standard input, not among its arguments
            [sys.executable, "-m", "jobs.notifications_service"],
            input=given.encode(),
            capture_output=True,
            timeout=START_S + TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotSent("took too long") from None
    if ended.returncode != 0:
        raise NotSent("an address that is not public" if ended.returncode == REFUSED else "the service did not take it")


REFUSED = 3


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
    """Send what stands on standard input; nothing is printed, since libraries' messages may hold addresses."""
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
    sent = sender.notify(title=given["title"], body=given["body"], body_format=NotifyFormat.TEXT)
    return 0 if sent else REFUSED if guard.refused else 1


if __name__ == "__main__":
    sys.exit(_child())
