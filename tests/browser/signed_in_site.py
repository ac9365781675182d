"""A site whose people sign in: a real OpenID provider process, and the app with that provider in its secrets."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.browser.conftest import RunningApp, started_app, wait_for, warm_up
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
        wait_for(f"{url}/.well-known/openid-configuration", process, log)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=15)


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
    settings = {
        "SECOND_LOOK_FIRST_ADMINS": f'["{provider}|ada"]',
        "STREAMLIT_SECRETS_FILES": str(secrets),
        **(more or {}),
    }
    with started_app(url, directory, settings, programs=["app"]) as app:
        first = browser.new_page()
        warm_up(first, url)
        first.close()
        yield app


def sign_in(page: Page, name: str) -> None:
    """Through the provider's own page, from wherever the gate is shown."""
    page.get_by_role("button", name="Sign in").click()
    page.get_by_placeholder("sub").fill(name)
    page.get_by_role("button", name="Authorize").click()
