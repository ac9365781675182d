"""From N to an urgent case's text painted, in a real Chromium: it is claimed when N is pressed, one round trip.

    python -m benchmarks.urgent_keys [--sizes 1000,100000] [--rounds 30]

*slowed* has every message to the server held up for 800 ms; told is what N takes beyond a bare question over that line.
Milliseconds as in `inbox_keys`. Needs a Chromium; without one the section says so and ends.
"""

import argparse

from benchmarks.figures import leave_out, tell
from benchmarks.inbox_keys import SLOWED, measure, p50
from screening.review.triage import Tier
from tests.browser.find import find_browser

AIM = 100.0
"""Milliseconds at p50, beyond the round trip."""


def main() -> None:
    """Print two lines for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--sizes", default="1000,100000")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    browser = find_browser()
    if browser is None:
        leave_out("from N to an urgent text", "no Chromium here")
        return
    for size in (int(each) for each in given.sizes.split(",")):
        times = measure(size, given.rounds, Tier.P1, browser).times
        tell(p50(f"{size:,} open, next P1", times["next"]))
        tell(p50(f"{size:,} open, next P1, {SLOWED}", times[SLOWED], AIM))


if __name__ == "__main__":
    main()
