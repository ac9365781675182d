"""A real server of a small app, in a thread; and the cookie of a sign-in, as Streamlit signs it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

from pages.ui.http import SIGNED_IN_COOKIE
from tests.jobs.processes import wait_for
from tests.storage.inbox_cases import NOW


def claims_of(subject: str) -> dict[str, Any]:
    """What an institution says of somebody who signed in at noon."""
    return {"iss": "idp", "sub": subject, "iat": NOW.timestamp()}


def signed(claims: object) -> str:
    """The cookie that a browser carries then."""
    return create_signed_value(get_cookie_secret(), SIGNED_IN_COOKIE, json.dumps(claims)).decode()


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
