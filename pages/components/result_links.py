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


def result_links_html(batch_id: str, found: Progress, *, linked: bool = True) -> str:
    """Counts of a batch by outcome, each with its list for whoever may see outcomes; the rejected rows are in their
    file.
    """
    counted = (
        ("safe", found.safe, "safe", Outcome.SAFE.value),
        ("unsafe", found.unsafe, "unsafe", Outcome.UNSAFE.value),
        ("person", found.human_review, "escalated", Outcome.HUMAN_REVIEW.value),
        ("quiet", found.pending, "not screened", PENDING),
        ("", found.accepted, "all", None),
    )
    tiles = "".join(
        f'<a class="{kind}"{_link(batch_id, outcome) if linked else ""}><b>{count:,}</b>{words}</a>'
        for kind, count, words, outcome in counted
    )
    return f'<div class="sl-tiles">{tiles}</div>'


def _link(batch_id: str, outcome: str | None) -> str:
    address = results_address(batch_id, **({} if outcome is None else {"outcome": outcome}))
    return f' href="{address}" target="_self"'
