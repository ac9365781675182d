"""A site whose people sign in: a real OpenID provider process, and the app with that provider in its secrets."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.browser.conftest import RunningApp, warm_up
from tests.free_port import free_port


@contextmanager
def open_id_provider(directory: Path, names: Sequence[str]) -> Iterator[str]:
    """A provider that knows these people as "Ann Example" and so on; its URL. It lets anybody in, by any name."""
    port, log = free_port(), directory / "provider.log"
    claims = [json.dumps({"sub": name, "name": f"{name.title()} Example"}) for name in names]
    users = [f"--user-claims={each}" for each in claims]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "oidc_provider_mock", "-p", str(port), *users], stdout=out, stderr=out
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{url}/.well-known/openid-configuration", process, log)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=15)


def _wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
    raise AssertionError(f"the provider did not answer:\n{log.read_text()}")


@contextmanager
def signed_in_site(
    browser: Browser, directory: Path, provider: str, more: Mapping[str, str] | None = None
) -> Iterator[RunningApp]:
    """The app with that provider in its secrets file, which is nowhere but in this directory; ``ada`` is its first
    administrator.
    """
    url = f"http://127.0.0.1:{free_port()}"
    secrets = directory / "secrets.toml"
    secrets.write_text(
        f'[auth]\nredirect_uri = "{url}/oauth2callback"\ncookie_secret = "{os.urandom(16).hex()}"\n'
        f'client_id = "second-look"\nclient_secret = "x"\n'
        f'server_metadata_url = "{provider}/.well-known/openid-configuration"\n'
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SECOND_LOOK_", "STREAMLIT_"))}
    environment = kept | {
        "DATABASE_URL": f"sqlite:///{directory / 'second_look.db'}",
        "SECOND_LOOK_DATA_DIRECTORY": str(directory / "data"),
        "SECOND_LOOK_SAMPLER": "simulated",
        "SECOND_LOOK_FIRST_ADMINS": f'["{provider}|ada"]',
        "STREAMLIT_SECRETS_FILES": str(secrets),
        **(more or {}),
    }
    app = RunningApp(url=url, directory=directory, environment=environment)
    app.start("app")
    try:
        first = browser.new_page()
        warm_up(first, url)
        first.close()
        yield app
    finally:
        app.stop("app")


def sign_in(page: Page, name: str) -> None:
    """Through the provider's own page, from wherever the gate is shown."""
    page.get_by_role("button", name="Sign in").click()
    page.get_by_placeholder("sub").fill(name)
    page.get_by_role("button", name="Authorize").click()
