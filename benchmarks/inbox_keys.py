"""From a key to the next text painted, in a real Chromium, at several numbers of open cases.

    python -m benchmarks.inbox_keys [--sizes 1000,100000] [--rounds 40]

*save* is Ctrl+Enter until the reading is shown as saved, *next* is N until the next text is painted, *both* the two
keys 30 ms apart until the next text is painted, each case a P2 as most are (`urgent_keys` measures P1). *slowed* is
the same with every message to the server held up for 800 ms; and `1 7 R Ctrl+Enter N` at 30 ms a key, whether what was
stored is what was pressed. Milliseconds, p50 and p95, by the browser's own clock from the key to the frame after the
change. *poll* is all of the app's processor time for one question of an open inbox, over HTTP, with who asks looked
up, once all open texts are in the index of words. Needs a Chromium; without one the section says so and ends.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, leave_out, tell
from benchmarks.inbox import add_cases
from benchmarks.processes import BROWSER_ARGUMENTS, app_process, processor_s
from screening.review.actors import LOCAL_USER
from screening.review.triage import Tier
from storage.database import Database
from storage.review import inbox
from tests.browser.find import find_browser
from tests.browser.slow_line import SlowLine, slow_line

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AIMS = {"next": 150.0, "save": 150.0}
"""Milliseconds at p50. On a slowed line a text takes that line's round trip: it is not sent ahead."""
SLOWED, SLOWED_S, FAST_MS, FAST = "slowed", 0.8, 30, 12
LABELS = {"1": "safe", "2": "unsafe", "3": "insufficient_information"}
POLLS, POLL_AIM, REST_S = 300, 5.0, 5.0
PAUSE_S = 1.5
"""A reader's look at the text between two rounds."""
ASK = """async (times) => {
  const asked = performance.getEntriesByType("resource").map((one) => one.name);
  const address = asked.filter((name) => name.includes("/_live/inbox")).pop();
  for (let at = 0; at < times; at += 1) await (await fetch(address, { cache: "no-store" })).json();
}"""
BARE = """async () => {
  const from = performance.now();
  await (await fetch("/_stcore/health", { cache: "no-store" })).text();
  return performance.now() - from;
}"""
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


def fill(db: Database, size: int, tier: Tier) -> None:
    """So many open cases, all of one tier."""
    add_cases(db, 0, size, tier=tier)


def time_key(page: "Page", key: str, first: str, ready: str) -> float:
    """Press a key, or two 30 ms apart, and wait until ``ready``; milliseconds since the first."""
    page.evaluate(f"void (window.found = painted({first!r}, () => {ready}))")
    for number, one in enumerate(key.split(",")):
        if number:
            page.wait_for_timeout(30)
        page.keyboard.press(one)
    return float(page.evaluate("window.found"))


def poll_cost(page: "Page", pid: int) -> float:
    """Milliseconds of processor time of the app for each of many questions of an open inbox, without what it takes in
    that time anyway.
    """
    page.wait_for_function("() => performance.getEntriesByType('resource').some((one) => one.name.includes('/_live/'))")

    def processor_time(wait: Callable[[], object]) -> tuple[float, float]:
        """Seconds of processor time meanwhile, and seconds."""
        began, before = time.monotonic(), processor_s(pid)
        wait()
        return processor_s(pid) - before, time.monotonic() - began

    page.evaluate(f"() => ({ASK})(20)")
    anyway, of = processor_time(lambda: time.sleep(REST_S))
    asking, took = processor_time(lambda: page.evaluate(f"() => ({ASK})({POLLS})"))
    return 1_000 * (asking - took * anyway / of) / POLLS


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Times by their names, what a poll costs, and how many of the fast readings were stored as they were pressed; the
    last two only of cases that are not urgent.
    """

    times: dict[str, list[float]]
    poll: float
    right: int


def measure(size: int, number: int, tier: Tier, browser: str) -> Measured:
    """All of it at one number of open cases."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        url = f"sqlite:///{Path(directory) / 'bench.db'}"
        db = Database(url)
        db.prepare()
        fill(db, size, tier)
        with app_process(url) as (address, pid), slow_line(address) as slow, sync_playwright() as playwright:
            launched = playwright.chromium.launch(executable_path=browser, args=BROWSER_ARGUMENTS)
            page = open_inbox_page(launched, address)
            times = rounds(page, number)
            page.close()
            inbox.release_all(db, LOCAL_USER.at(datetime.now(UTC)), "benchmark")
            page = open_inbox_page(launched, slow.url)
            times[SLOWED] = time_slow_line(page, slow, number, urgent=tier in (Tier.P0, Tier.P1))
            right, poll = 0, 0.0
            if tier is Tier.P2:
                right = fast(page, db)
                page.close()
                poll = poll_cost(open_inbox_page(launched, address), pid)
            launched.close()
        db.close()
    return Measured(times=times, poll=poll, right=right)


