"""What is running, for the first page: workers, the model, and the newest batches, as markup."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from pages.components.words import STATE_WORDS
from screening.engine.pipeline import PipelineConfig
from screening.settings import Settings
from screening.text.display import visible
from screening.words import count_of
from storage.batches.batches import BatchSummary
from storage.site.at_work import AtWork
from storage.site.faults import Fault

SAMPLE = Path(__file__).parents[2] / "data" / "sample.csv"


def activity_html(found: Sequence[BatchSummary], work: AtWork, agents: str) -> str:
    """Who works and answers at the moment, and the newest batches with how far they are."""
    rows = "".join(_row(*line) for line in (_workers(work), _model(work, agents)))
    batches = "".join(_batch(one) for one in found) or '<tr><td colspan="3">No batch yet.</td></tr>'
    return f'<h2 class="sl-door">Now</h2><table class="sl-now"><tbody>{rows}{batches}</tbody></table>'


def agents_words(settings: Settings, own: PipelineConfig | None) -> str:
    """Which models answer for the agents of the site's own pipeline, or of a preset, whose nodes name none."""
    if settings.simulated:
        return "Simulated agents"
    models = dict.fromkeys(node.model or settings.model for node in own.nodes) if own else [settings.model]
    return ("Model " if len(models) == 1 else "Models ") + ", ".join(models)


def _workers(work: AtWork) -> tuple[bool, str, str]:
    if work.silence is None:
        return True, count_of(work.workers, "worker"), "ready"
    what = "No worker is answering" if work.workers else "No worker is running"
    since = work.silence.since
    return (
        False,
        f"{what}: what is handed in waits.",
        f"last sign of life {since:%Y-%m-%d %H:%M:%S} UTC" if since else "",
    )


def _model(work: AtWork, agents: str) -> tuple[bool, str, str]:
    since = next((one.began_at for one in work.faults if one.fault is Fault.MODEL), None)
    if since is not None:
        return False, f"{agents}: no usable answers.", f"since {since:%Y-%m-%d %H:%M} UTC"
    last = work.finished
    finished = f"an agent last finished {last:%Y-%m-%d %H:%M} UTC" if last else "no agent finished yet"
    return work.silence is None, agents if work.silence is None else f"{agents}: not asked without a worker", finished


def _row(well: bool, what: str, more: str) -> str:
    mark = '<span class="well">●</span>' if well else '<span class="ill">▲</span>'
    return f'<tr><td colspan="2">{mark} {escape(what)}</td><td>{escape(more)}</td></tr>'


def _batch(one: BatchSummary) -> str:
    done = one.progress.accepted - one.progress.pending
    link = f'<a href="/batches?batch={one.id}" target="_self">{escape(visible(one.name))}</a>'
    state = escape(STATE_WORDS[one.progress.state])
    return f"<tr><td>{link}</td><td>{state}</td><td>{done:,} of {one.progress.accepted:,}</td></tr>"
