"""Servers on loopback that notifications are sent to: they keep what they get."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller

from tests.processes import free_port


@dataclass(slots=True)
class Receiver:
    """A server that keeps what it is sent and answers as told."""

    answers: list[int] = field(default_factory=list)
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    location: str = ""
    address: str = ""

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _headers, body in self.received]


@contextmanager
def receiving(encrypted: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.received.append((dict(self.headers), body))
            self.send_response(kept.answers.pop(0) if kept.answers else 200)
            if kept.location:
                self.send_header("Location", kept.location)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if encrypted is not None:
        server.socket = encrypted.wrap_socket(server.socket, server_side=True)
    kept.address = f"http{'s' if encrypted else ''}://127.0.0.1:{server.server_port}/hook"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield kept
    server.shutdown()
    server.server_close()


class Mailbox:
    def __init__(self) -> None:
        self.mails: list[str] = []
        self.address = ""

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:
        self.mails.append(envelope.content.decode())
        return "250 OK"


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    """A mail server, while it runs; ``address`` is what leads to it."""
    mailbox = Mailbox()
    controller = Controller(mailbox, hostname="127.0.0.1", port=free_port())
    controller.start()
    mailbox.address = f"mailto://127.0.0.1:{controller.port}?from=look@site.example&to=ward@site.example"
    try:
        yield mailbox
    finally:
        controller.stop()
