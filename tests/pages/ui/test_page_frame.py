"""The page around all pages says where its server is, and is the same for every page."""

from pathlib import Path

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from pages.ui.http import content_policy
from pages.ui.page_frame import PageFrame, page_frame

INDEX = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
BEHIND = Starlette(routes=[Route("/{path:path}", lambda _request: PlainTextResponse("the app"))])
OURS = TestClient(PageFrame(BEHIND, html=page_frame(INDEX), pages=["inbox"]))


def test_where_the_server_is_stands_before_the_first_module_and_under_the_policy() -> None:
    framed = page_frame(INDEX)
    assert framed.index("BACKEND_BASE_URL: location.origin") < framed.index('type="module"')
    assert content_policy(framed).count("sha256-") == content_policy(INDEX).count("sha256-") + 1
    with pytest.raises(ValueError, match="no script of its own"):
        page_frame("<html></html>")


@pytest.mark.parametrize("takes", ["gzip, br", "identity"])
@pytest.mark.parametrize("path", ["/", "/inbox", "/inbox?case=1"])
def test_each_page_is_the_frame_asked_for_anew_each_time(path: str, takes: str) -> None:
    answer = OURS.get(path, headers={"Accept-Encoding": takes})
    assert answer.text == page_frame(INDEX) and answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert (answer.headers.get("content-encoding") == "gzip") is (takes != "identity")


@pytest.mark.parametrize(("method", "path"), [("GET", "/inbox/"), ("GET", "/nonsense"), ("HEAD", "/inbox")])
def test_all_else_goes_on_to_the_app(method: str, path: str) -> None:
    assert OURS.request(method, path).headers["content-type"].startswith("text/plain")
