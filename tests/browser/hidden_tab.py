"""A tab that lies behind another one, with the browser's own rules for such tabs.

The browser of the other tests keeps all its tabs awake and tells them that they are seen. This one is started without
that, and spoken to by its own protocol.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.browser.conftest import ARGUMENTS
from tests.browser.find import find_browser
from tests.free_port import free_port

LIST = """(function found(root) {
  const list = root.querySelector("ol[aria-label='Cases to review']");
  const inside = [...root.querySelectorAll("*")].filter((each) => each.shadowRoot);
  return list ?? inside.reduce((got, each) => got ?? found(each.shadowRoot), null);
})(document)"""
"""The list of the inbox, whichever component it is drawn in."""


class HiddenTab:
    """The tab in front when it was opened, and behind another one since `hide`."""

    def __init__(self, http: aiohttp.ClientSession, tab: Any, root: str) -> None:
        self._http, self._tab, self._root, self._number = http, tab, root, 0

    async def evaluate(self, expression: str) -> Any:
        """What the tab's page says to this expression."""
        self._number += 1
        parameters = {"expression": expression, "returnByValue": True}
        await self._tab.send_json({"id": self._number, "method": "Runtime.evaluate", "params": parameters})
        while True:
            answer = await self._tab.receive_json(timeout=60)
            if answer.get("id") == self._number:
                assert "exceptionDetails" not in answer["result"], answer
                return answer["result"]["result"].get("value")

    async def until(self, expression: str, within_s: float = 90.0) -> None:
        """Wait for it to hold."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + within_s
        while not await self.evaluate(expression):
            assert loop.time() < limit, f"{expression} did not come true"
            await asyncio.sleep(0.1)

    async def hide(self) -> None:
        """Open another tab in front of it."""
        async with self._http.put(f"{self._root}/json/new?about:blank") as answer:
            target = (await answer.json())["id"]
        async with self._http.get(f"{self._root}/json/activate/{target}"):
            await self.until("document.visibilityState === 'hidden'", within_s=20)


@asynccontextmanager
async def tab(url: str, profile: Path) -> AsyncIterator[HiddenTab]:
    """A tab at this address, in a browser of its own."""
    path, port = find_browser(), free_port()
    assert path is not None
    own = (f"--remote-debugging-port={port}", f"--user-data-dir={profile}", "--headless=new", "about:blank")
    silent = asyncio.subprocess.DEVNULL
    browser = await asyncio.create_subprocess_exec(path, *ARGUMENTS, *own, stdout=silent, stderr=silent)
    root = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as http, http.ws_connect(await _first_page(http, root)) as socket:
            opened = HiddenTab(http, socket, root)
            await opened.evaluate(f"location.href = '{url}'")
            await asyncio.sleep(1)
            yield opened
    finally:
        browser.terminate()
        await browser.wait()


async def _first_page(http: aiohttp.ClientSession, root: str) -> str:
    for _ in range(300):
        try:
            async with http.get(f"{root}/json/list") as answer:
                pages = [one for one in await answer.json(content_type=None) if one["type"] == "page"]
                if pages:
                    return str(pages[0]["webSocketDebuggerUrl"])
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.1)
    raise AssertionError("the browser did not start")
