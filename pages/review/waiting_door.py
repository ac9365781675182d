"""What waits in the inbox, for the first page: by tier, with what is late and when the first is due."""

from collections.abc import Mapping
from datetime import datetime

from pages.review.inbox_words import TIER_MARKS, TIER_WORDS, late_words, span_words
from screening.review.triage import Tier
from storage.review.queue import Counts


def waiting_html(found: Counts, first_due: Mapping[Tier, datetime], now: datetime) -> str:
    """One line a tier in which a case is open; one sentence where none is."""
    lines = "".join(_tier(tier, found, first_due.get(tier), now) for tier in Tier if found.open_by_tier.get(tier))
    if not lines:
        return "<p>No case is open in the inbox.</p>"
    return f'<ul class="sl-waits">{lines}</ul>'


def _tier(tier: Tier, found: Counts, due: datetime | None, now: datetime) -> str:
    name = f'<span class="tier t{tier.value}">{TIER_MARKS[tier]} {TIER_WORDS[tier]}</span>'
    return f"<li>{name} <b>{found.open_by_tier[tier]:,}</b> {_due(found.late_by_tier.get(tier, 0), due, now)}</li>"


def _due(late: int, due: datetime | None, now: datetime) -> str:
    if due is None:
        return ""
    if due <= now:
        return f'<span class="late">{late_words(max(late, 1))}, the first by {span_words(now - due)}</span>'
    return f'<span class="soft">first due in {span_words(due - now)}</span>'
