"""Where a Chromium is; where there is none, it installs Debian's package where allowed, else Playwright's own.

Says loudly when neither can be had; with SECOND_LOOK_REQUIRE_BROWSER=1 that is a failure.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright


def find_browser() -> str | None:
    """Path of an installed Chromium or Chrome, else of Playwright's own, else None."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if path := shutil.which(name):
            return path
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


def _run(*command: str) -> bool:
    print("$", " ".join(command), flush=True)
    return subprocess.run(command, check=False).returncode == 0


def main() -> int:
    """0 when a browser is there at the end, or when none is required."""
    if find_browser():
        return 0
    if shutil.which("apt-get") and os.geteuid() == 0 and _run("apt-get", "update", "-qq"):
        _run("apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-noto-core")
    if find_browser() or (_run(sys.executable, "-m", "playwright", "install", "chromium") and find_browser()):
        return 0
    print("\n*** NO BROWSER COULD BE FOUND OR INSTALLED: THE BROWSER SUITE IS LEFT OUT ***\n", file=sys.stderr)
    return 1 if os.environ.get("SECOND_LOOK_REQUIRE_BROWSER") == "1" else 0


if __name__ == "__main__":
    sys.exit(main())
