"""The real app and worker on a free port with a database of their own, and a real browser in front of them."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect, sync_playwright

from storage.database import Database
from tests.browser import desk, install, team
from tests.browser.slow_line import SlowLine
from tests.processes import lasting_port

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "test-results"
ARGUMENTS = "no-sandbox disable-gpu disable-quic no-first-run disable-background-networking disable-sync"
START_LIMIT_S = 180
ORDER = ("signed_in", "line", "research", "make_run", "all_pages", "desk", "queue")
EMPTY = "/_stcore/health"
"""Of the app's origin, with nothing of the client in it: a tab that goes there keeps its process."""
VIEWPORT: ViewportSize = {"width": 1440, "height": 900}
KNOWN = {"presentation-role-conflict": {"enabled": False}}
"""Advice beyond WCAG that Streamlit's place for files does not follow."""
AT_REST = "*{transition:none!important;animation:none!important}[data-stale]{opacity:1!important}"
"""Fading in, or out while a page runs, counts as too little contrast, and on a busy machine lasts long."""

FOUND = "([within, options]) => axe.run(within ?? document, options).then((all) => all.violations)"
"""What is well, element by element, takes axe-core most of its time to write down, and nobody reads it."""

SCHEMES: tuple[Literal["dark", "light"], ...] = ("dark", "light")
IN_SCHEME = "scheme => getComputedStyle(document.querySelector('.stApp')).colorScheme === scheme"
EXPECT_MS = 45_000
"""A shared machine is slow now and then; a wait ends as soon as what it waits for is there."""


@dataclass(kw_only=True)
class RunningApp:
    """One app process and, where it has one, its worker."""

    url: str
    directory: Path
    environment: dict[str, str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def database_url(self) -> str:
        return self.environment["DATABASE_URL"]

    def start(self, name: str) -> None:
        """Start the app or the worker, the app until it answers."""
        port = self.url.rpartition(":")[2]
        commands = {"app": [str(ROOT / "app.py"), "--port", port], "worker": [str(ROOT / "worker.py")]}
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *commands[name]], cwd=ROOT, env=self.environment, stdout=log, stderr=log
            )
        if name == "app":
            wait_for(f"{self.url}/_stcore/health", self.processes["app"], self.directory / "app.log")

    def stop(self, name: str, *, kill: bool = False) -> None:
        """End one process and wait for it, with SIGKILL if so asked."""
        process = self.processes.pop(name)
        process.kill() if kill else process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(encoding="utf-8", errors="replace")


def wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until this process answers there; what it wrote where it does not."""
    limit = time.monotonic() + START_LIMIT_S
    while time.monotonic() < limit:
        assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"no answer within {START_LIMIT_S} s:\n{log.read_text(encoding='utf-8', errors='replace')}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The limit of a test holds its fixtures' time as well: the first one starts the app. The modules that take long
    begin first, so that no process is left alone with one in the end.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))
    stems = [f"test_{name}" for name in ORDER]
    items.sort(key=lambda item: stems.index(item.path.stem) if item.path.stem in stems else len(stems))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium; without one the suite is skipped loudly, or fails where it is required."""
    path = install.find_browser()
    if path is None:
        message = "NO CHROMIUM FOUND: the browser suite was left out (`python -m tests.browser.install` gets one)"
        if os.environ.get("SECOND_LOOK_REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn(message, stacklevel=1)
        pytest.skip(message)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=[f"--{each}" for each in ARGUMENTS.split()])
        expect.set_options(timeout=EXPECT_MS)
        yield launched
        launched.close()


@contextmanager
def started_app(
    browser: Browser, directory: Path, settings: Mapping[str, str], programs: Sequence[str] = ("app", "worker")
) -> Iterator[RunningApp]:
    """One app and one worker with a database of their own, none of whose settings come from this shell.

    The first run of a script imports everything, which on a busy machine takes longer than a test waits.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SECOND_LOOK_", "ANTHROPIC_", "STREAMLIT_", "DATABASE_URL"))
    }
    environment = {
        **kept,
        "DATABASE_URL": f"sqlite:///{directory / 'second_look.db'}",
        "SECOND_LOOK_DATA_DIRECTORY": str(directory / "data"),
        "SECOND_LOOK_SAMPLER": "simulated",
        **settings,
    }
    port = settings.get("PORT") or lasting_port()
    app = RunningApp(url=f"http://127.0.0.1:{port}", directory=directory, environment=environment)
    try:
        for name in programs:
            app.start(name)
        first = browser.new_page()
        first.goto(app.url)
        first.wait_for_selector("h1", timeout=1000 * START_LIMIT_S)
        first.close()
        yield app
    finally:
        for name in list(app.processes):
            app.stop(name)


@pytest.fixture(scope="session")
def running_app(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    """One app and one worker for all journeys of a process. Depends on the browser so that a skip starts nothing."""
    settings = {"SECOND_LOOK_NOTIFY_PRIVATE_ADDRESSES": "true"}
    with started_app(browser, tmp_path_factory.mktemp("app"), settings) as app:
        yield app


@pytest.fixture(scope="session")
def kept_tab(browser: Browser, running_app: RunningApp) -> Iterator[Page]:
    """A tab that serves one test after the other: to open the client in it takes a third of what a new one takes."""
    context = _context(browser, running_app.url)
    yield context.new_page()
    context.close()


@pytest.fixture
def db(running_app: RunningApp) -> Iterator[Database]:
    """The app's database, with an empty queue; no second reviews and no break."""
    with desk.empty_queue(running_app.database_url) as opened:
        yield opened


