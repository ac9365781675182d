"""The paper's ten conditions on 10,000 recorded cases: the arrays against a plain loop over label counts.

Run ``python -m benchmarks.replay``. Both sides get the same records and give the same outcomes and calls, which is
checked. The loop is what one writes without this project: it counts labels draw by draw, and what follows from a count
is looked up in a table, which is there when the clock starts. Both are timed several times; the medians are told.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TypeVar

import numpy as np

from benchmarks.figures import Figure, tell
from screening.labels import LABELS
from screening.pipeline.config import PipelineConfig
from screening.research.conditions import paper_conditions
from screening.research.replay import Record, replay
from screening.stopping.rules import CountRule, StoppingRule, Verdict, conclude, label_numbers

NODES = ("worker", "risk", "legal")
MOST_DRAWS = 150
REPEATS = 5
NUMBERS = {"S": 0, "U": 1, "E": 2}
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds for all cases, by condition name."""

    arrays: dict[str, float]
    loop: dict[str, float]

    @property
    def ratio(self) -> float:
        """How many times as long the loop takes over all conditions."""
        return sum(self.loop.values()) / sum(self.arrays.values())


def simulate_records(cases: int, seed: int) -> dict[str, list[str]]:
    """Records like those of a real model: most cases near-unanimous, some undecided."""
    random = np.random.default_rng(seed)
    codes = {}
    for node in NODES:
        shapes = random.choice([0.02, 0.1, 1.0, 10.0], size=cases, p=[0.55, 0.25, 0.15, 0.05])
        weights = random.gamma(np.repeat(shapes[:, None], len(LABELS), axis=1)) + 1e-12
        edges = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)[:, :2]
        draws = (random.random((cases, MOST_DRAWS, 1)) > edges[:, None]).sum(axis=2)
        letters = np.frombuffer(b"SUE", dtype="S1")[draws]
        codes[node] = [row.tobytes().decode() for row in letters]
    return codes


class Counts:
    """A rule as a table of what was drawn so far, numbered as met: what follows from it, and the next by label."""

    def __init__(self, rule: StoppingRule) -> None:
        self.rule = rule
        self.drawn: list[tuple[int, ...]] = [()]
        self.after: list[dict[str, int]] = [{}]
        self.ended: list[Verdict | None] = [conclude(rule, label_numbers([]))]

    def add(self, count: int, letter: str) -> int:
        """What was drawn with one more of this label. Only the order of what was drawn for rules that need it."""
        drawn = (*self.drawn[count], NUMBERS[letter])
        if isinstance(self.rule, CountRule):
            drawn = tuple(sorted(drawn))
        self.after[count][letter] = len(self.drawn)
        self.drawn.append(drawn)
        self.after.append({})
        self.ended.append(conclude(self.rule, np.array(drawn, dtype=np.uint8)))
        return len(self.drawn) - 1

    def run(self, letters: str) -> tuple[Verdict, int]:
        """The conclusion from these draws, and how many it took."""
        count = at = 0
        while (verdict := self.ended[count]) is None:
            following = self.after[count].get(letters[at])
            count = self.add(count, letters[at]) if following is None else following
            at += 1
        return verdict, at


def loop_over_cases(
    pipeline: PipelineConfig, tables: dict[str, Counts], codes: dict[str, list[str]]
) -> list[tuple[str, int]]:
    """The outcome and the calls of each case, one after the other."""
    found, first = [], pipeline.nodes[0].name
    targets = {node.name: {label: node.target(label) for label in (*LABELS, None)} for node in pipeline.nodes}
    for case in range(len(codes[first])):
        target, calls = first, 0
        while target in tables:
            verdict, taken = tables[target].run(codes[target][case])
            calls += taken
            target = targets[target][verdict.label]
        found.append((target, calls))
    return found


def time_work(work: Callable[[], T]) -> tuple[float, T]:
    """The median of several times, and what came of the last."""
    times = []
    for _repeat in range(REPEATS):
        began = time.process_time()
        found = work()
        times.append(time.process_time() - began)
    return median(times), found


def measure(cases: int, seed: int, curtail: bool) -> Timing:
    """Time both sides on the same records, and check that they agree."""
    codes = simulate_records(cases, seed)
    record = Record.from_codes(codes)
    arrays, loop = {}, {}
    for condition in paper_conditions(curtail=curtail):
        pipeline = condition.pipeline
        tables = {node.name: Counts(node.rule) for node in pipeline.nodes}
        loop_over_cases(pipeline, tables, codes)  # fills them
        arrays[condition.name], found = time_work(partial(replay, pipeline, record))
        loop[condition.name], expected = time_work(partial(loop_over_cases, pipeline, tables, codes))
        outcomes = zip(found.outcomes(), found.total_calls.tolist(), strict=True)
        assert list(outcomes) == expected, condition.name
    return Timing(arrays=arrays, loop=loop)


def main() -> None:
    """Print a line for each condition and the ratio over all ten."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    for curtail in (False, True):
        timing = measure(chosen.cases, chosen.seed, curtail)
        print(f"curtail={curtail}: {chosen.cases} cases, seconds of processor time by arrays and by the loop")
        for name, seconds in timing.arrays.items():
            print(f"  {name:14} {seconds:8.3f} {timing.loop[name]:9.2f}")
        name = f"the loop against the arrays, {chosen.cases:,} cases{', curtailed' if curtail else ''}"
        tell(Figure(name=name, value=timing.ratio, unit="×", note=f"{sum(timing.arrays.values()):.2f} s in all"))


if __name__ == "__main__":
    main()
