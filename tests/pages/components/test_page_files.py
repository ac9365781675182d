"""A file of the pages comes as Streamlit would send it; all else goes on to the app."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.web.server.starlette.starlette_routes import create_bidi_component_routes
from streamlit.web.server.starlette.starlette_static_routes import create_streamlit_static_handler

from pages.components.page_files import PageFiles, component_files, library_files

FOLDER = Path(st.__file__).parent / "static"
BEHIND = Starlette(
    routes=[Route("/{path:path}", lambda _request: PlainTextResponse("the app"), methods=["GET", "PUT"])]
)
OURS = PageFiles(BEHIND, for_good=library_files(FOLDER), each_time=component_files())


def _ask(app: ASGIApp, method: str, paths: Sequence[str]) -> list[httpx.Response]:
    async def all_of_them() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://app") as http:
            return [await http.request(method, path) for path in paths]

    return asyncio.run(all_of_them())


def _expect_the_same(theirs: ASGIApp, paths: Sequence[str]) -> None:
    for our, their in zip(_ask(OURS, "GET", paths), _ask(theirs, "GET", paths), strict=True):
        assert (our.status_code, our.content) == (200, their.content), our.url
        for name in ("content-type", "content-length", "cache-control"):
            assert our.headers[name] == their.headers[name], our.url


def test_each_kind_of_file_of_the_library_is_what_it_sends() -> None:
    kinds = {Path(path).suffix: path for path in library_files(FOLDER)}
    assert {".js", ".css", ".woff2"} <= set(kinds)
    _expect_the_same(create_streamlit_static_handler(str(FOLDER), None), list(kinds.values()))


def test_each_file_of_our_components_is_what_the_library_sends() -> None:
    known = BidiComponentManager()
    known.discover_and_register_components()
    paths = list(component_files())
    assert {"/_stcore/bidi-components/second-look-browser.desk/desk.js"} <= set(paths)
    _expect_the_same(Starlette(routes=create_bidi_component_routes(known, None)), paths)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/index.html",
        "/static/",
        "/static/js/unknown.js",
        "/static/../index.html",
        "/static/js/..%2F..%2Findex.html",
        "/_stcore/bidi-components/second-look-browser.desk/",
        "/_stcore/bidi-components/second-look-browser.desk/..%2F__init__.py",
    ],
)
def test_all_else_goes_on_to_the_app(path: str) -> None:
    (answer,) = _ask(OURS, "GET", [path])
    assert answer.text == "the app"


def test_nothing_but_reading_is_answered() -> None:
    (answer,) = _ask(OURS, "PUT", [next(iter(library_files(FOLDER)))])
    assert answer.text == "the app"
