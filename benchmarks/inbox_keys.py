"""From a key to the next text painted, in a real Chromium, at several numbers of open cases.

    python -m benchmarks.inbox_keys [--sizes 1000,100000] [--rounds 30]

*save* is Ctrl+Enter until the review is shown as saved, *next* is N until the next text is painted, *both* the two
keys 30 ms apart until the next text is painted. Milliseconds, p50 and p95, by the browser's own clock from the key to
the frame after the change. Needs a Chromium; without one the section says so and ends.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from benchmarks.figures import leave_out, tell
from benchmarks.inbox import add_cases
from benchmarks.processes import BROWSER_ARGUMENTS, app_process
from screening.review.triage import Priority
from storage.database import Database
from tests.browser.install import find_browser

if TYPE_CHECKING:
    from playwright.sync_api import Page

AIMS = {"next": 150.0, "save": 150.0}
"""Milliseconds at p50."""
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
  window.reviewing = (before) =>
    desk().dataset.stage === "reviewing" && caseName() !== before && !desk().classList.contains("sld-saving");
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
    page.wait_for_function("() => desk()?.dataset.stage === 'reviewing'")
    for at in range(2 * number):
        page.wait_for_timeout(1000 * PAUSE_S)
        before = page.evaluate("caseName()")
        page.keyboard.press("1")
        page.keyboard.press("7")
        page.wait_for_timeout(100)
        after = f"reviewing({before!r})"
        if at % 2:
            found["both"].append(time_key(page, "Control+Enter,n", "Enter", after))
        else:
            found["save"].append(time_key(page, "Control+Enter", "Enter", "saved()"))
            page.wait_for_timeout(500)  # a look at what the engine said
            found["next"].append(time_key(page, "n", "n", after))
    return found


def measure(size: int, number: int, browser: str) -> dict[str, list[float]]:
    """Times by their names."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        url = f"sqlite:///{Path(directory) / 'bench.db'}"
        db = Database(url)
        db.prepare()
        add_cases(db, 0, size, priority=Priority.P2)
        db.close()
        with app_process(url) as (address, _), sync_playwright() as playwright:
            launched = playwright.chromium.launch(executable_path=browser, args=BROWSER_ARGUMENTS)
            page = launched.new_page(viewport={"width": 1440, "height": 900})
            page.set_default_timeout(120_000)
            page.goto(f"{address}/inbox")
            page.wait_for_selector(".sld[data-stage]")
            page.evaluate(WATCH)
            times = rounds(page, number)
            launched.close()
    return times


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
        for name, times in measure(size, given.rounds, browser).items():
            p95 = quantiles(times, n=20, method="inclusive")[-1]
            note = f"p95 {p95:.0f} ms, n = {len(times)}"
            tell(f"{size:,} open, {name}, p50", median(times), "ms", AIMS.get(name), note)


if __name__ == "__main__":
    main()
