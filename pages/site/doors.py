"""What stands on the first page: counts of what waits, and what is going on, as markup."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from pages.components.words import STATE_WORDS
from screening.review.triage import Tier
from screening.text.display import visible
from storage.batches.batches import BatchSummary
from storage.review.queue import Counts

SAMPLE = Path(__file__).parents[2] / "data" / "sample.csv"

TIER_WORDS = {Tier.P0: "P0 at once", Tier.P1: "P1 soon", Tier.P2: "P2 today", Tier.P3: "P3 routine"}


def waiting_html(found: Counts) -> str:
    """How many wait by tier, with what is late in words; one sentence where nothing waits."""
    lines = "".join(_tier(tier, found) for tier in Tier if found.open_by_tier.get(tier))
    if not lines:
        return '<p style="margin:.3rem 0">No case is open in the inbox.</p>'
    return f'<ul class="sl-waits">{lines}</ul>'


def _tier(tier: Tier, found: Counts) -> str:
    late = found.late_by_tier.get(tier, 0)
    overdue = f' <span class="late">{late:,} overdue</span>' if late else ""
    return f'<li><span class="tier">{TIER_WORDS[tier]}</span> <b>{found.open_by_tier[tier]:,}</b>{overdue}</li>'


def activity_html(found: Sequence[BatchSummary], *, working: bool) -> str:
    """Whether anything is screened at the moment, and the newest batches with how far they are."""
    worker = "A worker is ready." if working else "No worker is running: what is handed in waits."
    rows = "".join(
        f"<tr><td>{escape(visible(one.name))}</td><td>{escape(STATE_WORDS[one.progress.state])}</td>"
        f"<td>{one.progress.accepted - one.progress.pending:,} of {one.progress.accepted:,}</td></tr>"
        for one in found
    )
    table = f'<table class="sl-now"><tbody>{rows}</tbody></table>' if rows else "<p>No batch yet.</p>"
    return f'<h2 class="sl-door">Now</h2><p style="margin:.2rem 0">{worker}</p>{table}'
