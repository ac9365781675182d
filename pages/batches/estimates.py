"""Calls, cost and time of a batch before its first call: the worst case, and what is to be expected."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pages.batches.file_check import Check
from pages.batches.live_view import money
from screening.engine.cost import estimate, usage_per_call
from screening.engine.draws import Usage
from screening.engine.pipeline import PipelineConfig
from screening.engine.prompting import load_prompts
from screening.labels import LABELS
from screening.settings import Settings
from storage.batches.batches import BatchSummary

ASSUMED = (0.9, 0.05, 0.05)
"""Label distribution of a fairly sure agent, for sites that have not screened anything yet."""
RUNS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line of the estimate. Dollars are None where the price is unknown, seconds where no rate limits."""

    calls: float
    usd: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEstimate:
    """Before the first call. ``basis`` says what the expectation rests on."""

    worst: Case
    expected: Case
    basis: str


def batch_estimate(found: Check, pipeline: PipelineConfig, settings: Settings, observed: float | None) -> BatchEstimate:
    """``observed`` is calls per text so far under this very configuration, None where nothing was screened yet."""
    texts = found.accepted - found.without_call
    per_text = assumed_calls(pipeline) if observed is None else observed
    basis = (
        "agents that give their usual answer nine times in ten"
        if observed is None
        else f"{observed:.1f} calls a text so far under these settings"
    )
    most = texts * sum(node.rule.rule().budget for node in pipeline.nodes)
    return BatchEstimate(
        worst=_case(most, found, pipeline, settings),
        expected=_case(min(most, texts * per_text), found, pipeline, settings),
        basis=basis,
    )


def observed_calls(batches: Sequence[BatchSummary], version: str) -> float | None:
    """Mean calls per decided text of the batches that ran under this configuration, None without any."""
    same = [one.progress for one in batches if one.configuration_version == version]
    decided = sum(one.safe + one.unsafe + one.human_review for one in same)
    return sum(one.calls for one in same) / decided if decided else None


def assumed_calls(pipeline: PipelineConfig) -> float:
    """Mean calls of the first node where labels come with probability `ASSUMED`, by simulation with a fixed seed."""
    rule, generator = pipeline.nodes[0].rule.rule(), np.random.default_rng(0)
    total = 0
    for _ in range(RUNS):
        state = rule.start()
        while (verdict := state.verdict()) is None:
            state = state.observe(LABELS[int(generator.choice(len(LABELS), p=ASSUMED))])
        total += verdict.calls
    return total / RUNS


def _case(calls: float, found: Check, pipeline: PipelineConfig, settings: Settings) -> Case:
    if settings.simulated:
        return Case(calls=calls, usd=0.0, seconds=None)
    seconds = 60 * calls / settings.requests_per_minute
    if settings.anthropic_base_url:
        return Case(calls=calls, usd=None, seconds=seconds)
    usd = estimate(settings.model, calls, _per_call(found, pipeline, settings)).usd
    return Case(calls=calls, usd=None if usd is None else float(usd), seconds=seconds)


def _per_call(found: Check, pipeline: PipelineConfig, settings: Settings) -> Usage:
    characters = found.characters / found.accepted if found.accepted else 0
    return usage_per_call(load_prompts(settings.prompts_directory), pipeline.nodes, characters)


def duration(seconds: float | None) -> str:
    """Seconds in words a person plans by.

    >>> duration(None), duration(40), duration(600), duration(9000), duration(260_000)
    ('no rate limit', '40 s', '10 min', '2.5 h', '3.0 days')
    """
    if seconds is None:
        return "no rate limit"
    for limit, unit, word in ((90, 1, "s"), (5400, 60, "min")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {word}"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


def estimate_rows(estimated: BatchEstimate) -> list[dict[str, str]]:
    """The two lines as rows of a table."""
    lines = (("At most", estimated.worst), ("Expected", estimated.expected))
    return [
        {"": name, "Calls": f"{case.calls:,.0f}", "Cost": money(case.usd), "Time": duration(case.seconds)}
        for name, case in lines
    ]
