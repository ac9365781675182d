"""Calls, cost, time and reviews of a batch before its first call: the worst case, and what is to be expected."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from jobs.agents import reads_off
from pages.batches.file_check import Check
from pages.ui.format import duration, money
from screening.labels import LABELS
from screening.pipeline.config import PipelineConfig, most_calls, whole_way
from screening.pipeline.cost import estimate, usage_per_call
from screening.pipeline.files import load_prompts
from screening.review.reach import Reach
from screening.settings import Settings
from screening.words import count_of
from storage.batches.batches import BatchSummary
from storage.batches.costs import Spent

ASSUMED = (0.9, 0.05, 0.05)
"""How an agent that is fairly sure of a label answers: that label nine times in ten. For sites without a batch yet."""

ReviewEstimate = Mapping[Reach, str]
"""What follows from each choice for unsafe texts, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line of the estimate. Dollars are None where the price is unknown, seconds where no rate limits."""

    calls: float
    usd: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEstimate:
    """Before the first call. ``low`` and ``high`` are where the calls lie in 95 of 100 batches like the last ones, None
    for a guess.
    """

    worst: Case
    expected: Case
    low: Case | None = None
    high: Case | None = None

    @property
    def record(self) -> dict[str, float | None]:
        """What is kept with the batch, to be shown beside what it came to."""
        low, high = (None if one is None else one.calls for one in (self.low, self.high))
        return {"expected": self.expected.calls, "low": low, "high": high, "worst": self.worst.calls}


def batch_estimate(found: Check, pipeline: PipelineConfig, settings: Settings, spent: Spent | None) -> BatchEstimate:
    """``spent`` is what the last batches of this pipeline have used, None where nothing was screened yet."""
    texts = found.accepted - found.without_call
    read_off = reads_off(settings, pipeline)
    once, twice = (most_calls(pipeline, flagged=flagged, read_off=read_off) for flagged in (False, True))
    most = texts * once + found.looked_at_twice * (twice - once)
    worst = _case(most, found, pipeline, settings, None)
    if spent is None:
        guessed = _case(min(most, texts * assumed_calls(pipeline)), found, pipeline, settings, None)
        return BatchEstimate(worst=worst, expected=guessed)
    low, high = (_case(min(most, one), found, pipeline, settings, spent) for one in spent.interval(texts))
    return BatchEstimate(
        worst=worst,
        expected=_case(min(most, texts * spent.calls), found, pipeline, settings, spent),
        low=low,
        high=high,
    )


def assumed_calls(pipeline: PipelineConfig) -> float:
    """Mean calls over the whole way of a text where every agent is fairly sure of one label, averaged over the three
    labels; every budget spent where that is too much to compute.
    """
    mixes = [tuple(ASSUMED[0] if other is label else ASSUMED[1] for other in LABELS) for label in LABELS]
    found = [whole_way(pipeline, {node.name: mix for node in pipeline.nodes}) for mix in mixes]
    known = [one.calls for one in found if one is not None]
    return sum(known) / len(known) if known else float(most_calls(pipeline))


def _case(calls: float, found: Check, pipeline: PipelineConfig, settings: Settings, spent: Spent | None) -> Case:
    if settings.simulated:
        return Case(calls=calls, usd=0.0, seconds=None)
    seconds = 60 * calls / settings.requests_per_minute
    if settings.anthropic_base_url:
        return Case(calls=calls, usd=None, seconds=seconds)
    if spent is not None and spent.usd_a_call is not None:
        return Case(calls=calls, usd=calls * spent.usd_a_call, seconds=seconds)
    if any(node.server is not None for node in pipeline.nodes):
        return Case(calls=calls, usd=None, seconds=seconds)
    characters = found.characters / found.accepted if found.accepted else 0
    per_call = usage_per_call(load_prompts(settings.prompts_directory), pipeline.nodes, characters)
    models = {node.model or settings.model for node in pipeline.nodes}
    prices = [estimate(model, calls, per_call).usd for model in models]  # that of the dearest model that is asked
    known = [float(price) for price in prices if price is not None]
    return Case(calls=calls, usd=max(known) if len(known) == len(prices) else None, seconds=seconds)


def estimate_table(estimated: BatchEstimate) -> pd.DataFrame:
    """Expected and at most, as they are shown; where runs tell, with the range of 95 of 100 such batches."""
    expected, low, high, most = estimated.expected, estimated.low, estimated.high, estimated.worst
    ways: Mapping[str, Callable[[Case], str]] = {
        "AI responses": lambda one: f"{one.calls:,.0f}",
        "Cost": lambda one: money(one.usd),
    }
    rows = {name: [way(expected), way(most)] for name, way in ways.items()}
    if low is not None and high is not None:
        for name, way in ways.items():
            if way(low) != way(high):
                rows[name][0] += f" ({way(low)} to {way(high)})"
    rows["Time"] = ["no rate limit" if one.seconds is None else duration(one.seconds) for one in (expected, most)]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["Expected", "At most"])
    table.index.name = "Estimate"
    return table


def basis_words(spent: Spent | None) -> str:
    """What the expectation rests on."""
    if spent is None:
        return "Estimate only: no past runs with these settings."
    last = "the last batch" if spent.batches == 1 else f"the last {spent.batches} batches"
    return (
        f"From {last} with this pipeline ({count_of(spent.texts, 'text')}, {spent.calls:.1f} responses "
        "each); 95% prediction interval."
    )


def review_estimate(found: Check, audit_rate: float, batches: Sequence[BatchSummary], version: str) -> ReviewEstimate:
    """What follows from each choice, in numbers."""
    escalated, unsafe, basis = _shares(batches, version)
    asked = found.accepted - found.without_call

    def reviews(share: float) -> str:
        count = round(found.without_call + asked * (share + audit_rate * (1 - share)))
        return f"About {count_of(count, 'case')} to review"

    known = f"{found.unsafe:,} labeled unsafe in your file, " if found.referenced else ""
    unseen = f"{known}about {round(unsafe * asked):,} expected from the AI"
    return {
        Reach.READ: f"{reviews(escalated + unsafe)} ({basis}).",
        Reach.LIST: f":red[**No one reviews them**: {unseen}.] {reviews(escalated)}.",
        Reach.COUNT: f":red[**No one sees them**: {unseen}.] {reviews(escalated)}.",
    }


def _shares(batches: Sequence[BatchSummary], version: str) -> tuple[float, float, str]:
    """Shares of texts escalated and labeled unsafe: those seen under these settings, else assumed."""
    same = [one.progress for one in batches if one.configuration_version == version]
    decided = sum(one.safe + one.unsafe + one.human_review for one in same)
    if not decided:
        _, unsafe, escalated = ASSUMED
        return escalated, unsafe, f"assumes {escalated:.0%} escalated, {unsafe:.0%} unsafe; no past data"
    escalated, unsafe = sum(one.human_review for one in same) / decided, sum(one.unsafe for one in same) / decided
    return escalated, unsafe, f"from {count_of(decided, 'text')} screened with these settings"
