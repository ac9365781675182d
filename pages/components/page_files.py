"""The files that the pages themselves are made of: a first visit asks for more than a hundred, all at once."""

from collections.abc import Mapping
from functools import lru_cache, partial
from mimetypes import guess_type
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pages.components.http import WORTH_COMPRESSING, compress
from pages.components.streamlit_start import our_components

FOR_GOOD, EACH_TIME = "public, immutable, max-age=31536000", "public"
"""For how long a browser keeps a file, as Streamlit says it: the names of its own change with what is in them."""

TEXTS = frozenset({".js", ".css", ".svg", ".json", ".map"})
"""Files that become smaller; pictures and fonts are compressed already."""

LARGE = 200_000
"""Bytes; what takes longer to compress than to ask a thread for it."""


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
    """Answers with such a file at once; all else goes on to the app.

    Streamlit's own way to a file asks a thread five times, which takes three milliseconds of the one that answers
    everybody: half a second at each first visit. To read a file that the system has in memory takes less than to ask.
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
    """To compress what draws charts takes a tenth of a second: nobody else's key waits for that."""
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
    """Once a process: over a line without a proxy that does it, the first page is a third as many bytes."""
    return compress(file.read_bytes())
