"""Launcher: the ASGI app that runs `pages/shell.py` behind security headers, guards of web sockets and uploads, and
middleware that returns people to the address they came for.

The script is in `pages/`, not here: Streamlit would serve a `pages` folder beside the main script by itself, past the
sign-in gate.
"""

import gc

gc.disable()  # until all is imported: hardly any of it is garbage, and scanning it again and again takes long

if __name__ == "__main__":
    from pages.ui.streamlit_command import run

    run(__file__)

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.responses import FileResponse
from starlette.routing import Route

from jobs import garbage, logs
from pages.batches import text_live
from pages.batches.intake_runs import intake_runs
from pages.review import inbox_live
from pages.site import health
from pages.site.notifier import notifier
from pages.ui import auth, context, downloads, streamlit_start
from pages.ui.auth import UploadGuard
from pages.ui.http import (
    DeepLink,
    KnownAddresses,
    SecurityHeaders,
    SocketGuard,
    content_policy,
    is_served_over_tls,
    require_safe_bind,
    sign_in_configured,
)
from pages.ui.page_files import PageFiles, component_files, library_files
from pages.ui.page_frame import PageFrame, page_frame
from pages.ui.request_heads import bound_heads
from pages.ui.shell import ENTRIES, say_fault
from storage.database import passing_fault

SIGN_IN = sign_in_configured()
ICON = Path(__file__).parent / "pages" / "ui" / "icon.png"
FAVICON = Route("/favicon.ico", lambda _request: FileResponse(ICON))  # browsers ask for it on any page
INDEX = Path(st.__file__).parent / "static" / "index.html"
FRAME = page_frame(INDEX.read_text(encoding="utf-8"))
ADDRESSES = [entry.address or entry.file for entry in ENTRIES]

streamlit_start.skip_unused()
streamlit_start.send_at_once()
bound_heads()
garbage.spare_loaded_objects()
logs.set_up(context.settings().log_format)
try:
    context.database()
except Exception as error:
    if (fault := passing_fault(error)) is None:
        raise
    logging.getLogger("app").error("the database is %s", fault.value)
    raise SystemExit(1) from None
require_safe_bind(st.get_option("server.address"), sign_in=SIGN_IN)


@asynccontextmanager
async def run_beside_pages(_app: st.App) -> AsyncIterator[None]:
    """Before anybody opens a page: continue the files that an earlier process left unfinished, and start notifications
    and metrics, which run as long as the app.
    """
    await asyncio.to_thread(intake_runs)
    notifications = await asyncio.to_thread(notifier)
    notifications.start()
    metrics = await asyncio.to_thread(health.serve_metrics)
    try:
        yield
    finally:
        await asyncio.to_thread(notifications.stop)
        if metrics is not None:
            await asyncio.to_thread(metrics.shutdown)


app = st.App(
    Path(__file__).parent / "pages" / "shell.py",
    lifespan=run_beside_pages,
    on_script_error=say_fault,
    routes=[
        downloads.FILES_ROUTE,
        inbox_live.ROUTE,
        text_live.ROUTE,
        *health.ROUTES,
        FAVICON,
        *([auth.SIGN_OUT_ROUTE] if SIGN_IN else []),
    ],
    middleware=[
        Middleware(SocketGuard, sign_in=SIGN_IN),
        Middleware(
            SecurityHeaders,
            policy=content_policy(FRAME),
            tls=is_served_over_tls(),
            hsts_days=context.settings().hsts_days,
        ),
        Middleware(PageFiles, for_good=library_files(INDEX.parent), each_time=component_files()),
        Middleware(KnownAddresses, pages=ADDRESSES),
        Middleware(auth.SignOutGuard, sign_in=SIGN_IN),
        Middleware(UploadGuard, sign_in=SIGN_IN),
        Middleware(DeepLink, sign_in=SIGN_IN),
        Middleware(PageFrame, html=FRAME, pages=ADDRESSES),
    ],
)
