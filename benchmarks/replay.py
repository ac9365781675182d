"""The paper's ten conditions on 10,000 recorded cases: the arrays against the engine's state machine in a loop.

Run ``python -m benchmarks.replay``. Both sides get the same records and give the same outcomes and calls, which
is checked. The loop is the engine's own: one case, one wave, one draw at a time. It is timed on a share of the
cases and scaled up, since all of them take minutes; only the ratio is meant to be compared between machines.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from screening.engine.draws import decode_draws
from screening.engine.pipeline import PipelineConfig
from screening.labels import LABELS, Label
from screening.research.conditions import paper_conditions
from screening.research.replay import Record, replay
from screening.statistics.rules.protocol import StoppingRule

NODES = ("worker", "risk", "legal")
MOST_DRAWS = 150
REPEATS = 3


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


def one_case(
    pipeline: PipelineConfig, rules: dict[str, StoppingRule], drawn: dict[str, Sequence[Label]]
) -> tuple[str, int]:
    """The outcome and the calls of one case, as the engine goes: wave by wave, node by node."""
    target, calls = pipeline.nodes[0].name, 0
    while target in rules:
        state = rules[target].start()
        while (verdict := state.verdict()) is None:
            for label in drawn[target][state.calls : state.calls + state.next_wave()]:
                state = state.observe(label)
        calls += state.calls
        target = pipeline.node(target).target(verdict.label)
    return target, calls


def loop_over_cases(
    pipeline: PipelineConfig, labels: dict[str, list[list[Label]]], cases: int
) -> list[tuple[str, int]]:
    """All cases, one after the other."""
    rules = {node.name: node.rule.rule() for node in pipeline.nodes}
    return [one_case(pipeline, rules, {node: rows[case] for node, rows in labels.items()}) for case in range(cases)]


def measure(cases: int, share: int, seed: int, curtail: bool) -> Timing:
    """Time both sides on the same records, and check that they agree."""
    codes = simulate_records(cases, seed)
    record = Record.from_codes(codes)
    labels = {
        node: [[draw.label for draw in decode_draws(row)] for row in rows[:share]] for node, rows in codes.items()
    }
    arrays, loop = {}, {}
    for condition in paper_conditions(curtail=curtail):
        times = []
        for _repeat in range(REPEATS):
            began = time.perf_counter()
            found = replay(condition.pipeline, record)
            times.append(time.perf_counter() - began)
        began = time.perf_counter()
        expected = loop_over_cases(condition.pipeline, labels, share)
        loop[condition.name] = (time.perf_counter() - began) * cases / share
        arrays[condition.name] = sorted(times)[REPEATS // 2]
        outcomes = zip(found.outcomes()[:share], found.total_calls[:share].tolist(), strict=True)
        assert list(outcomes) == expected, condition.name
    return Timing(arrays=arrays, loop=loop)


def main() -> None:
    """Print a line for each condition and the ratio over all ten."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=10_000)
    options.add_argument("--share", type=int, default=400, help="cases that the loop is timed on")
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    for curtail in (False, True):
        timing = measure(chosen.cases, min(chosen.share, chosen.cases), chosen.seed, curtail)
        print(f"curtail={curtail}: {chosen.cases} cases, seconds by arrays and by the loop")
        for name, seconds in timing.arrays.items():
            print(f"  {name:14} {seconds:8.3f} {timing.loop[name]:9.2f}")
        print(f"  replay ratio {timing.ratio:.0f} (at least 50 wanted)")


if __name__ == "__main__":
    main()
