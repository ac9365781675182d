"""What a worker with nothing to do takes, and how soon it begins a single text all the same; and what the app takes
while one browser has the inbox open and nothing happens.

    python -m benchmarks.idle [--seconds 30] [--database sqlite postgresql]

The worker is `worker.py` in a process of its own: its processor time is read from the kernel, its statements are
counted where they are received (PostgreSQL's own log; in SQLite by the driver's trace); those that begin and end
transactions are not among them, as in `benchmarks.screening`.
"""

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import func, select

from benchmarks.databases import log_statements, server_log, throwaway_url
from benchmarks.figures import Figure, leave_out, tell
from benchmarks.inbox import add_cases
from benchmarks.processes import BROWSER_ARGUMENTS, ROOT, app_process, processor_s
from jobs.agents import Agents
from jobs.intake import configuration
from screening.datasets.rows import NewCase
from screening.pipeline.config import preset
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from screening.text.received import receive
from storage.batches.batches import NewBatch, create_batch
from storage.batches.configurations import save_configuration
from storage.batches.intake import add_rows, close_intake
from storage.database import Database
from storage.schema import case_starts
from tests.browser.find import find_browser

AIM_CORE, AIM_STATEMENTS, AIM_BEGUN_S, AIM_APP = 0.5, 5.0, 0.5, 1.0
"""Shares in hundredths of a core."""
SETTLED_S = 45.0
"""After the start: by then each of what looks now and then has looked once, which loads and writes down its queries."""
OPEN_INBOX = "app with an open inbox, SQLite"
TRACED = """
import os, runpy, sqlite3, sys
count, to = 0, sys.argv[1]
def seen(statement):
    global count
    if statement.split(None, 1)[0].rstrip(";").upper() in ("BEGIN", "COMMIT", "ROLLBACK"): return
    count += 1
    with open(to + ".part", "w") as out: out.write(str(count))
    os.replace(to + ".part", to)
real = sqlite3.connect
def connect(*a, **k):
    made = real(*a, **k); made.set_trace_callback(seen); return made
sqlite3.connect = sqlite3.dbapi2.connect = connect
sys.argv = sys.argv[:1]
runpy.run_path("worker.py", run_name="__main__")
"""


def main() -> None:
    """Print a line for each figure, with its aim."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--database", nargs="*", default=["sqlite", "postgresql"])
    parser.add_argument("--texts", type=int, default=5)
    arguments = parser.parse_args()
    for kind in arguments.database:
        with throwaway_url(kind) as url:
            _measure(kind, url, arguments.seconds, arguments.texts)
    if (browser := find_browser()) is None:
        leave_out(OPEN_INBOX, "no Chromium here")
    else:
        share = 100 * _open_inbox(2 * arguments.seconds, browser)
        tell(Figure(name=OPEN_INBOX, value=share, unit="% of a core", aim=AIM_APP))


def _open_inbox(seconds: float, browser: str) -> float:
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
            page.wait_for_selector(".sld[data-stage=reading]", timeout=120_000)
            time.sleep(SETTLED_S)
            before, began = processor_s(pid), time.monotonic()
            time.sleep(seconds)
            share = (processor_s(pid) - before) / (time.monotonic() - began)
            launched.close()
    return share


def _measure(kind: str, url: str, seconds: float, texts: int) -> None:
    db = Database(url)
    db.prepare()
    with tempfile.TemporaryDirectory() as folder:
        share, begun = _with_worker(
            url, folder, ["worker.py"], lambda worker: _measure_worker(db, worker, seconds, texts)
        )
        rate = _statements(db, url, folder, seconds)
    db.close()
    tell(Figure(name=f"worker, {kind}: processor time", value=100 * share, unit="% of a core", aim=AIM_CORE))
    tell(Figure(name=f"worker, {kind}: statements a second", value=rate, aim=AIM_STATEMENTS))
    tell(Figure(name=f"worker, {kind}: a single text is begun after", value=begun, unit="s", aim=AIM_BEGUN_S))


def _with_worker(url, folder, program, measured):  # type: ignore[no-untyped-def]
    named = {"DATABASE_URL": url, "SECOND_LOOK_SAMPLER": "simulated", "SECOND_LOOK_DATA_DIRECTORY": folder}
    log = Path(folder) / "log"
    with log.open("w") as out:
        worker = subprocess.Popen([sys.executable, *program], cwd=ROOT, env=os.environ | named, stderr=out)
    try:
        while "screening what is pending" not in log.read_text():
            if worker.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.1)
        time.sleep(10.0)  # its first looks are over
        return measured(worker)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait()


def _measure_worker(db: Database, worker: "subprocess.Popen[bytes]", seconds: float, texts: int) -> tuple[float, float]:
    """Share of a core while idle, and the median wait of single texts."""
    before, began = processor_s(worker.pid), time.monotonic()
    time.sleep(seconds)
    share = (processor_s(worker.pid) - before) / (time.monotonic() - began)
    return share, statistics.median(_wait_for_begin(db, number) for number in range(texts))


def _wait_for_begin(db: Database, number: int) -> float:
    settings = Settings(_env_file=None, sampler="simulated")
    now = datetime.now(UTC)
    version = save_configuration(db, configuration(settings, Agents(settings), preset("certified")), now)
    new = NewBatch(name=f"text {number}", configuration_version=version, seed=0, kind="interactive")
    batch_id = create_batch(db, LOCAL_USER.at(now), new)
    add_rows(db, batch_id, [NewCase(row=1, external_id=str(number), text=receive("We cooked soup."))], now)
    began = time.monotonic()
    close_intake(db, LOCAL_USER.at(now), batch_id)
    while _starts(db) <= number:
        time.sleep(0.01)
    took = time.monotonic() - began
    time.sleep(3.0)
    return took


def _starts(db: Database) -> int:
    return int(db.value(select(func.count()).select_from(case_starts)))


def _statements(db: Database, url: str, folder: str, seconds: float) -> float:
    """Statements a second of an idle worker."""
    if db.kind == "sqlite":
        counted = Path(folder) / "count"
        return float(_with_worker(url, folder, ["-c", TRACED, str(counted)], lambda _: _rate(counted, seconds)))
    return float(_with_worker(url, folder, ["worker.py"], lambda _: _count_logged(db, seconds)))


def _rate(counted: Path, seconds: float) -> float:
    before = int(counted.read_text())
    time.sleep(seconds)
    return (int(counted.read_text()) - before) / seconds


def _count_logged(db: Database, seconds: float) -> float:
    """By PostgreSQL's own log, which is switched on for all sessions meanwhile."""
    log = server_log(db)
    log_statements(db, "all")
    time.sleep(1.0)
    before = log.stat().st_size
    time.sleep(seconds)
    received = re.findall(
        r"LOG:  (?:statement|execute [^:]*):\s*(\w+)", log.read_bytes()[before:].decode(errors="replace")
    )
    log_statements(db, "none")
    return sum(word.upper() not in ("BEGIN", "COMMIT", "ROLLBACK") for word in received) / seconds


if __name__ == "__main__":
    main()
