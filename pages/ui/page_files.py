"""Serves the scripts, styles and fonts of the pages: a first visit asks for more than a hundred at once."""

from collections.abc import Mapping
from functools import lru_cache, partial
from mimetypes import guess_type
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pages.ui.http import WORTH_COMPRESSING, compress
from pages.ui.streamlit_start import our_components

FOR_GOOD, EACH_TIME = "public, immutable, max-age=31536000", "public"
"""How long a browser keeps a file, in Streamlit's own words: the names of its own files change with their content."""

TEXTS = frozenset({".js", ".css", ".svg", ".json", ".map"})
"""Files worth compressing; pictures and fonts are compressed already."""

LARGE = 200_000
"""Bytes; a larger file takes longer to compress than it takes to hand it to a thread."""


def library_files(folder: Path) -> dict[str, Path]:
    """Streamlit's own, by the path of their address."""
    below = (folder / "static").rglob("*")
    return {f"/{file.relative_to(folder).as_posix()}": file for file in below if file.is_file()}


def component_files() -> dict[str, Path]:
    """Those of our components, by the path of their address."""
    (manifest, root), *_ = our_components()
    return {
        f"/_stcore/bidi-components/{manifest.name}.{component.name}/{file.name}": file
        for component in manifest.components
        for file in (root / str(component.asset_dir)).iterdir()
    }


class PageFiles:
    """Answers requests for these files itself and passes all others on to the app.

    Streamlit hands each file to a thread five times, which costs three milliseconds of the thread that answers
    everybody: half a second at each first visit. Reading a file that the system has in memory takes less.
    """

    def __init__(self, app: ASGIApp, *, for_good: Mapping[str, Path], each_time: Mapping[str, Path]) -> None:
        self._app = app
        self._files = {path: (file, FOR_GOOD) for path, file in for_good.items()}
        self._files |= {path: (file, EACH_TIME) for path, file in each_time.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = scope["type"] == "http" and scope["method"] == "GET"
        file, kept = self._files.get(scope["path"], (None, "")) if asked else (None, "")
        if file is None:
            await self._app(scope, receive, send)
            return
        gzip = "gzip" in Headers(scope=scope).get("accept-encoding", "")
        if gzip and _takes_long(file):
            answer = await run_in_threadpool(_answer, file, kept, gzip=True)
        else:
            answer = _answer(file, kept, gzip=gzip)
        await answer(scope, receive, send)


def _takes_long(file: Path) -> bool:
    """Whether compressing takes so long (a tenth of a second for the chart library) that others would notice."""
    return file.suffix in TEXTS and file.stat().st_size > LARGE


def _answer(file: Path, kept: str, *, gzip: bool) -> Response:
    """The file; in gzip where the browser takes that and the file becomes smaller."""
    body, headers = file.read_bytes, {"Cache-Control": kept}
    if file.suffix in TEXTS:
        headers["Vary"] = "Accept-Encoding"
        if gzip and (found := file.stat()).st_size >= WORTH_COMPRESSING:
            headers["Content-Encoding"] = "gzip"
            body = partial(_compress_file, file, found.st_mtime_ns)
    return Response(body(), headers=headers, media_type=guess_type(file.name)[0] or "application/octet-stream")


@lru_cache(maxsize=512)
def _compress_file(file: Path, _changed_at: int) -> bytes:
    """Once a process. Without a proxy that compresses, the first page then takes a third of the bytes."""
    return compress(file.read_bytes())
