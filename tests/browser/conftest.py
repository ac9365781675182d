"""The real app and worker on a free port with a database of their own, and a real browser in front of them."""

import os
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Request,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.browser.accessibility import each_scheme, violations
from tests.browser.find import find_browser
from tests.browser.slow_line import SlowLine, slow_line
from tests.browser.team import is_search_for_the_server
from tests.free_port import lasting_port

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "test-results"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
START_LIMIT_S = 180
LONGEST_FIRST = (
    "test_label_pace",
    "test_desk",
    "test_team",
    "test_batches",
    "test_pipelines",
    "test_main_job",
    "test_inbox",
)
OWN = ("data:", "blob:", "about:")
EMPTY = "/_stcore/health"
"""Of the app's origin, with nothing of the client in it: a tab that goes there keeps its process."""
VIEWPORT: ViewportSize = {"width": 1440, "height": 900}
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
        """The URL of the database that both processes use."""
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
        """Everything a process wrote."""
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


@dataclass(kw_only=True)
class Watch:
    """What a page asked for and complained about."""

    url: str
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def outside(self) -> list[str]:
        """Requests to anything but the app."""
        return [url for url in self.requests if not url.startswith((self.url, self.url.replace("http", "ws"), *OWN))]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The limit of a test holds its fixtures' time as well: the first of a module starts the app. The modules that take
    long begin first, so that no process is left alone with one in the end.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))
    items.sort(key=lambda item: LONGEST_FIRST.index(item.path.stem) if item.path.stem in LONGEST_FIRST else 99)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium; without one the suite is skipped loudly, or fails where it is required."""
    path = find_browser()
    if path is None:
        message = "NO CHROMIUM FOUND: the browser suite was left out (`python -m tests.browser.install` gets one)"
        if os.environ.get("SECOND_LOOK_REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn(message, stacklevel=1)
        pytest.skip(message)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        expect.set_options(timeout=EXPECT_MS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def app_url() -> str:
    """Where the modules' apps are, one after the other: what the browser compiled of the client stays of use."""
    return f"http://127.0.0.1:{lasting_port()}"


@pytest.fixture(scope="session")
def kept_tab(browser: Browser, app_url: str) -> Iterator[Page]:
    """A tab that serves one test after the other: to open the client in it takes a third of what a new one takes."""
    context = _context(browser, app_url)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def app_environment() -> dict[str, str]:
    """Settings of this module's app and worker; a test module may override the fixture."""
    return {}


@contextmanager
def started_app(
    url: str, directory: Path, settings: Mapping[str, str], programs: Sequence[str] = ("app", "worker")
) -> Iterator[RunningApp]:
    """One app and one worker with a database of their own, none of whose settings come from this shell."""
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
    app = RunningApp(url=url, directory=directory, environment=environment)
    try:
        for name in programs:
            app.start(name)
        yield app
    finally:
        for name in list(app.processes):
            app.stop(name)


@pytest.fixture(scope="module")
def running_app(
    kept_tab: Page, app_url: str, app_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningApp]:
    """One app and one worker for the whole test module. Depends on the browser so that a skip starts nothing."""
    with started_app(app_url, tmp_path_factory.mktemp("app"), app_environment) as app:
        warm_up(kept_tab, app.url)
        yield app


def warm_up(tab: Page, url: str) -> None:
    """The first run of a script imports everything, which on a busy machine takes longer than a test waits."""
    tab.goto(url)
    tab.wait_for_selector("h1", timeout=1000 * START_LIMIT_S)
    tab.goto(f"{url}{EMPTY}")


@pytest.fixture
def watch(running_app: RunningApp) -> Watch:
    """The request and console log of this test's page."""
    return Watch(url=running_app.url)


@pytest.fixture
def page(kept_tab: Page, running_app: RunningApp, watch: Watch) -> Iterator[Page]:
    """The kept tab, with nothing in it of an earlier test; for what a test leaves in a tab for ever there is
    `own_page`. Afterwards nothing may have gone outside and the console must be free of errors.
    """
    with _emptied(kept_tab, running_app.url), _watched(kept_tab, watch):
        yield kept_tab


@pytest.fixture
def own_page(browser: Browser, running_app: RunningApp, watch: Watch) -> Iterator[Page]:
    """A page of this test's own, which it may add scripts to; watched alike."""
    context = _context(browser, running_app.url)
    opened = context.new_page()
    with _watched(opened, watch):
        yield opened
        context.close()


def _context(browser: Browser, url: str) -> BrowserContext:
    context = browser.new_context(base_url=url, viewport=VIEWPORT, color_scheme="light", accept_downloads=True)
    context.set_default_timeout(EXPECT_MS)
    return context


@contextmanager
def _emptied(tab: Page, url: str) -> Iterator[None]:
    """The tab as a new one: no cookies, nothing stored, no other tabs, the usual size."""
    tab.goto(f"{url}{EMPTY}")
    tab.context.clear_cookies()
    tab.evaluate("localStorage.clear(); sessionStorage.clear()")
    assert tab.evaluate("indexedDB.databases().then((all) => all.length)") == 0
    tab.set_viewport_size(VIEWPORT)
    tab.emulate_media(color_scheme="light")
    yield
    tab.unroute_all()
    tab.goto(f"{url}{EMPTY}")
    for other in tab.context.pages:
        if other is not tab:
            other.close()


@contextmanager
def _watched(page: Page, watch: Watch) -> Iterator[None]:
    """Notes what the page asks for and complains about; both must be well in the end."""

    def noted(request: Request) -> None:
        watch.requests.append(request.url)

    def complained(message: ConsoleMessage) -> None:
        if message.type == "error" and not is_search_for_the_server(message):
            watch.errors.append(f"{message.text} ({message.location['url']})")

    def failed(error: Error) -> None:
        watch.errors.append(str(error))

    page.on("request", noted)
    page.on("console", complained)
    page.on("pageerror", failed)
    yield
    page.remove_listener("request", noted)
    page.remove_listener("console", complained)
    page.remove_listener("pageerror", failed)
    assert watch.outside == []
    assert watch.errors == []


@pytest.fixture
def line(running_app: RunningApp) -> Iterator[SlowLine]:
    """A line to the app that a test can slow down or cut."""
    with slow_line(running_app.url) as made:
        yield made


@pytest.fixture
def far(browser: Browser, line: SlowLine) -> Iterator[Page]:
    """A page at the other end of that line."""
    context = browser.new_context(base_url=line.url, viewport={"width": 1440, "height": 900})
    context.set_default_timeout(45_000)
    opened = context.new_page()
    yield opened
    context.close()


def await_run(page: Page) -> None:
    """Wait until the page's run has ended: before, nobody listens to the keys of a form or a button drawn last."""
    page.locator('[data-test-script-state="notRunning"]').wait_for()
    page.wait_for_timeout(400)


def screenshot(page: Page, name: str) -> None:
    """Keep a picture of the page in test-results/."""
    RESULTS.mkdir(exist_ok=True)
    page.screenshot(path=RESULTS / f"{name}.png")


def screenshots(page: Page, name: str) -> None:
    """Keep a picture of the page in each colour scheme."""
    for scheme in each_scheme(page):
        screenshot(page, f"{name}-{scheme}")


def require_well(page: Page, name: str, within: str | None = None) -> None:
    """Keep a picture of the page in each colour scheme; axe-core finds nothing wrong in either."""
    for scheme in each_scheme(page):
        screenshot(page, f"{name}-{scheme}")
        assert violations(page, within) == [], scheme