@contextmanager
def worker_at_rest(app: RunningApp, db: Database) -> Iterator[None]:
    """The app's worker does nothing meanwhile; it holds nothing either, since it is stopped while we may write."""
    with db.write():
        app.processes["worker"].send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        app.processes["worker"].send_signal(signal.SIGCONT)


@pytest.fixture
def page(kept_tab: Page, running_app: RunningApp) -> Iterator[Page]:
    """The kept tab, as a new one: nothing in it of an earlier test, no other tabs, the usual size."""
    kept_tab.goto(f"{running_app.url}{EMPTY}")
    kept_tab.context.clear_cookies()
    kept_tab.evaluate("localStorage.clear(); sessionStorage.clear()")
    assert kept_tab.evaluate("indexedDB.databases().then((all) => all.length)") == 0
    kept_tab.set_viewport_size(VIEWPORT)
    kept_tab.emulate_media(color_scheme="light")
    with team.watched(kept_tab, running_app.url):
        yield kept_tab
    kept_tab.goto(f"{running_app.url}{EMPTY}")
    for other in kept_tab.context.pages:
        if other is not kept_tab:
            other.close()


def _context(browser: Browser, url: str) -> BrowserContext:
    context = browser.new_context(base_url=url, viewport=VIEWPORT, color_scheme="light", accept_downloads=True)
    context.set_default_timeout(EXPECT_MS)
    return context


@pytest.fixture
def line(running_app: RunningApp) -> Iterator[SlowLine]:
    """A line to the app that a test can slow down or cut."""
    with closing(SlowLine(running_app.url)) as made:
        yield made


@pytest.fixture
def far(browser: Browser, line: SlowLine) -> Iterator[Page]:
    """A page at the other end of that line, whose console may complain."""
    context = _context(browser, line.url)
    yield context.new_page()
    context.close()


def await_run(page: Page) -> None:
    """Wait until the page's run has ended: before, nobody listens to the keys of a form or a button drawn last."""
    page.locator('[data-test-script-state="notRunning"]').wait_for(timeout=3 * EXPECT_MS)
    page.wait_for_timeout(400)


def each_scheme(page: Page) -> Iterator[str]:
    """The open page in one colour scheme after the other, as when the machine's own changes; light in the end."""
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(IN_SCHEME, arg=scheme)
        yield scheme


def violations(page: Page, within: str | None = None, options: Mapping[str, Any] | None = None) -> list[str]:
    """What axe-core finds wrong, one line each: the rule, how many elements, the first of them.

    ``within`` looks at one part of the page alone, where the rest is Streamlit's own.
    """
    page.add_style_tag(content=AT_REST)
    page.locator("[data-testid=stStatusWidget]").wait_for(state="detached")
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    found = page.evaluate(FOUND, [within, {"resultTypes": ["violations"], **(options or {})}])
    return [
        f"{each['id']} ({each['impact']}, {len(each['nodes'])}): {each['nodes'][0]['html'][:200]} "
        f"{each['nodes'][0].get('failureSummary', '')[:300]}"
        for each in found
    ]


def require_well(page: Page, name: str, within: str | None = None) -> None:
    """Keep a picture of the page; axe-core finds nothing wrong in either colour scheme. All that may differ between
    them is the contrast.
    """
    RESULTS.mkdir(exist_ok=True)
    for scheme in each_scheme(page):
        if scheme == "light":
            page.screenshot(path=RESULTS / f"{name}.png", animations="disabled", caret="hide")
        options = {"runOnly": ["color-contrast"]} if scheme == "dark" else {"rules": KNOWN}
        assert violations(page, within, options) == [], (name, scheme)
