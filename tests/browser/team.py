"""People at browsers of their own, and what the app sends to each."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request, Response, WebSocket

OWN = ("data:", "blob:", "about:")
OF_THE_SERVER = ("/_stcore/health", "/_stcore/host-config")
"""Streamlit's page asks below its own path first where its server is; there is none, and it says so."""


@dataclass(kw_only=True)
class Person:
    """Somebody at a browser of their own. ``received``: everything the app has sent to it."""

    page: Page
    received: bytearray = field(default_factory=bytearray)
    errors: list[str] = field(default_factory=list)

    def was_sent(self, *words: str) -> list[str]:
        """Those of the words that reached this browser, shown or not."""
        return [one for one in words if one.encode() in self.received]

    def take(self, payload: str | bytes) -> None:
        """Note what came over the connection."""
        self.received += payload.encode() if isinstance(payload, str) else payload


@contextmanager
def watched(page: Page, *urls: str) -> Iterator[list[str]]:
    """Nothing else may be asked for outside of these addresses, nor complained of; what is, is noted meanwhile."""
    noted: list[str] = []

    def asked(request: Request) -> None:
        within = (*urls, *(url.replace("http", "ws") for url in urls), *OWN)
        if not request.url.startswith(within):
            noted.append(f"asked for {request.url}")

    def complained(message: ConsoleMessage) -> None:
        where = message.location["url"]
        searches = "404" in message.text and where.endswith(OF_THE_SERVER)
        if message.type == "error" and where.startswith(urls[0]) and not searches:
            noted.append(f"{message.text} ({where})")

    def failed(error: Error) -> None:
        noted.append(str(error))

    heard = (("request", asked), ("console", complained), ("pageerror", failed))
    for event, hears in heard:
        page.on(event, hears)  # type: ignore[call-overload]
    yield noted
    for event, hears in heard:
        page.remove_listener(event, hears)
    assert not noted, noted


@contextmanager
def browser_of(browser: Browser, url: str, *others: str) -> Iterator[Person]:
    """A browser without cookies of anybody else's, which asks for nothing but the app and these other addresses."""
    context = browser.new_context(base_url=url, viewport={"width": 1440, "height": 900}, accept_downloads=True)
    context.set_default_timeout(60_000)
    person = Person(page=context.new_page())

    def connected(socket: WebSocket) -> None:
        socket.on("framereceived", person.take)

    def answered(response: Response) -> None:
        if "/_live/inbox/" in response.url:
            with suppress(Error):  # of a page that is left
                person.take(response.text())

    person.page.on("websocket", connected)
    person.page.on("response", answered)
    with watched(person.page, url, *others) as person.errors:
        yield person
        context.close()
