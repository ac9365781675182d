"""What a batch has cost so far: beside what was said before it began, and agent by agent."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from jobs.overview import Overview
from pages.ui.engine_view import money
from screening.engine.pipeline import PipelineConfig
from screening.words import count_of
from storage.batches.batches import BatchSummary
from storage.batches.spent import NodeCost


def cost_panel(one: BatchSummary, pipeline: PipelineConfig, counted: Overview) -> None:
    """What was made, and by whom."""
    found = {each.node: each for each in counted.costs}
    if not found:
        return
    st.caption(calls_sentence(one.intake.get("estimate"), counted.calls))
    rows = [row(node.title, found[node.name]) for node in pipeline.nodes if node.name in found]
    st.dataframe(rows, hide_index=True, alt="Calls and cost by agent")


def calls_sentence(estimate: Mapping[str, Any] | None, calls: int) -> str:
    """The calls made so far, beside what was expected, as a sentence.

    >>> calls_sentence({"expected": 1200.4, "low": 900.0, "high": 1500.0, "worst": 30000}, 1310)
    '1,310 AI responses so far (estimate 1,200, 900 to 1,500; at most 30,000).'
    >>> calls_sentence(None, 12)
    '12 AI responses so far.'
    """
    made = f"{count_of(calls, 'AI response')} so far"
    if not estimate:
        return f"{made}."
    spread = f", {estimate['low']:,.0f} to {estimate['high']:,.0f}" if estimate.get("low") is not None else ""
    return f"{made} (estimate {estimate['expected']:,.0f}{spread}; at most {estimate['worst']:,.0f})."


def row(title: str, one: NodeCost) -> dict[str, str]:
    """One agent as a row of the table.

    >>> used = dict(node="risk", texts=3, calls=30, input_tokens=4000, output_tokens=60, cached=1000, cost_usd=0.5)
    >>> row("Risk", NodeCost(**used))["From the cache"]
    '25%'
    """
    cached = f"{100 * one.cached / one.input_tokens:.0f}%" if one.input_tokens else "–"
    return {
        "Agent": title,
        "Texts": f"{one.texts:,}",
        "AI responses": f"{one.calls:,}",
        "Tokens in": f"{one.input_tokens:,}",
        "From the cache": cached,
        "Tokens out": f"{one.output_tokens:,}",
        "Cost": money(one.cost_usd),
    }
