"""People at browsers of their own, what the app sends to each, and how an administrator sets a team up."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Response, WebSocket, expect


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


def is_search_for_the_server(message: ConsoleMessage) -> bool:
    """Streamlit's page asks below its own path first where its server is; there is none, and it says so."""
    return "404" in message.text and message.location["url"].endswith(("/_stcore/health", "/_stcore/host-config"))


@contextmanager
def browser_of(browser: Browser, url: str) -> Iterator[Person]:
    """A browser without cookies of anybody else's; afterwards its console must be free of errors."""
    context = browser.new_context(base_url=url, viewport={"width": 1440, "height": 900}, accept_downloads=True)
    context.set_default_timeout(20_000)
    person = Person(page=context.new_page())

    def connected(socket: WebSocket) -> None:
        socket.on("framereceived", person.take)

    def answered(response: Response) -> None:
        if "/_live/inbox/" in response.url:
            with suppress(Error):  # of a page that is left
                person.take(response.text())

    def complained(message: ConsoleMessage) -> None:
        where = message.location["url"]
        if message.type == "error" and where.startswith(url) and not is_search_for_the_server(message):
            person.errors.append(f"{message.text} ({where})")

    person.page.on("websocket", connected)
    person.page.on("response", answered)
    person.page.on("console", complained)
    person.page.on("pageerror", lambda error: person.errors.append(str(error)))
    yield person
    context.close()
    assert person.errors == []


def give_roles(page: Page, team: Mapping[str, str]) -> None:
    """As an administrator does: everybody on the Settings page, one after another."""
    page.goto("/settings")
    page.get_by_role("tab", name="Accounts").click()
    for name, role in team.items():
        page.get_by_role("combobox", name="Account").click()
        page.get_by_role("option", name=f"{name.title()} Example · no role").click()
        expect(page.get_by_text(f"|{name}", exact=False).first).to_be_visible()
        page.get_by_role("combobox", name="Roles").fill(role)
        page.get_by_role("option", name=role).click()
        page.keyboard.press("Tab")  # out of the list, which covers what is below it
        page.get_by_role("button", name="Save roles").click()
        expect(page.get_by_text("Roles saved.")).to_be_visible()


def have_everything_read_twice(page: Page) -> None:
    """A site setting, by its form; the page shows the settings already."""
    page.get_by_role("tab", name="Site").click()
    page.get_by_role("spinbutton", name="Share randomly double-reviewed").fill("1")
    page.get_by_role("button", name="Save as a new version").click()
    expect(page.get_by_text(re.compile(r"Version \d+ is active\."))).to_be_visible()
