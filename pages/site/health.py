"""What an operator looks at: health, readiness and metrics by HTTP, the notifier, and the system status of Home."""

import hmac
import tempfile
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from wsgiref.simple_server import WSGIServer

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from jobs import metrics
from jobs.notify import Notifier
from jobs.process import system_clock, worker_name
from pages.ui import context
from pages.ui.context import singleton
from pages.ui.format import local_time
from pages.ui.labels import error_words
from screening.pipeline.config import PipelineConfig
from screening.pipeline.errors import NO_LABEL
from screening.settings import Settings
from storage.database import Database, passing_fault
from storage.review.reports import require_ready
from storage.site.health import Fault, find_lasting, last_ended, workers_silence

LOOK_EVERY_S = 3.0
PROBE_BYTES = 8_192
"""What a disk has room for that is not full."""
HEALTH, READY, METRICS = "/healthz", "/readyz", "/metrics"


async def _healthz(_request: Request) -> Response:
    return PlainTextResponse("ok")


@dataclass(slots=True)
class Readiness:
    """Whether this app can work: its database is read and written, and its data directory takes a file. Looked at no
    more than every few seconds, however many ask.
    """

    looked_at: float = float("-inf")
    problem: str | None = None
    _one: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> str | None:
        """What is wrong; None where nothing is."""
        with self._one:
            if time.monotonic() - self.looked_at > LOOK_EVERY_S:
                self.problem = _problem()
                self.looked_at = time.monotonic()
            return self.problem


def _problem() -> str | None:
    try:
        require_ready(context.database(), system_clock())
    except Exception as error:  # whatever it is, this app cannot work now
        fault = passing_fault(error)
        return "the database does not answer" if fault is None else f"the database is {fault.value}"
    folder = context.settings().data_directory
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE_BYTES))
    except OSError as error:
        return f"the data directory cannot be written: {error.strerror}"
    return None


@singleton
def readiness() -> Readiness:
    """What was found last."""
    return Readiness()


async def _readyz(_request: Request) -> Response:
    """Whether it can work: told in one sentence, to anybody."""
    problem = await run_in_threadpool(lambda: readiness().look())
    return PlainTextResponse("ready") if problem is None else PlainTextResponse(problem, status_code=503)


async def _metrics(request: Request) -> Response:
    """404 where no token is set, as if it were not there; 401 for another token."""
    token = context.settings().metrics_token
    if token is None:
        return PlainTextResponse("There is no such page.", status_code=404)
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(given.encode(), token.get_secret_value().encode()):
        return PlainTextResponse("Give the token.", status_code=401, headers={"WWW-Authenticate": "Bearer"})
    made = await run_in_threadpool(lambda: metrics.text(context.database(), system_clock))
    return Response(made, media_type=metrics.CONTENT_TYPE)


def serve_metrics() -> WSGIServer | None:
    """Answer on a loopback port of its own, where one is set."""
    port = context.settings().metrics_port
    return None if port is None else metrics.serve(context.database(), system_clock, port)


ROUTES = [Route(HEALTH, _healthz), Route(READY, _readyz), Route(METRICS, _metrics)]


@cache
def notifier() -> Notifier:
    """The notifier of this process."""
    return Notifier(
        db=context.database(),
        settings=context.settings(),
        name=worker_name("app-"),
        kind="app",
        clock=system_clock,
    )


def agents_words(settings: Settings, own: PipelineConfig | None) -> str:
    """Which models answer for the agents of the site's own pipeline, or of a preset, whose nodes name none."""
    if settings.simulated:
        return "Keyword script (demo mode)"
    models = dict.fromkeys(node.model or settings.model for node in own.nodes) if own else [settings.model]
    return ("AI model " if len(models) == 1 else "AI models ") + ", ".join(models)


def status_lines(db: Database, agents: str, now: datetime) -> list[tuple[bool, str]]:
    """Whether the screening service and the model do their work, in a sentence each."""
    silence, fault, ended = workers_silence(db, now), find_lasting(db, Fault.MODEL), last_ended(db)
    last = f"last text screened {local_time(ended, now)}" if ended else "no text screened yet"
    if silence is None:
        service = "Screening service: running"
    else:
        since = f" since {local_time(silence.since, now)}" if silence.since else ""
        service = f"Screening is down{since}. New texts wait and nobody is screening them."
    if fault is not None:
        why = error_words(fault.cause or NO_LABEL).removeprefix("the model ")
        return [(silence is None, service), (False, f"{agents}: {why} since {local_time(fault.began_at, now)}")]
    return [(silence is None, service), (silence is None, f"{agents}: {last}")]
