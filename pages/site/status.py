"""What is running, for the first page: the screening service and the model, in words."""

from datetime import datetime

from pages.ui.format import local_time
from screening.engine.pipeline import PipelineConfig
from screening.settings import Settings
from storage.site.at_work import AtWork
from storage.site.faults import Fault


def agents_words(settings: Settings, own: PipelineConfig | None) -> str:
    """Which models answer for the agents of the site's own pipeline, or of a preset, whose nodes name none."""
    if settings.simulated:
        return "Keyword script (demo mode)"
    models = dict.fromkeys(node.model or settings.model for node in own.nodes) if own else [settings.model]
    return ("AI model " if len(models) == 1 else "AI models ") + ", ".join(models)


def status_lines(work: AtWork, agents: str, now: datetime) -> list[tuple[bool, str]]:
    """Whether the screening service and the model do their work, in a sentence each."""
    fault = next((one.began_at for one in work.faults if one.fault is Fault.MODEL), None)
    last = f"last text screened {local_time(work.finished, now)}" if work.finished else "no text screened yet"
    if work.silence is None:
        service = "Screening service: running"
    else:
        since = f" since {local_time(work.silence.since, now)}" if work.silence.since else ""
        service = f"Screening is down{since}. New texts wait and nobody is screening them."
    if fault is not None:
        return [(work.silence is None, service), (False, f"{agents}: no usable answers since {local_time(fault, now)}")]
    return [(work.silence is None, service), (work.silence is None, f"{agents}: {last}")]
