"""From N to an urgent case's text painted, in a real Chromium: it is claimed when N is pressed, one round trip.

    python -m benchmarks.urgent_keys [--sizes 1000,100000] [--rounds 30]

*slowed* has every message to the server held up for 800 ms; told is what N takes beyond a bare question over that line.
Milliseconds as in `inbox_keys`. Needs a Chromium; without one the section says so and ends.
"""

from benchmarks.figures import tell
from benchmarks.inbox_keys import SLOWED, measure_each, p50
from screening.review.triage import Tier

AIM = 100.0
"""Milliseconds at p50, beyond the round trip."""


def main() -> None:
    """Print two lines for each size."""
    for size, found in measure_each(str(__doc__), Tier.P1):
        tell(p50(f"{size:,} open, next P1", found.times["next"]))
        tell(p50(f"{size:,} open, next P1, {SLOWED}", found.times[SLOWED], AIM))


if __name__ == "__main__":
    main()
