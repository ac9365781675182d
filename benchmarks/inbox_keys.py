"""From a key to the next text painted, in a real Chromium, at several numbers of open cases.

    python -m benchmarks.inbox_keys [--sizes 1000,100000] [--rounds 30]

*save* is Ctrl+Enter until the review is shown as saved, *next* is N until the next text is painted, *both* the two
keys 30 ms apart until the next text is painted; and `1 7 R Ctrl+Enter N` at 30 ms a key over a line that holds every
message to the server up for 800 ms, whether what was stored is what was pressed. Milliseconds, p50 and p95, by the
browser's own clock from the key to the frame after the change. Needs a Chromium; without one the section says so and
ends.
"""

import argparse
import random
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from benchmarks.figures import leave_out, tell
from benchmarks.inbox import add_cases
from benchmarks.processes import BROWSER_ARGUMENTS, app_process
from screening.review.actors import LOCAL_USER
from screening.review.triage import Tier
from storage.database import Database
from storage.review import inbox
from tests.browser.find import find_browser
from tests.browser.slow_line import slow_line

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AIMS = {"next": 150.0, "save": 150.0}
"""Milliseconds at p50."""
SLOWED_S, FAST_MS, FAST = 0.8, 30, 12
LABELS = {"1": "safe", "2": "unsafe", "3": "insufficient_information"}
PAUSE_S = 1.5
"""A reviewer's look at the text between two rounds."""
WATCH = """() => {
  window.painted = (key, ready) => new Promise((done) => {
    let from = 0;
    const pressed = (event) => {
      if (from || event.key !== key) return;
      from = performance.now();
      const ended = () => done(performance.now() - from);
      const look = () => requestAnimationFrame(ready() ? ended : look);
      look();
    };
    document.addEventListener("keydown", pressed, { capture: true, once: false });
  });
  const away = document.createElement("div"); // a run of the page may take the desk away and put it back
  window.desk = () => document.querySelector(".sld") ?? away;
  window.caseName = () => desk().querySelector(".sld-name")?.textContent ?? "";
  window.reading = (before) =>
    desk().dataset.stage === "reading" && caseName() !== before && !desk().classList.contains("sld-saving");
  window.saved = () => desk().dataset.stage === "read";
}"""


def time_key(page: "Page", key: str, first: str, ready: str) -> float:
    """Press a key, or two 30 ms apart, and wait until ``ready``; milliseconds since the first."""
    page.evaluate(f"void (window.found = painted({first!r}, () => {ready}))")
    for number, one in enumerate(key.split(",")):
        if number:
            page.wait_for_timeout(30)
        page.keyboard.press(one)
    return float(page.evaluate("window.found"))


def rounds(page: "Page", number: int) -> dict[str, list[float]]:
    """Read so many cases with the two keys apart and so many with them together."""
    found: dict[str, list[float]] = {"save": [], "next": [], "both": []}
    page.keyboard.press("n")
    page.wait_for_function("() => desk()?.dataset.stage === 'reading'")
    for at in range(2 * number):
        page.wait_for_timeout(1000 * PAUSE_S)
        before = page.evaluate("caseName()")
        page.keyboard.press("1")
        page.keyboard.press("7")
        page.wait_for_timeout(100)
        after = f"reading({before!r})"
        if at % 2:
            found["both"].append(time_key(page, "Control+Enter,n", "Enter", after))
        else:
            found["save"].append(time_key(page, "Control+Enter", "Enter", "saved()"))
            page.wait_for_timeout(500)  # a look at what the engine said
            found["next"].append(time_key(page, "n", "n", after))
    return found


def measure(size: int, number: int, browser: str) -> tuple[dict[str, list[float]], int]:
    """Times by their names, and how many of the fast reviews were stored as they were pressed."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        url = f"sqlite:///{Path(directory) / 'bench.db'}"
        db = Database(url)
        db.prepare()
        add_cases(db, 0, size, tier=Tier.P2)
        with app_process(url) as (address, _), slow_line(address) as slow, sync_playwright() as playwright:
            launched = playwright.chromium.launch(executable_path=browser, args=BROWSER_ARGUMENTS)
            page = open_inbox_page(launched, address)
            times = rounds(page, number)
            page.close()
            inbox.release_all(db, LOCAL_USER.at(datetime.now(UTC)), "benchmark")
            page = open_inbox_page(launched, slow.url)
            page.keyboard.press("n")
            page.wait_for_function("() => desk()?.dataset.stage === 'reading'")
            slow.delay_s = SLOWED_S
            right = fast(page, db)
            launched.close()
        db.close()
    return times, right


def open_inbox_page(browser: "Browser", address: str) -> "Page":
    """The inbox in a page of its own."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(120_000)
    page.goto(f"{address}/inbox")
    page.wait_for_selector(".sld[data-stage]")
    page.evaluate(WATCH)
    return page


def fast(page: "Page", db: Database) -> int:
    """How many of so many readings, their keys straight after one another over the slow line, are stored as pressed."""
    from tests.browser.desk import case_in_address, next_shown, stored_labels

    page.wait_for_timeout(1000 * PAUSE_S)
    chance, meant, case_id = random.Random(1), {}, case_in_address(page)
    for _ in range(FAST):
        label = chance.choice("123")
        for key in (label, "7", "r", "Control+Enter", "n"):
            page.keyboard.press(key)
            page.wait_for_timeout(FAST_MS)
        meant[case_id], case_id = LABELS[label], next_shown(page, case_id)
    stored = stored_labels(db)
    return sum(stored.get(each) == label for each, label in meant.items())


def tell_p50(name: str, times: list[float], aim: float | None = None) -> None:
    """The median, with the 95th percentile and how many there were."""
    p95 = quantiles(times, n=20, method="inclusive")[-1]
    tell(f"{name}, p50", median(times), "ms", aim, f"p95 {p95:.0f} ms, n = {len(times)}")


def main() -> None:
    """Print a line for each key and size."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--sizes", default="1000,100000")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    browser = find_browser()
    if browser is None:
        leave_out("from a key to the next text", "no Chromium here")
        return
    for size in (int(each) for each in given.sizes.split(",")):
        times, right = measure(size, given.rounds, browser)
        for name, found in times.items():
            tell_p50(f"{size:,} open, {name}", found, AIMS.get(name))
        tell(f"{size:,} open, fast keys stored otherwise than pressed", FAST - right, aim=0, note=f"of {FAST}")


if __name__ == "__main__":
    main()
