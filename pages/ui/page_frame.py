"""The page around all pages: Streamlit's own, which is told where its server is.

Without being told it looks below the page's own path first: two questions to addresses that there are not, at each
page that is opened by its path, which fill the browser's console and delay the first paint by a way there and back.
"""

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from pages.ui.http import compress

_TOLD = "<script>window.__streamlit = { BACKEND_BASE_URL: location.origin }</script>"
_BEFORE = '<script type="module"'


def page_frame(index_html: str) -> str:
    """Streamlit's index.html with that said before its first module. ValueError where it has none."""
    if _BEFORE not in index_html:
        raise ValueError("Streamlit's page has no script of its own: look at how this version begins")
    return index_html.replace(_BEFORE, _TOLD + _BEFORE, 1)


class PageFrame:
    """Answers with it where there is a page; all else goes on to the app."""

    def __init__(self, app: ASGIApp, *, html: str, pages: Collection[str]) -> None:
        self._app = app
        self._plain = html.encode()
        self._small = compress(self._plain)
        self._pages = frozenset(("/", *(f"/{page}" for page in pages)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] not in self._pages:
            await self._app(scope, receive, send)
            return
        headers = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if gzip := "gzip" in Headers(scope=scope).get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
        await HTMLResponse(self._small if gzip else self._plain, headers=headers)(scope, receive, send)
