"""The ASGI app: Streamlit's own behind three middlewares (headers, host and origin, addresses), started by uvicorn.

The script is in `pages/`, not here: Streamlit would serve a `pages` folder beside the main script by itself, past the
sign-in gate.
"""

import argparse
import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
import uvicorn
from starlette.middleware import Middleware
from starlette.responses import FileResponse
from starlette.routing import Route

from jobs.process import begin, exit_without_database
from pages.batches.progress import intake_runs
from pages.review.routes import ROUTES as REVIEW_ROUTES
from pages.site import health
from pages.ui import auth, context, downloads, http, shell

PAGES = Path(__file__).parent / "pages"
http.take_options(os.environ)
SIGN_IN = context.sign_in_configured()  # one look-up with those who ask later

log = logging.getLogger("app")

begin()
with exit_without_database(log):
    context.database()
http.require_safe_bind(st.get_option("server.address"), sign_in=SIGN_IN)


@asynccontextmanager
async def run_beside_pages(_app: st.App) -> AsyncIterator[None]:
    """Before anybody opens a page: continue the files that an earlier process left unfinished, and start notifications
    and metrics, which run as long as the app.
    """
    await asyncio.to_thread(intake_runs)
    notifications = await asyncio.to_thread(health.notifier)
    notifications.start()
    await asyncio.to_thread(health.serve_metrics)
    try:
        yield
    finally:
        await asyncio.to_thread(notifications.stop)


app = st.App(
    PAGES / "shell.py",
    lifespan=run_beside_pages,
    on_script_error=shell.say_fault,
    routes=[
        downloads.FILES_ROUTE,
        *REVIEW_ROUTES,
        *health.ROUTES,
        Route("/favicon.ico", lambda _request: FileResponse(PAGES / "ui" / "icon.png")),  # browsers ask for it anyhow
        *([auth.SIGN_OUT_ROUTE] if SIGN_IN else []),
    ],
    middleware=[
        Middleware(http.SecurityHeaders, tls=http.is_served_over_tls(), hsts_days=context.settings().hsts_days),
        Middleware(auth.Guard, sign_in=SIGN_IN),
        Middleware(http.Addresses, pages=[entry.address or entry.file for entry in shell.ENTRIES], sign_in=SIGN_IN),
    ],
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=st.get_option("server.port"))
    host, port = st.get_option("server.address") or "0.0.0.0", parser.parse_args().port  # noqa: S104 - see above
    log.info("starting at http://%s:%d", host, port)
    uvicorn.run(
        app,
        host=host,
        port=port,
        http="h11",  # bounds the head of a request, httptools does not
        ws="websockets-sansio",
        ws_max_size=st.get_option("server.maxMessageSize") * 1024 * 1024,
        ssl_certfile=st.get_option("server.sslCertFile"),
        ssl_keyfile=st.get_option("server.sslKeyFile"),
        timeout_graceful_shutdown=5,
        log_config=None,
        log_level="warning",
        access_log=False,
    )


if __name__ == "__main__":
    main()
