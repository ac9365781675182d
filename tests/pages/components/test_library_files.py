"""A file of the library comes as the library would send it; all else goes on to the app."""

import asyncio
from pathlib import Path

import httpx
import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from streamlit.web.server.starlette.starlette_static_routes import create_streamlit_static_handler

from pages.components.library_files import LibraryFiles

FOLDER = Path(st.__file__).parent / "static"
FILES = sorted(f"/{file.relative_to(FOLDER).as_posix()}" for file in (FOLDER / "static").rglob("*") if file.is_file())
BEHIND = Starlette(
    routes=[Route("/{path:path}", lambda _request: PlainTextResponse("the app"), methods=["GET", "PUT"])]
)


def _ask(app: object, method: str, *paths: str) -> list[httpx.Response]:
    async def all_of_them() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as http:
            return [await http.request(method, path) for path in paths]

    return asyncio.run(all_of_them())


def test_each_file_is_what_the_library_sends() -> None:
    kinds = {Path(path).suffix: path for path in FILES}
    assert {".js", ".css", ".woff2"} <= set(kinds)
    ours = _ask(LibraryFiles(BEHIND, folder=FOLDER), "GET", *kinds.values())
    theirs = _ask(create_streamlit_static_handler(str(FOLDER), None), "GET", *kinds.values())
    for our, their in zip(ours, theirs, strict=True):
        assert (our.status_code, our.content) == (200, their.content)
        for name in ("content-type", "content-length", "cache-control"):
            assert our.headers[name] == their.headers[name], our.url


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/index.html",
        "/static/",
        "/static/js/unknown.js",
        "/static/../index.html",
        "/static/js/..%2F..%2Findex.html",
    ],
)
def test_all_else_goes_on_to_the_app(path: str) -> None:
    (answer,) = _ask(LibraryFiles(BEHIND, folder=FOLDER), "GET", path)
    assert answer.text == "the app"


def test_nothing_but_reading_is_answered() -> None:
    (answer,) = _ask(LibraryFiles(BEHIND, folder=FOLDER), "PUT", FILES[0])
    assert answer.text == "the app"
