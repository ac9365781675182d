"""What a background service with nothing to do takes, and what the app takes while one browser has a case open.

    python -m benchmarks.idle [--seconds 30] [--database sqlite postgresql]

Each is a process of its own; its processor time is read from the kernel.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.databases import throwaway_url
from benchmarks.figures import leave_out, tell
from benchmarks.inbox import add_cases
from benchmarks.processes import BROWSER_ARGUMENTS, ROOT, app_process, processor_s
from storage.database import Database
from tests.browser.install import find_browser

AIM_WORKER, AIM_APP = 0.6, 1.0
"""Hundredths of a core."""
SETTLED_S = 45.0
"""After the start of the app: by then whatever looks now and then has looked once, and written down its queries."""
OPEN_INBOX = "app with an open inbox, SQLite"


def main() -> None:
    """Print a line for each figure, with its aim."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--database", nargs="*", default=["sqlite", "postgresql"])
    arguments = parser.parse_args()
    for kind in arguments.database:
        share = 100 * idle_worker(kind, arguments.seconds)
        tell(f"worker, {kind}: processor time", share, "% of a core", aim=AIM_WORKER)
    if (browser := find_browser()) is None:
        leave_out(OPEN_INBOX, "no Chromium here")
    else:
        tell(OPEN_INBOX, 100 * open_inbox(2 * arguments.seconds, browser), "% of a core", aim=AIM_APP)


def share_of_core(pid: int, seconds: float) -> float:
    """Processor time of a process over the next seconds, as a share."""
    before, began = processor_s(pid), time.monotonic()
    time.sleep(seconds)
    return (processor_s(pid) - before) / (time.monotonic() - began)


def idle_worker(kind: str, seconds: float) -> float:
    """Share of a core that `worker.py` takes beside an empty database."""
    with throwaway_url(kind) as url, tempfile.TemporaryDirectory() as folder:
        db = Database(url)
        db.prepare()
        db.close()
        named = {"DATABASE_URL": url, "SECOND_LOOK_SAMPLER": "simulated", "SECOND_LOOK_DATA_DIRECTORY": folder}
        log = Path(folder) / "log"
        with log.open("w") as out:
            worker = subprocess.Popen([sys.executable, "worker.py"], cwd=ROOT, env=os.environ | named, stderr=out)
        try:
            while "screening what is pending" not in log.read_text():
                if worker.poll() is not None:
                    raise RuntimeError(log.read_text())
                time.sleep(0.1)
            time.sleep(10.0)  # its first looks are over
            return share_of_core(worker.pid, seconds)
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait()


def open_inbox(seconds: float, browser: str) -> float:
    """Share of a core that the app takes while a browser shows the inbox with a case on its desk."""
    from playwright.sync_api import sync_playwright

    with throwaway_url("sqlite") as url:
        db = Database(url)
        db.prepare()
        add_cases(db, 0, 1_000)
        db.close()
        with app_process(url) as (address, pid), sync_playwright() as playwright:
            launched = playwright.chromium.launch(executable_path=browser, args=BROWSER_ARGUMENTS)
            page = launched.new_page()
            page.goto(f"{address}/inbox")
            page.wait_for_selector(".sld[data-stage]", timeout=120_000)
            page.keyboard.press("n")
            page.wait_for_selector(".sld[data-stage=reviewing]", timeout=120_000)
            time.sleep(SETTLED_S)
            share = share_of_core(pid, seconds)
            launched.close()
    return share


if __name__ == "__main__":
    main()