def open_inbox_page(browser: "Browser", address: str) -> "Page":
    """The inbox in a page of its own."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(120_000)
    page.goto(f"{address}/inbox")
    page.wait_for_selector(".sld[data-stage]")
    page.evaluate(WATCH)
    return page


def time_slow_line(page: "Page", line: SlowLine, number: int, *, urgent: bool) -> list[float]:
    """N so many times over a slow line, of an urgent case without what a bare question takes there."""
    page.keyboard.press("n")
    page.wait_for_function("() => desk()?.dataset.stage === 'reading'")
    line.delay_s, found = SLOWED_S, []
    for _ in range(number):
        page.wait_for_timeout(1000 * PAUSE_S)
        before = page.evaluate("caseName()")
        for key in ("1", "7", "Control+Enter"):
            page.keyboard.press(key)
        page.wait_for_function("() => saved()")
        page.wait_for_timeout(2_500)  # a look at what the engine said, until the page behind it has come
        bare = page.evaluate(f"() => ({BARE})()") if urgent else 0.0
        found.append(time_key(page, "n", "n", f"reading({before!r})") - bare)
    return found


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


def p50(name: str, times: list[float], aim: float | None = None) -> Figure:
    """The median, with the 95th percentile and how many there were.

    >>> p50("save", [1.0, 2.0, 3.0]).note
    'p95 3 ms, n = 3'
    """
    p95 = quantiles(times, n=20, method="inclusive")[-1]
    note = f"p95 {p95:.0f} ms, n = {len(times)}"
    return Figure(name=f"{name}, p50", value=median(times), unit="ms", aim=aim, note=note)


def measure_each(about: str, tier: Tier) -> Iterator[tuple[int, Measured]]:
    """Each of the sizes asked for with what was measured; none where there is no Chromium, which is said."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--sizes", default="1000,100000")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    browser = find_browser()
    if browser is None:
        leave_out("from a key to the next text", "no Chromium here")
        return
    for size in (int(each) for each in given.sizes.split(",")):
        yield size, measure(size, given.rounds, tier, browser)


def main() -> None:
    """Print a line for each key and size."""
    for size, found in measure_each(str(__doc__), Tier.P2):
        report(size, found.times)
        tell(
            Figure(
                name=f"{size:,} open, fast keys stored otherwise than pressed",
                value=FAST - found.right,
                unit="",
                aim=0,
                note=f"of {FAST}",
            )
        )
        note = f"n = {POLLS}"
        tell(Figure(name=f"{size:,} open, a poll", value=found.poll, unit="ms", aim=POLL_AIM, note=note))


def report(size: int, found: dict[str, list[float]]) -> None:
    """Each with its aim where it has one."""
    for name, times in found.items():
        named = f"next, {name}" if name == SLOWED else name
        tell(p50(f"{size:,} open, {named}", times, AIMS.get(named)))


if __name__ == "__main__":
    main()
