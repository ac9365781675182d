"""From `make run` on a ready environment to the first paint.

    python -m benchmarks.start [--rounds 3]

The clock starts with `serve.py`, which is what `make run` runs; the database is there already. Painted is when a
Chromium that comes as soon as somebody answers shows the site's notice: one that tries again and again would take a
good part of the processor from what it waits for.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from benchmarks.figures import leave_out, tell
from benchmarks.processes import BROWSER_ARGUMENTS, ROOT
from storage.database import Database
from tests.browser.install import find_browser
from tests.processes import free_port

FIRST_PAINT = "from the start to the first paint"
AIM_PAINT_S = 4.0


def main() -> None:
    """Print a line for each figure, with its aim."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    rounds = options.parse_args().rounds
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a ready environment has been started before
    browser = find_browser()
    if browser is None:
        leave_out(FIRST_PAINT, "no Chromium here")
        return
    found = [time_first_paint(browser) for _ in range(1 + rounds)][1:]
    tell(FIRST_PAINT, median(found), "s", AIM_PAINT_S)


def time_first_paint(browser: str) -> float:
    """Seconds until the first page is painted."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, sync_playwright() as playwright:
        port, named = free_port(), {"DATABASE_URL": f"sqlite:///{Path(folder) / 'bench.db'}"}
        db = Database(named["DATABASE_URL"])
        db.prepare()
        db.close()
        named |= {"SECOND_LOOK_SAMPLER": "simulated", "SECOND_LOOK_DATA_DIRECTORY": folder}
        launched = playwright.chromium.launch(executable_path=browser, args=BROWSER_ARGUMENTS)
        page = launched.new_page()
        command = [sys.executable, "-W", "ignore", "serve.py", "--port", str(port)]
        with (Path(folder) / "log").open("w") as log:
            began = time.monotonic()
            served = subprocess.Popen(command, cwd=ROOT, env=os.environ | named, stdout=log, stderr=log)
            try:
                _open(page, port)
                return time.monotonic() - began
            finally:
                served.send_signal(signal.SIGTERM)
                served.wait(timeout=30)
                launched.close()


def _open(page, port: int) -> None:  # type: ignore[no-untyped-def]
    """As soon as somebody answers; then until the page's own words are there."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            break
        time.sleep(0.02)
    page.goto(f"http://127.0.0.1:{port}/")
    page.wait_for_selector("[data-testid=stMain] .stHtml", timeout=60_000)


if __name__ == "__main__":
    main()
