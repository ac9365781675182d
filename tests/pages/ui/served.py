"""A real server of a small app, in a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from tests.jobs.processes import wait_for


@contextmanager
def serve(app: ASGIApp, **options: Any) -> Iterator[int]:
    """The port it listens on, until the end."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off", **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started, 30)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(30)
