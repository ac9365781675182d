"""A file of the pages comes as Streamlit would send it; all else goes on to the app."""

import asyncio
import os
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

from pages.ui.page_files import PageFiles, component_files, library_files

FOLDER = Path(st.__file__).parent / "static"
BEHIND = Starlette(
    routes=[Route("/{path:path}", lambda _request: PlainTextResponse("the app"), methods=["GET", "PUT"])]
)
OURS = PageFiles(BEHIND, for_good=library_files(FOLDER), each_time=component_files())


def _ask(app: ASGIApp, method: str, paths: Sequence[str], takes: str = "identity") -> list[httpx.Response]:
    async def all_of_them() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://app") as http:
            return [await http.request(method, path, headers={"Accept-Encoding": takes}) for path in paths]

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


def test_what_is_text_comes_in_gzip_to_whoever_takes_it() -> None:
    paths = [path for path in library_files(FOLDER) if path.endswith((".js", ".css", ".woff2"))][:60] + list(
        component_files()
    )
    sent = 0
    for plain, small in zip(_ask(OURS, "GET", paths), _ask(OURS, "GET", paths, "gzip, br"), strict=True):
        assert small.content == plain.content and "content-encoding" not in plain.headers
        assert small.headers.get("content-encoding") in {None, "gzip"}
        if small.headers.get("content-encoding"):
            assert small.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
            assert int(small.headers["content-length"]) < int(plain.headers["content-length"])
            sent += 1
        else:
            assert plain.url.path.endswith(".woff2") or len(plain.content) < 500
    assert sent > 20


def test_a_file_that_was_edited_comes_as_it_is_now(tmp_path: Path) -> None:
    file = tmp_path / "a.js"
    app = PageFiles(BEHIND, for_good={}, each_time={"/a.js": file})
    for at, words in enumerate(("// one" * 200, "// two" * 200)):
        file.write_text(words)
        os.utime(file, ns=(at, at))
        assert _ask(app, "GET", ["/a.js"], "gzip")[0].text == words


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
