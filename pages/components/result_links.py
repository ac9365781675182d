"""The numbers of a batch, each a link to the cases it counts."""

from urllib.parse import urlencode

from screening.labels import Outcome
from storage.batches.batches import Progress
from storage.kinds import PENDING


def results_address(batch_id: str, **filters: str) -> str:
    """The address of a list of results.

    >>> results_address("b1", outcome="safe", reference="unsafe")
    '/results?batch=b1&outcome=safe&reference=unsafe'
    """
    return f"/results?{urlencode({'batch': batch_id, **filters})}"


def result_links_html(batch_id: str, found: Progress) -> str:
    """Counts of a batch by outcome, each with its list; the rejected rows are in their file."""
    counted = (
        ("safe", found.safe, "safe", Outcome.SAFE.value),
        ("unsafe", found.unsafe, "unsafe", Outcome.UNSAFE.value),
        ("person", found.human_review, "to a person", Outcome.HUMAN_REVIEW.value),
        ("quiet", found.pending, "not screened", PENDING),
    )
    tiles = "".join(
        f'<a class="{kind}" href="{results_address(batch_id, outcome=outcome)}" target="_self">'
        f"<b>{count:,}</b>{words}</a>"
        for kind, count, words, outcome in counted
    )
    every = f'<a href="{results_address(batch_id)}" target="_self"><b>{found.accepted:,}</b>all</a>'
    return f'<div class="sl-tiles">{tiles}{every}</div>'
