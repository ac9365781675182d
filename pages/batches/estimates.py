"""Calls, cost, time and reviews of a batch before its first call: the worst case, and what is to be expected."""

from collections.abc import Mapping, Sequence

import pandas as pd

from jobs.agents import reads_off
from pages.batches.file_check import Check
from pages.ui.format import duration, money
from screening.labels import LABELS
from screening.pipeline.config import PipelineConfig, most_calls, whole_way
from screening.pipeline.cost import cost_usd, usage_per_call
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


Calls = dict[str, float | None]
"""Of a batch: "expected", "worst", and "low" to "high", between which the calls lie in 95 of 100 batches like the last
ones (None for a guess). It is kept with the batch, to be shown beside what it came to.
"""


def estimated_calls(found: Check, pipeline: PipelineConfig, settings: Settings, spent: Spent | None) -> Calls:
    """``spent`` is what the last batches of this pipeline have used, None where nothing was screened yet."""
    texts = found.accepted - found.without_call
    read_off = reads_off(settings, pipeline)
    once, twice = (most_calls(pipeline, flagged=flagged, read_off=read_off) for flagged in (False, True))
    most = texts * once + found.looked_at_twice * (twice - once)
    expected = texts * (assumed_calls(pipeline) if spent is None else spent.calls)
    low, high = (None, None) if spent is None else (min(most, one) for one in spent.interval(texts))
    return {"expected": min(most, expected), "low": low, "high": high, "worst": most}


def assumed_calls(pipeline: PipelineConfig) -> float:
    """Mean calls over the whole way of a text where every agent is fairly sure of one label, averaged over the three
    labels; every budget spent where that is too much to compute.
    """
    mixes = [tuple(ASSUMED[0] if other is label else ASSUMED[1] for other in LABELS) for label in LABELS]
    found = [whole_way(pipeline, {node.name: mix for node in pipeline.nodes}) for mix in mixes]
    known = [one.calls for one in found if one is not None]
    return sum(known) / len(known) if known else float(most_calls(pipeline))


def call_price(found: Check, pipeline: PipelineConfig, settings: Settings, spent: Spent | None) -> float | None:
    """Dollars a call: as in the last batches, else at the list price of the dearest model that is asked; None where
    it is not known.
    """
    if settings.simulated:
        return 0.0
    if settings.anthropic_base_url:
        return None
    if spent is not None and spent.usd_a_call is not None:
        return spent.usd_a_call
    if any(node.server is not None for node in pipeline.nodes):
        return None
    characters = found.characters / found.accepted if found.accepted else 0
    per_call = usage_per_call(load_prompts(settings.prompts_directory), pipeline.nodes, characters)
    prices = [cost_usd(model, per_call) for model in {node.model or settings.model for node in pipeline.nodes}]
    return None if None in prices else max(float(price) for price in prices if price is not None)


def estimate_table(
    calls: Calls, found: Check, pipeline: PipelineConfig, settings: Settings, spent: Spent | None
) -> pd.DataFrame:
    """Expected and at most, as they are shown; where runs tell, with the range of 95 of 100 such batches. What a batch
    costs at most is at list price.
    """
    price, list_price = (call_price(found, pipeline, settings, known) for known in (spent, None))
    expected, most, low, high = calls["expected"] or 0.0, calls["worst"] or 0.0, calls["low"], calls["high"]

    def cost(number: float, a_call: float | None) -> str:
        return money(None if a_call is None else number * a_call)

    def time(number: float) -> str:
        return "no rate limit" if settings.simulated else duration(60 * number / settings.requests_per_minute)

    rows = {
        "AI responses": [f"{expected:,.0f}", f"{most:,.0f}"],
        "Cost": [cost(expected, price), cost(most, list_price)],
        "Time": [time(expected), time(most)],
    }
    if low is not None and high is not None:
        for name, ends in (
            ("AI responses", (f"{low:,.0f}", f"{high:,.0f}")),
            ("Cost", (cost(low, price), cost(high, price))),
        ):
            if ends[0] != ends[1]:
                rows[name][0] += f" ({ends[0]} to {ends[1]})"
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
